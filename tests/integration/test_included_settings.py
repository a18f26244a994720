"""Hadoop reads treadle-site.xml by the line in yarn-site.xml, and does without it where it is missing."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.support.files import written

from treadle.admin.site_files import OWN_SITE, own_site, parse_site, with_include
from treadle_lab.minicluster.settings import gather

pytestmark = pytest.mark.cluster


def settings(conf: Path) -> dict[str, str]:
    """Return what Hadoop's Configuration makes of a folder; core-site.xml is what its main program reads."""
    command = ["java", "-cp", f"{conf}:{gather()}/*", "org.apache.hadoop.conf.Configuration"]
    written_by_it = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    root = ElementTree.fromstring(written_by_it[written_by_it.index("<?xml") :])
    return {str(each.findtext("name")): str(each.findtext("value")) for each in root.iter("property")}


def test_hadoop_follows_the_line(tmp_path: Path) -> None:
    before = "<configuration>\n<property><name>a</name><value>1</value></property>\n</configuration>\n"
    site = written(tmp_path / "core-site.xml", before)
    site.write_bytes(with_include(parse_site(site, site.read_bytes())))
    assert settings(tmp_path)["a"] == "1"
    (tmp_path / OWN_SITE).write_bytes(own_site({"a": "2", "b": "ä & <b>"}))
    found = settings(tmp_path)
    assert (found["a"], found["b"]) == ("2", "ä & <b>")
