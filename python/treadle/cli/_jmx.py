"""Beans of a ResourceManager, read from its page /jmx."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from treadle.errors import UserError

_BYTES_MAX: Final = 16 << 20
_TIMEOUT_S: Final = 10.0

RmOption = Annotated[str, typer.Option("--rm", envvar="TREADLE_RM", help="Address of the ResourceManager's web pages.")]
CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="TREADLE_CA",
        help="Certificates (PEM) to trust over https instead of the machine's.",
        metavar="FILE",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As JSON instead of a table.")]

DEFAULT_RM: Final = "http://localhost:8088"


def read_bean(rm: str, name: str, ca: Path | None = None) -> dict[str, Any]:
    """Return the attributes of the bean ``Hadoop:service=ResourceManager,name=NAME``.

    Over https it has to show a certificate that those in ``ca`` vouch for, or without it the machine's.

    Raises:
        UserError: there is no ResourceManager, or it runs without Treadle.
    """
    found = read_beans(rm, name, ca)
    if not found:
        raise UserError(
            f"the ResourceManager at {_url(rm)} has no bean {name}: it runs without Treadle, or is not the active one"
        )
    return found[0]


def read_beans(rm: str, name: str, ca: Path | None = None) -> list[dict[str, Any]]:
    """Return the attributes of the beans ``Hadoop:service=ResourceManager,name=NAME``; a * in NAME stands for anything.

    Raises:
        UserError: there is no ResourceManager.
    """
    import requests

    from treadle.yarn.web import open_session, why_failed

    url = _url(rm)
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an address or a port that is none
        valid = False
    if not valid:
        raise UserError(f"--rm {rm}: write it as http://HOST:PORT")
    query = {"qry": f"Hadoop:service=ResourceManager,name={name}"}
    try:
        with (
            open_session(ca) as session,
            session.get(f"{url.rstrip('/')}/jmx", params=query, timeout=_TIMEOUT_S, stream=True) as answer,
        ):
            answer.raise_for_status()
            content = answer.raw.read(_BYTES_MAX + 1, decode_content=True)
        if len(content) > _BYTES_MAX:
            raise UserError(f"{url}/jmx answered more than {_BYTES_MAX} bytes")
        beans = json.loads(content)["beans"]
        found = [dict(bean) for bean in beans]
    except requests.RequestException as error:
        status = None if error.response is None else error.response.status_code
        # a server that cannot be trusted, or that wants somebody else, is there
        there = isinstance(error, requests.exceptions.SSLError) or status in (
            requests.codes.unauthorized,
            requests.codes.forbidden,
        )
        question = "" if there else "; is it the address of a ResourceManager's web pages? (--rm)"
        raise UserError(f"{url}/jmx: {why_failed(error)}{question}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{url}/jmx is no ResourceManager's page; check --rm") from error
    return found


def _url(rm: str) -> str:
    return rm if "://" in rm else f"http://{rm}"
