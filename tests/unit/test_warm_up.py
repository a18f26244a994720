"""Warming up goes all the way: through the wire, the engine and back."""

from __future__ import annotations

import pytest

from treadle.config.settings import default_settings
from treadle.live.engine_session import warm_up
from treadle.live.session import Session


def test_the_invented_cluster_gets_its_containers() -> None:
    assert warm_up(default_settings()) == 4


def test_an_engine_that_fails_on_it_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(session: Session, frame: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("treadle.engine.Engine.apply", broken)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a fault"):
        warm_up(default_settings())
