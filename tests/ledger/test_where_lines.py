import pytest

from proxy.ledger.where_lines import where_lines


def shadow(free=None, forced=None, role="candidate", **fields):
    return {"name": "candidate", "role": role, "modes": {"free": free or {}, "forced": forced or {}}} | fields


def onset(by="first_difference", **fields):
    return {
        "onset": {
            "position": 256, "between": [256, 256], "log_e": 14.21, "by": by, "floor": "control", "candidate_only": 1041, "control_only": 2,
        } | fields
    }  # fmt: skip


def slice_(dimension="tools", value="yes", *, named=True, **fields):
    return {
        "dimension": dimension, "value": value, "conversations": 40, "candidate_bad": 31, "control_bad": 2, "log_e": 14.2, "named": named,
    } | fields  # fmt: skip


def test_where_it_begins_is_said_in_words():
    assert where_lines(shadow(onset(), onset("logprob_error", between=[250, 256]))) == [
        "differences beyond the noise floor begin at token 256: 1,041 conversations against the control's 2 from there on (log e 14.2)",
        "logprob errors beyond the noise floor begin at token 256 (likeliest; between 250 and 256): 1,041 conversations against the control's 2 from there on (log e 14.2)",
    ]
    assert where_lines(shadow(forced=onset("genuine_flip")))[0].startswith(
        "genuine flips beyond the noise floor begin at token 256: "
    )


def test_the_rates_along_the_reply_stand_below():
    blocks = [
        {"from": 0, "to": 0, "hazard_per_1000_tokens": {"raw": 0.0, "floor": 0.0}},
        {"from": 1, "to": 15, "hazard_per_1000_tokens": {"raw": 0.25}},
        {"from": 1024, "to": 2047, "hazard_per_1000_tokens": {"raw": 41.26, "floor": 0.4}},
        {"from": 2048, "to": 4095, "hazard_per_1000_tokens": {}},
    ]
    assert where_lines(shadow(onset() | {"by_position": blocks}))[1] == (
        "differences per 1,000 tokens by position, the control's in brackets: 0: 0 (0), 1-15: 0.25, 1,024-2,047: 41.3 (0.4)"
    )
    blocks = [{"from": 0, "to": 0, "error_nats": {"raw": 0.5}}]
    assert (
        where_lines(shadow(forced=onset("logprob_error") | {"by_position": blocks}))[1]
        == "mean logprob error in nats by position: 0: 0.5"
    )
    assert where_lines(shadow({"by_position": blocks})) == []


def test_without_a_control_it_is_no_excess():
    found = onset(floor="assumed", events_from=30, events_before=1)
    assert where_lines(shadow(found)) == [
        "differences come faster from token 256 on: 30 from there on, 1 before (log e 14.2; no control says whether they do on any stack)"
    ]


def test_what_may_be_everywhere_begins_nowhere():
    assert where_lines(shadow(onset(between=[0, 300]))) == []
    assert where_lines(shadow(onset(), role="control")) == []
    assert where_lines(shadow()) == []


def test_how_long_replies_stay_the_same():
    survival = {
        "streams": {"candidate": 400, "control": 380},
        "median": {"candidate": {"position": 34, "interval": [30, None]}},
    }
    assert where_lines(shadow({"survival": survival})) == [
        "half of its 400 replies have parted after 34 (95 %: at least 30) tokens; of the control's 380 not half of them"
    ]
    survival["median"]["control"] = {"position": 90}
    assert where_lines(shadow({"survival": survival}))[0].endswith("; of the control's 380 after 90")
    del survival["median"]["candidate"]
    assert where_lines(shadow({"survival": survival})) == []


@pytest.mark.parametrize(
    ("dimension", "value", "said"),
    [
        ("prompt_tokens", ">16384", "the prompt has more than 16,384 tokens"),
        ("prompt_tokens", "4097-16384", "the prompt has 4,097 to 16,384 tokens"),
        ("output_tokens", "0-15", "the primary's reply has up to 15 tokens"),
        ("cached_tokens", "most", "the primary had half of the prompt cached, or more"),
        ("in_flight", ">31", "more than 31 requests are in flight"),
        ("tools", "no", "the request offers no tools"),
        ("temperature", "0-1", "the temperature is above 0 and below 1"),
        ("endpoint", "completions", "the endpoint is completions"),
        ("model", "a\x1b[31mb", "the model is a�[31mb"),
        ("several_choices", "yes", "several choices are asked for"),
    ],
)
def test_a_slice_is_said_in_words(dimension, value, said):
    (line,) = where_lines(shadow(slices=[slice_(dimension, value)]))
    assert (
        line == f"worse where {said}: 31 of 40 (77.5 %) conversations bad, the control's 2 of 40 (5.0 %) (log e 14.2)"
    )


def test_named_slices_alone_are_told_and_else_the_nearest():
    named = [slice_(), slice_("stream", named=False)]
    assert len(where_lines(shadow(slices=named))) == 1
    none = [slice_(named=False, log_e=1.04), slice_("stream", named=False, log_e=0.2)]
    assert where_lines(shadow(slices=none, verdict={"alpha": 0.01})) == [
        "none of the 2 parts of the traffic stands out; nearest to it is where the request offers tools: 31 of 40 (77.5 %) conversations bad, the control's 2 of 40 (5.0 %) (log e 1; it takes 5.3)"
    ]
    assert where_lines(shadow(slices=[slice_(named=False, log_e=-0.5)])) == []
    many = where_lines(shadow(slices=[slice_()] * 11))
    assert len(many) == 9
    assert many[-1] == "and 3 more parts of the traffic, in the JSON"
    alone = slice_()
    del alone["control_bad"]
    assert where_lines(shadow(slices=[alone])) == [
        "worse where the request offers tools: 31 of 40 (77.5 %) conversations bad (log e 14.2)"
    ]
