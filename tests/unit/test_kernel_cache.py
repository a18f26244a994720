"""Compiled kernels lie where no other user could have put code, or in a private folder."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.files import written

from treadle.compiled import cache_folder, functions, simulator
from treadle.compiled.cache_folder import KernelCache
from treadle.compiled.functions import locked
from treadle.config.reader import parse_settings
from treadle.errors import ConfigError, UserError
from treadle.live.process import kernel_cache
from treadle.policy.catalogue import register_parts
from treadle.sources import trees_behind

register_parts()

PACKAGE = Path(functions.__file__).parents[1]

NOWHERE = (
    "import pathlib, sys, treadle.compiled.cache_folder as module\n"
    "module.places = lambda uid: [pathlib.Path(sys.executable)]\n"
)


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary ones, in a process whose environment names no place for compiled code."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "before")  # restored afterwards
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_sidecar_loads_no_numba_before_it_has_chosen_the_folder() -> None:
    loaded = "import sys, treadle.live.process; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "treadle.compiled.cache_folder" in done.stdout.split()
    assert "numba" not in done.stdout.split()


@pytest.mark.usefixtures("private")
def test_code_is_kept_in_the_first_folder_that_nobody_else_may_write(tmp_path: Path) -> None:
    unsafe, missing, safe = (tmp_path / name for name in ("unsafe", "unsafe/missing", "safe"))
    unsafe.mkdir()
    unsafe.chmod(0o777)
    safe.mkdir()
    environment: dict[str, str] = {}
    cache = KernelCache("", environment, [unsafe, missing, safe / ".cache" / "treadle"])
    assert environment["NUMBA_CACHE_DIR"] == str(safe / ".cache" / "treadle")
    assert cache.why_private == ""
    cache.remove()
    assert safe.exists()


def test_where_no_folder_is_safe_there_is_a_private_one_and_it_goes(tmp_path: Path, private: Path) -> None:
    unsafe = tmp_path / "unsafe"
    unsafe.mkdir()
    unsafe.chmod(0o1777)
    planted = unsafe / "treadle"
    planted.mkdir()
    planted.chmod(0o777)
    environment: dict[str, str] = {}
    cache = KernelCache("", environment, [planted])
    assert cache.why_private == f"{planted} may be written by everybody; take that right away with chmod go-w {planted}"
    folder = Path(environment["NUMBA_CACHE_DIR"])
    assert folder.parent == private
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "kernel").touch()
    cache.remove()
    assert not folder.exists()


def test_a_private_folder_that_others_could_replace_is_refused(tmp_path: Path, private: Path) -> None:
    private.chmod(0o777)
    with pytest.raises(UserError, match=f"{private} may be written by everybody.*set TMPDIR"):
        KernelCache("", {}, [])
    assert list(private.iterdir()) == []


def test_variables_of_the_environment_are_no_way_into_a_sidecar(
    tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All name a folder that another user could have made; only the package and the user database are asked."""
    for name in ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert cache_folder.places(os.geteuid()) == [PACKAGE / "__pycache__", Path(home) / ".cache" / "treadle"]
    monkeypatch.setattr(cache_folder, "places", lambda _: [tmp_path / "HOME" / "file"])
    (tmp_path / "HOME").touch()
    kernel_cache(None).remove()
    assert Path(os.environ["NUMBA_CACHE_DIR"]).parent == private


@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_commands_refuse_a_folder_of_the_environment_that_others_may_write(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(mode)
    with pytest.raises(UserError, match=f"{tmp_path} may be written by .*chmod go-w {tmp_path}.*NUMBA_CACHE_DIR"):
        functions.cache_folder.__wrapped__()
    tmp_path.chmod(0o755)
    kept = Path(functions.cache_folder.__wrapped__())
    assert kept.parent == tmp_path
    assert kept.stat().st_mode & 0o777 == 0o700


def test_code_that_was_planted_while_a_folder_was_open_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    planted = tmp_path / functions.folder_name()
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.raises(UserError, match=f"{planted} may be written by everybody"):
        functions.cache_folder.__wrapped__()


def test_numbas_settings_in_the_current_folder_are_not_followed(tmp_path: Path) -> None:
    """They could name where compiled code is found; the folder may be another user's."""
    (tmp_path / ".numba_config.yaml").write_text("cache_locator_classes: no.such.Class\ndisable_jit: 1\n")
    (tmp_path / "folder").mkdir(mode=0o700)
    code = (
        "from treadle.compiled.functions import config, kernel\n"
        "def one(): return 1\n"
        "print(kernel(one)._cache.cache_path); config.reload_config(); print(config.DISABLE_JIT)"
    )
    environment = {"PATH": os.environ["PATH"], "NUMBA_CACHE_DIR": str(tmp_path / "folder")}
    file = written(tmp_path / "code.py", code)
    done = subprocess.run([sys.executable, "-P", file], env=environment, cwd=tmp_path, capture_output=True, text=True)
    folder, disabled = done.stdout.splitlines()
    assert Path(folder).is_relative_to(tmp_path / "folder"), done.stderr
    assert disabled == "0"


def test_a_command_without_a_safe_folder_says_so_and_compiles_into_a_private_one(tmp_path: Path) -> None:
    """What it and its children compile is gone with it."""
    code = NOWHERE + "from treadle.compiled.functions import cache_folder; print(cache_folder())"
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "each start compiles" in done.stderr
    assert Path(done.stdout).is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("compiler", "roots"), [("functions", functions.ROOTS), ("simulator", simulator.ROOTS)])
def test_whatever_is_compiled_lies_where_the_name_of_its_cache_comes_from(
    compiler: str, roots: tuple[str, ...]
) -> None:
    uses = re.compile(rf"^from treadle\.compiled\.{compiler} import .*\b(kernel|inner)\b", re.MULTILINE)
    files = {file for file in PACKAGE.rglob("*.py") if uses.search(file.read_text("utf-8"))}
    assert len(files) > 3
    assert files - trees_behind(*roots).keys() - {PACKAGE / "compiled" / "simulator.py"} == set()


def test_the_name_of_a_cache_is_kept_and_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    find = functions.cache_folder.__wrapped__
    first = find()
    monkeypatch.setattr(functions, "digest", lambda *_: "another")
    assert find() == first
    monkeypatch.setattr(functions, "stat_of", lambda file: (1, len(file.name)))
    assert find() == str(tmp_path / "kernels-another")


def test_a_folder_of_the_settings_is_used_whatever_else_is_safe(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    cache = KernelCache("/var/cache/treadle", environment, [tmp_path])
    assert environment["NUMBA_CACHE_DIR"] == "/var/cache/treadle"
    assert cache.why_private == ""
    cache.remove()


def chosen(tmp_path: Path, folder: Path) -> Path:
    """Return a treadle.yaml that names a folder for compiled code."""
    return written(tmp_path / "treadle.yaml", f"kernels: {{folder: {folder}}}\n")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "before")  # put back afterwards


@pytest.mark.usefixtures("environment")
def test_a_sidecar_keeps_compiled_code_where_its_settings_say(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    assert kernel_cache(chosen(tmp_path, folder)).why_private == ""
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
        NOWHERE + "from treadle.cli.main import main; import sys; sys.argv = ['treadle', 'sidecar', 'warm-up']; main()"
    )
    environment = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "kernels.folder" in done.stderr
    assert list(tmp_path.iterdir()) == []


# Two processes that need the same kernel at the same time: one compiles it.

SLOW = """
import sys, time
from numba import config
config.CACHE_DIR = sys.argv[1]
from numba import njit
from treadle.compiled.functions import compiled_once
import kernels
kernel = njit(cache=True)(kernels.kernel)
compiled_once(kernel, sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
kernel(1)
print(sum(kernel.stats.cache_misses.values()))
"""


def test_one_of_two_processes_compiles_and_the_other_finds_it(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text("def kernel(x):\n    return x + 1\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", SLOW, str(tmp_path / "cache")],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    misses = sorted(int(process.communicate("\n")[0]) for process in both)
    assert misses == [0, 1]


def test_who_waits_too_long_goes_on_alone(tmp_path: Path) -> None:
    file = tmp_path / "kernel.lock"
    with locked(file) as first, locked(file, wait_s=0) as second:
        assert (first, second) == (True, False)
    with locked(file, wait_s=0) as again:
        assert again


def test_where_nothing_may_be_written_nobody_waits(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with locked(tmp_path / "file" / "kernel.lock") as held:
        assert not held
