"""A file holds every record as it was, whole or not at all; what cannot be done is said with its remedy."""

from __future__ import annotations

import importlib.util
import json
import os

import msgspec
import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from proxy.compare.comparison import (
    Comparison,
    FlipClass,
    Mode,
    OutputShape,
    RankingComparison,
    Validity,
    VectorComparison,
)
from proxy.compare.token_stream import Alternative, Channel
from proxy.ledger import export
from proxy.ledger.detail import ChoiceDetail, Detail, Listed, Partial, Run, Sent, Side
from proxy.ledger.export import ExportError
from proxy.ledger.record import Record

PYARROW = importlib.util.find_spec("pyarrow") is not None


def test_records_come_back_as_they_were(tmp_path, make):
    kept = [
        make.record(1),
        make.record(2, make.free(FlipClass.NEAR_TIE)),
        make.record(3, make.forced(FlipClass.UNKNOWN)),
    ]
    path = tmp_path / "out.jsonl"
    assert export.export_jsonl(iter(kept), path) == 3
    assert list(export.load_export(path)) == kept
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_is_plain_json_with_what_is_derived_in_front(make):
    value = json.loads(export.line(make.record(2, make.free(FlipClass.NEAR_TIE))))
    assert list(value)[:3] == ["outcome", "class", "id"]
    assert (value["outcome"], value["class"]) == ("diverged", "near_tie")
    assert value["comparison"]["choices"][0]["primary_logprobs"] == [-0.1, -0.0001, None, -0.5]
    assert value == export.fields(make.record(2, make.free(FlipClass.NEAR_TIE)))


def test_any_record_comes_back(make, tmp_path):
    @given(make.anything(Record))
    @settings(max_examples=60, deadline=None)
    def comes_back(one: Record) -> None:
        path = tmp_path / "any.jsonl"
        export.export_jsonl([one], path)
        assert path.read_bytes().count(b"\n") == 1
        assert list(export.load_export(path)) == [one]

    comes_back()


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path, make):
    path = tmp_path / "out.jsonl"
    export.export_jsonl([make.record(1)], path)

    def breaking():
        yield make.record(2)
        raise RuntimeError("the store went away")

    with pytest.raises(RuntimeError):
        export.export_jsonl(breaking(), path)
    assert [one.id for one in export.load_export(path)] == ["00000001"]
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path):
    with pytest.raises(ExportError, match=r"nowhere/out.jsonl: cannot be written"):
        export.export_jsonl([], tmp_path / "nowhere" / "out.jsonl")
    with pytest.raises(ExportError, match=r"nothing.jsonl: cannot be read"):
        list(export.load_export(tmp_path / "nothing.jsonl"))


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"id": 1}', b'{"id": "a"}'])
def test_a_line_that_is_no_record_is_named(tmp_path, make, text):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(export.line(make.record(1)) + b"\n\n" + text + b"\n")
    found = export.load_export(path)
    assert next(found).id == "00000001"
    with pytest.raises(ExportError, match=r"bad.jsonl:3: not a record"):
        next(found)


def test_fields_of_a_later_version_are_passed_over(tmp_path, make):
    path = tmp_path / "later.jsonl"
    path.write_bytes(export.line(make.record(1))[:-1] + b',"new_field":{"x":1}}\n')
    assert list(export.load_export(path)) == [make.record(1)]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ExportError, match="pip install pyarrow"):
        export.export([], tmp_path / "out.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not PYARROW and not os.environ.get("CI"), reason="pyarrow is not installed")
def test_parquet_holds_the_same(tmp_path, make):
    from pyarrow import parquet

    seen = {"finish_reason": {"primary_reason": "stop", "shadow_tokens": 3, "share": 0.5, "same": False, "error": None}}
    kept = [make.record(number, make.free(kind, evidence=seen)) for number, kind in enumerate([None, *FlipClass])]
    shape = OutputShape(1, 2, calls=(Validity.VALID,))
    measured = Comparison(
        Mode.FREE,
        vectors=(VectorComparison(0, 2, None, 0.5, (1.0, 2.0)),),
        ranking=RankingComparison("score", 1, (0.5,)),
        choices=(replace(make.free().choices[0], shapes=(shape, shape)),),
    )
    kept.append(make.record(5, measured))
    path = tmp_path / "out.parquet"
    assert export.export(kept, path) == 6
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]
    rows = parquet.read_table(path).to_pylist()
    for one in rows:
        one["comparison"]["evidence"] = json.loads(one["comparison"]["evidence"])
    assert rows == [export.fields(one) for one in kept]


def whole() -> Detail:
    top = (Alternative(-0.1, 5, "\u00e9", "\u00e9".encode()), Alternative(-0.2))
    side = Side(
        (-0.1, None),
        (5, None),
        ("\u00e9", ""),
        (Partial(1, b"\xc3"),),
        (Run(0, Channel.REASONING),),
        (Listed(0, top),),
        2,
    )
    return Detail((ChoiceDetail(0, side, Side()),), Sent("/p", "{}"), (Sent("/s", "{}"),), (1, 2), redacted=True)


def test_details_come_along_when_they_are_asked_for(make, tmp_path) -> None:
    details = {make.record(1).id: whole()}
    records = [make.record(1), make.record(2)]
    path = tmp_path / "out.jsonl"
    assert export.export_jsonl(records, path, details.get) == 2
    first, second = (json.loads(one) for one in path.read_text().splitlines())
    assert list(first)[-1] == "detail"
    assert second["detail"] is None
    assert msgspec.convert(first["detail"], Detail) == whole()
    assert first["detail"]["choices"][0]["primary"]["partial"] == [{"index": 1, "data": "ww=="}]
    assert list(export.load_export(path)) == records  # whoever wants none reads on


@pytest.mark.skipif(not PYARROW and not os.environ.get("CI"), reason="pyarrow is not installed")
def test_details_in_parquet_are_nested_alike_with_bytes_as_bytes(make, tmp_path) -> None:
    from pyarrow import parquet

    details = {make.record(1).id: whole()}
    path = tmp_path / "out.parquet"
    assert export.export_parquet([make.record(1), make.record(2)], path, details.get) == 2
    first, second = parquet.read_table(path).column("detail").to_pylist()
    assert second is None
    side = first["choices"][0]["primary"]
    assert side["partial"] == [{"index": 1, "data": b"\xc3"}]
    assert side["listed"][0]["top"][0] == {"logprob": -0.1, "id": 5, "text": "\u00e9", "data": "\u00e9".encode()}
    assert msgspec.convert(first, Detail) == whole()
    assert export.export_parquet([make.record(1)], path) == 1
    assert "detail" not in parquet.read_table(path).column_names


def test_what_lies_where_an_export_is_made_is_not_written_through(make, tmp_path):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "x.jsonl"
    elsewhere.write_text("of somebody")
    (tmp_path / f".x.jsonl.{os.getpid()}.part").symlink_to(elsewhere)
    assert export.export_jsonl([make.record(1)], out) == 1
    assert elsewhere.read_text() == "of somebody"
    assert (out.is_symlink(), out.stat().st_mode & 0o777) == (False, 0o600)
