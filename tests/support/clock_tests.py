"""The one kind of test that may run a second time: one marked as depending on a clock, with the reason.

`@pytest.mark.clock("why")` is for a test whose outcome a pause of the machine alone can change, such as "everything was
placed within the lease". It is repeated once if it fails, and the end of a run says how many were. No other test is.
"""

from __future__ import annotations

from typing import Any

import pytest

MARKER = "clock(reason): a pause of the machine can make it fail; repeated once, and counted at the end of the run"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each marked test be repeated once.

    Raises:
        pytest.UsageError: one is marked without a reason.
    """
    for item in items:
        marker = item.get_closest_marker("clock")
        if marker is None:
            continue
        if len(marker.args) != 1 or not isinstance(marker.args[0], str):
            raise pytest.UsageError(f'{item.nodeid}: say why it depends on a clock, as in @pytest.mark.clock("why")')
        item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests depended on a clock, and which of them were repeated."""
    stats = terminalreporter.stats
    reports = [report for kind in ("passed", "failed") for report in stats.get(kind, []) if report.when == "call"]
    marked = {report.nodeid for report in reports if "clock" in report.keywords}
    repeated = [report.nodeid for report in stats.get("rerun", [])]
    if marked or repeated:
        names = "".join(f"\n  {name}" for name in sorted(repeated))
        terminalreporter.write_line(f"{len(marked)} tests depend on a clock; {len(repeated)} repetitions{names}")
