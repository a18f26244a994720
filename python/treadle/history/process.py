"""The process that reads histories for another one, which isolates it from hostile files.

Standard input has requests, one history per line of JSON; standard output has answers in parts: four bytes with the
length, and JSON. `reader` is the other side. Memory and CPU time are limited, and it may write no file.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from treadle.errors import UserError
from treadle.history.documents import profile_json, run_json
from treadle.history.outcome import BrokenHistoryError, Files, Source, UnfinishedError
from treadle.history.reader import HEADER, read_source
from treadle.processes import LEAST, lower_priority, peak_memory_mb

TEXT_MAX: Final = 2_000
"""Maximum length of a reason."""


def main(memory_mb: int, cpu_s: int) -> None:
    """Serve until standard input ends."""
    confine(memory_mb)
    output = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        used = resource.getrusage(resource.RUSAGE_SELF)
        began_s = used.ru_utime + used.ru_stime
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(began_s) + 1 + cpu_s, hard))
        source = Source(request["kind"], request["name"], Path(request["path"]))
        end, again = _serve(source, output, memory_mb)
        used = resource.getrusage(resource.RUSAGE_SELF)
        # a large history must not reduce the next one's memory
        again = again and peak_memory_mb() < memory_mb / 4
        _send(output, {"end": end, "again": again, "cpu_s": used.ru_utime + used.ru_stime - began_s})
        output.flush()
        if not again:
            return


def confine(memory_mb: int) -> None:
    """Drop the rights that reading does not need."""
    lower_priority(LEAST)
    resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))  # of standard error's content
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def _serve(source: Source, output: BinaryIO, memory_mb: int) -> tuple[dict[str, Any], bool]:
    """Read one history and send its content; return the result, and whether this process can read another one."""
    files = Files()
    try:
        content = read_source(source, files)
        for run in content.runs:
            _send(output, {"run": run_json(run)})
        for profile in content.profiles:
            _send(output, {"profile": profile_json(profile)})
        for why in content.left_out:
            _send(output, {"left_out": why[:TEXT_MAX]})
    except MemoryError:
        return {"broken": f"reading it takes more than {memory_mb} MiB of memory"}, False
    except UnfinishedError as why:
        return {"unfinished": str(why)[:TEXT_MAX]}, True
    except UserError as error:
        return {"missing": str(error)[:TEXT_MAX]}, True
    except Exception as error:  # whatever exception a hostile file causes: report it and continue the import
        return {"broken": _reason(error)}, True
    return {"owners": [[owner, name] for owner, name in files.owners.items()], "open_to_all": files.open_to_all}, True


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error)[:TEXT_MAX]
    return text if isinstance(error, BrokenHistoryError) else f"{type(error).__name__}: {text}"


def _send(output: BinaryIO, part: dict[str, Any]) -> None:
    content = json.dumps(part, separators=(",", ":")).encode()
    output.write(HEADER.pack(len(content)) + content)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
