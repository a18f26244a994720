"""A ResourceManager's settings to install into."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.installing import conf_in, use_small_environment


@pytest.fixture(autouse=True)
def small_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_environment(monkeypatch)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    return conf_in(tmp_path)
