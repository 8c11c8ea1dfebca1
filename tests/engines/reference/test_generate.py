"""Reading and continuing a sequence, on logits that a script gives."""

import numpy as np
import pytest

from engines.reference import generate
from engines.reference.generate import AbandonedError, choose, read
from engines.reference.planted import Plant
from engines.reference.sampling import Sampling
from engines.reference.tokens import TokenTable
from engines.reference.work import Generation

VOCABULARY = 8
END = 7
TABLE = TokenTable((b"a", b"b", b"c", b"d", b"\xf0\x9f", b"\x8e\x89", b" stop", b"<end>"), frozenset({END}))
GREEDY = Sampling(temperature=0.0)


class Loaded:
    """What ``choose`` needs of a loaded model."""

    table = TABLE
    end_ids = frozenset({END})


class Scripted:
    """A sequence after which the script's tokens have the largest logits, one after the other; notes what it was given."""

    def __init__(self, *script):
        self.script = list(script)
        self.given = []

    def extend(self, tokens, keep):
        start = sum(map(len, self.given))
        self.given.append(list(tokens))
        rows = np.zeros((len(tokens), VOCABULARY), dtype=np.float32)
        for place in range(len(tokens)):
            if start + place < len(self.script):
                rows[place, self.script[start + place]] = 5.0
        return rows[-keep:]


def logits(token):
    values = np.zeros(VOCABULARY, dtype=np.float32)
    values[token] = 5.0
    return values


def run(first, *script, **wanted):
    wanted = Generation(**{"max_tokens": 20, "sampling": GREEDY, **wanted})
    return list(choose(Scripted(*script), logits(first), [0], wanted, loaded=Loaded, index=0, cancelled=lambda: False))


def never():
    return False


def scoring(top, whole_from=None, **planted):
    return Generation(max_tokens=0, sampling=GREEDY, prompt_top=top, whole_from=whole_from, plant=Plant(**planted))


def test_a_prompt_is_scored_with_nothing_before_its_first_token():
    rows, every, last = read(Scripted(1, 2, 3), [0, 1, 2], scoring(1), never)
    assert every is None
    assert rows[0] is None
    assert [(row.token.id, row.token.rank, row.top[0].id) for row in rows[1:]] == [(1, 1, 1), (2, 1, 2)]
    assert int(last.argmax()) == 3


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7])
def test_stretches_have_no_seam(monkeypatch, length):
    prompt = [number % 3 for number in range(length)]
    whole = read(Scripted(*prompt[1:], 5), prompt, scoring(2, 1), never)
    monkeypatch.setattr(generate, "STRETCH", 3)
    sequence = Scripted(*prompt[1:], 5)
    rows, every, last = read(sequence, prompt, scoring(2, 1), never)
    assert rows == whole[0]
    assert last.tolist() == whole[2].tolist()
    assert (every is None, length) == (True, 1) or every.tolist() == whole[1].tolist()
    assert [len(stretch) for stretch in sequence.given] == [3] * (length // 3) + [length % 3] * (length % 3 > 0)


def test_a_prompt_that_nobody_scores_has_no_rows():
    rows, every, last = read(Scripted(1, 2), [0, 1], scoring(None), never)
    assert (rows, every) == (None, None)
    assert int(last.argmax()) == 2


def test_the_end_token_is_a_step_without_text():
    steps = run(0, 1, END, max_tokens=9)
    assert [(step.token, step.text, step.finish, step.stop_reason) for step in steps] == [
        (0, "a", None, None),
        (1, "b", None, None),
        (END, "", "stop", None),
    ]
    assert [step.offset for step in steps] == [0, 1, 2]


def test_the_length_ends_it_and_gives_out_what_was_held_back():
    steps = run(0, 1, 2, max_tokens=2, stop=("bX",))
    assert [(step.text, step.finish) for step in steps] == [("a", None), ("b", "length")]


def test_no_token_at_all():
    assert [(step.token, step.finish) for step in run(0, max_tokens=0)] == [(None, "length")]


def test_parts_of_a_character_are_steps_of_their_own():
    assert [(step.token, step.text) for step in run(4, 5, END)] == [(4, ""), (5, "🎉"), (END, "")]


def test_a_stop_string_ends_it_and_is_cut_off():
    last = run(0, 6, 1, stop=("stop",))[-1]
    assert (last.token, last.text, last.finish, last.stop_reason) == (6, " ", "stop", "stop")
    assert run(0, 6, 1, stop=("stop",), include_stop=True)[-1].text == " stop"


def test_a_stop_id_is_named():
    last = run(0, 1, 2, stop_ids=frozenset({1}))[-1]
    assert (last.token, last.text, last.stop_reason) == (1, "", 1)
    assert run(0, 1, 2, stop_ids=frozenset({1}), include_stop=True)[-1].text == "b"


def test_the_end_can_be_ignored_and_put_off():
    assert [step.token for step in run(END, END, END, max_tokens=3, ignore_end=True)] == [END, END, END]
    tokens = [step.token for step in run(END, END, END, END, max_tokens=9, min_tokens=2)]
    assert END not in tokens[:2]
    assert tokens[2] == END


def test_rows_are_of_the_raw_logits_whatever_was_picked():
    step = run(0, 1, max_tokens=1, top=2, sampling=Sampling(temperature=0.0, bias=((3, 50.0),)))[0]
    assert (step.token, step.row.token.rank, step.row.top[0].id) == (3, 4, 0)


def test_a_client_that_has_gone_stops_it_at_the_next_token():
    gone = iter([False, False, True])
    wanted = Generation(max_tokens=9, sampling=GREEDY)
    steps = choose(Scripted(1, 2, 3), logits(0), [0], wanted, loaded=Loaded, index=0, cancelled=lambda: next(gone))
    assert [next(steps).token, next(steps).token] == [0, 1]
    with pytest.raises(AbandonedError):
        next(steps)
    with pytest.raises(AbandonedError):
        read(Scripted(1), [0], scoring(None), lambda: True)


@pytest.mark.parametrize("start", [1, 2, 5])
def test_every_tokens_value_is_what_rows_say_whatever_the_stretches(monkeypatch, start):
    monkeypatch.setattr(generate, "STRETCH", 2)
    prompt = [0, 1, 2, 3, 1, 2]
    rows, every, _ = read(Scripted(*prompt[1:], 5), prompt, scoring(VOCABULARY, start), never)
    assert every.shape == (len(prompt) - start, VOCABULARY)
    for row, values in zip(rows[start:], every, strict=True):
        assert {ranked.id: ranked.logprob for ranked in row.top} == dict(enumerate(values.tolist()))


def test_decoding_and_scoring_meet_the_same_planted_noise():
    plant = Plant(logit_noise=0.5, noise_seed=3, from_position=2)
    wanted = Generation(max_tokens=5, sampling=GREEDY, top=2, prompt_top=2, plant=plant, opening=(6,))
    prompt = [0, 6]
    _, _, last = read(Scripted(6, 1), prompt, wanted, never)
    sequence = Scripted(2, 3, 4, 5, 0)
    steps = list(choose(sequence, last, prompt, wanted, loaded=Loaded, index=0, cancelled=never))
    ids = [step.token for step in steps]
    rows, _, _ = read(Scripted(6, 1, 2, 3, 4, 5, 0), prompt + ids, wanted, never)
    assert [step.row for step in steps] == list(rows[2:])
    healthy, _, _ = read(Scripted(6, 1, 2, 3, 4, 5, 0), prompt + ids, scoring(2), never)
    assert [one == other for one, other in zip(rows[2:], healthy[2:], strict=True)] == [True, True, False, False, False]


def test_a_planted_tie_rule_picks_from_its_position_on():
    class Tied(Scripted):
        def extend(self, tokens, keep):
            return np.zeros((keep, VOCABULARY - 1), dtype=np.float32)

    wanted = Generation(max_tokens=4, sampling=GREEDY, plant=Plant(ties="highest", from_position=2), opening=(0,))
    tied = np.zeros(VOCABULARY - 1, dtype=np.float32)
    steps = choose(Tied(), tied, [0], wanted, loaded=Loaded, index=0, cancelled=never)
    # The opening is token 0 here, which the lowest-id rule picks: each pick opens a reply anew.
    assert [step.token for step in steps] == [0, 0, 0, 0]
    wanted = Generation(max_tokens=4, sampling=GREEDY, plant=Plant(ties="highest", from_position=2), opening=(3,))
    steps = choose(Tied(), tied, [3], wanted, loaded=Loaded, index=0, cancelled=never)
    assert [step.token for step in steps] == [0, 0, 6, 6]
