"""One target of the fuzzer: `python -m tests.campaign.fuzz_target NAME [MUTANT] -- FUZZER'S ARGUMENTS`.

Each takes bytes and hands them to a parser of ours. What the parser says of bytes that are not its own, it says with
its own kind of error; anything else ends the fuzzer with an artifact.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.campaign.fuzz_seeds import GOLDEN

from treadle.am import protocol
from treadle.am.protocol import MessageError
from treadle.am.registries import read_stage_report
from treadle.config.reader import parse_settings
from treadle.errors import ConfigError, UserError
from treadle.history.outcome import Source
from treadle.history.reader import read_source
from treadle.policy.catalogue import register_parts
from treadle.wire import frames as decoder
from treadle.wire.answer import decode_answer
from treadle.wire.frames import WireError

Target = Callable[[bytes], None]


def frame(content: bytes) -> None:
    """A frame after a good snapshot."""
    told = decoder.FrameDecoder()
    told.decode((GOLDEN / "frame-snapshot.bin").read_bytes())
    try:
        told.decode(content)
    except WireError:
        return


def answer(content: bytes) -> None:
    """A proposal frame."""
    try:
        decode_answer(content, rows_max=4096)
    except WireError:
        return


def plan(content: bytes) -> None:
    """What strangers may say to the plan listener: a header and bodies of all kinds."""
    # the listener takes this many bytes of a header, no less
    header = content[: protocol.REQUEST.size].ljust(protocol.REQUEST.size, b"\0")
    for read, body in (
        (protocol.read_header, header),
        (protocol.read_plan_request, content),
        (protocol.read_report, content),
        (read_stage_report, content),
    ):
        try:
            read(body)
        except MessageError:
            continue


def settings(content: bytes) -> None:
    """A treadle.yaml; parts of one's own are not looked for."""
    try:
        parse_settings("treadle.yaml", content.decode("utf-8", "replace"), kept={})
    except (ConfigError, UserError):
        return


def history(content: bytes) -> None:
    """A history; an importer names whatever exception a file leads to, so that only a hang or a death is a defect."""
    with tempfile.NamedTemporaryFile(prefix="fuzz", dir="/dev/shm") as file:
        file.write(content)
        file.flush()
        for kind in ("jhist", "spark", "tez"):
            try:
                read_source(Source(kind, "fuzz", Path(file.name)))
            except Exception:
                continue


TARGETS: dict[str, Target] = {each.__name__: each for each in (frame, answer, plan, settings, history)}
_kept: list[bytes] = []


def raises_wrongly(target: Target) -> Target:
    """A planted defect: a value out of its bounds is reported by an error of the wrong kind."""
    patched: Any = decoder
    patched._wrong_value = lambda *_: IndexError("planted")
    return target


def hangs(target: Target) -> Target:
    """A planted defect: one answer in many is read for ever."""

    def planted(content: bytes) -> None:
        while content[:1] == b"\xff":
            time.sleep(0.1)
        target(content)

    return planted


def grows(target: Target) -> Target:
    """A planted defect: everything read is kept."""

    def planted(content: bytes) -> None:
        _kept.append(bytes(65536))
        target(content)

    return planted


MUTANTS: dict[str, Callable[[Target], Target]] = {each.__name__: each for each in (raises_wrongly, hangs, grows)}


def main() -> None:
    """Fuzz until the arguments say that it is enough."""
    import atheris

    at = sys.argv.index("--")
    name, *mutant = sys.argv[1:at]
    for part in ("treadle.wire.", "treadle.am.", "treadle.config.", "treadle.history."):
        for module in [each for each in sys.modules if each.startswith(part)]:
            for value in list(vars(sys.modules[module]).values()):
                if callable(value) and getattr(value, "__module__", "") == module and hasattr(value, "__code__"):
                    setattr(sys.modules[module], value.__name__, atheris.instrument_func(value))
    register_parts()
    target = TARGETS[name]
    atheris.Setup([sys.argv[0], *sys.argv[at + 1 :]], MUTANTS[mutant[0]](target) if mutant else target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
