"""The ResourceManagers of a cluster, by its configuration, and which of them is active."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from treadle.errors import UserError
from treadle.yarn.pages import address_of, property_of, state_of

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
