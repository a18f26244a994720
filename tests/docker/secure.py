"""A secure cluster of containers, whose pages and files are asked for with tickets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from tests.docker.cluster import START, DockerCluster

from treadle.yarn.pages import open_session

KEYTABS = Path("/etc/security/keytabs")
KEYTAB = KEYTABS / "service.keytab"
CERTIFICATE = "/opt/hadoop/tls.pem"
SHELL = "org.apache.hadoop.fs.FsShell"
NAMENODE = "https://namenode:9871"


class SecureCluster(DockerCluster):
    """A cluster whose user is `alice`, once `log_in` was called."""

    workers = ("worker-1", "worker-2")

    def log_in(self, user: str = "alice") -> None:
        """Get tickets."""
        self.wait_for("keys", (KEYTABS / f"{user}.keytab").is_file, 120)
        self.wait_for("tickets", lambda: self._kinit(user) == 0, 120, poll_s=1)

    def _kinit(self, user: str) -> int:
        return subprocess.run(["kinit", "-kt", f"{KEYTABS}/{user}.keytab", user], capture_output=True).returncode

    def has_data(self) -> bool:
        """Does HDFS have all its DataNodes, and may it be written to?"""
        session = open_session()
        session.verify = CERTIFICATE
        parameters = {"qry": "Hadoop:service=NameNode,name=FSNamesystemState"}
        answer = session.get(f"{NAMENODE}/jmx", params=parameters, timeout=10)
        answer.raise_for_status()
        state: dict[str, Any] = next(iter(answer.json()["beans"]), {})
        return (state.get("NumLiveDataNodes"), state.get("FSState")) == (len(self.workers), "Operational")

    def make_folders(self) -> None:
        """Make the folders of users and of the JobHistoryServer, as the NameNode's user, who may do anything."""
        self.run_in("namenode", "kinit", "-kt", str(KEYTAB), "nn/namenode")
        for words in (
            ("-mkdir", "-p", "/user/alice", "/user/bob", "/mr-history", "/tmp"),
            ("-chown", "alice", "/user/alice"),
            ("-chown", "bob", "/user/bob"),
            ("-chmod", "700", "/user/alice", "/user/bob"),
            ("-chown", "jhs:hadoop", "/mr-history"),
            ("-chmod", "755", "/mr-history"),
            ("-chmod", "1777", "/tmp"),
        ):
            self.run_in("namenode", START, "job", SHELL, *words)

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command of Treadle's in the client."""
        env = {**os.environ, "TREADLE_RM": self.rm.url, **environment}
        return subprocess.run(["treadle", *arguments], capture_output=True, text=True, env=env, timeout=300)

    def owners(self, service: str, *paths: str) -> list[str]:
        """Return mode, owner and path of files in a container, in the order of their names."""
        pattern = " ".join(paths)
        return self.run_in(service, "sh", "-c", f"stat -c '%a %U %n' {pattern}").splitlines()

    def files(self, service: str, what: str) -> list[str]:
        """Return the paths that `find` finds in a container."""
        return sorted(self.run_in(service, "sh", "-c", f"find {what}").split())

    def can_read(self, service: str, files: list[str], user: str) -> list[str]:
        """Return those of some files in a container that one of its users can read."""
        look = 'for file; do if cat "$file" >/dev/null 2>&1; then echo "$file"; fi; done'
        return self.run_in(service, "sh", "-c", look, "sh", *files, user=user).split()
