"""Pages of YARN's daemons, read within bounds; errors name a remedy.

Sessions know Kerberos (SPNEGO) and private certificate authorities. Pages say which ResourceManager is active, and
what Treadle's bean holds.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from treadle.errors import UserError, install_extra

INSTALL: Final = f"{install_extra('kerberos')} (it needs krb5's headers and a C compiler), then run kinit"
LOG_IN: Final = "run kinit as a user whom the server accepts, and check KRB5_CONFIG and KRB5CCNAME"

CA_VARIABLE: Final = "TREADLE_CA"
_NAME_IT: Final = f"name the certificates of its authority with --ca FILE (or {CA_VARIABLE}), in PEM form"
_REMEDIES: Final = {
    10: "its administrator must renew it",  # X509_V_ERR_CERT_HAS_EXPIRED
    62: "use a host name that the certificate has",  # X509_V_ERR_HOSTNAME_MISMATCH
    64: "use a host name that the certificate has",  # X509_V_ERR_IP_ADDRESS_MISMATCH
}
"""Remedies for OpenSSL's certificate errors, by code, in addition to `_NAME_IT`."""


_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""OpenSSL's errors for an answer in plain HTTP, by version."""


class _Session(requests.Session):
    """A session whose own `verify` comes before REQUESTS_CA_BUNDLE, which otherwise wins."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)


def open_session(ca: Path | None = None) -> requests.Session:
    """Return a session that answers a daemon's SPNEGO challenge with the current user's tickets.

    Without the package's `kerberos` extra a challenge is not answered; `refusal_of` then says what to install.

    Args:
        ca: a file of certificates (PEM) to trust over https instead of the machine's; defaults to that of TREADLE_CA

    Raises:
        UserError: the file holds no certificates.
    """
    session = _Session()
    named = ca or (os.environ.get(CA_VARIABLE) and Path(os.environ[CA_VARIABLE]))
    if named:
        _check_certificates(named)
        session.verify = str(named)
    if can_negotiate():
        from requests_gssapi import OPTIONAL, HTTPSPNEGOAuth

        # A request with Hadoop's cookie of an earlier one is answered without a server token.
        session.auth = HTTPSPNEGOAuth(mutual_authentication=OPTIONAL)
    return session


def _check_certificates(file: Path) -> None:
    try:
        ssl.create_default_context(cafile=str(file))
    except OSError as error:  # ssl.SSLError is one
        reason = "no certificates in PEM form" if isinstance(error, ssl.SSLError) else error.strerror
        raise UserError(
            f"--ca {file} (or {CA_VARIABLE}): {reason}; name a file with the certificates to trust, in PEM form"
        ) from error


def can_negotiate() -> bool:
    """Return whether SPNEGO is available: the `kerberos` extra and krb5's library."""
    try:
        import requests_gssapi  # noqa: F401
    except (ImportError, OSError):  # OSError: the library that gssapi was built for is not there
        return False
    return True


class Refusal(NamedTuple):
    """Why a daemon did not answer a request."""

    reason: str
    """In a few words."""
    remedy: str
    """The remedy, if known; else empty."""


def why_failed(error: requests.RequestException) -> str:
    """Return in a few words why a request failed, with the remedy: the daemon's answer, or the trouble with TLS."""
    if not isinstance(error, requests.exceptions.SSLError):
        return ": ".join(filter(None, refusal_of(error.response)))
    causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = _REMEDIES.get(cause.verify_code, _NAME_IT)
            return f"its certificate cannot be trusted ({cause.verify_message.rstrip('.')}): {remedy}"
        if cause.reason in _NO_TLS:
            return "the port does not speak https: write http:// if that is meant"
    return f"no connection by TLS ({causes[0].reason or causes[0] if causes else error})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, as requests and urllib3 wrap them."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        wrapped = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting += [each for each in wrapped if isinstance(each, BaseException)]


def refusal_of(answer: requests.Response | None) -> Refusal:
    """Return why a daemon refused a request; None if there was no answer."""
    if answer is None:
        return Refusal("no answer", "")
    reason = f"HTTP {answer.status_code}"
    challenge = answer.headers.get("WWW-Authenticate", "")
    if answer.status_code != requests.codes.unauthorized or "negotiate" not in challenge.lower():
        return Refusal(reason, "")
    return Refusal(reason, f"the server wants Kerberos; {LOG_IN if can_negotiate() else INSTALL}")


_BYTES_MAX: Final = 16 << 20
_TIMEOUT_S: Final = 10.0
"""Timeout without a byte, in seconds."""
_WHOLE_S: Final = 60.0
"""Timeout of a whole page, in seconds, in any number of pieces."""
_PIECE_BYTES: Final = 1 << 16
DOMAIN: Final = "Hadoop:service=ResourceManager,name="


class Page(NamedTuple):
    """The content of a page."""

    content: Any
    date_s: float | None
    """The server's time, seconds since 1970; None without one."""


def address_of(rm: str) -> str:
    """Return the address of a ResourceManager's web pages, without a slash at its end."""
    return (rm if "://" in rm else f"http://{rm}").rstrip("/")


def checked_address(rm: str, option: str = "--rm", example: str = "http://HOST:PORT") -> str:
    """Return `address_of` a valid address, which an option names.

    Raises:
        UserError: it is invalid.
    """
    url = address_of(rm)
    try:
        parts = urlsplit(url)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid address or port
        valid = False
    if not valid:
        raise UserError(f"{option} {rm}: write it as {example}")
    return url


def read_page(
    rm: str, path: str, query: Mapping[str, str], ca: Path | None = None, bytes_max: int = _BYTES_MAX
) -> Page:
    """Return the content of a page of at most this many bytes. Over https the server must have a trusted certificate.

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
        # An untrusted server, or one that requires another user, exists.
        there = isinstance(error, requests.exceptions.SSLError) or status in (
            requests.codes.unauthorized,
            requests.codes.forbidden,
        )
        question = "" if there else "; is it the address of a ResourceManager's web pages? (--rm)"
        raise UserError(f"{page}: {why_failed(error)}{question}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{page} is no ResourceManager's page; check --rm") from error


def is_missing(error: UserError) -> bool:
    """Return whether `read_page` failed because the server has no such page."""
    response = getattr(error.__cause__, "response", None)
    return response is not None and response.status_code == requests.codes.not_found


def content_of(answer: requests.Response, page: str, bytes_max: int = _BYTES_MAX) -> bytes:
    """Return the content of an answer, received in pieces with a total time limit.

    Raises:
        UserError: it is too long, takes too long, or breaks off.
    """
    deadline_s = time.monotonic() + _WHOLE_S
    pieces, length = [], 0
    read = getattr(answer.raw, "read1", answer.raw.read)  # available bytes only, in releases of urllib3 that support it
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


def read_treadle(rm: str, attribute: str, ca: Path | None = None) -> dict[str, Any] | None:
    """Return the content of an attribute of Treadle's bean (`held_in`), the only one computed; None without the bean.

    Raises:
        UserError: there is no ResourceManager, or its jar is of another version.
    """
    beans = beans_in(rm, read_page(rm, "/jmx", {"get": f"{DOMAIN}Treadle::{attribute}"}, ca))
    return held_in(rm, beans[0], attribute) if beans else None


def read_bean(rm: str, ca: Path | None = None) -> dict[str, Any]:
    """Return all numbers and texts of Treadle's bean.

    Over https its certificate must be trusted by those in ``ca``, or by default by the machine's.

    Raises:
        UserError: there is no ResourceManager, or it is on standby, or it runs without Treadle.
    """
    bean = read_treadle(rm, "Status", ca)
    if bean is None:
        raise UserError(_why_missing(rm, ca))
    return bean


def _why_missing(rm: str, ca: Path | None) -> str:
    """Return why a responding ResourceManager has no such bean, with the remedy."""
    url = address_of(rm)
    state = state_of(rm, ca)
    if moving := passing(state):
        state_text = f"the ResourceManager at {url} is {moving}: nothing is scheduled"
        return f"{state_text}; ask again, or look at its log if it stays so"
    if state != "STANDBY":
        return (
            f"the ResourceManager at {url} has no bean Treadle: it runs without Treadle; look at "
            "yarn.resourcemanager.scheduler.class in treadle-site.xml or yarn-site.xml (treadle install), and its log"
        )
    active = active_of(rm, ca)
    ask = (
        f"ask the active one: --rm {active}"
        if active
        else "ask the active one with --rm (yarn rmadmin -getAllServiceState)"
    )
    return f"the ResourceManager at {url} is on standby, where nothing is scheduled and no engine runs; {ask}"


def held_in(rm: str, bean: Mapping[str, Any], attribute: str) -> dict[str, Any]:
    """Return the JSON object in an attribute of Treadle's bean.

    Args:
        rm: the ResourceManager's address
        bean: the bean's attributes
        attribute: ``Status``, all numbers and texts; or ``Placements``

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
    beans = beans_in(rm, read_page(rm, "/jmx", {"qry": f"{DOMAIN}RMInfo"}, ca))
    return str(beans[0].get("State", "")).upper() if beans else ""  # Hadoop writes it in small letters


def passing(state: str) -> str:
    """Return a text for a transient state of a ResourceManager; empty if it is active or on standby."""
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
        if is_missing(error):
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
    """Return the address of the active ResourceManager of a cluster; empty if there is none."""
    try:
        addresses_found = addresses(lambda key: property_of(rm, key, ca))
    except UserError:
        return ""
    for url in addresses_found.values():
        try:
            if url != address_of(rm) and state_of(url, ca) == "ACTIVE":
                return url
        except UserError:
            continue
    return ""


def expanded(get: Get) -> Get:
    """Return a getter that replaces variables in values by other properties, as Hadoop does."""

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
