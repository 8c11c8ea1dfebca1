"""One filled replica for all tests of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.ledger.filled import NOW, Filled, fill


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A replica in which much has happened; to be read, not changed."""
    return fill(tmp_path_factory.mktemp("filled"))


@pytest.fixture(scope="session")
def site(filled: Filled, admin_port: Callable[..., Any]) -> Iterator[str]:
    """The address of its admin port."""
    with admin_port(filled.config, clock=lambda: NOW) as address:
        yield address
