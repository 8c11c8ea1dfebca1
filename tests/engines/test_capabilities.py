"""Every reason has a remedy in one line."""

import pytest

from engines.capabilities import remedy


@pytest.mark.parametrize("reason", ["refused", "timeout", "status_401", "not_an_engine", "status_418"])
def test_remedies(reason):
    assert remedy(reason)
    assert "\n" not in remedy(reason)


def test_an_unforeseen_reason_is_named():
    assert "status_418" in remedy("status_418")
