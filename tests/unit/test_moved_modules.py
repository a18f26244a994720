"""Users' code that imports modules under former names goes on working, with a warning that has the new names."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import treadle
from treadle._moved import MOVED, name_now


@pytest.mark.parametrize("name", sorted({*MOVED, "treadle.profiles.store", "treadle.estimate.estimators"}))
def test_a_module_is_found_under_its_name_of_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if name_now(module) is not None]:
        monkeypatch.delitem(sys.modules, module)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = import_module(name)
    assert found is sys.modules[str(name_now(name))]
    assert f"{name} is {name_now(name)} now; import that" in [str(each.message) for each in warned]


@pytest.mark.filterwarnings("ignore:treadle.estimate is")
def test_a_folder_that_an_older_version_left_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "estimate").mkdir()
    monkeypatch.setattr(treadle, "__path__", [str(tmp_path), *treadle.__path__])
    monkeypatch.delitem(sys.modules, "treadle.estimate", raising=False)
    assert import_module("treadle.estimate").__name__ == "treadle.history.estimators"


@pytest.mark.filterwarnings("ignore:treadle.profiles is")
@pytest.mark.parametrize("name", ["treadle.profiles.nothing", "treadle.nothing"])
def test_what_was_never_there_is_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(name)
