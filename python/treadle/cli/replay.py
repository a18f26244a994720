"""`treadle replay`: a recording decided again, by the same policy to the byte."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from treadle.cli._console import console_for_tables, say
from treadle.cli._jmx import JsonOption
from treadle.cli.record import TrustOption
from treadle.errors import UserError

app = typer.Typer()

EXIT_DIFFERENT: Final = 1


@app.command()
def replay(
    place: Annotated[Path, typer.Argument(metavar="REC", help="A segment, or a folder of segments.")],
    verify: Annotated[bool, typer.Option("--verify", help="Compare each answer with the recorded one.")] = False,
    trust_code: TrustOption = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Take no state from the recording: it is an image of tables, as code is."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Let the policy of a recording decide again, and compare it answer by answer, to the byte.

    The exit code is 1 if an answer is another, and 2 if the recording cannot be replayed.
    """
    from treadle.record.folder import segments
    from treadle.replay.verify import verify as verified

    if not verify:
        raise UserError("say what is to be done with the recording: --verify")
    verdict = verified(segments(place), trust_code=trust_code, fresh=fresh)
    if as_json:
        typer.echo(json.dumps(asdict(verdict) | {"same": verdict.same}, indent=2))
    else:
        console = console_for_tables()
        for note in verdict.notes:
            say(console, note, "yellow")
        counted = f"{verdict.segments} segments, {verdict.ticks} answers, {verdict.proposals} proposals in equal ones"
        if verdict.first is None:
            say(console, f"{counted}: all as recorded, to the byte")
        else:
            say(console, verdict.first.line(), "red")
            states = f", and {verdict.states_different} states" if verdict.states_different else ""
            say(console, f"{counted}: {verdict.different} answers{states} differ")
    if not verdict.same:
        raise typer.Exit(EXIT_DIFFERENT)
