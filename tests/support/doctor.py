"""What `treadle doctor` is asked about, and what it answers."""

from __future__ import annotations

from pathlib import Path

from treadle.admin.doctor import chosen_checks, examine
from treadle.admin.hadoop import Facts


def write_site(conf: Path, values: dict[str, str], name: str = "yarn-site.xml") -> None:
    """Write a file of settings."""
    entries = "".join(
        f"<property><name>{key}</name><value>{value}</value></property>\n" for key, value in values.items()
    )
    (conf / name).write_text(f"<configuration>\n{entries}</configuration>\n")


def findings(facts: Facts, *names: str) -> list[tuple[str, str, str]]:
    """Return what checks find: status, text and remedy."""
    results = examine(facts, chosen_checks(names, pre=False))
    return [(each.finding.status, each.finding.text, each.finding.remedy) for each in results]
