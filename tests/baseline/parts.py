"""The parts of a baseline: what is run for each, and into which files it goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.baseline.outputs import printed_by, results_of
from tests.baseline.recording import explanations, proposals, record
from tests.support.doctor import write_site
from tests.support.google_extract import write_extract

from treadle.admin.plan import CLASS
from treadle.cli import main
from treadle_lab.fairness.algorithms import ALGORITHMS

ROOT: Final = Path(__file__).resolve().parents[2]
SCENARIOS: Final = Path(__file__).parent / "scenarios"
ENGINES: Final = Path(__file__).parent / "engines"
"""Scenarios with several engines, which name their policies themselves."""
RECORDED: Final = SCENARIOS / "map-reduce.yaml"
PLANNED: Final = SCENARIOS / "tez-narrow.yaml"
"""What `graphene` is recorded on: a DAG without plans would not show what it does."""

GENERATED: Final = ("lab", "dags", "--seed", "1..3", "--stages", "12..16", "--tasks", "80..200")
HASH: Final = re.compile(r"\b[0-9a-f]{16}\b")
"""Of the code that decides: another one for the same behaviour."""
EXPLAINED: Final = "capacity"
"""The policy whose recording the others decide on too, to be explained."""
DOCTOR: Final = ("installation", "settings", "features", "jar", "owners", "connection")
"""The checks that find the same on each machine."""
MEASURED: Final = ("capacity", "hdrf", "slearn")
"""The policies whose speed is measured."""


@dataclass(frozen=True, slots=True)
class Output:
    """One file of a baseline.

    Attributes:
        name: its path in the baseline's folder.
        make: returns its text; is given a folder for what is needed meanwhile.
        compared: False: it is shown beside the kept one and need not be equal.
        given: True: the kept file is an input of others and is not made again.
    """

    name: str
    make: Callable[[Path], str]
    compared: bool = True
    given: bool = False


def policies() -> dict[str, Path]:
    """Return the ready-made policies by name."""
    return {file.stem: file for file in sorted((ROOT / "conf" / "policies").glob("*.yaml"))}


def _printed(command: tuple[str, ...], _: Path) -> str:
    return printed_by(command)


def _results(name: str, *command: str) -> Output:
    return Output(name, partial(results_of, command))


def _share(_: Path) -> Iterator[Output]:
    for tree in sorted((ROOT / "docs" / "examples" / "share").glob("*.yaml")):
        for algorithm in ALGORITHMS:
            command = ("lab", "share", str(tree), "--algorithm", algorithm)
            yield Output(f"share/{tree.stem}-{algorithm}.txt", partial(_printed, command))
            yield Output(f"share/{tree.stem}-{algorithm}.json", partial(_printed, (*command, "--output=json")))


def _simulate(_: Path) -> Iterator[Output]:
    for scenario in sorted(SCENARIOS.glob("*.yaml")):
        for name, policy in policies().items():
            yield _results(f"simulate/{scenario.stem}-{name}.json", "simulate", str(scenario), "--policy", str(policy))
    example = ROOT / "docs" / "examples" / "simulate" / "two-engines.yaml"
    for scenario in (*sorted(ENGINES.glob("*.yaml")), example):
        yield _results(f"simulate/engines-{scenario.stem}.json", "simulate", str(scenario))


def _plan(_: Path) -> Iterator[Output]:
    dags = ROOT / "tests" / "data" / "dags"
    yield Output("plan/generated.jsonl", partial(_printed, GENERATED))
    yield Output("plan/generated.json", _planned)
    budget = ("--budget-schedules", "200")
    for file in sorted(dags.glob("*.jsonl")):
        for seed in ("1", "7"):
            options = ("--algorithm", "all", *budget, "--seed", seed)
            yield _results(f"plan/{file.stem}-{seed}.json", "lab", "plan", str(file), *options)
    exact = ("--algorithm", "cpsat", "--budget-ms", "60000")
    yield _results("plan/cpsat.json", "lab", "plan", str(dags / "motivating.jsonl"), *exact)
    projects = str(ROOT / "tests" / "data" / "rcpsp" / "small.jsonl")
    yield _results("plan/projects.json", "lab", "plan", projects, "--format", "psplib", "--algorithm", "all", *budget)


def _planned(scratch: Path) -> str:
    """Return the plans of the DAGs that `GENERATED` makes."""
    file = scratch / "generated.jsonl"
    made = printed_by((*GENERATED, "--out", str(file)))
    planned = results_of(("lab", "plan", str(file), "--budget-schedules", "100", "--algorithm", "all"), scratch)
    return made.partition("\n")[0] + "\n" + planned


def _reproduce(_: Path) -> Iterator[Output]:
    yield _results("reproduce/graphene.json", "lab", "reproduce", "graphene", "--generated", "--quick", "--jobs", "6")
    for name, options in {"": (), "-model": ("--model",), "-dags": ("--dags", "--model", "--jobs", "30")}.items():
        yield Output(f"reproduce/slearn{name}.json", partial(_slearn, options))

    yield _results("reproduce/omega.json", "lab", "reproduce", "omega", "--quick", "--figure", "14", "--seeds", "1")
    yield _results(
        "reproduce/omega-mapreduce.json", "lab", "reproduce", "omega", "--quick", "--figure", "15", "--seeds", "1"
    )
    phoenix = ("--quick", "--seeds", "1", "--step", "200")
    yield _results("reproduce/phoenix.json", "lab", "reproduce", "phoenix", *phoenix)
    hdrf = ("--section", "5.2", "--seeds", "1", "--processes", "1")
    yield _results("reproduce/hdrf.json", "lab", "reproduce", "hdrf", *hdrf)


def _slearn(options: tuple[str, ...], scratch: Path) -> str:
    sizes = ("--jobs", "40", "--nodes", "10")
    extract = write_extract(scratch)
    return results_of(("lab", "reproduce", "slearn", "--quick", "--trace", str(extract), *sizes, *options), scratch)


def _engine(kept: Path) -> Iterator[Output]:
    for name, policy in policies().items():
        recording = f"engine/{name}.events.jsonl"
        scenario = PLANNED if name == "graphene" else RECORDED
        yield Output(recording, partial(_recorded, scenario, policy), given=True)
        yield Output(f"engine/{name}.proposals.jsonl", partial(_proposed, kept / recording, policy))


def _recorded(scenario: Path, policy: Path, _: Path) -> str:
    return record(scenario, policy)


def _proposed(recording: Path, policy: Path, _: Path) -> str:
    return proposals(recording.read_text("utf-8"), policy)


def _sessions(_: Path) -> Iterator[Output]:
    for recording in sorted((ROOT / "tests" / "data" / "recordings").iterdir()):
        yield Output(f"sessions/{recording.name}.txt", partial(_session, ("replay", str(recording), "--verify")))


def _session(command: tuple[str, ...], _: Path) -> str:
    """Let a live session decide on recorded frames, and return what differs from recorded answers."""
    return HASH.sub("HASH", printed_by(command))


def _explain(kept: Path) -> Iterator[Output]:
    for name, policy in policies().items():
        yield Output(f"explain/{name}.jsonl", partial(_explained, kept / f"engine/{EXPLAINED}.events.jsonl", policy))


def _explained(recording: Path, policy: Path, _: Path) -> str:
    return explanations(recording.read_text("utf-8"), policy)


def _doctor(_: Path) -> Iterator[Output]:
    yield Output("doctor/stock.json", partial(_examined, {}))
    installed = {"yarn.resourcemanager.scheduler.class": CLASS, "yarn.scheduler.treadle.mode": "enforce"}
    yield Output("doctor/installed.json", partial(_examined, installed))


def _examined(properties: Mapping[str, str], scratch: Path) -> str:
    conf = scratch / "conf"
    conf.mkdir()
    write_site(conf, dict(properties))
    only = [word for check in DOCTOR for word in ("--only", check)]
    places = ("--hadoop-conf", str(conf), "--prefix", str(scratch / "opt"))
    return printed_by(("doctor", "--pre", "--output=json", *only, *places))


def _help(_: Path) -> Iterator[Output]:
    for words in ((), *commands()):
        yield Output(f"help/{'-'.join(('treadle', *words))}.txt", partial(_printed, (*words, "--help")))


def commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command and each group of commands."""
    for package, folder in main.sources().items():
        for name in main.commands(folder):
            yield (name,)
            group = folder / name.replace("-", "_")
            if group.is_dir():
                yield from ((name, inner) for inner in main.commands(group))
            else:
                app = import_module(f"{package}.{name.replace('-', '_')}").app
                inner = app.registered_commands if app.registered_callback or len(app.registered_commands) > 1 else []
                yield from ((name, each.name or each.callback.__name__.replace("_", "-")) for each in inner)


def _speed(_: Path) -> Iterator[Output]:
    measured = [word for name in MEASURED for word in ("--policy", str(policies()[name]))]
    for name, options in {"engine": measured, "simulator": []}.items():
        yield Output(
            f"speed/{name}.json", partial(_measured, ("lab", "bench", name, "--quick", *options)), compared=False
        )


def _measured(command: tuple[str, ...], scratch: Path) -> str:
    file = scratch / "speed.json"
    printed = printed_by((*command, "--out", str(file)))
    return file.read_text("utf-8") if file.exists() else printed


PARTS: Final[Mapping[str, Callable[[Path], Iterator[Output]]]] = {
    "help": _help,
    "doctor": _doctor,
    "share": _share,
    "plan": _plan,
    "sessions": _sessions,
    "engine": _engine,
    "explain": _explain,
    "simulate": _simulate,
    "reproduce": _reproduce,
    "speed": _speed,
}
"""By name, the fast ones first. Each is given the folder of the baseline."""
