"""What Hadoop's scripts do before they start a ResourceManager: yarn-env.sh adds to its class path."""

from __future__ import annotations

import subprocess
from pathlib import Path

from treadle_lab.minicluster.settings import SHIM_CLASS, ClusterError
from treadle_lab.minicluster.site import read_site

SCRIPT_S = 60


def class_path(conf: Path) -> list[str]:
    """Return what the yarn-env.sh of a HADOOP_CONF_DIR puts on the ResourceManager's class path; often nothing.

    Raises:
        ClusterError: the script fails.
    """
    script = conf / "yarn-env.sh"
    if not script.is_file():
        return []
    words = 'HADOOP_USER_PARAMS=(resourcemanager); . "$0"; echo "${HADOOP_CLASSPATH-}"'
    try:
        done = subprocess.run(
            ["/bin/bash", "-ec", words, str(script)],
            capture_output=True,
            text=True,
            check=True,
            timeout=SCRIPT_S,
            env={"PATH": "/bin:/usr/bin"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or error
        raise ClusterError(f"{script} cannot be run: {said}; correct it, or remove what was added to it") from error
    return [entry for entry in done.stdout.strip().split(":") if entry]


def schedules(conf: Path) -> bool:
    """Return whether yarn-site.xml has Treadle decide, if only to compare.

    Raises:
        ClusterError: it cannot be read.
    """
    site = read_site(conf / "yarn-site.xml")
    mode = site.get("yarn.scheduler.treadle.mode", "observe_only")
    return site.get("yarn.resourcemanager.scheduler.class") == SHIM_CLASS and mode != "off"
