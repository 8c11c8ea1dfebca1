"""Lists of alternatives that cannot be a row's own."""

from engines.doubtful import drop_short, without_copies, without_latin_1
from proxy.compare.token_stream import Alternative, Token


def row(text, logprob, **listed):
    return Token(text=text, logprob=logprob, top=tuple(Alternative(value, text=name) for name, value in listed.items()))


def tops(tokens):
    return [tuple(one.text for one in token.top) for token in tokens]


def test_a_list_that_is_the_one_before_it_again_is_left_out():
    first = {"a": -0.1, "b": -2.5}
    rows = (row("a", -0.1, **first), row("c", -0.7, **first), row("d", -0.2, **first), row("e", -0.3, e=-0.3, f=-1.4))
    kept = without_copies(rows)
    assert tops(kept) == [("a", "b"), (), (), ("e", "f")]
    assert [token.logprob for token in kept] == [-0.1, -0.7, -0.2, -0.3]


def test_a_model_with_nothing_left_to_decide_repeats_itself():
    certain = (row("la", 0.0, la=0.0), row("la", 0.0, la=0.0))
    assert without_copies(certain) == certain
    assert tops(without_copies((row("la", 0.0, la=0.0), row("lo", -0.4, la=0.0)))) == [("la",), ()]


def test_a_list_that_is_too_short_is_left_out():
    full, short = [{"token": "a"}, {"token": "b"}], [{"token": "c"}]
    chat = {"content": [{"top_logprobs": full}, {"top_logprobs": short}, {"top_logprobs": None}, None]}
    drop_short(chat, 2)
    assert chat == {"content": [{"top_logprobs": full}, {"top_logprobs": []}, {"top_logprobs": None}, None]}
    arrays = {"tokens": ["a", "c", "e"], "top_logprobs": [{"a": -0.1, "b": -2.5}, {"c": -0.7}, None]}
    drop_short(arrays, 2)
    assert arrays["top_logprobs"] == [{"a": -0.1, "b": -2.5}, None, None]
    drop_short(arrays, 0)
    assert arrays["top_logprobs"] == [{"a": -0.1, "b": -2.5}, None, None]
    for other in (None, [], "x", {"content": "x", "top_logprobs": 7}):
        drop_short(other, 2)


def test_letters_that_may_be_bytes_name_no_token():
    (kept,) = without_latin_1(
        (row("é", -0.1, **{"é": -0.1, "ðŸ": -0.2, "Ã©": -3.0, "sea": -1.0, "海": -2.0, " caf\xe9": -4.0}),)
    )
    assert tops([kept]) == [(None, "ðŸ", "Ã©", "sea", "海", None)]
    assert [one.logprob for one in kept.top] == [-0.1, -0.2, -3.0, -1.0, -2.0, -4.0]
    (fragment,) = without_latin_1((row("x", -0.1, **{"\xf0\x9f": -0.1}),))
    assert tops([fragment]) == [(None,)]
