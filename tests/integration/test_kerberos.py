"""A secure cluster: RPC, web pages and jobs with Kerberos, the sidecar without keys of its own (make kerberos-test)."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.support.files import written
from tests.support.jobs import sleep_job
from tests.support.kerberos import Kdc

from treadle_lab.minicluster import ClusterSettings, MiniCluster
from treadle_lab.minicluster.cluster import ADMIN_MAIN

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.kerberos]

NO_HISTORY_SERVER = {"mapreduce.jobhistory.address": ""}


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A key distribution centre, and this process logged in."""
    with Kdc(tmp_path_factory.mktemp("krb5") / "kdc") as centre, pytest.MonkeyPatch.context() as patch:
        for key, value in centre.environment().items():
            patch.setenv(key, value)
        centre.log_in()
        yield centre


@pytest.fixture(scope="module")
def secure(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    """A secure cluster under Treadle."""
    folder = tmp_path_factory.mktemp("secure")
    policy = written(folder / "treadle.yaml", "seed: 1\n")
    settings = ClusterSettings(nodes=2, policy=policy, core_overrides=kdc.core_site(), overrides=kdc.yarn_site())
    with MiniCluster(settings, folder / "cluster") as cluster:
        yield cluster


def treadle(cluster: MiniCluster, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an administrator on the ResourceManager's host does."""
    command = [str(Path(sys.executable).parent / "treadle"), *arguments]
    env = {**os.environ, "TREADLE_RM": cluster.rm.url, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)


def test_a_job_runs_in_containers_that_treadle_placed(secure: MiniCluster) -> None:
    # no reduces: a secure shuffle wants Hadoop's native library
    job = sleep_job(secure, "secure", maps=4, reduces=0, settings=NO_HISTORY_SERVER)

    assert job.wait() == "SUCCEEDED"
    assert secure.rm.placements()[job.application_id] == {"treadle": 5, "native": 0}


def test_commands_read_the_resource_managers_pages_with_the_users_tickets(secure: MiniCluster) -> None:
    status = treadle(secure, "status")
    assert status.returncode == 0, status.stderr
    assert "enforce" in status.stdout

    observe = treadle(secure, "observe", "--json")
    assert observe.returncode == 0, observe.stderr


IMPORT = "profiles import --store {folder}/profiles.db --history-server {rm}"
"""From the ResourceManager, which lets in whom a JobHistoryServer lets in, and knows no such page."""


def test_histories_are_asked_for_with_the_users_tickets(secure: MiniCluster, tmp_path: Path) -> None:
    let_in = treadle(secure, *IMPORT.format(folder=tmp_path, rm=secure.rm.url).split())

    assert let_in.returncode != 0
    assert "HTTP 404" in let_in.stderr


@pytest.mark.parametrize("command", ["status", "observe", "policy use hdrf", IMPORT])
def test_commands_without_tickets_say_what_is_missing(secure: MiniCluster, command: str, tmp_path: Path) -> None:
    words = command.format(folder=tmp_path, rm=secure.rm.url).split()
    refused = treadle(secure, *words, KRB5CCNAME=f"FILE:{tmp_path / 'none'}")

    assert refused.returncode != 0
    assert "the server wants Kerberos" in refused.stderr
    assert "kinit" in refused.stderr


def test_a_policy_is_taken_over(secure: MiniCluster, tmp_path: Path) -> None:
    yarn = tmp_path / "yarn"
    variables = " ".join(f"{key}={shlex.quote(value)}" for key, value in secure.environment().items())
    yarn.write_text(f'#!/bin/sh\nshift\nexec env {variables} {shlex.join(secure.java(ADMIN_MAIN))} "$@"\n')
    yarn.chmod(0o755)

    used = treadle(secure, "policy", "use", "hdrf", "--yarn", str(yarn))

    assert used.returncode == 0, used.stderr
    assert "share=hdrf" in secure.rm.treadle()["Policy"]


def test_the_sidecar_has_no_keys_of_the_resource_managers(secure: MiniCluster, kdc: Kdc) -> None:
    sidecar = psutil.Process(secure.sidecar_pid())

    assert str(kdc.keytab) not in sidecar.cmdline()
    assert str(kdc.keytab) not in {file.path for file in sidecar.open_files()}
    assert not any(str(kdc.keytab) in value for value in sidecar.environ().values())
