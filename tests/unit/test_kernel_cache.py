"""A place for compiled kernels where the package and the home are somebody else's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from treadle.compiled import functions, simulator
from treadle.compiled.cache_folder import KernelCache

PACKAGE = Path(functions.__file__).parents[1]


def test_numba_is_left_alone_where_it_finds_a_place(tmp_path: Path) -> None:
    for environment in (
        {"NUMBA_CACHE_DIR": "x"},
        {"HOME": str(tmp_path)},
        {"HOME": "", "XDG_CACHE_HOME": str(tmp_path)},
    ):
        before = dict(environment)
        assert KernelCache(tmp_path / "absent", environment).folder is None
        assert environment == before
    assert KernelCache(tmp_path, {}).folder is None


def test_there_is_a_folder_of_our_own_elsewhere_and_it_goes(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path / "absent")}
    cache = KernelCache(tmp_path / "absent", environment)
    assert cache.folder
    folder = Path(cache.folder)
    assert environment["NUMBA_CACHE_DIR"] == cache.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "kernel").touch()
    cache.remove()
    assert not folder.exists()


@pytest.mark.parametrize(("compiler", "sources"), [("functions", functions.ENGINE), ("simulator", simulator.SIMULATOR)])
def test_whatever_is_compiled_lies_where_the_name_of_its_cache_comes_from(
    compiler: str, sources: tuple[str, ...]
) -> None:
    uses = re.compile(rf"^from treadle\.compiled\.{compiler} import .*\b(kernel|inner)\b", re.MULTILINE)
    files = [file for file in PACKAGE.rglob("*.py") if uses.search(file.read_text("utf-8"))]
    assert len(files) > 5
    named = [PACKAGE / source for source in sources]
    assert [file for file in files if not any(file == place or place in file.parents for place in named)] == []


def test_another_content_of_a_file_is_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_PACKAGE", tmp_path)
    (tmp_path / "folder").mkdir()
    digests = set()
    for name, text in (("alone.py", "1"), ("alone.py", "2"), ("folder/inside.py", "1"), ("folder/inside.py", "2")):
        (tmp_path / "alone.py").touch()
        (tmp_path / name).write_text(text)
        digests.add(functions.digest_of(("alone.py", "folder")))
    assert len(digests) == 4
