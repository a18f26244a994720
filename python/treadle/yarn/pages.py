"""Pages of a ResourceManager that answer in JSON, read within bounds; errors name a remedy.

The ResourceManagers of a cluster, by its configuration, and which of them is active.

What YARN says of applications, by the ResourceManager's REST pages: their states, and its diagnostics.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from treadle.errors import UserError
from treadle.yarn.codes import is_named
from treadle.yarn.web import open_session, why_failed

_BYTES_MAX: Final = 16 << 20
_TIMEOUT_S: Final = 10.0
"""Without a byte."""
_WHOLE_S: Final = 60.0
"""For all of a page's content, in however many pieces it comes."""
_PIECE_BYTES: Final = 1 << 16
DOMAIN: Final = "Hadoop:service=ResourceManager,name="


class Page(NamedTuple):
    """What a page said."""

    content: Any
    date_s: float | None
    """The server's time, seconds since 1970; None if it does not say."""


def address_of(rm: str) -> str:
    """Return the address of a ResourceManager's web pages, without a slash at its end."""
    return (rm if "://" in rm else f"http://{rm}").rstrip("/")


def checked_address(rm: str) -> str:
    """Return `address_of` what can be an address.

    Raises:
        UserError: this can be none.
    """
    url = address_of(rm)
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an address or a port that is none
        valid = False
    if not valid:
        raise UserError(f"--rm {rm}: write it as http://HOST:PORT")
    return url


def read_page(
    rm: str, path: str, query: Mapping[str, str], ca: Path | None = None, bytes_max: int = _BYTES_MAX
) -> Page:
    """Return what a page of at most this many bytes says. Over https its server has to show a trusted certificate.

    Raises:
        UserError: there is no ResourceManager.
    """
    page, headers = f"{checked_address(rm)}{path}", {"Accept": "application/json"}
    try:
        with (
            open_session(ca) as session,
            session.get(page, params=dict(query), headers=headers, timeout=_TIMEOUT_S, stream=True) as answer,
        ):
            answer.raise_for_status()
            content = content_of(answer, page, bytes_max)
            date = answer.headers.get("Date")
        return Page(json.loads(content), _seconds(date))
    except requests.RequestException as error:
        status = None if error.response is None else error.response.status_code
        # a server that cannot be trusted, or that wants somebody else, is there
        there = isinstance(error, requests.exceptions.SSLError) or status in (
            requests.codes.unauthorized,
            requests.codes.forbidden,
        )
        question = "" if there else "; is it the address of a ResourceManager's web pages? (--rm)"
        raise UserError(f"{page}: {why_failed(error)}{question}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{page} is no ResourceManager's page; check --rm") from error


def content_of(answer: requests.Response, page: str, bytes_max: int = _BYTES_MAX) -> bytes:
    """Return the content of an answer, piece by piece as it comes: a server that drips is not waited for without end.

    Raises:
        UserError: it is too long, takes too long, or breaks off.
    """
    deadline_s = time.monotonic() + _WHOLE_S
    pieces, length = [], 0
    read = getattr(answer.raw, "read1", answer.raw.read)  # as much as there is, in releases of urllib3 that can
    try:
        while piece := read(_PIECE_BYTES, decode_content=True):
            pieces.append(piece)
            length += len(piece)
            if length > bytes_max:
                raise UserError(f"{page} answered more than {bytes_max} bytes")
            if time.monotonic() > deadline_s:
                problem = f"{page} had not answered whole after {_WHOLE_S:g} s"
                raise UserError(f"{problem}; look at the ResourceManager's load")
    except HTTPError as error:
        raise UserError(f"{page}: the answer broke off: {error}") from error
    return b"".join(pieces)


def read_beans(rm: str, name: str, ca: Path | None = None) -> list[dict[str, Any]]:
    """Return the attributes of the beans ``Hadoop:service=ResourceManager,name=NAME``; a * in NAME matches anything.

    Raises:
        UserError: there is no ResourceManager.
    """
    return beans_in(rm, read_page(rm, "/jmx", {"qry": f"{DOMAIN}{name}"}, ca))


def read_treadle(rm: str, attribute: str, ca: Path | None = None) -> dict[str, Any] | None:
    """Return what an attribute of Treadle's bean holds (`held_in`), which alone is computed; None without the bean.

    Raises:
        UserError: there is no ResourceManager, or its jar is of another version.
    """
    found = beans_in(rm, read_page(rm, "/jmx", {"get": f"{DOMAIN}Treadle::{attribute}"}, ca))
    return held_in(rm, found[0], attribute) if found else None


def held_in(rm: str, bean: Mapping[str, Any], attribute: str) -> dict[str, Any]:
    """Return the JSON object in an attribute of Treadle's bean.

    Args:
        rm: the ResourceManager's address
        bean: the bean's attributes
        attribute: ``Status``, all numbers and texts; ``Placements``; or ``Observation``

    Raises:
        UserError: there is none.
    """
    try:
        return dict(json.loads(bean[attribute]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"{address_of(rm)}: the bean Treadle has no {attribute} in JSON; use the jar of this version"
        ) from error


def beans_in(rm: str, page: Page) -> list[dict[str, Any]]:
    """Return the beans of a page.

    Raises:
        UserError: it holds none.
    """
    try:
        return [dict(bean) for bean in page.content["beans"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{address_of(rm)}/jmx is no ResourceManager's page; check --rm") from error


def state_of(rm: str, ca: Path | None = None) -> str:
    """Return whether a ResourceManager is ``ACTIVE`` or on ``STANDBY``, or `passing`; empty if it does not say.

    Raises:
        UserError: there is no ResourceManager.
    """
    found = read_beans(rm, "RMInfo", ca)
    return str(found[0].get("State", "")).upper() if found else ""  # Hadoop writes it in small letters


def passing(state: str) -> str:
    """Return in words a state in which a ResourceManager does not stay; empty if it is active or on standby."""
    return {"INITIALIZING": "starting", "STOPPING": "stopping"}.get(state, "")


def property_of(rm: str, key: str, ca: Path | None = None) -> str:
    """Return a property of a ResourceManager's configuration; empty if it is not set, or not shown.

    Raises:
        UserError: there is no ResourceManager.
    """
    try:
        content = read_page(rm, "/conf", {"name": key}, ca).content
        return str(content["property"]["value"])
    except (ValueError, KeyError, TypeError):
        return ""
    except UserError as error:
        response = getattr(error.__cause__, "response", None)
        if response is not None and response.status_code == requests.codes.not_found:
            return ""
        raise


def _seconds(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return None


IDS_KEY: Final = "yarn.resourcemanager.ha.rm-ids"

_IDS_MAX: Final = 8
_DEPTH_MAX: Final = 8
_VARIABLE: Final = re.compile(r"\$\{([^}$\s]+)\}")

Get = Callable[[str], str]
"""Returns a property, empty if it is not set."""


def addresses(get: Get) -> dict[str, str]:
    """Return the addresses of the ResourceManagers' web pages by id; without high availability the id is empty."""
    ids = [each.strip() for each in get(IDS_KEY).split(",") if each.strip()][:_IDS_MAX]
    if get("yarn.resourcemanager.ha.enabled").strip().lower() != "true" or not ids:
        return {"": _address(get, "")}
    return {each: _address(get, f".{each}") for each in ids}


def active_of(rm: str, ca: Path | None = None) -> str:
    """Return the address of the active one of the cluster of a ResourceManager; empty if none is found."""
    try:
        found = addresses(lambda key: property_of(rm, key, ca))
    except UserError:
        return ""
    for url in found.values():
        try:
            if url != address_of(rm) and state_of(url, ca) == "ACTIVE":
                return url
        except UserError:
            continue
    return ""


def expanded(get: Get) -> Get:
    """Return a getter whose values have no variables of other properties left, as Hadoop reads them."""

    def value(key: str) -> str:
        text = get(key)
        for _ in range(_DEPTH_MAX):
            more = _VARIABLE.sub(lambda found: get(found[1]) or found[0], text)
            if more == text:
                break
            text = more
        return text.strip()

    return value


def _address(get: Get, suffix: str) -> str:
    get = expanded(get)
    host = get(f"yarn.resourcemanager.hostname{suffix}") or "localhost"
    secure = get("yarn.http.policy") == "HTTPS_ONLY"
    key, port = ("webapp.https.address", 8090) if secure else ("webapp.address", 8088)
    named = get(f"yarn.resourcemanager.{key}{suffix}") or f"{host}:{port}"
    named = named.replace("0.0.0.0:", f"{host}:", 1) if named.startswith("0.0.0.0:") else named
    return f"{'https' if secure else 'http'}://{named}"


ENDED: Final = ("FINISHED", "FAILED", "KILLED")
"""States in which an application stays."""
DIAGNOSTICS_MAX: Final = 16 << 10
"""Characters of diagnostics that are shown; a user's program wrote some of them."""

_PATH: Final = "/ws/v1/cluster/apps"
_TEXT_MAX: Final = 256
_PAGE_BYTES_MAX: Final = 64 << 20
_ID: Final = re.compile(r"(?:application_)?(\d{1,19}_\d{1,10})")


class YarnApplication(NamedTuple):
    """An application as the ResourceManager shows it; texts may hold what users wrote."""

    id: str
    name: str
    user: str
    queue: str
    state: str
    final_status: str
    """How it ended, by what its application master said; ``UNDEFINED`` before that."""
    diagnostics: str

    @property
    def has_ended(self) -> bool:
        """Whether it asks for nothing any more."""
        return self.state in ENDED


def find_applications(rm: str, given: str, ca: Path | None = None) -> list[YarnApplication]:
    """Return the applications that a ResourceManager knows by an id or the end of it, those that have ended too.

    Raises:
        UserError: it does not answer, or something else does.
    """
    whole = _ID.fullmatch(given)
    try:
        if whole is not None:
            return _one(rm, f"application_{whole.group(1)}", ca)
        content = read_page(rm, _PATH, {"deSelects": "resourceRequests"}, ca, _PAGE_BYTES_MAX).content
        listed = (content["apps"] or {}).get("app") or []
        return [_application(each) for each in listed if is_named(str(each["id"]), given)]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{rm}{_PATH}: the page has another form than a ResourceManager's; check --rm") from error


def _one(rm: str, id_: str, ca: Path | None) -> list[YarnApplication]:
    try:
        page = read_page(rm, f"{_PATH}/{id_}", {"deSelects": "resourceRequests"}, ca, _PAGE_BYTES_MAX)
    except UserError as error:
        response = getattr(error.__cause__, "response", None)
        if response is not None and response.status_code == requests.codes.not_found:
            return []
        raise
    return [_application(page.content["app"])]


def _application(app: Mapping[str, Any]) -> YarnApplication:
    def text(name: str, most: int = _TEXT_MAX) -> str:
        return str(app.get(name) or "")[:most]

    diagnostics = text("diagnostics", DIAGNOSTICS_MAX).strip()
    return YarnApplication(
        str(app["id"])[:_TEXT_MAX],
        text("name"),
        text("user"),
        text("queue"),
        text("state"),
        text("finalStatus"),
        diagnostics,
    )
