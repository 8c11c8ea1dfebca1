import pytest

from proxy.compare.ending import both_ended, ended, same_visible_end, shorter_ended, visible
from proxy.compare.token_stream import Token, TokenStream, ToolCall


def stream(*texts: str, finish: str | None = "stop", text: str = "") -> TokenStream:
    return TokenStream(tokens=tuple(map(Token, texts)), finish_reason=finish, text=text)


@pytest.mark.parametrize(
    ("finish", "label"),
    [
        ("stop", "end"),
        ("tool_calls", "end"),
        ("function_call", "end"),
        ("length", "max_tokens"),
        (None, "cut"),
        ("abort", "other"),
    ],
)
def test_labels_are_bounded(finish, label):
    assert ended(stream(finish=finish)) == label


def test_the_reason_that_is_not_the_models_own_wins():
    assert both_ended(stream(), stream()) == "end"
    assert both_ended(stream(), stream(finish="length")) == "max_tokens"
    assert both_ended(stream(finish=None), stream(finish="length")) == "cut"


@pytest.mark.parametrize(
    ("shorter", "longer", "reason"),
    [
        (("a",), ("a", "b"), "end"),
        (("a", "ST"), ("a", "ST", "b"), "stop_string"),
        (("a", "S"), ("a", "S", "T", "b"), "stop_string"),
        (("a",), ("a", "b", "ST"), "end"),
        (("a",), ("a", "bS", "T"), "stop_string"),
    ],
)
def test_a_stop_string_is_looked_for_where_the_shorter_one_ends(shorter, longer, reason):
    left, right = stream(*shorter), stream(*longer)
    assert shorter_ended(left, right, ("ST",)) == reason
    assert shorter_ended(right, left, ("ST",)) == reason
    assert shorter_ended(left, right, ()) == "end"


def test_the_same_visible_end_needs_the_models_own_end():
    assert same_visible_end(stream("a", text="a"), stream("a", "<e>", text="a"))
    assert not same_visible_end(stream("a", text="a"), stream("a", "b", text="ab"))
    assert not same_visible_end(stream("a", finish="length"), stream("a", "<e>", finish="length"))


def test_visible_is_all_that_a_client_reads():
    assert visible(TokenStream(reasoning="r", text="t", tool_calls=(ToolCall("f", "{}"),))) == "rt\nf({})"
