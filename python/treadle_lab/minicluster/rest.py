"""Reads the ResourceManager: its REST pages, its JMX beans and its audit log."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from treadle.yarn.pages import open_session

TREADLE_BEAN = "Hadoop:service=ResourceManager,name=Treadle"
_ALLOCATED = re.compile(
    r"OPERATION=AM Allocated Container\b.*?\bRESULT=SUCCESS\b"
    r".*?\bAPPID=(application_\d+_\d+).*?\bCONTAINERID=(container_\w+)"
)


class ResourceManagerClient:
    """Reads one ResourceManager. Each method raises `requests.RequestException` when the RM does not answer."""

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._session = open_session()
        self._session.trust_env = False  # a proxy cannot reach loopback

    def close(self) -> None:
        """Close idle connections."""
        self._session.close()

    def get(self, path: str, **parameters: str) -> Any:
        """Return the JSON behind a path below the RM's address."""
        answer = self._session.get(
            self.url + path, params=parameters, timeout=self._timeout_s, headers={"Accept": "application/json"}
        )
        answer.raise_for_status()
        return answer.json()

    def post(self, path: str, body: dict[str, Any], user: str) -> None:
        """Send JSON to a path below the RM's address as `user`."""
        answer = self._session.post(self.url + path, json=body, params={"user.name": user}, timeout=self._timeout_s)
        answer.raise_for_status()

    def put(self, path: str, body: dict[str, Any], user: str) -> None:
        """Replace a resource below the RM's address by JSON, as `user`."""
        answer = self._session.put(self.url + path, json=body, params={"user.name": user}, timeout=self._timeout_s)
        answer.raise_for_status()

    def nodes(self) -> list[dict[str, Any]]:
        """Every node that the RM knows."""
        return list(((self.get("/ws/v1/cluster/nodes").get("nodes")) or {}).get("node", []))

    def applications(self, **filters: str) -> list[dict[str, Any]]:
        """Applications, for instance `states="RUNNING"` or `applicationTags="nightly"`."""
        return list(((self.get("/ws/v1/cluster/apps", **filters).get("apps")) or {}).get("app", []))

    def application(self, application_id: str) -> dict[str, Any]:
        """One application."""
        return dict(self.get(f"/ws/v1/cluster/apps/{application_id}")["app"])

    def _held(self, attribute: str) -> dict[str, Any]:
        """Return the JSON object in an attribute of Treadle's bean; empty without the bean."""
        beans = self.get("/jmx", get=f"{TREADLE_BEAN}::{attribute}")["beans"]
        return dict(json.loads(beans[0][attribute])) if beans else {}

    def treadle(self) -> dict[str, Any]:
        """Treadle's metrics; empty under another scheduler."""
        return self._held("Status")

    def placements(self) -> dict[str, dict[str, int]]:
        """For each application the containers placed by `treadle` and by anyone else (`native`)."""
        return self._held("Placements")

    def metrics(self) -> dict[str, Any]:
        """Return the cluster's metrics."""
        return dict(self.get("/ws/v1/cluster/metrics")["clusterMetrics"])


def allocated_containers(audit_log: Path) -> dict[str, set[str]]:
    """For each application the ids of the containers that the RM allocated to it, by its audit log."""
    allocated: dict[str, set[str]] = {}
    if audit_log.is_file():
        with audit_log.open(errors="replace") as lines:
            for line in lines:
                match = _ALLOCATED.search(line)
                if match:
                    allocated.setdefault(match[1], set()).add(match[2])
    return allocated
