"""Puts policies, examples and jars into the wheel: hatchling calls this, this calls Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# `skip`: no jar, for an editable install, which finds it in java-shim/shim/target; `built`: the jars are there.
JAR_SWITCH = "TREADLE_BUILD_JAR"


class WheelHook(BuildHookInterface):  # type: ignore[misc]
    """Includes the ready-made policies, the examples, and the jars of this very version in ``treadle/java``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to add; hatchling calls this before it gathers those of a wheel."""
        # By name: the folder of a policy may also contain the state of a sidecar that ran it from here.
        for policy in sorted(Path(self.root, "conf", "policies").glob("*.yaml")):
            build_data["force_include"][str(policy)] = f"treadle/policies/{policy.name}"
        for example in sorted(Path(self.root, "docs", "examples", "simulate").glob("*")):
            if "../data/" not in example.read_text("utf-8"):
                build_data["force_include"][str(example)] = f"treadle/examples/{example.name}"
        if version == "editable" or os.environ.get(JAR_SWITCH) == "skip":
            return
        jars = self._jars()
        for jar in jars:
            build_data["force_include"][str(jar)] = f"treadle/java/{jar.name}"
        build_data["pure_python"] = True

    def _jars(self) -> list[Path]:
        """Return the jars, built with Maven unless the switch says that they exist."""
        shim = Path(self.root, "java-shim")
        if os.environ.get(JAR_SWITCH) != "built":
            self._build(shim)
        version = self.metadata.version
        jars = [
            shim / "shim" / "target" / f"treadle-shim-{version}.jar",
            shim / "requirements" / "target" / f"treadle-requirements-{version}.jar",
            shim / "tez-plugin" / "target" / f"treadle-tez-{version}.jar",
            shim / "spark-plugin" / "target" / f"treadle-spark-{version}.jar",
        ]
        for jar in jars:
            if not jar.is_file():
                raise SystemExit(f"treadle: {jar} is missing: java-shim/pom.xml has another version than the package")
        return jars

    def _build(self, shim: Path) -> None:
        maven = shutil.which("mvn")
        if maven is None:
            raise SystemExit("treadle: Maven is needed to build the wheel (on Debian: apt-get install maven)")
        command = [
            maven,
            "-B",
            "-ntp",
            "-q",
            "-f",
            str(shim / "pom.xml"),
            "-pl",
            "shim,requirements,tez-plugin,spark-plugin",
            "-am",
            "package",
            "-DskipTests",
        ]
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"treadle: the jars could not be built; try: {' '.join(command)}")
