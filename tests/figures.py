"""What tests measure, kept and shown: ``figure("row 4", "shadow hangs: 0 of 2,000 failed")`` appears at the end of every run, in whatever process it ran."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_KEY = "figure"

#: (subject, text)
Figure = Callable[[str, str], None]


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Keep one line under a subject for the summary."""

    def keep(subject: str, text: str) -> None:
        print(f"{subject}: {text}")
        request.node.user_properties.append((_KEY, f"{subject}: {text}"))

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the lines, sorted by subject and otherwise as they came."""
    lines = {
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == _KEY
    }
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.write_line(line)
