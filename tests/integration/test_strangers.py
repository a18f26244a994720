"""A process without the token that connects to the sidecar gets nothing and disturbs nothing."""

from __future__ import annotations

import secrets
import socket

import psutil
import pytest
from tests.support.clusters import FaultyCluster

pytestmark = pytest.mark.cluster

CALL = b"c\nt\ndecide\nj\ne\n"


@pytest.mark.clock("the lease is held throughout: no pause of the machine is longer than it")
@pytest.mark.parametrize(
    "said",
    [
        CALL,
        b"A\n" + secrets.token_hex(32).encode() + b"\ne\n" + CALL,
        b"A" * 1_000_000,
        b"\n" * 1_000,
    ],
    ids=["no token", "a wrong token", "an endless line", "empty lines"],
)
def test_a_stranger_gets_nothing(cluster: FaultyCluster, said: bytes) -> None:
    flips = cluster.rm.treadle()["LeaseFlips"]
    ports = {
        connection.laddr.port
        for connection in psutil.Process(cluster.sidecar_pid()).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert len(ports) == 1

    with socket.create_connection(("127.0.0.1", ports.pop()), timeout=30) as stranger:
        try:
            stranger.sendall(said)
            answer = stranger.recv(1000)
        except ConnectionError:
            answer = b""

    assert answer == b""
    frames = cluster.rm.treadle()["Frames"]
    cluster.wait_for("more frames", lambda: cluster.rm.treadle()["Frames"] > frames)
    assert cluster.rm.treadle()["LeaseFlips"] == flips
