"""Puts the shim's jar into the wheel: hatchling calls this, this calls Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# `skip`: no jar, for an editable install, which finds it in java-shim/shim/target.
JAR_SWITCH = "TREADLE_BUILD_JAR"


class ShimJarHook(BuildHookInterface):  # type: ignore[misc]
    """Builds the shaded jar of this very version and includes it as ``treadle/java/treadle-shim-<version>.jar``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files to add; hatchling calls this before it gathers those of a wheel."""
        if version == "editable" or os.environ.get(JAR_SWITCH) == "skip":
            return
        jar = self._build_jar()
        runtime = Path(self.root, "java-shim", "runtime", "pom.xml")
        build_data["force_include"][str(jar)] = f"treadle/java/{jar.name}"
        build_data["force_include"][str(runtime)] = "treadle/java/runtime-pom.xml"
        build_data["pure_python"] = True

    def _build_jar(self) -> Path:
        maven = shutil.which("mvn")
        if maven is None:
            raise SystemExit("treadle: Maven is needed to build the wheel (on Debian: apt-get install maven)")
        shim = Path(self.root, "java-shim")
        command = [
            maven,
            "-B",
            "-ntp",
            "-q",
            "-f",
            str(shim / "pom.xml"),
            "-pl",
            "shim",
            "-am",
            "package",
            "-DskipTests",
        ]
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"treadle: the shim's jar could not be built; try: {' '.join(command)}")
        jar = shim / "shim" / "target" / f"treadle-shim-{self.metadata.version}.jar"
        if not jar.is_file():
            raise SystemExit(f"treadle: {jar} is missing: java-shim/pom.xml has another version than the package")
        return jar
