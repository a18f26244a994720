"""The bytes that the plug-in in Java and the listener agree on."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest
from tests.support.plan_requests import request

from treadle.am.protocol import (
    CHALLENGE_BYTES,
    MAC_BYTES,
    NONCE_BYTES,
    REQUEST,
    Attempt,
    Ended,
    Kind,
    Outcome,
    PlanRequest,
    Status,
    VertexAsk,
    VertexNow,
    answer,
    challenge,
    check_body,
    read_header,
    read_plan_request,
    read_report,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "plan-request.bin"
ATTEMPT = Attempt(1_700_000_000_000, 7, 2)
KEY = hmac.digest(bytes(20), b"treadle-plans-1", "sha256")


def vertex(number: int, name: str, tasks: int, parents: dict[int, bool]) -> VertexAsk:
    return VertexAsk(number, name, tasks, {"memory-mb": 1024 * (number + 1), "vcores": 1}, parents)


def test_the_golden_request_says_what_the_dag_is() -> None:
    content = GOLDEN.read_bytes()
    header, body = read_header(content[: REQUEST.size]), content[REQUEST.size + MAC_BYTES :]
    check_body(header, body)
    assert (header.kind, header.attempt, header.key_number, header.length) == (Kind.PLAN, ATTEMPT, 5, len(body))
    assert read_plan_request(body) == PlanRequest(
        3,
        "daily report",
        (
            vertex(0, "small", 4, {}),
            vertex(1, "large", 2, {}),
            vertex(2, "middle", 2, {1: True}),
            vertex(3, "last", 1, {0: False, 2: False}),
        ),
    )
    assert request(KEY, bytes(CHALLENGE_BYTES), Kind.PLAN, ATTEMPT, 5, body, bytes(NONCE_BYTES)) == content


@pytest.mark.parametrize("sealed", [False, True])
def test_the_golden_exchange(sealed: bool) -> None:
    """What the plug-ins' tests read too: a challenge, a request with three bytes, an answer with two."""
    if sealed:
        pytest.importorskip("cryptography")
    content = GOLDEN.with_name("plan-exchange-sealed.bin" if sealed else "plan-exchange.bin").read_bytes()
    said = challenge(bytes(range(32)), sealed=sealed)
    asked = request(KEY, said, Kind.REPORT, ATTEMPT, 5, b"\1\2\3", bytes(range(32, 64)), sealed=sealed)
    assert content == said + asked + answer(KEY, said, asked[: REQUEST.size], Status.UNKNOWN, b"\4\5")


def test_a_report_as_the_plug_in_writes_it() -> None:
    head, table = "00000003 01 01", "00000001 00000002 0000001e 00000004"
    ended = "00000001 00000002 00000009 00000000 00 00000000000004e2 00000000000000fa ffffffffffffffff 0000000000000007"
    found = read_report(bytes.fromhex(head + table + ended))
    assert (found.dag, found.state, found.planned) == (3, 1, True)
    assert found.vertices == (VertexNow(2, 30, 4),)
    assert found.ended == (Ended(2, 9, 0, Outcome.SUCCEEDED, 1_250, 250, -1, 7),)
