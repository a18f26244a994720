"""The connection file in the hands of several sidecars."""

from __future__ import annotations

import grp
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.live.handshake import ConnectionFile, HandshakeError, new_secret


def test_a_sidecar_does_not_remove_the_file_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first, second = ConnectionFile(path), ConnectionFile(path)
    first.write(1, new_secret())
    second.write(2, new_secret())
    first.remove()
    assert json.loads(path.read_bytes())["port"] == 2
    second.remove()
    assert not path.exists()
    second.remove()


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    ConnectionFile(path).write(1, new_secret())
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_group_may_read_the_file_where_one_is_named(tmp_path: Path) -> None:
    path, group = tmp_path / "file", grp.getgrgid(os.getgid())
    ConnectionFile(path, group.gr_name).write(1, new_secret())
    status = path.stat()
    assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o640, group.gr_gid)
    with pytest.raises(HandshakeError, match="--connection-group no-such-group: this host has no such group"):
        ConnectionFile(path, "no-such-group")


def test_secrets_have_256_bits_and_differ() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(bytes.fromhex(secret)) == 32 for secret in secrets)


def test_the_file_of_a_process_that_has_gone_is_removed_and_that_of_another_that_runs_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for pid in (gone.pid, os.getpid()):
        path.write_text(json.dumps({"pid": pid}))
        ConnectionFile(path).remove_stale()
        assert not path.exists()
    for other in (json.dumps({"pid": os.getppid()}), "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1e400}'):
        path.write_text(other)
        ConnectionFile(path).remove_stale()
        assert path.read_text() == other
