"""A secure cluster: jobs, the pages that Treadle's commands read, and whose the files with secrets are."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.docker.cluster import LOGS, SLEEP, START, DockerCluster
from tests.docker.secure import KEYTAB, KEYTABS, SHELL, SecureCluster

from treadle_lab import demo
from treadle_lab.minicluster.site import FRUGAL

HISTORY = "http://history:19888"
SHELLS = "org.apache.hadoop.yarn.applications.distributedshell.Client"
STORE = f"{LOGS}/profiles.db"
IMPORT = f"history import --store {STORE} --history-server {HISTORY}"
CONFIG = "/var/lib/hadoop/policy/treadle.yaml"
STRANGER = "nobody"
NONE = f"FILE:{LOGS}/no-tickets"
ADMIN = "echo an-administrators-password | kinit admin >/dev/null && "
APPLICATIONS = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"


@pytest.fixture(scope="module")
def started() -> DockerCluster:
    """The cluster, once all of it is there and its user has tickets and a home."""
    cluster = SecureCluster()
    cluster.log_in()
    cluster.wait_ready()
    cluster.make_folders()
    return cluster


@pytest.fixture
def secure(cluster: DockerCluster) -> SecureCluster:
    """The idle cluster."""
    assert isinstance(cluster, SecureCluster)
    return cluster


def all_by_treadle(cluster: DockerCluster, identity: str) -> None:
    """Check that Treadle placed every container of an application."""
    containers, by_treadle = cluster.placed_by_treadle(identity)
    assert containers == by_treadle > 0


def test_a_map_only_job_runs_as_its_user_and_its_history_is_read(secure: SecureCluster) -> None:
    # no reduces: a secure shuffle wants Hadoop's native library
    job = secure.map_reduce("maps", SLEEP, "-m", "4", "-r", "0", "-mt", "100")
    ended = job.wait()
    assert ended["user"] == "alice"
    all_by_treadle(secure, str(ended["id"]))

    def known() -> bool:
        taken_in = secure.command(*IMPORT.split())
        assert taken_in.returncode == 0, taken_in.stderr
        return "alice" in secure.command("history", "list", "--store", STORE).stdout

    # it moves what jobs leave every few seconds
    secure.wait_for("job in the history", known, 240, poll_s=3)


def test_the_distributed_shell_runs(secure: SecureCluster) -> None:
    (jar,) = Path("/opt/hadoop/lib").glob("hadoop-yarn-applications-distributedshell-*.jar")
    sizes = ["-num_containers", "2", "-container_memory", "128", "-master_memory", "256"]
    words = ["-jar", str(jar), "-shell_command", "id", "-application_tags", "shells", *sizes]
    job = secure.submit("shells", START, "job", SHELLS, *words)
    all_by_treadle(secure, str(job.wait()["id"]))


def test_spark_counts_words(secure: SecureCluster) -> None:
    secure.call(START, "job", SHELL, "-mkdir", "-p", "lines")
    secure.call(START, "job", SHELL, "-put", "-f", "/opt/hadoop/conf/yarn-site.xml", "lines")
    settings = {
        "spark.yarn.queue": "batch",
        "spark.yarn.tags": "spark-words",
        "spark.yarn.jars": "local:/opt/spark/jars/*",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": FRUGAL,
        "spark.executor.extraJavaOptions": FRUGAL,
        "spark.ui.enabled": "false",
    }
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = [START, "client", "/opt/spark/bin/spark-submit", "--master", "yarn", "--deploy-mode", "cluster"]
    script = str(Path(demo.__file__).with_name("spark_words.py"))
    job = secure.submit("spark-words", *submit, *options, script, "lines", "words")
    all_by_treadle(secure, str(job.wait()["id"]))
    assert "property" in secure.call(START, "job", SHELL, "-cat", "words/*")


@pytest.mark.parametrize("command", ["status", "observe"])
def test_commands_read_pages_with_the_users_tickets(secure: SecureCluster, command: str) -> None:
    done = secure.command(*command.split())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["status", "observe", "policy use hdrf", IMPORT])
def test_commands_without_tickets_say_what_is_missing(secure: SecureCluster, command: str) -> None:
    refused = secure.command(*command.split(), KRB5CCNAME=NONE)
    assert refused.returncode != 0
    assert "the server wants Kerberos" in refused.stderr
    assert "kinit" in refused.stderr


def test_a_policy_is_taken_over_by_an_administrator_with_tickets(secure: SecureCluster) -> None:
    use = "treadle policy use hdrf --rm http://rm:8088"
    refused = secure.container("rm").exec_run(["sh", "-c", use], user="hadoop", environment={"KRB5CCNAME": NONE})
    assert refused.exit_code != 0
    assert b"the server wants Kerberos" in refused.output
    secure.run_in("rm", "sh", "-c", ADMIN + use)
    assert "share=hdrf" in secure.rm.treadle()["Policy"]


@pytest.mark.parametrize(
    ("login", "tickets", "code", "says"),
    [
        (ADMIN, f"FILE:{LOGS.parent}/of-doctor", 0, '"status": "ok"'),
        ("", NONE, 1, "the server wants Kerberos; run kinit"),
    ],
)
def test_doctor_reads_the_resource_managers_pages(
    secure: SecureCluster, login: str, tickets: str, code: int, says: str
) -> None:
    doctor = f"{login}treadle doctor --only reach --hadoop-conf /opt/hadoop/conf --rm http://rm:8088 -o json"
    done = secure.container("rm").exec_run(["sh", "-c", doctor], user="hadoop", environment={"KRB5CCNAME": tickets})
    assert (done.exit_code, says in done.output.decode()) == (code, True), done.output.decode()


def test_explain_says_why_an_ask_waits(secure: SecureCluster) -> None:
    (jar,) = Path("/opt/hadoop/lib").glob("hadoop-yarn-applications-distributedshell-*.jar")
    sizes = ["-num_containers", "40", "-container_memory", "1024", "-master_memory", "256"]
    words = ["-jar", str(jar), "-shell_command", "sleep 600", "-application_tags", "waits", *sizes]
    job = secure.submit("waits", START, "job", SHELLS, *words)
    identity = str(job.application()["id"])
    # the sidecar needs no tickets for it: the settings' file says where it is asked
    explain = ["treadle", "explain", identity, "--config", CONFIG, "--output=json"]
    sidecar = secure.container("sidecar")

    def waits() -> bool:
        done = sidecar.exec_run(explain, user="hadoop", demux=True)
        asks = json.loads(done.output[0])["asks"] if done.exit_code == 0 else []
        return any(cause["verdict"] == "waiting" for ask in asks for cause in ask["causes"])

    try:
        secure.wait_for("an ask that waits", waits, 120, poll_s=1)
    finally:
        secure.call(START, "job", APPLICATIONS, "application", "-kill", identity)
        job.client.wait(120)


def test_explain_says_what_it_needs_without_tickets_and_settings(secure: SecureCluster) -> None:
    explain = ["treadle", "explain", "application_1_1", "--rm", "http://rm:8088"]
    refused = secure.container("sidecar").exec_run(explain, user="hadoop")
    assert refused.exit_code == 2
    assert b"the server wants Kerberos" in refused.output
    assert b"--config" in refused.output


def test_the_sidecar_has_no_keys(secure: SecureCluster) -> None:
    assert secure.files("sidecar", f"{KEYTABS} /keytabs -type f") == []
    assert secure.owners("sidecar", "/run/treadle", "/run/treadle/connection.json") == [
        "700 hadoop /run/treadle",
        "600 hadoop /run/treadle/connection.json",
    ]


def test_files_with_secrets_are_for_their_owner_alone(secure: SecureCluster) -> None:
    for service in ("namenode", "rm", "history", *secure.workers):
        assert secure.owners(service, str(KEYTABS), str(KEYTAB)) == [f"700 hadoop {KEYTABS}", f"600 hadoop {KEYTAB}"]
        assert not secure.can_read(service, [str(KEYTAB)], STRANGER)
    assert not secure.can_read("sidecar", ["/run/treadle/connection.json"], STRANGER)
    tokens = "-name '*.tokens' -o -name container_tokens"
    found = {worker: secure.files(worker, f"/var/lib/hadoop/yarn/local {tokens}") for worker in secure.workers}
    assert any(found.values())
    for worker, files in found.items():
        assert secure.can_read(worker, files, "hadoop") == files
        assert secure.can_read(worker, files, STRANGER) == []


def test_one_user_reads_nothing_of_another_ones(secure: SecureCluster) -> None:
    environment = {"KRB5CCNAME": f"FILE:{LOGS}/bobs-tickets"}
    login = f"kinit -kt {KEYTABS}/bob.keytab bob && {START} job {SHELL} -ls /user/alice"
    done = subprocess.run(["sh", "-c", login], capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode != 0
    assert "Permission denied: user=bob" in done.stderr
