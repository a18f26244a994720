"""`treadle replay` (Evaluate 3): verify a recording, or simulate other policies on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.cli._console import INTERRUPTED, console_for_tables, note, say, steps
from treadle.cli._options import Output, OutputOption, TrustOption, print_json
from treadle.errors import UserError

app = typer.Typer()

EXIT_DIFFERENT: Final = 1
"""The exit code where an answer is another, or where the model is not to be gone by."""


@app.command()
def replay(
    place: Annotated[
        Path | None, typer.Argument(metavar="REC", help="A segment, or a folder of segments.", show_default=False)
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare each answer with the recorded one.")] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="What would have happened under this treadle.yaml or ready-made policy; several times."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="With --policy: runs of each; each draws the tasks' times again.")
    ] = 3,
    history: Annotated[
        list[Path] | None,
        typer.Option(help="With --policy, in place of REC: MapReduce's .jhist files, Spark's event logs, or folders."),
    ] = None,
    cluster: Annotated[
        Path | None, typer.Option(help="With --history: a scenario that has the cluster, its queues and its AMs.")
    ] = None,
    trust_code: TrustOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let the policy of a recording decide again, and compare it answer by answer, to the byte (--verify).

    Or let others decide about the same jobs on a model of the cluster (--policy), or about jobs of which there are
    histories only (--history). The exit code is 1 if an answer is another, a segment is missing or was not replayed,
    the model is far off, jobs do not end in it or a history cannot be read, and 2 if nothing can be replayed.
    """
    from treadle.record.files import segments

    if policy and not all(name.strip() for name in policy):
        raise UserError("--policy: it is empty; name a treadle.yaml, or a ready-made policy (treadle policy list)")
    if history or cluster:
        if place is not None or verify or not history or cluster is None or not policy:
            raise UserError(
                "--history goes with --cluster SCENARIO and --policy, and without a recording: histories do not say "
                "what the cluster was"
            )
        from treadle.cli._what_if import what_if_of_histories

        _what_if(partial(what_if_of_histories, history, cluster, policy, seeds, trust_code=trust_code), output)
        return
    if place is None:
        raise UserError("name a recording, or --history and --cluster")
    if verify and policy:
        raise UserError(
            "--verify and --policy do not go together: --verify lets the recorded policy decide again, --policy another"
        )
    if not verify and not policy:
        raise UserError("give --verify to check the recording, or --policy to simulate another policy")
    if policy:
        from treadle.cli._what_if import what_if

        _what_if(partial(what_if, place, policy, seeds, trust_code=trust_code), output)
        return
    _verify(segments(place), trust_code=trust_code, output=output)


def _verify(files: Sequence[Path], *, trust_code: bool, output: Output) -> None:
    """Run the recorded policy again, and print how its answers compare."""
    from treadle.replay.verify import verify as verified

    with _under_way() as report:
        verdict = verified(files, trust_code=trust_code, report=report)
    if output is Output.JSON:
        print_json(asdict(verdict) | {"same": verdict.same})
    else:
        console = console_for_tables()
        for text in verdict.notes:
            note(text, "yellow")
        counted = f"{verdict.segments} segments, {verdict.ticks} answers, {verdict.proposals} proposals in equal ones"
        if verdict.first is None and verdict.form_only:
            replayed = f"{verdict.segments - verdict.form_only} of {verdict.segments} segments replayed"
            say(console, f"not verified: {replayed}; of the others only the form was checked, see above", "red")
        elif verdict.first is None and verdict.missing:
            say(console, f"{counted}: as recorded, to the byte, but not all is there; see above", "red")
        elif verdict.first is None and verdict.in_part:
            say(console, f"{counted}: as recorded, to the byte, as far as it can be read; see above", "yellow")
        elif verdict.first is None:
            say(console, f"{counted}: all as recorded, to the byte")
        else:
            say(console, verdict.first.line(), "red")
            say(console, f"{counted}: {verdict.different} answers differ")
    if not verdict.same or verdict.missing:
        raise typer.Exit(EXIT_DIFFERENT)


@contextmanager
def _under_way() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the progress on standard error; Ctrl-C is reported there too."""
    try:
        with steps("reading") as report:
            yield report
    except KeyboardInterrupt:
        note("stopped; there is no result", "red")
        raise typer.Exit(INTERRUPTED) from None


def _what_if(simulated: Callable[..., dict[str, Any]], output: Output) -> None:
    """Run simulations, which show their progress, and print their document."""
    from treadle.cli._what_if import failed, show
    from treadle.simulator.results import without_nan

    with _under_way() as report:
        document = simulated(report=report)
    if output is Output.JSON:
        print_json(without_nan(document))
    else:
        show(document, console_for_tables())
    if failed(document):
        raise typer.Exit(EXIT_DIFFERENT)
