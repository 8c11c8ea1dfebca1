"""What people build on is written down: every field of an exported record, every shed reason made here."""

from __future__ import annotations

from pathlib import Path

import proxy.ledger
from proxy.compare.comparison import ChoiceComparison, Comparison
from proxy.ledger.record import Content, Record, RequestFacts, Timing

README = (Path(proxy.ledger.__file__).parent / "README.md").read_text(encoding="utf-8")


def test_every_field_of_a_record_is_explained():
    arrays = {name for name in ChoiceComparison.__struct_fields__ if name.endswith(("s", "agree")) and name in README}
    assert {"ids", "primary_logprobs", "shadow_logprobs", "gaps", "ranks", "kl_lower_bounds", "top1_agree"} <= arrays
    for struct in (Record, Comparison, Timing, Content):
        for name in set(struct.__struct_fields__) - {"comparison"}:  # its own fields are
            assert f"`{name}`" in README or f".{name}`" in README or f"{name}[]`" in README, name
    assert "effective `temperature`" in README
    assert set(RequestFacts.__struct_fields__) >= {"stream", "temperature"}


def test_every_shed_reason_made_here_is_explained():
    for reason in ("queue", "capture", "store", "lost_on_crash", "not_configured", "store_replaced"):
        assert f"`{reason}`" in README
