"""The sidecar process: start, ready, serve, end.

Managed: a child of the ResourceManager, which gets its secret through standard input, whose end means that the
ResourceManager is gone. External: started independently, found through a file. Standard output is for the
ResourceManager alone; output of libraries goes to standard error, where the log is.
"""

from __future__ import annotations

import gc
import getpass
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Final

from treadle import __version__
from treadle.compiled.cache_folder import KernelCache, may_write_here, reason_against_chosen
from treadle.config.reader import read_roster, read_section
from treadle.config.settings import Kernels
from treadle.errors import ConfigError, Problem, UserError
from treadle.live.handshake import ConnectionFile, Greeting, new_secret, read_greeting, say
from treadle.live.question_socket import Close, close_all
from treadle.processes import log_to_stderr, prefer_oom_kill, relaxed_gc, shorten

_log = logging.getLogger(__name__)

EXIT_MISTAKE: Final = 2
"""Exit code for errors that the user must fix: settings, arguments."""

EXIT_FAILED: Final = 1

_REMEDY: Final = "name a folder of this user in treadle.yaml (kernels.folder)"

Decide = Callable[[bytes, int], bytes]
"""Answers a frame with at most this many bytes."""


def run_managed(config: Path | None) -> int:
    """Serve the ResourceManager that started this process, and end with it. Returns an exit code on failure only."""
    log_to_stderr()
    Thread(target=_keep_log_short, name="log", daemon=True).start()
    prefer_oom_kill()
    stdin, out = sys.stdin.buffer, _take_stdout()
    cache: KernelCache | None = None
    try:
        cache = kernel_cache(config)
        greeting = read_greeting(stdin)
        closing: list[Close] = []
        # From here on: the end of standard input is the end of the process, however busy it is.
        Thread(target=_end_with, args=(stdin.fileno(), cache, closing), name="stdin", daemon=True).start()
        port, ended = _start(greeting, config, closing)
        signal.signal(signal.SIGTERM, lambda *_: _end_by_signal(cache, closing))
        say(out, ready=True, port=port, pid=os.getpid(), version=__version__)
    except UserError as error:
        line = "; ".join(str(error).splitlines())
        _log.error("%s", line)
        say(out, error=line)
        return EXIT_MISTAKE
    except Exception as error:
        _log.exception("the sidecar cannot start")
        say(out, error=f"the sidecar cannot start: {type(error).__name__}: {error}".partition("\n")[0])
        return EXIT_FAILED
    else:
        return ended.get()
    finally:
        if cache is not None:
            cache.remove()


def run_external(connection_file: Path, config: Path | None, group: str | None = None) -> int:
    """Serve clients that can read the connection file, until a signal; returns an exit code.

    ``group`` may read it in addition to this process's user.

    Raises:
        HandshakeError: the connection file cannot be written.
        ConfigError: the settings are wrong.
    """
    log_to_stderr()
    prefer_oom_kill()
    secret = new_secret()
    file, cache = ConnectionFile(connection_file, group), kernel_cache(config)
    file.remove_stale()
    closing: list[Close] = []
    try:
        port, ended = _start(Greeting(secret=secret), config, closing)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: ended.put(0))
        file.write(port, secret)
        _log.info("ready: process %d listens on port %d, see %s", os.getpid(), port, connection_file)
        return ended.get()
    finally:
        close_all(closing, "the sidecar was ended")
        file.remove()
        cache.remove()


def run_warm_up(config: Path | None) -> int:
    """Compile the engine's kernels, so that the next start is quick; returns an exit code.

    Raises:
        ConfigError: the settings are wrong.
    """
    log_to_stderr()
    cache = kernel_cache(config)
    from treadle.compiled.functions import cache_folder
    from treadle.live.live_settings import read_live_settings
    from treadle.live.policies import warm_up, without_file_parts
    from treadle.planner.graphene import warm_up as warm_up_plans

    if cache.why_private:
        cache.remove()
        raise UserError(f"compiled code cannot be kept: {cache.why_private}; {_REMEDY}")
    settings = without_file_parts(read_live_settings(config))
    with loading():
        warm_up(settings)
        if settings.plans.schedules:
            warm_up_plans()
    _log.info("compiled code is kept in %s, for %s", cache_folder(), getpass.getuser())
    return 0


def kernel_cache(config: Path | None) -> KernelCache:
    """Return where this process's compiled kernels are; numba must not have been imported yet.

    Raises:
        ConfigError: the folder that the settings choose is not one to use.
        UserError: there is no folder at all.
    """
    chosen = ""
    try:
        chosen = "" if config is None else read_section(config, "kernels", Kernels).folder
    except ConfigError as error:  # reported by the caller that reads all of it
        _log.debug("%s", error)
    if chosen:
        reason = reason_against_chosen(Path(chosen), os.geteuid(), may_write_here)
        if reason:
            raise ConfigError(str(config), [Problem(0, "kernels.folder", reason)])
    cache = KernelCache(chosen)
    if cache.why_private:
        _log.warning("this start compiles, and so does each: %s; %s", cache.why_private, _REMEDY)
    return cache


@contextmanager
def loading() -> Iterator[None]:
    """Make garbage collections rare inside, and exempt all objects that exist at the end from later ones.

    Collections would take a fifth of a start, and later a tenth of a second of one decision in many.
    """
    with relaxed_gc():
        yield
        gc.freeze()


def _start(greeting: Greeting, config: Path | None, closing: list[Close]) -> tuple[int, SimpleQueue[int]]:
    """Serve from now on; return the port, and the queue whose first element is the exit code of the process."""
    decide = _deciding(config, closing)
    # Imported late: a wrong greeting should be reported at once.
    from treadle.live.server import LoopbackServer

    ended: SimpleQueue[int] = SimpleQueue()  # signal handlers may put into it
    server = LoopbackServer(bytes.fromhex(greeting.secret), decide, on_failure=lambda: ended.put(EXIT_FAILED))
    server.start()
    return server.port, ended


@loading()
def _deciding(config: Path | None, closing: list[Close]) -> Decide:
    """Return the decider: the one engine, or a hub with a process for each engine of the file."""
    roster = () if config is None else read_roster(config)
    if config is not None and roster:
        from treadle.live.engines import open_hub

        return open_hub(config, roster, closing).decide
    _log.info("loading the engine")
    from treadle.live.policies import open_session

    return open_session(config, closing).decide


def _take_stdout() -> IO[str]:
    """Return standard output for lines to the ResourceManager; all other output goes to the log from now on."""
    sys.stdout.flush()
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _end_with(stdin: int, cache: KernelCache, closing: Sequence[Close]) -> None:
    # No data follow the greeting. Read from the descriptor: a thread that waits in a buffered reader
    # holds its lock, and with that Python cannot exit for another reason.
    while os.read(stdin, 4096):
        continue
    _log.info("the ResourceManager is gone")
    close_all(closing, "the ResourceManager is gone")
    cache.remove()
    logging.shutdown()
    os._exit(0)


def _end_by_signal(cache: KernelCache, closing: Sequence[Close]) -> None:
    """End as SIGTERM ends a process, which the shim distinguishes from other ends."""
    close_all(closing, "the sidecar was ended by SIGTERM")
    cache.remove()
    logging.shutdown()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _keep_log_short() -> None:
    """The ResourceManager opens the log and has nothing more to do with it."""
    while True:
        shorten(2)
        time.sleep(1)
