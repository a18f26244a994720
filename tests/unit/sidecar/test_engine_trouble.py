"""No engine's trouble reaches another: the campaign's program for it, in short and for ten minutes."""

from __future__ import annotations

import pytest
from tests.campaign.engine_trouble import TROUBLES, run


@pytest.mark.parametrize("seconds", [20, pytest.param(600, marks=pytest.mark.slow)])
def test_engines_do_not_notice_that_another_is_killed_stopped_or_thinks(seconds: float) -> None:
    trouble = run(seconds)
    assert trouble.findings() == []
    assert all(trouble.done[f"{kind} and seen"] for kind in TROUBLES)
