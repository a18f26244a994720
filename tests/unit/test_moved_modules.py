"""Code of users' that imports modules under their names of before goes on working, and is told the new names."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

import pytest

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


@pytest.mark.filterwarnings("ignore:treadle.profiles is")
@pytest.mark.parametrize("name", ["treadle.profiles.nothing", "treadle.nothing"])
def test_what_was_never_there_is_not_found(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module(name)
