"""What the readers share."""

from engines.dialect import Answer
from engines.facts.reading import metric_labels


def shown(line):
    return metric_labels(Answer(200, (), ((0, b"# HELP x y\n" + line + b"\n"),)), "x")


def test_labels_of_a_metric():
    assert shown(b'x{a="b",c_1="d \\" e"} 1') == {"a": "b", "c_1": 'd \\" e'}
    assert shown(b'xy{a="b"} 1') == {}


def test_a_line_that_is_one_long_name_is_gone_through_once():
    assert shown(b"x{" + b"a" * 1_000_000) == {}
