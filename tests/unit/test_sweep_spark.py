"""`treadle sweep --on spark`: the same bytes as on this machine; what workers do before they have Treadle."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import treadle
from treadle.cli.main import run
from treadle.errors import install_extra
from treadle.sources import digest
from treadle.sweep import spark, worker
from treadle.sweep.spark import archive_of_package

SCENARIO = """\
cluster: {nodes: [{count: 1, resources: {memory-mb: 4096, vcores: 4}}]}
queues: {a: {}}
workload: {own: {file: jobs.py}}
"""
JOBS = """
from treadle.dag.dag import Dag, Stage
from treadle.simulate import Job

def jobs(seed):
    if seed == 3:
        raise ValueError("no third draw")
    stages = [Stage(0, 3 + at + seed, 1000, {"memory-mb": 1024}) for at in range(5)]
    return [Job(f"j{stage.tasks}", 0, Dag("d", (stage,)), queue="a") for stage in stages]
"""
PACKAGE = Path(treadle.__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("submitted", [False, True])
def test_spark_gives_the_same_bytes_as_this_machine(tmp_path: Path, *, submitted: bool) -> None:
    pyspark = pytest.importorskip("pyspark")
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "jobs.py").write_text(JOBS)
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("scenarios: [tiny.yaml]\npolicies: [fifo, srpt]\nseeds: 4\n")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    assert run(["sweep", str(sweep), "--jobs=1", "--trust-code", f"--json={here}", f"--cache={tmp_path}/here"]) == 1
    script = tmp_path / "run_treadle.py"
    script.write_text("from treadle.cli.main import main\n\nmain()\n")
    options = ["sweep", str(sweep), "--on=spark", "--trust-code", f"--json={there}", f"--cache={tmp_path}/there"]
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]", str(script)]
    command = [*submit, *options] if submitted else [sys.executable, "-m", "treadle", *options, "--master=local[2]"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 runs of 8 failed" in done.stdout
    assert there.read_bytes() == here.read_bytes()
    assert [each["seed"] for each in json.loads(there.read_text())["failures"]] == [3, 3]


def test_a_worker_without_treadle_gets_the_drivers(tmp_path: Path) -> None:
    """A Python whose packages are the same ones, but for Treadle: a file that -S leaves out names it."""
    archive = tmp_path / "code.zip"
    archive.write_bytes(archive_of_package(PACKAGE))
    script = f"""
import sys, runpy
sys.path.append({sysconfig.get_paths()["purelib"]!r})
worker = runpy.run_path({str(Path(worker.__file__))!r})
from importlib.util import find_spec
found = find_spec("treadle")  # a folder that holds data alone is none
if found is not None and found.origin:
    raise SystemExit("there is a Treadle already")
from pathlib import Path
worker["use_code"](sys.argv[1], sys.argv[2], Path({str(archive)!r}))
worker["use_code"](sys.argv[1], sys.argv[2], Path({str(archive)!r}))
import treadle
from treadle.sweep.worker import package_digest
print(treadle.__file__, package_digest(Path(treadle.__file__).parent))
"""
    digest = worker.package_digest(PACKAGE)

    def ask(wanted: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", script, digest, wanted]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    done = ask(worker.libraries())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "code.unpacked" / "treadle" / "__init__.py"), digest]
    other = ask("numba 0.1, numpy 0.2")
    assert "the driver numba 0.1, numpy 0.2; give both the same environment" in other.stderr


def test_the_digest_is_of_what_runs_are_made_of(tmp_path: Path) -> None:
    assert worker.package_digest(PACKAGE) == digest(worker.RUNS)
    assert worker.package_digest(tmp_path) == "", "another version of Treadle"


def test_without_pyspark_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo]\n")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert run(["sweep", str(tmp_path / "sweep.yaml"), "--on=spark"]) == 2
    assert f"--on spark: needs pyspark; {install_extra('spark')}" in capsys.readouterr().err


def test_what_a_worker_raised_is_reported_in_a_line() -> None:
    said = """
Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
Traceback (most recent call last):
  File "worker.py", line 2, in main
treadle.sweep.worker.OtherEnvironmentError: Python x on host has no numba, the driver numba 0.68

Driver stacktrace:
Caused by: org.apache.spark.api.python.PythonException: x
"""
    assert spark.cause(RuntimeError(said)).startswith("treadle.sweep.worker.OtherEnvironmentError: Python x")
    assert spark.cause(RuntimeError("ExecutorLost")) == "ExecutorLost"


@pytest.mark.slow
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="the packages are in no virtual environment")
def test_executors_with_another_environment_end_the_sweep(tmp_path: Path) -> None:
    """Not every run fails for it, four times each: nothing can run there."""
    pytest.importorskip("pyspark")
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "sweep.yaml").write_text("scenarios: [tiny.yaml]\npolicies: [fifo]\nseeds: 50\n")
    bare = f"{sys.base_prefix}/bin/python3"  # the one that the virtual environment is of, without its packages
    options = ["--trust-code", "--on=spark", "--master=local[2]", "--conf", f"spark.pyspark.python={bare}"]
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "sweep", str(tmp_path / "sweep.yaml"), *options],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={"PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "give both the same environment" in done.stderr
    assert "spark.pyspark.python=PATH" in done.stderr
