"""The wheel carries the jars of its version; the shim's with py4j moved out of the way and no Hadoop."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from treadle import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_wheel_carries_the_shim(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*command, str(ROOT)], check=True, timeout=540)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"treadle-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        jars = [f"treadle/java/treadle-{name}-{__version__}.jar" for name in ("shim", "spark", "tez")]
        assert sorted(name for name in names if name.endswith(".jar")) == jars
        assert "treadle/cli/main.py" in names
        assert [name for name in names if name.startswith("treadle_lab/") or name.endswith("pom.xml")] == []
        ready_made = {f"treadle/policies/{file.name}" for file in (ROOT / "conf" / "policies").glob("*.yaml")}
        assert "treadle/policies/hdrf.yaml" in ready_made
        assert {name for name in names if name.startswith("treadle/policies/")} == ready_made
        templates = [file.relative_to(ROOT) for file in (ROOT / "conf").rglob("*") if file.is_file()]
        others = {f"treadle/{file}" for file in templates if file.parent.name != "policies"}
        assert "treadle/conf/yarn-site-treadle.xml" in others
        assert others <= set(names)
        assert [name for name in names if "google-2011" in name or "swim-facebook" in name] == []
        assert f"treadle/java/treadle-requirements-{__version__}.jar" in names
        jar = zipfile.ZipFile(io.BytesIO(files.read(f"treadle/java/treadle-shim-{__version__}.jar")))
    classes = [name for name in jar.namelist() if name.endswith(".class")]
    scheduler = "org/apache/hadoop/yarn/server/resourcemanager/scheduler/capacity/"
    assert f"{scheduler}TreadleScheduler.class" in classes
    assert "io/treadle/shaded/py4j/CallbackClient.class" in classes
    assert [name for name in classes if name.startswith("py4j/")] == []
    assert [name for name in classes if name.startswith("org/apache/") and not name.startswith(scheduler[:55])] == []
