"""A key distribution centre on loopback, and the configuration of a mini cluster that asks it."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.files import written

from treadle_lab.minicluster.settings import gather, java_home

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
REALM = "EXAMPLE.COM"
START_TIMEOUT_S = 60.0
PROPERTIES = {
    "org.name": "EXAMPLE",
    "org.domain": "COM",
    "kdc.bind.address": HOST,
    "kdc.port": "0",
    "instance": "DefaultKrbServer",
    "transport": "TCP",
    "debug": "false",
    "max.ticket.lifetime": "86400000",
    "max.renewable.lifetime": "604800000",
    "min.ticket.lifetime": "3600000",
}
SERVICES = ("rm", "nm", "HTTP")


class Kdc:
    """Hadoop's MiniKdc with the principals of a ResourceManager, its NodeManagers, web pages and the user."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        assert shutil.which("kinit"), "kinit is missing (Debian: apt-get install krb5-user)"
        jars = gather(pom=ROOT / "java-shim" / "kdc" / "pom.xml")
        properties = self.folder / "kdc.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in PROPERTIES.items()))
        principals = [*(f"{service}/{HOST}" for service in SERVICES), getpass.getuser()]
        command = [
            str(java_home() / "bin" / "java"),
            "-Xmx128m",
            "-cp",
            f"{jars}/*",
            "org.apache.hadoop.minikdc.MiniKdc",
        ]
        log = self.folder / "kdc.log"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*command, str(self.folder), str(properties), str(self.keytab), *principals],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Standalone MiniKdc Running" not in log.read_text():
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        conf = self.configuration.read_text()
        # loopback has no names to look up
        self.configuration.write_text(
            conf.replace("[libdefaults]", "[libdefaults]\n    rdns = false\n    dns_canonicalize_hostname = false")
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def configuration(self) -> Path:
        """The krb5.conf."""
        return self.folder / "krb5.conf"

    @property
    def keytab(self) -> Path:
        """The keys of every principal."""
        return self.folder / "all.keytab"

    @property
    def tickets(self) -> Path:
        """The user's ticket cache, once `log_in` was called."""
        return self.folder / "tickets"

    def environment(self) -> dict[str, str]:
        """Return what programs need to ask this centre; JVMs print a line about it."""
        return {
            "KRB5_CONFIG": str(self.configuration),
            "KRB5CCNAME": f"FILE:{self.tickets}",
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self.configuration}",
        }

    def log_in(self) -> None:
        """Get the user's tickets."""
        command = ["kinit", "-k", "-t", str(self.keytab), getpass.getuser()]
        subprocess.run(command, check=True, env={**os.environ, **self.environment()})

    def core_site(self) -> dict[str, str]:
        """core-site.xml: RPC and every web page want Kerberos."""
        secret = written(self.folder / "http-secret", "the cookies of this cluster are signed with this line\n")
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
            "hadoop.http.authentication.type": "kerberos",
            "hadoop.http.authentication.simple.anonymous.allowed": "false",
            "hadoop.http.authentication.kerberos.principal": principal("HTTP"),
            "hadoop.http.authentication.kerberos.keytab": str(self.keytab),
            "hadoop.http.authentication.signature.secret.file": str(secret),
        }

    def yarn_site(self) -> dict[str, str]:
        """Further entries of yarn-site.xml."""
        # a JVM that finds no realm ends, with tokens or without
        entries = {"yarn.nodemanager.env-whitelist": "JAVA_HOME,HADOOP_CONF_DIR,JAVA_TOOL_OPTIONS"}
        for daemon, service in (("resourcemanager", "rm"), ("nodemanager", "nm")):
            entries[f"yarn.{daemon}.principal"] = principal(service)
            entries[f"yarn.{daemon}.keytab"] = str(self.keytab)
            entries[f"yarn.{daemon}.webapp.spnego-principal"] = principal("HTTP")
            entries[f"yarn.{daemon}.webapp.spnego-keytab-file"] = str(self.keytab)
        return entries


def principal(service: str) -> str:
    """Return a service's principal on this host."""
    return f"{service}/{HOST}@{REALM}"
