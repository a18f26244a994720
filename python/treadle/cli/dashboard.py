"""`treadle dashboard` (Cluster 8): serve web pages and metrics of a cluster."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.cli._options import DEFAULT_RM, CaOption, ConfigOption, RmOption
from treadle.errors import UserError, install_extra

app = typer.Typer()

DEFAULT_PORT: Final = 8190


@app.command()
def dashboard(
    rm: RmOption = DEFAULT_RM,
    bind: Annotated[str, typer.Option(help="The IP address to listen at.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen at; 0: any.")] = DEFAULT_PORT,
    url: Annotated[
        list[str] | None,
        typer.Option(help="An address under which browsers come, as https://NAME of a proxy; may be repeated."),
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="The folder of history and token.", metavar="FOLDER", show_default=False)
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="The file of the token; without it FOLDER/token.", metavar="FILE")
    ] = None,
    config: ConfigOption = None,
    ca: CaOption = None,
    same_cluster: Annotated[
        bool, typer.Option("--same-cluster", help="Go on with a history though the cluster has a new address.")
    ] = False,
) -> None:
    """Serve web pages about the cluster of a ResourceManager: queues, nodes, jobs, decisions and problems.

    It runs in a process of its own. A page can be opened only with the token.
    """
    _need_extra()
    from treadle.cli.explain import ask_sidecar_of, check_config
    from treadle.cli.observe import read_observation
    from treadle.dashboard.collector import Board, Collector
    from treadle.dashboard.history import History, check_cluster
    from treadle.dashboard.reading import Reader
    from treadle.dashboard.server import (
        Authenticator,
        ExplainRequests,
        Parts,
        addresses,
        listen,
        read_or_make,
        server_of,
    )
    from treadle.yarn.pages import checked_address, open_session

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("treadle").setLevel(logging.INFO)
    addresses(bind, port, url or ())  # before anything is made
    checked_address(rm)
    open_session(ca).close()
    check_config(config)
    folder = _state_folder(state)
    token = token_file or folder / "token"
    doorkeeper = Authenticator(read_or_make(token))
    history = History(folder / "history.sqlite")
    try:
        check_cluster(history, rm, ca, same_cluster)
        with listen(bind, port) as listening:
            port = int(listening.getsockname()[1])
            reader, board = Reader(rm, ca), Board()
            collector = Collector(
                reader,
                history,
                board,
                held=lambda: _held(rm, ca, config),
                observed=lambda: read_observation(rm, ca, config),
            )
            question = {"ask": None, "node": ""}
            questions = ExplainRequests(
                reader, lambda application: ask_sidecar_of(rm, ca, {"application": application} | question, config)
            )
            parts = Parts(collector, board, history, questions, addresses(bind, port, url or ()), doorkeeper)
            listens = ", ".join([f"http://{bind}:{port}", *(url or ())])
            typer.echo(f"the cluster of {rm} is shown at {listens}; log in with the token in {token}")
            typer.echo(f"history: {history.path}; Ctrl-C ends it")
            server_of(parts).run([listening])
    finally:
        history.close()


def _need_extra() -> None:
    try:
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"the dashboard needs the package {error.name}: {install_extra('dashboard')} in this environment; "
            "if `treadle install` has made it, into the one that this was run from, and use the `treadle` of that"
        ) from error


def _state_folder(named: Path | None) -> Path:
    """Return the folder for history and token, which only this user may write to; it is created if missing.

    Raises:
        UserError: it cannot be created, or others may write to it.
    """
    from treadle.config.trust import bases_of_user

    home = next((Path(base) for base in bases_of_user(os.environ) if Path(base).is_absolute()), None)
    if named is None and home is None:
        raise UserError("neither HOME nor XDG_STATE_HOME is set; name a folder of your own with --state")
    folder = named or Path(str(home)) / "treadle" / "dashboard"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror}; name a folder of your own with --state") from error
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise UserError(f"{folder}: others may write there; chmod go-w it, or name a folder of your own with --state")
    return folder


def _held(rm: str, ca: Path | None, config: Path | None) -> list[dict[str, Any]]:
    """Return the nodes that engines keep free, as the sidecar reports.

    Raises:
        UserError: it cannot be asked.
    """
    from treadle.cli.explain import ask_sidecar_of

    answer = ask_sidecar_of(rm, ca, {"held": True}, config)
    if not isinstance(answer.get("held"), list):
        raise UserError(
            f"the sidecar does not show which nodes it keeps: {answer.get('error', 'it answers something else')}"
        )
    return list(answer["held"])
