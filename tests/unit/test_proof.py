"""The bytes by which the shim in Java and the sidecar prove their secret to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.live.handshake import (
    CODE_BYTES,
    NONCE_BYTES,
    OPENING,
    Address,
    Limits,
    ProofError,
    check_proof,
    opening,
    sidecar_code,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "handshake.bin"
SECRET = bytes(range(32))
DIALLED = Address("127.0.0.1", 47_110)
HELLO = opening() + bytes(range(32, 64))
ANSWER = opening() + bytes(range(64, 96))
AT = 2 * (OPENING.size + NONCE_BYTES)
PROOF = GOLDEN.read_bytes()[AT + CODE_BYTES :]


def test_the_golden_handshake() -> None:
    """The shim's tests read the same file."""
    content = GOLDEN.read_bytes()
    assert content[:AT] == HELLO + ANSWER
    assert content[AT:][:CODE_BYTES] == sidecar_code(SECRET, DIALLED, HELLO, ANSWER)
    assert check_proof(SECRET, DIALLED, HELLO, ANSWER, PROOF) == Limits(9 << 20, 8 << 20)


@pytest.mark.parametrize("at", range(len(PROOF)))
def test_a_changed_proof_is_none(at: int) -> None:
    changed = bytearray(PROOF)
    changed[at] ^= 1
    with pytest.raises(ProofError, match="does not know the secret"):
        check_proof(SECRET, DIALLED, HELLO, ANSWER, bytes(changed))


@pytest.mark.parametrize(
    ("secret", "dialled", "hello", "answer"),
    [
        (bytes(32), DIALLED, HELLO, ANSWER),
        (SECRET, DIALLED._replace(port=47_111), HELLO, ANSWER),
        (SECRET, DIALLED._replace(host="127.0.0.2"), HELLO, ANSWER),
        (SECRET, DIALLED._replace(host="::1"), HELLO, ANSWER),
        (SECRET, DIALLED, ANSWER, ANSWER),
        (SECRET, DIALLED, HELLO, HELLO),
        (SECRET, DIALLED, ANSWER, HELLO),
    ],
)
def test_a_proof_is_good_for_one_connection_to_one_address(
    secret: bytes, dialled: Address, hello: bytes, answer: bytes
) -> None:
    with pytest.raises(ProofError, match="does not know the secret"):
        check_proof(secret, dialled, hello, answer, PROOF)
    assert sidecar_code(secret, dialled, hello, answer) != sidecar_code(SECRET, DIALLED, HELLO, ANSWER)
