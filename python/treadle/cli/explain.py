"""`treadle explain` (Cluster 6): show why an application waits."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.cli._console import console_for_tables, note, say
from treadle.cli._options import DEFAULT_RM, CaOption, ConfigOption, Output, OutputOption, RmOption, print_json
from treadle.dashboard.reading import ENDED, Reader
from treadle.errors import UserError, percent
from treadle.tables import empty_table
from treadle.yarn.codes import several
from treadle.yarn.pages import read_bean
from treadle.yarn.treadle_beans import why_not

app = typer.Typer()


class NoSidecarError(UserError):
    """No sidecar listens where it could be asked."""


EXIT_NEVER: Final = 1
"""The exit code if a request can be served only after a change of settings."""

UNIT_STATE: Final = Path("/var/lib/treadle")
"""The state folder of a sidecar whose systemd unit makes all other folders read-only."""

_WHOM_IT_TRUSTS: Final = (
    "this command trusts root, its own user and the user of `treadle install`; if another user runs the sidecar, run "
    "the command as that user"
)
_CREDENTIALS: Final = struct.Struct("3i")
_TIMEOUT_S: Final = 10.0
_ANSWER_BYTES_MAX: Final = 16 << 20
_NODES: Final = {
    "too_small": "too small",
    "unusable": "not usable now",
    "not_named": "not named by the request",
    "blacklisted": "blacklisted",
    "not_chosen": "not what it requires",
    "own_tags": "limited by its own tags",
    "rejected": "rejected recently",
    "reserved": "reserved for others",
    "full": "full",
    "headroom": "kept free for the largest request",
    "fits": "fits",
}


@app.command()
def explain(
    application: Annotated[str, typer.Argument(metavar="APP", help="YARN's id of an application, or the end of it.")],
    ask: Annotated[int | None, typer.Option(help="Explain this request key alone.")] = None,
    node: Annotated[str, typer.Option(help="Say why not on the node of this name.")] = "",
    config: ConfigOption = None,
    engine: Annotated[
        str, typer.Option(help="One of several engines; without it the one that serves the application.")
    ] = "",
    socket_: Annotated[
        Path | None, typer.Option("--socket", help="Where the sidecar is asked; its log names the place.")
    ] = None,
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Say why an application waits: the reasons for each of its requests, and what would let it start.

    Run it on the ResourceManager's host, as the sidecar's user or as root. The exit code is 1 if a request is never
    served unless a setting changes, and 2 if no engine answers. For an ended application it prints how it ended.
    """
    if socket_ is None:
        check_config(config)
    try:
        places = [socket_] if socket_ is not None else _places(config, rm, ca)
        named = {"engine": engine} if engine else {}
        answer = ask_sidecar(places, {"application": application, "ask": ask, "node": node} | named)
    except NoSidecarError as error:
        _show_yarn(application, rm, ca, output)
        raise UserError(why_none_answers(error, rm, ca)) from error
    if answer.get("unknown") and _show_yarn(application, rm, ca, output):
        return
    if "error" in answer:
        raise UserError(str(answer["error"]))
    if "note" in answer:
        note(str(answer["note"]))
    if socket_ is None and config is None and (reason := _why_not_now(rm, ca)):
        text = f"the CapacityScheduler places containers now: {reason}. What follows is what the engine would do"
        note(text)
    if output is Output.JSON:
        print_json(answer)
    else:
        _show(answer, ask)
    if any(each["verdict"] != "waiting" for each in answer["asks"]):
        raise typer.Exit(EXIT_NEVER)


def _why_not_now(rm: str, ca: Path | None) -> str:
    """Return why Treadle does not schedule, according to its ResourceManager; empty if it does, or that is unknown."""
    try:
        return why_not(read_bean(rm, ca))
    except UserError:
        return ""


def why_none_answers(error: NoSidecarError, rm: str, ca: Path | None) -> str:
    """Return why no engine answers, and the remedy: the ResourceManager's reason, else the places searched."""
    try:
        bean = read_bean(rm, ca)
    except UserError:
        return str(error)
    if bean.get("LeaseHeld") == 1:
        return str(error)
    reason = f"no engine runs that could be asked: {why_not(bean)}"
    if bean.get("Mode") == "off":
        return f"{reason}; set yarn.scheduler.treadle.mode, and run `yarn rmadmin -refreshQueues`"
    return f"{reason}; `treadle status` shows when one does"


def _show_yarn(given: str, rm: str, ca: Path | None, output: Output) -> bool:
    """Print YARN's state of an application that no engine explains; return whether it has ended, so waits no more.

    Raises:
        UserError: several applications match.
    """
    try:
        applications = Reader(rm, ca).find(given)
    except UserError:  # the caller's own message is more helpful
        return False
    if len(applications) > 1:
        raise UserError(several(given, [each["id"] for each in applications]))
    if not applications:
        return False
    (app,) = applications
    has_ended = app["state"] in ENDED
    if output is Output.JSON:
        print_json({"application": app["id"], "yarn": app, "asks": []})
        return has_ended
    console = console_for_tables()
    state = f"{app['state']}, final status {app['final_status']}" if has_ended else app["state"]
    say(console, f"{app['id']} ({app['name']}) of {app['user']} in {app['queue']}: {state}")
    say(console, "YARN's diagnostics (not Treadle's):")
    for line in app["diagnostics"].splitlines() or ["none"]:
        say(console, f"  {line}")
    return has_ended


def check_config(config: Path | None) -> None:
    """Refuse a missing treadle.yaml.

    Raises:
        UserError: it is missing.
    """
    if config is not None and not config.is_file():
        raise UserError(f"--config {config} is not there; name the treadle.yaml that the sidecar was started with")


def _places(config: Path | None, rm: str, ca: Path | None) -> list[Path]:
    """Return where a sidecar may have its socket, the likeliest first.

    Raises:
        NoSidecarError: the ResourceManager names no treadle.yaml, so that no sidecar has a socket.
        UserError: the ResourceManager does not answer.
    """
    from treadle.admin.policy_use import configured_file

    if config is not None:
        return state_places(config)
    try:
        return state_places(configured_file(rm, ca))
    except UserError as error:
        if error.__cause__ is None:  # it answers, and names none
            raise NoSidecarError(str(error)) from error
        raise UserError(f"{error}; or name the engine's treadle.yaml with --config") from error


def state_places(config: Path) -> list[Path]:
    """Return the possible sockets of a sidecar: next to its treadle.yaml, or in its unit's state folder."""
    from treadle.config.trust import EXPLAIN_SOCKET, state_folders

    return [folder / EXPLAIN_SOCKET for folder in state_folders(config, "", [str(UNIT_STATE)])]


def ask_sidecar(places: list[Path], question: dict[str, Any]) -> dict[str, Any]:
    """Ask the first sidecar that answers.

    Raises:
        NoSidecarError: none listens there.
        UserError: one listens, and does not answer; or another user could have put the socket there.
    """
    from treadle.admin.plan import sidecar_users

    users = sidecar_users()
    problem = f"{places[0]}: No such file or directory"
    for place in places:
        try:
            _refuse_folder(place, users)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
                connected.settimeout(_TIMEOUT_S)
                connected.connect(str(place))
                _refuse_peer(connected, place, users)
                connected.sendall(json.dumps(question).encode() + b"\n")
                with connected.makefile("rb") as stream:
                    line = stream.readline(_ANSWER_BYTES_MAX)
            if not line:
                raise ConnectionResetError
            return dict(json.loads(line))
        except FileNotFoundError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            problem = f"{place}: the sidecar has ended before it answered, or does not answer this user"
        except BlockingIOError as error:  # as many wait for it as may
            raise UserError(f"{place}: too many ask the sidecar at once; ask again") from error
        except TimeoutError as error:
            timeout_text = f"{place}: the sidecar has not answered within {_TIMEOUT_S:g} s"
            raise UserError(f"{timeout_text}: it answers others, or its host is too busy; ask again") from error
        except ConnectionRefusedError:
            problem = f"{place}: the sidecar that opened it has ended"
        except (OSError, ValueError, TypeError, RecursionError) as error:
            problem = f"{place}: {error}"
    raise NoSidecarError(
        f"no sidecar can be asked: {problem}; run this on the ResourceManager's host as the sidecar's user or as root. "
        "The sidecar's log says where it is asked (--socket)"
    )


def ask_sidecar_of(rm: str, ca: Path | None, question: dict[str, Any], config: Path | None = None) -> dict[str, Any]:
    """Ask the sidecar of a ResourceManager, which names its treadle.yaml unless ``config`` does.

    Raises:
        UserError: none answers, and why.
    """
    from treadle.admin.policy_use import configured_file

    places = state_places(configured_file(rm, ca) if config is None else config)
    try:
        return ask_sidecar(places, question)
    except NoSidecarError as error:
        raise UserError(why_none_answers(error, rm, ca)) from error


def _refuse_folder(place: Path, users: Collection[int]) -> None:
    from treadle.config.trust import reason_against

    reason = reason_against(place.parent, users)
    if reason:
        raise UserError(f"{place} is not asked: {reason}; {_WHOM_IT_TRUSTS}")


def _refuse_peer(connected: socket.socket, place: Path, users: Collection[int]) -> None:
    from treadle.config.trust import user_name

    peer = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1]
    if peer not in users:
        raise UserError(f"{place} is not asked: {user_name(peer)} listens there; {_WHOM_IT_TRUSTS}")


def _place(facts: dict[str, Any]) -> str:
    """Return an application's position in its queue."""
    ahead, among, order = facts["ahead_in_queue"], facts["asking_in_queue"], facts["order"]
    higher = facts.get("with_higher_priority", 0)
    by = f"order {order}" + (f"; {higher} of them first for their priority" if higher else "")
    if ahead is None:
        return f"{among} applications of its queue ask ({by})"
    return f"{ahead} of {among} applications of its queue are before it ({by})"


def _show(answer: dict[str, Any], ask: int | None) -> None:
    """Print an explanation as text and tables, of one request key if it was named."""
    console, facts = console_for_tables(), answer["facts"]
    say(
        console,
        f"{answer['application']} ({answer['name']}) of {answer['user']} in {answer['queue']}: {answer['state']}",
    )
    counts = f"{facts['containers']} containers, {facts['asked_for']} asked for, {facts['proposed']} proposed"
    say(console, f"{counts}; {_place(facts)}")
    if "used_share" in facts:
        text = (
            f"the queue uses {percent(facts['used_share'])} of its partition, of "
            f"{percent(facts['guaranteed_share'])} guaranteed"
        )
        one = ", so that applications of all queues are in one order" if facts["share"] == "none" else ""
        say(console, f"{text} (share {facts['share']}{one})")
    for line in answer.get("stalled", ()):
        say(console, line)
    if facts.get("served"):
        served = ", ".join(f"{count} to {queue}" for queue, count in facts["served"].items())
        say(console, f"containers that the latest decision gave: {served}")
    if answer["rejected"]:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count}" for reason, count in answer["rejected"].items())
        say(console, f"rejected by the ResourceManager so far: {reasons}")
    if not answer["asks"]:
        say(console, "it asks for nothing now" + ("" if ask is None else f" under the request key {ask}"))
    for each in answer["asks"]:
        wanted = ", ".join(f"{value} {name}" for name, value in each["capability"].items())
        label = f", label {each['partition']}" if each["partition"] else ""
        title = f"request {each['key']}: {each['count']} x {wanted}, priority {each['priority']}{label}"
        table = empty_table(title, ("verdict", "why"))
        for cause in each["causes"]:
            table.add_row(cause["verdict"], cause["text"])
        console.print(table)
        nodes = ", ".join(f"{count} {_NODES.get(reason, reason)}" for reason, count in each["nodes"].items())
        say(console, f"nodes: {nodes or 'none'}")
        if each["ways"]:
            say(console, "what would let it start:")
        for way in each["ways"]:
            say(console, f"  {way['text']}")
        if each["node"]:
            say(console, each["node"])
    if answer["left_out"]:
        say(console, f"{answer['left_out']} more requests are left out; name one with --ask")
