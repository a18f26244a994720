"""How much application attempts may say now: requests and bytes, of each attempt, of each user, and in all."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, NamedTuple

from treadle.am.keys import Attempt

RATE_PER_S: Final = 4.0
BURST: Final = 40.0
"""Requests that an attempt may make at once, and a second in the long run; beyond, the answer is `BUSY`."""


class Rate(NamedTuple):
    """Bytes that may come at once, and in each second in the long run."""

    burst: float
    per_s: float


ATTEMPT_BYTES: Final = Rate(512 << 10, 48 << 10)
USER_BYTES: Final = Rate(2 << 20, 128 << 10)
ALL_BYTES: Final = Rate(8 << 20, 512 << 10)
"""A report of 1,000 tasks that ended is 45,000 bytes."""

ATTEMPTS_MAX: Final = 10_000
USERS_MAX: Final = 10_000
"""Attempts and users whose rate is remembered; the one that was heard least recently is forgotten first."""


class _Bucket(NamedTuple):
    requests: float
    bytes: float
    at_s: float


class Rates:
    """How many requests and bytes each attempt may bring now. For several threads."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._attempts: OrderedDict[Attempt, _Bucket] = OrderedDict()
        self._users: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(0.0, ALL_BYTES.burst, clock_s())
        self._lock = Lock()
        self.refused = 0
        """Requests that were beyond a rate so far."""

    def allows(self, attempt: Attempt, user: str, size_bytes: int) -> bool:
        """Count a request with a body of some bytes; return whether it is within all rates.

        One that is not is counted as a request of its attempt only.
        """
        now_s = self._clock_s()
        with self._lock:
            own = _refilled(self._attempts.pop(attempt, None), now_s, ATTEMPT_BYTES)
            users = _refilled(self._users.pop(user, None), now_s, USER_BYTES)
            every = _refilled(self._all, now_s, ALL_BYTES)
            allowed = own.requests >= 1.0 and min(own.bytes, users.bytes, every.bytes) >= size_bytes
            taken = size_bytes if allowed else 0
            own = own._replace(requests=own.requests - (1.0 if own.requests >= 1.0 else 0.0), bytes=own.bytes - taken)
            self._attempts[attempt] = own
            self._users[user] = users._replace(bytes=users.bytes - taken)
            self._all = every._replace(bytes=every.bytes - taken)
            self.refused += not allowed
            while len(self._attempts) > ATTEMPTS_MAX:
                self._attempts.popitem(last=False)
            while len(self._users) > USERS_MAX:
                self._users.popitem(last=False)
        return allowed


def _refilled(before: _Bucket | None, now_s: float, rate: Rate) -> _Bucket:
    if before is None:
        return _Bucket(BURST, rate.burst, now_s)
    passed_s = max(now_s - before.at_s, 0.0)
    requests = min(BURST, before.requests + passed_s * RATE_PER_S)
    return _Bucket(requests, min(rate.burst, before.bytes + passed_s * rate.per_s), now_s)
