"""A place for compiled kernels where the package and the home are somebody else's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.compiled import functions, simulator
from treadle.compiled.cache_folder import KernelCache
from treadle.config.errors import ConfigError
from treadle.config.reader import parse_settings
from treadle.live.process import kernel_cache
from treadle.policy.catalogue import register_parts

register_parts()

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


def test_a_folder_of_the_settings_is_used_whatever_else_may_be_written(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    cache = KernelCache(tmp_path, environment, chosen="/var/cache/treadle")
    assert environment["NUMBA_CACHE_DIR"] == "/var/cache/treadle"
    assert cache.folder is None
    cache.remove()


def chosen(tmp_path: Path, folder: Path) -> Path:
    """Return a treadle.yaml that names a folder for compiled code."""
    config = tmp_path / "treadle.yaml"
    config.write_text(f"kernels: {{folder: {folder}}}\n")
    return config


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "before")  # put back afterwards


@pytest.mark.usefixtures("environment")
def test_a_sidecar_keeps_compiled_code_where_its_settings_say(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    assert kernel_cache(chosen(tmp_path, folder)).folder is None
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("mode", "said"), [(None, "mkdir -p -m 700"), (0o777, "may be written by everybody"), (0o775, "by its group")]
)
def test_a_folder_that_others_could_fill_is_refused(tmp_path: Path, mode: int | None, said: str) -> None:
    folder = tmp_path / "kernels"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)
    with pytest.raises(ConfigError, match=f"kernels.folder: .*{said}"):
        kernel_cache(chosen(tmp_path, folder))
    assert os.environ["NUMBA_CACHE_DIR"] == "before"


def test_a_folder_is_named_by_its_whole_path_and_for_all_engines() -> None:
    with pytest.raises(ConfigError, match=r"kernels.folder: .*absolute path"):
        parse_settings("t.yaml", "kernels: {folder: kernels}\n")
    with pytest.raises(ConfigError, match=r"engines.a.kernels: 'kernels' is not one of"):
        parse_settings("t.yaml", "engines: {a: {kernels: {folder: /k}, fallback: b}, b: {}}\n")


def test_a_warm_up_that_nobody_could_use_is_a_mistake(tmp_path: Path) -> None:
    """Another user's package, and no home: what this compiles is gone with the process."""
    code = (
        "import treadle.compiled.cache_folder as c; c._writable = lambda folder: False\n"
        "from treadle.cli.main import main; import sys; sys.argv = ['treadle', 'sidecar', '--warm-up']; main()"
    )
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "kernels.folder" in done.stderr
    assert list(tmp_path.iterdir()) == []
