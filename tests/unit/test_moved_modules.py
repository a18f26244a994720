"""Code of users' that imports modules under their names of before goes on working, and is told the new names."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from treadle._moved import MOVED, name_now


@pytest.mark.parametrize("name", sorted({*MOVED, "treadle.profiles.store", "treadle.estimate.estimators"}))
def test_a_module_is_found_under_its_name_of_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [module for module in sys.modules if module in MOVED or module.rpartition(".")[0] in MOVED]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.warns(FutureWarning, match=f"{name_now(name)} now; import that"):
        found = import_module(name)
    assert found is sys.modules[str(name_now(name))]


def test_what_was_never_there_is_not_found() -> None:
    for name in ("treadle.profiles.nothing", "treadle.nothing"):
        with pytest.raises(ModuleNotFoundError), pytest.warns(FutureWarning):
            import_module(name)
            raise AssertionError(name)
