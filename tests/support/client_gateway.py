"""A JVM that submits applications for many clients, by py4j."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path, launch_gateway
from py4j.protocol import Py4JError

from treadle_lab.minicluster import ClusterError, MiniCluster
from treadle_lab.minicluster.site import FRUGAL

HEAP_MB: Final = 256


class ClientGateway:
    """The process; use it in a ``with`` statement.

    Args:
        cluster: a started one.
        log: the name of a file of the cluster's logs, for what Java says.
        jars: what the clients need besides the runtime.
    """

    def __init__(self, cluster: MiniCluster, log: str, jars: Sequence[Path] = ()) -> None:
        self._cluster = cluster
        self._log = log
        self._jars = jars
        self._gateway: JavaGateway | None = None
        self._process: Any = None

    def __enter__(self) -> Self:
        java = shutil.which("java")
        if java is None:
            raise ClusterError("no java on the path")
        cluster = self._cluster
        jar = find_jar_path()
        classpath = ":".join(map(str, (jar, cluster.layout.conf, *self._jars, f"{cluster.lib}/*")))
        options = [f"-Xmx{HEAP_MB}m", *FRUGAL.split(), f"-Djdk.net.hosts.file={cluster.folder}/hosts"]
        log = (cluster.layout.logs / self._log).open("a", encoding="utf-8")  # py4j closes it
        port, token, self._process = launch_gateway(
            jarpath=jar,
            classpath=classpath,
            javaopts=options,
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            enable_auth=True,
            cwd=str(cluster.folder),
            return_proc=True,
            java_path=java,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process = None

    @property
    def jvm(self) -> Any:
        """Java's packages, as py4j shows them."""
        assert self._gateway is not None, "not begun"
        return self._gateway.jvm


def refusal(error: Py4JError) -> str:
    """Return the line of a failed call that names the exception."""
    text = str(error).strip().splitlines()
    return next((line for line in text if "Exception" in line), text[0] if text else "")
