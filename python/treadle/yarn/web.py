"""Sessions with the web pages of YARN's daemons, Kerberos (SPNEGO) and private certificate authorities included."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import requests

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
"""What to do about a certificate that OpenSSL refuses, by its codes, if not `_NAME_IT`."""


_NO_TLS: Final = {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"}
"""What OpenSSL, by its version, calls an answer in plain HTTP."""


class _Session(requests.Session):
    """A session whose own `verify` comes before REQUESTS_CA_BUNDLE, which otherwise wins."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)


def open_session(ca: Path | None = None) -> requests.Session:
    """Return a session that answers a daemon's SPNEGO challenge with the tickets of the user who runs the command.

    Without the package's `kerberos` extra a challenge is not answered; `why_refused` then says what to install.

    Args:
        ca: a file of certificates (PEM) to trust over https instead of the machine's; without it that of TREADLE_CA

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

        # A request that carries Hadoop's cookie of an earlier one is answered without a token of the server's.
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
    """Is there what SPNEGO needs: the `kerberos` extra and krb5's library?"""
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
    """What to do about it, if that is known; else empty."""


def failure_of(error: requests.RequestException) -> Refusal:
    """Return why a request failed: what the daemon answered, or why there is no trusted connection."""
    if not isinstance(error, requests.exceptions.SSLError):
        return refusal_of(error.response)
    causes = [cause for cause in _causes(error) if isinstance(cause, ssl.SSLError)]
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = f"its certificate cannot be trusted ({cause.verify_message.rstrip('.')})"
            return Refusal(reason, _REMEDIES.get(cause.verify_code, _NAME_IT))
        if cause.reason in _NO_TLS:
            return Refusal("the port does not speak https", "write http:// if that is meant")
    return Refusal(f"no connection by TLS ({causes[0].reason or causes[0] if causes else error})", "")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """List an error and what led to it, as requests and urllib3 wrap it."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        wrapped = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting += [each for each in wrapped if isinstance(each, BaseException)]


def why_failed(error: requests.RequestException) -> str:
    """Say in a few words why a request failed, and what to do about it."""
    return ": ".join(filter(None, failure_of(error)))


def refusal_of(answer: requests.Response | None) -> Refusal:
    """Return why a daemon refused a request; None if there was no answer."""
    if answer is None:
        return Refusal("no answer", "")
    reason = f"HTTP {answer.status_code}"
    challenge = answer.headers.get("WWW-Authenticate", "")
    if answer.status_code != requests.codes.unauthorized or "negotiate" not in challenge.lower():
        return Refusal(reason, "")
    return Refusal(reason, f"the server wants Kerberos; {LOG_IN if can_negotiate() else INSTALL}")


def why_refused(answer: requests.Response | None) -> str:
    """Say in a few words why a daemon did not answer a request, and what to do about it."""
    return ": ".join(filter(None, refusal_of(answer)))
