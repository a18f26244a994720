"""What another user puts into the current folder of a command does not run, and does not change what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.support.files import written

PLANTED = """\
import os, sys
with open({record!r}, "a") as file:
    file.write(" ".join(sys.orig_argv) + "\\n")
sys.path[:] = [each for each in sys.path if each not in ("", os.getcwd())]
del sys.modules[__name__]
__import__(__name__)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with modules that have names of Python's own and say where they are imported."""
    folder = tmp_path / "planted"
    folder.mkdir()
    for name in ("signal", "random", "json"):
        (folder / f"{name}.py").write_text(PLANTED.format(record=str(tmp_path / "ran")))
    return folder


def run_script(text: str, folder: Path, tmp_path: Path) -> str:
    """Run a script as the command `treadle` runs: it lies elsewhere, and the current folder is the one given."""
    script = tmp_path / "bin" / "script.py"
    script.parent.mkdir()
    script.write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_of_simulations_import_nothing_of_it(planted: Path, tmp_path: Path) -> None:
    text = """\
from treadle.simulate.batch import processes, submitted

if __name__ == "__main__":
    with processes(1) as pool:
        print(submitted(pool, abs, -7).result())
"""
    assert run_script(text, planted, tmp_path).strip() == "7"
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_a_policy_is_tried_out_without_what_is_in_it(planted: Path, tmp_path: Path) -> None:
    config = written(tmp_path / "treadle.yaml", yaml.safe_dump({"policy": {"order": {"kind": "fifo"}}}))
    text = f"""\
from pathlib import Path
from treadle.live.live_settings import check_apart

print(check_apart(Path({str(config)!r})))
"""
    assert "order=fifo" in run_script(text, planted, tmp_path)
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_plots_do_not_follow_its_matplotlibrc(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    (folder / "matplotlibrc").write_text("lines.linewidth: 77\n")
    text = """\
from treadle.cli._options import check_plotting

check_plotting()
import matplotlib, os
print(matplotlib.rcParams["lines.linewidth"], os.getcwd())
"""
    width, left_in = run_script(text, folder, tmp_path).split()
    assert float(width) != 77.0
    assert left_in == str(folder)
