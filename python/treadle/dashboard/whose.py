"""Whose history a file is: that of another cluster is not continued as if it were this one's."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from treadle.dashboard.history import History
from treadle.errors import UserError
from treadle.yarn.pages import address_of, property_of
from treadle.yarn.pairs import addresses

_ANYWHERE: Final = {"localhost", "127.0.0.1", "::1", "0.0.0.0"}  # noqa: S104 nothing listens there
"""What every host calls itself identifies no cluster; the address that somebody named does."""


def check_cluster(history: History, rm: str, ca: Path | None = None, is_same: bool = False) -> None:
    """Keep in a history which cluster it is of: the address of its ResourceManager, and those of a pair.

    A history into which nothing of a cluster came yet is of none, whatever address was tried.

    Args:
        history: of this cluster, or of none yet
        rm: the ResourceManager's address
        ca: certificates to trust over https
        is_same: somebody says that it is the same cluster, under a new address

    Raises:
        UserError: the history is that of another cluster, or fails.
    """
    try:
        kept = history.addresses()
        found = {address_of(rm), *_of_pair(rm, ca)}
        is_other = bool(kept) and kept.isdisjoint(found) and not is_same
        if is_other and history.is_empty():  # nobody answered under that address: it may have been a mistake
            history.begin_anew()
            kept = set()
        elif is_other:
            raise UserError(
                f"{history.path} is the history of the cluster of {', '.join(sorted(kept))}; name another --state for "
                f"that of {address_of(rm)}, or --same-cluster if it is the same one under a new address"
            )
        history.keep_addresses(found if is_same else kept | found)
    except sqlite3.Error as error:
        raise UserError(f"{history.path}: {error}; move the file away, then a new history begins") from error


def _of_pair(rm: str, ca: Path | None) -> set[str]:
    """Return the addresses that a ResourceManager's configuration names; none if it does not answer."""
    try:
        named = addresses(lambda key: property_of(rm, key, ca)).values()
    except UserError:
        return set()
    return {address for address in named if urlsplit(address).hostname not in _ANYWHERE}
