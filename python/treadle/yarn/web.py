"""Sessions with the web pages of YARN's daemons, Kerberos (SPNEGO) included."""

from __future__ import annotations

from typing import Final, NamedTuple

import requests

INSTALL: Final = "install treadle[kerberos] (it needs krb5's headers and a C compiler), then run kinit"
LOG_IN: Final = "run kinit as a user whom the server accepts, and check KRB5_CONFIG and KRB5CCNAME"


def open_session() -> requests.Session:
    """Return a session that answers a daemon's SPNEGO challenge with the tickets of the user who runs the command.

    Without the package's `kerberos` extra a challenge is not answered; `why_refused` then says what to install.
    """
    session = requests.Session()
    if can_negotiate():
        from requests_gssapi import OPTIONAL, HTTPSPNEGOAuth

        # A request that carries Hadoop's cookie of an earlier one is answered without a token of the server's.
        session.auth = HTTPSPNEGOAuth(mutual_authentication=OPTIONAL)
    return session


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
    """What to do about it, if the daemon wants Kerberos; else empty."""


def refusal_of(answer: requests.Response | None) -> Refusal:
    """Return why a daemon refused a request; None stands for no answer."""
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
