"""The connection file in the hands of several sidecars."""

from __future__ import annotations

import json
from pathlib import Path

from treadle.sidecar.handshake import ConnectionFile, new_token


def test_a_sidecar_does_not_remove_the_file_of_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "file"
    first, second = ConnectionFile(path), ConnectionFile(path)
    first.write(1, new_token())
    second.write(2, new_token())
    first.remove()
    assert json.loads(path.read_bytes())["port"] == 2
    second.remove()
    assert not path.exists()
    second.remove()


def test_a_file_that_others_could_read_is_replaced_by_one_that_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    ConnectionFile(path).write(1, new_token())
    assert path.stat().st_mode & 0o777 == 0o600


def test_tokens_have_256_bits_and_differ() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(bytes.fromhex(token)) == 32 for token in tokens)
