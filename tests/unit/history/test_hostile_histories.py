"""Histories made to crash, to hang or to fill the memory: each is named, and the import goes on within bounds."""

from __future__ import annotations

import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.support.waiting import eventually
from tests.unit.history.conftest import NOW_MS

from treadle.errors import UserError
from treadle.files import RATIO_MAX, UNPACKED_BYTES_MAX
from treadle.history.importing import Import
from treadle.history.outcome import BYTES_MAX, BrokenHistoryError, Files, RefusedError, Source
from treadle.history.reader import DEPTH_MAX, LIMITS, HistoryReader, Limits, find_sources
from treadle.history.store import ProfileStore
from treadle.processes import LEAST, Child

zstandard = pytest.importorskip("zstandard")

DATA = Path(__file__).parents[2] / "data" / "histories"
JSON = DATA / "as-json.jhist"
ME = pwd.getpwuid(os.geteuid()).pw_name

TEXT = {"name": "type", "type": "string"}


def record(**fields: object) -> dict[str, object]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def error(*fields: object) -> dict[str, object]:
    return {"type": "error", "name": "E", "fields": [*fields]}


def space(name: str) -> dict[str, object]:
    return {"type": "record", "namespace": name, "name": "S", "fields": [TEXT]}


def array(items: object) -> dict[str, object]:
    return {"type": "array", "items": items}


def avro(event: object, body: bytes = b"\x02x") -> bytes:
    """Return a binary history with a type of events of one's own."""
    schema = {"type": "record", "name": "Event", "fields": [TEXT, {"name": "event", "type": event}]}
    return b"Avro-Binary\n" + json.dumps(schema).encode() + b"\n" + body


ENDLESS = b"\x02x" + bytes([0x80, 0xC0, 0xCA, 0xF3, 0x84, 0xA3, 0x02])
"""A text, and the count 10^12 of items of a list."""

WHOLE = {"type": "record", "name": "Event", "fields": [{"name": "a", "type": "Event"}]}

HOSTILE = {
    "whole.jhist": b"Avro-Binary\n" + json.dumps(WHOLE).encode() + b"\nx",
    "itself.jhist": avro("Event"),
    "each-other.jhist": avro(record(a=["null", "Event"])),
    "list-of-itself.jhist": avro(array("Event")),
    "error.jhist": avro(array(error()), ENDLESS),
    "error-within.jhist": avro(array(record(n=error({"name": "q", "type": "null"}))), ENDLESS),
    "named-nothing.jhist": avro(
        record(a=["null", {"type": "fixed", "name": "F", "size": 0}], b=array("F")), ENDLESS[:2] + b"\x00" + ENDLESS[2:]
    ),
    "one-name.jhist": avro(record(a=space("one"), b=space("other"))),
    "unheard-of.jhist": avro({"type": "request", "name": "E", "fields": [TEXT]}),
    "deep.jhist": avro(json.loads('{"type":"array","items":' * 200 + '"int"' + "}" * 200)),
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of hostile histories, the last of which is a good one."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for name, content in HOSTILE.items():
        (folder / name).write_bytes(content)
    rolled = folder / "eventlog_v2_application_1_1"
    rolled.mkdir()
    os.mkfifo(rolled / "events_1_application_1_1")
    os.mkfifo(folder / "pipe.jhist")
    (folder / "link.jhist").symlink_to(JSON)
    line = b'{"Event":"SparkListenerX"}\n'
    bomb = zstandard.ZstdCompressor().compress(line * (1 << 20)) * 16
    (folder / "bomb.zstd").write_bytes(bomb)
    (folder / "z.jhist").write_bytes(JSON.read_bytes().replace(b'"root"', json.dumps(ME).encode()))
    return folder


def test_an_import_survives_every_one_of_them(hostile: Path, tmp_path: Path) -> None:
    # a process of its own: what this is about kills processes, and hangs them
    command = [sys.executable, "-m", "treadle", "history", "import", "--output=json", "--store", str(tmp_path / "p.db")]
    done = subprocess.run([*command, str(hostile)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    named = "\n".join(summary["broken"] + summary["refused"])
    assert all(str(hostile / name) in named for name in (*HOSTILE, "eventlog_v2_application_1_1", "bomb.zstd")), named
    assert all(str(hostile / name) in named for name in ("pipe.jhist", "link.jhist")), named
    assert summary["runs"] == 1, "the good one"


def read(path: Path, limits: Limits = LIMITS) -> None:
    """Read a history as an import does."""
    (source,) = find_sources([path])
    with HistoryReader(limits) as reader:
        reader.read(source)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_no_event_has_is_refused_before_anything_is_read_by_it(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(HOSTILE[name])
    with pytest.raises(BrokenHistoryError, match="its schema is not that of events"):
        read(file)


def test_what_takes_longer_than_it_may_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "long.jhist"
    file.write_bytes(b"Avro-Json\n{}\n" + b"{}\n" * 30_000_000)
    with pytest.raises(BrokenHistoryError, match="more than 1 s of CPU time"):
        read(file, replace(LIMITS, cpu_s=1))


def test_what_takes_more_memory_than_it_may_is_named_and_the_next_one_is_read(
    tmp_path: Path, store: ProfileStore
) -> None:
    greedy = tmp_path / "greedy.jhist"
    # a byte of the file becomes some fifty in memory
    greedy.write_bytes(b'Avro-Json\n{}\n{"event": [' + b"{}," * (12 << 20) + b"{}]}\n")
    (tmp_path / "z.jhist").write_bytes(JSON.read_bytes().replace(b'"root"', json.dumps(ME).encode()))
    with HistoryReader(replace(LIMITS, memory_mb=384)) as reader:
        importing = Import(store, NOW_MS, print, reader=reader)
        importing.take(find_sources([tmp_path]))
    assert importing.summary.broken == [f"{greedy}: reading it takes more than 384 MiB of memory"]
    assert importing.summary.runs == 1
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY, "of the process that asks: as it was"


def test_what_tells_too_much_is_ended() -> None:
    with pytest.raises(BrokenHistoryError, match="more than 100 bytes"):
        read(JSON, replace(LIMITS, answer_bytes=100))


def test_a_reader_that_hangs_is_ended() -> None:
    reader = HistoryReader(replace(LIMITS, wall_s=0.0))
    (source,) = find_sources([JSON])
    with pytest.raises(BrokenHistoryError, match="longer than 0 s"):
        reader.read(source)
    assert reader._process is None


def started(reader: HistoryReader) -> subprocess.Popen[bytes]:
    """Return the process that a reader has started."""
    process = reader._start()
    assert isinstance(process, Child)
    return process.popen


def test_a_reader_that_is_killed_is_replaced() -> None:
    (source,) = find_sources([JSON])
    with HistoryReader() as reader:
        process = started(reader)
        process.kill()
        process.wait()
        with pytest.raises(BrokenHistoryError, match="ended by SIGKILL"):
            reader.read(source)
        assert len(reader.read(source).runs) == 1


def test_a_reader_does_not_see_the_store_s_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_HISTORY", "postgresql://ann:secret@db/x")
    with HistoryReader() as reader:
        process = started(reader)
        assert b"secret" not in Path(f"/proc/{process.pid}/environ").read_bytes()


def test_a_reader_gives_way_on_the_processor() -> None:
    with HistoryReader() as reader:
        process = started(reader)
        eventually(lambda: os.sched_getscheduler(process.pid) == os.SCHED_BATCH)
        assert psutil.Process(process.pid).nice() == min(LEAST, psutil.Process().nice() + LEAST)


def test_histories_of_one_owner_cannot_take_the_time_of_the_others() -> None:
    (source,) = find_sources([JSON])
    with HistoryReader(replace(LIMITS, owner_cpu_s=0.0)) as reader:
        reader.read(replace(source, owner=1))
        with pytest.raises(RefusedError, match="the histories of its owner took 0 s"):
            reader.read(replace(source, owner=1))
        assert len(reader.read(replace(source, owner=2)).runs) == 1
    with HistoryReader(replace(LIMITS, all_cpu_s=0.0)) as reader:
        reader.read(source)
        with pytest.raises(RefusedError, match="all histories together"):
            reader.read(replace(source, owner=2))


def test_a_bomb_is_found_by_its_expanded_size(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.zstd"
    bomb.write_bytes(zstandard.ZstdCompressor().compress(b"\n" * (UNPACKED_BYTES_MAX * 2)))
    assert bomb.stat().st_size * RATIO_MAX < UNPACKED_BYTES_MAX
    with pytest.raises(BrokenHistoryError, match=f"more than {RATIO_MAX} times"):
        read(bomb)


def test_folders_are_searched_so_deep_and_no_deeper(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(DEPTH_MAX + 2):
        deep /= "d"
    deep.mkdir(parents=True)
    shutil.copy(JSON, deep / "x.jhist")
    (source,) = find_sources([tmp_path])
    assert source.why == f"not searched: more than {DEPTH_MAX} folders deep"


def test_a_folder_of_more_than_may_be_read_says_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        shutil.copy(JSON, tmp_path / f"{number}.jhist")
    monkeypatch.setattr("treadle.history.reader.SOURCES_MAX", 3)
    *read_, last = find_sources([tmp_path])
    assert len(read_) == 3
    assert "more than 3 histories" in last.why
    monkeypatch.setattr("treadle.history.reader.ENTRIES_MAX", 2)
    assert "more than 2 files" in next(find_sources([tmp_path])).why


def test_a_pipe_that_is_named_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        list(find_sources([tmp_path / "pipe"]))
    with HistoryReader() as reader, pytest.raises(BrokenHistoryError, match="not a regular file"):
        reader.read(Source("jhist", "x", tmp_path / "pipe"))


def test_the_files_of_a_history_may_be_so_large_and_no_larger(tmp_path: Path) -> None:
    huge = tmp_path / "huge.jhist"
    huge.touch()
    os.truncate(huge, BYTES_MAX + 1)  # of holes alone
    with pytest.raises(BrokenHistoryError, match=f"larger than {BYTES_MAX} bytes"):
        read(huge)
    rolled = tmp_path / "eventlog_v2_application_1_1"
    rolled.mkdir()
    for part in (1, 2):
        file = rolled / f"events_{part}_application_1_1"
        file.touch()
        os.truncate(file, BYTES_MAX // 2 + 1)
    files = Files()
    files.open(rolled / "events_1_application_1_1").close()
    with pytest.raises(BrokenHistoryError, match="larger than"):
        files.open(rolled / "events_2_application_1_1")
