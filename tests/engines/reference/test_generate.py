"""Reading and continuing a sequence, on logits that a script gives."""

import numpy as np
import pytest

from engines.reference import generate
from engines.reference.generate import AbandonedError, choose, read
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


def test_a_prompt_is_scored_with_nothing_before_its_first_token():
    rows, last = read(Scripted(1, 2, 3), [0, 1, 2], 1, never)
    assert rows[0] is None
    assert [(row.token.id, row.token.rank, row.top[0].id) for row in rows[1:]] == [(1, 1, 1), (2, 1, 2)]
    assert int(last.argmax()) == 3


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 7])
def test_stretches_have_no_seam(monkeypatch, length):
    prompt = [number % 3 for number in range(length)]
    whole = read(Scripted(*prompt[1:], 5), prompt, 2, never)
    monkeypatch.setattr(generate, "STRETCH", 3)
    sequence = Scripted(*prompt[1:], 5)
    rows, last = read(sequence, prompt, 2, never)
    assert rows == whole[0]
    assert last.tolist() == whole[1].tolist()
    assert [len(stretch) for stretch in sequence.given] == [3] * (length // 3) + [length % 3] * (length % 3 > 0)


def test_a_prompt_that_nobody_scores_has_no_rows():
    rows, last = read(Scripted(1, 2), [0, 1], None, never)
    assert rows is None
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
        read(Scripted(1), [0], None, lambda: True)
