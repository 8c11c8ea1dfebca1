"""The opening says what the numbers say and no more."""

from __future__ import annotations

import pytest

from proxy.ledger.opening import not_compared, opening


def free(identical: int, requests: int, hazard: dict | None = None, **fields) -> dict:
    found = {"requests": requests, "identical": identical, "censored": 0, "by_text": 0, "incomparable": {}}
    return found | ({"hazard_per_1000_tokens": hazard} if hazard else {}) | fields


def forced(flips: int, positions: int, error: float | None = None) -> dict:
    found = {"requests": 9, "flips": {"genuine": flips, "unknown": 0}, "flip_positions": positions}
    return found | ({"logprob_error_nats": {"median": error}} if error is not None else {})


def shadow(name: str, role: str, modes: dict, findings: tuple = ()) -> dict:
    return {"name": name, "role": role, "modes": modes, "findings": list(findings)}


def report(*shadows: dict) -> dict:
    return {"shadows": list(shadows)}


QUIET = shadow("control", "control", {"free": free(32, 32, {"raw": 0.0, "raw_interval": [0.0, 5.0012]})})


def test_a_quiet_control_explains_none_of_the_differences():
    rates = {"raw": 26.5, "floor": 0.0, "excess": 26.5, "interval": [14.1, 41.4]}
    modes = {"free": free(13, 32, rates), "forced": forced(9, 372, 0.0229)}
    said = opening(report(shadow("f32", "candidate", modes), QUIET))
    assert said == [
        "f32 (candidate) answered 13 of 32 greedy requests as the primary did; control answered 32 of 32.",
        (
            "The control shows no noise in its 32 (95 %: at most 5 divergences per 1,000 tokens), so none of f32's 19 differences "
            "is explained by noise that was seen."
        ),
        (
            "Scoring the primary's own tokens, f32 prefers another token at 9 of 372 positions and has a median logprob error of "
            "0.0229 nat."
        ),
    ]


@pytest.mark.parametrize(
    ("identical", "censored", "end"),
    [
        (31, 0, ", so f32's one difference is not explained by noise that was seen."),
        (32, 0, " per 1,000 tokens)."),
        (31, 1, " per 1,000 tokens)."),  # cut short is no difference
    ],
)
def test_differences_are_counted_and_not_made_up(identical, censored, end):
    said = opening(report(shadow("f32", "candidate", {"free": free(identical, 32, censored=censored)}), QUIET))
    assert said[1].endswith(end)
    assert ("1 more as far as both went" in said[0]) is bool(censored)


def test_a_noisy_control_is_the_floor():
    noisy = shadow("again", "control", {"free": free(28, 32), "forced": forced(1, 100, 0.001)})
    rates = {"raw": 26.5, "floor": 5.1, "excess": 21.4, "interval": [-2.0, 40.0]}
    one = shadow("f32", "candidate", {"free": free(13, 32, rates), "forced": forced(9, 372, 0.02)})
    said = opening(report(one, noisy))
    assert said[1] == (
        "The control itself differs in 4 of its 32: that is the noise floor. f32 parts 26.5 times per 1,000 tokens, the control "
        "5.1 times: an excess of 21.4 (95 %: -2 to 40), an interval that includes 0."
    )
    assert "9 of 372 positions (control: 1 of 100)" in said[2]
    assert "0.02 nat (control: 0.001)" in said[2]
    rates["interval"] = [3.0, 40.0]
    assert opening(report(one, noisy))[1].endswith("(95 %: 3 to 40).")
    del one["modes"]["free"]["hazard_per_1000_tokens"]
    assert opening(report(one, noisy))[1] == "The control itself differs in 4 of its 32: that is the noise floor."


def test_without_a_control_there_is_no_floor():
    said = opening(report(shadow("f32", "candidate", {"free": free(13, 32, by_text=2)})))
    assert said == [
        "f32 (candidate) answered 13 of 32 greedy requests as the primary did (2 of the 32 compared as text alone).",
        "No control is configured: there is no noise floor, and a difference may be the engine's own noise.",
    ]
    idle = shadow("control", "control", {"free": free(0, 0)})
    said = opening(report(shadow("f32", "candidate", {"free": free(13, 32)}), idle))
    assert said[1].startswith("Nothing of the control has been compared yet: there is no noise floor")


def test_what_explains_later_differences_is_said_at_once():
    found = {"finding": "prompt_tokens", "severity": "explains", "count": 3, "remedy": "Mend it."}
    mild = {"finding": "output_length", "severity": "functional", "count": 1, "remedy": "Look."}
    said = opening(report(shadow("f32", "candidate", {"free": free(13, 32)}, (found, mild)), QUIET))
    assert said[2:] == [
        "Found for f32, and enough to explain what differs after it: prompt_tokens (3 times); see below.",
        "Found for f32, in what a client sees, whatever the tokens say: output_length (once); see below.",
    ]


def test_what_could_not_be_compared_is_said_beside_what_is_the_same():
    lost = {"prompt_tokens": 24, "no_reply": 1, "sampled": 3}
    said = opening(report(shadow("f32", "candidate", {"free": free(6, 6, incomparable=lost)}), QUIET))
    assert said[0].startswith(
        "f32 (candidate) answered 6 of 6 greedy requests as the primary did (25 more could not be compared); control"
    )


def test_nothing_is_said_of_nothing():
    assert opening(report()) == ["Nothing is recorded yet, and no configuration that names a shadow was given."]
    assert opening(report() | {"command": "report --since 10s"}) == ["Nothing is recorded of this time."]
    assert opening(report(shadow("f32", "candidate", {"free": free(0, 0)}))) == ["Nothing has been compared yet."]
    idle = report(shadow("f32", "candidate", {"free": free(0, 0)})) | {"command": "report --since 10s"}
    assert opening(idle) == ["Nothing of this time has been compared."]
    alone = ["No candidate has been compared yet.", "control answered 32 of 32 greedy requests as the primary did."]
    assert opening(report(QUIET)) == alone
    fresh = shadow("f32", "candidate", {"free": free(0, 0)})
    assert opening(report(fresh, QUIET)) == alone
    since = "No candidate has been compared since a stack changed: what was compared before is counted below."
    for before in ({"left_out_between_stacks": 48}, {"earlier": [{"modes": {}}]}):
        assert opening(report(fresh | before, QUIET)) == [since, alone[1]]


def test_why_nothing_was_compared_is_one_line():
    idle = free(0, 0, in_flight=3, shed={"queue": 2}, incomparable={"sampled": 7, "client_gone": 1})
    assert not_compared(shadow("f32", "candidate", {"free": idle})) == (
        "f32 (candidate): nothing compared: 3 in flight, 2 shed (queue 2), 8 incomparable (not greedy (sampled) 7, client_gone 1)"
    )
    assert not_compared(shadow("f32", "candidate", {"free": idle, "forced": forced(1, 9)})) == (
        "f32 (candidate): nothing compared in free mode: 3 in flight, 2 shed (queue 2), "
        "8 incomparable (not greedy (sampled) 7, client_gone 1)"
    )
    empty = free(0, 0)
    assert not_compared(shadow("gone", "unknown", {"free": empty, "forced": empty})) == (
        "gone (role unknown): nothing compared: nothing is recorded"
    )
    assert not_compared(shadow("f32", "candidate", {"free": empty}), {"sampled": 0}) == (
        "f32 (candidate): nothing compared: no request was sampled"
    )
    kept = free(0, 0, compared=5)
    assert not_compared(shadow("f32", "candidate", {"free": kept, "forced": idle})) == (
        "f32 (candidate): nothing compared: free: no record is kept of 5 compared; "
        "forced: 3 in flight, 2 shed (queue 2), 8 incomparable (not greedy (sampled) 7, client_gone 1)"
    )
    assert not_compared(QUIET) is None


def test_who_could_tell_the_primarys_tokens_is_said_where_nobody_did():
    unknown = free(0, 0, incomparable={"no_primary_tokens": 4})
    assert not_compared(shadow("f32", "candidate", {"free": free(3, 4), "forced": unknown})) == (
        "f32 (candidate): nothing compared in forced mode: 4 incomparable (no_primary_tokens 4). "
        "A control, or primary.logprobs: inject or rescore, tells the primary's tokens (no_primary_tokens)"
    )


def test_names_are_inert():
    evil = "\x1b[31mevil\u202e\n"
    found = {"finding": evil, "severity": "explains", "count": 3, "remedy": ""}
    modes = {"free": free(13, 32), "forced": forced(9, 372)}
    said = " ".join(opening(report(shadow(evil, "candidate", modes, (found,)), QUIET)))
    said += not_compared(shadow(evil, "candidate", {"free": free(0, 0, shed={evil: 1})})) or ""
    assert not set(said) & set("\x1b\u202e\n")
