"""A place for compiled kernels where the package and the home are somebody else's."""

from __future__ import annotations

from pathlib import Path

from treadle.compiled.cache_folder import KernelCache


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
