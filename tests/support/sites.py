"""Changing a running cluster's configuration files, as an administrator does before a refresh."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

MODE = "yarn.scheduler.treadle.mode"


def change(file: Path, values: dict[str, str | None]) -> None:
    """Set entries of a Hadoop configuration file; None removes one."""
    tree = ElementTree.parse(file)
    root = tree.getroot()
    for entry in list(root):
        if entry.findtext("name") in values:
            root.remove(entry)
    for name, value in values.items():
        if value is not None:
            entry = ElementTree.SubElement(root, "property")
            ElementTree.SubElement(entry, "name").text = name
            ElementTree.SubElement(entry, "value").text = value
    tree.write(file)
