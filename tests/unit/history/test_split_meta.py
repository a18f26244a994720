"""job.splitmetainfo as Hadoop writes it."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from treadle.history.splits import BYTES_MAX, HEADER, HOSTS_KEPT, Split, SplitMetaError, open_staged, read_splits


def vlong(value: int) -> bytes:
    """Write a number as `WritableUtils.writeVLong` does."""
    if -112 <= value <= 127:
        return value.to_bytes(1, signed=True)
    first, rest = (-112, value) if value >= 0 else (-120, ~value)
    size = max(1, (rest.bit_length() + 7) // 8)
    return (first - size).to_bytes(1, signed=True) + rest.to_bytes(size)


def content(*splits: Split) -> bytes:
    """Write a file as `JobSplitWriter` does."""
    made = HEADER + vlong(1) + vlong(len(splits))
    for number, split in enumerate(splits):
        made += vlong(len(split.hosts)) + b"".join(vlong(len(host)) + host.encode() for host in split.hosts)
        made += vlong(number << 27) + vlong(split.bytes)
    return made


SPLITS = [Split(1 << 27, ("a.example", "b.example")), Split(200, ("c" * 200,)), Split(7), Split(0)]


JOB = "application_17_0004"


def read(made: bytes) -> list[Split]:
    return read_splits(io.BytesIO(made))


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ann runs the tests; bob is somebody else."""
    numbers = {"ann": os.geteuid(), "bob": os.geteuid() + 1}
    monkeypatch.setattr("treadle.history.splits.uid_of", numbers.get)


@pytest.fixture
def staging(tmp_path: Path) -> str:
    return f"{tmp_path}/{{user}}/.staging"


def staged(tmp_path: Path, user: str = "ann") -> Path:
    """Return where a user's client leaves the splits of the job."""
    folder = tmp_path / user / ".staging" / "job_17_0004"
    folder.mkdir(parents=True)
    return folder / "job.splitmetainfo"


def test_what_was_written_is_read(tmp_path: Path, staging: str) -> None:
    staged(tmp_path).write_bytes(content(*SPLITS))
    with open_staged(staging, "ann", JOB) as stream:
        assert read_splits(stream) == SPLITS


def test_a_file_that_hadoop_wrote() -> None:
    # the first four maps of a SleepJob of 24 as Hadoop 3.4.2 wrote them: no hosts, and no bytes
    assert read(HEADER + bytes.fromhex("01 04 000700 003700 006700 008f9700")) == [Split(0)] * 4


@pytest.mark.parametrize(
    "wrong",
    [
        *(content(*SPLITS)[:cut] for cut in (0, 4, 8, 9, 10, 11, 30)),
        *(HEADER + numbers + bytes(3) for numbers in (vlong(2), vlong(1) + vlong(10**6), vlong(1) + vlong(-1))),
    ],
)
def test_a_file_that_is_cut_off_or_of_another_version_or_has_impossible_counts_is_refused(wrong: bytes) -> None:
    with pytest.raises(SplitMetaError):
        read(wrong)


def test_nobody_waits_for_a_pipe_in_place_of_the_file(tmp_path: Path, staging: str) -> None:
    os.mkfifo(staged(tmp_path))
    with pytest.raises(SplitMetaError, match="no regular file"):
        open_staged(staging, "ann", JOB)


def test_a_file_may_be_so_large_and_no_larger() -> None:
    with pytest.raises(SplitMetaError, match=f"more than {BYTES_MAX} bytes"):
        read(content(*SPLITS) + bytes(BYTES_MAX))


def test_of_a_split_so_many_hosts_are_kept() -> None:
    hosts = tuple(f"host-{at}" for at in range(15))
    assert read(content(Split(7, hosts), Split(8, hosts))) == [Split(size, hosts[:HOSTS_KEPT]) for size in (7, 8)]
    with pytest.raises(SplitMetaError, match="1001 hosts"):
        read(content(Split(7, ("x",) * 1001)))


def test_the_file_must_be_the_user_s(tmp_path: Path, staging: str) -> None:
    staged(tmp_path, "bob").write_bytes(content(*SPLITS))
    with pytest.raises(SplitMetaError, match="which is not bob"):
        open_staged(staging, "bob", JOB)
    staged(tmp_path, "carol").write_bytes(content(*SPLITS))
    with pytest.raises(SplitMetaError, match="which is not carol"):
        open_staged(staging, "carol", JOB)


def test_a_file_that_every_user_may_write_is_refused(tmp_path: Path, staging: str) -> None:
    file = staged(tmp_path)
    file.write_bytes(content(*SPLITS))
    file.chmod(0o666)
    with pytest.raises(SplitMetaError, match="every user may write it"):
        open_staged(staging, "ann", JOB)


@pytest.mark.parametrize("link", ["ann", "ann/.staging", "ann/.staging/job_17_0004", "file"])
def test_no_link_is_followed_below_what_the_administrator_named(tmp_path: Path, link: str) -> None:
    real = tmp_path / "real"
    real.mkdir()
    staged(real).write_bytes(content(*SPLITS))
    shown = tmp_path / "shown"
    link = "ann/.staging/job_17_0004/job.splitmetainfo" if link == "file" else link
    (shown / link).parent.mkdir(parents=True)
    (shown / link).symlink_to(real / link)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_staged(f"{shown}/{{user}}/.staging", "ann", JOB)
    # what the administrator named may be one
    (tmp_path / "mount").symlink_to(real)
    open_staged(f"{tmp_path}/mount/{{user}}/.staging", "ann", JOB).close()


@pytest.mark.parametrize("user", ["", ".", "..", "a/b", "a\0b", "a\nb", "\ud800"])
def test_a_name_that_no_folder_can_have_is_refused(staging: str, user: str) -> None:
    with pytest.raises(SplitMetaError, match="no folder can have the user's name"):
        open_staged(staging, user, JOB)
