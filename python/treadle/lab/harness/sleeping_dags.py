"""Tez DAGs whose tasks sleep: any stages, edges, durations and asks, submitted to a mini cluster.

Tez's own examples have fixed shapes. These DAGs are made of Tez's public parts and run in an unmodified application
AM; what edges and vertex managers are made of is the module ``tez-sleep`` of ``java-shim``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from py4j.protocol import Py4JError

from treadle.admin.jars import sleep_jar
from treadle.dag.dag import Dag, Stage
from treadle.lab.harness.client_gateway import ClientGateway, refusal
from treadle.lab.minicluster import ClusterError, MiniCluster
from treadle.lab.minicluster.site import container_options

__all__ = ["MEMORY", "VCORES", "SleepingDags", "asks", "master_log", "vertex_name"]

MEMORY: Final = "memory-mb"
VCORES: Final = "vcores"
HEAP_MB: Final = 96
"""Of a task, whatever it asks for."""
PARTS: Final = "io.treadle.sleep"


def vertex_name(stage: Stage) -> str:
    """Return what the vertex of a stage is called."""
    return stage.name or f"v{stage.id}"


def asks(stage: Stage) -> dict[str, int]:
    """Return what a task asks for besides memory and virtual cores, by resource type; what it does not is left out."""
    return {
        name: round(amount) for name, amount in stage.demand.items() if name not in (MEMORY, VCORES) and round(amount)
    }


class SleepingDags(ClientGateway):
    """A client of a started cluster that submits DAGs, each to an application master of its own."""

    def __init__(self, cluster: MiniCluster) -> None:
        self._jar = sleep_jar()
        super().__init__(cluster, "sleeping-dags.log", (self._jar,))

    def submit(self, dag: Dag, settings: Mapping[str, str]) -> str:
        """Submit a DAG whose demands are in YARN's units; returns YARN's id of its application when its AM runs.

        Tez's client waits for that. May be called by several threads at a time.

        Args:
            dag: what to run; every stage needs ``memory-mb`` and ``vcores``.
            settings: of its tez-site.xml; jars in ``tez.aux.uris`` are added to ours.

        Raises:
            ClusterError: it was refused.
        """
        jvm = self.jvm
        api = jvm.org.apache.tez.dag.api
        conf = api.TezConfiguration()
        jars = [f"file://{self._jar}", *filter(None, [settings.get("tez.aux.uris")])]
        for name, value in {**settings, "tez.aux.uris": ",".join(jars)}.items():
            conf.set(name, value)
        try:
            client = jvm.org.apache.tez.client.TezClient.create(dag.name, conf, False)
            client.start()
            try:
                return str(client.submitDAG(self._dag(api, dag)).getSessionIdentifierString())
            finally:
                client.stop()
        except Py4JError as error:
            raise ClusterError(f"DAG {dag.name} was not submitted: {refusal(error)}") from error

    def refresh_queues(self) -> None:
        """Let the ResourceManager read its configuration again (``yarn rmadmin -refreshQueues``).

        Raises:
            ClusterError: it refused.
        """
        jvm = self.jvm
        tool = jvm.org.apache.hadoop.yarn.client.cli.RMAdminCLI(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
        words = self.strings(["-refreshQueues"])
        if tool.run(words) != 0:
            raise ClusterError(
                f"the ResourceManager refused to read its configuration; see {self._cluster.layout.logs}"
            )

    def _dag(self, api: Any, dag: Dag) -> Any:
        made = api.DAG.create(dag.name)
        vertices = {stage.id: self._vertex(api, stage) for stage in dag.stages}
        for stage in dag.stages:
            made.addVertex(vertices[stage.id])
        for stage in dag.stages:
            for parent in stage.parents:
                made.addEdge(api.Edge.create(vertices[parent], vertices[stage.id], self._edge(api)))
        return made

    def _vertex(self, api: Any, stage: Stage) -> Any:
        jvm = self.jvm
        sleep = jvm.org.apache.tez.runtime.library.processor.SleepProcessor
        payload = sleep.SleepProcessorConfig(stage.duration_ms).toUserPayload()
        processor = api.ProcessorDescriptor.create("org.apache.tez.runtime.library.processor.SleepProcessor")
        demand = {name: round(stage.demand[name]) for name in (MEMORY, VCORES)}
        size = jvm.org.apache.hadoop.yarn.api.records.Resource.newInstance(demand[MEMORY], demand[VCORES])
        vertex = api.Vertex.create(vertex_name(stage), processor.setUserPayload(payload), stage.tasks, size)
        further = ",".join(f"{name}={amount}" for name, amount in asks(stage).items())
        manager = api.VertexManagerPluginDescriptor.create(f"{PARTS}.AskingVertexManager")
        if further:
            text = jvm.java.nio.ByteBuffer.wrap(bytearray(further, "utf-8"))
            manager = manager.setUserPayload(api.UserPayload.create(text))
        # Tez gives a task that has just become ready any idle container whose JVM options are alike, whatever its
        # size; where users set no heap, options differ with the memory asked for. Here they differ with every ask.
        size_said = "".join(f"-{amount}" for amount in (*demand.values(), *asks(stage).values()))
        options = container_options(self._cluster.layout, HEAP_MB)
        return vertex.setVertexManagerPlugin(manager).setTaskLaunchCmdOpts(f"{options} -Dasks{size_said}")

    @staticmethod
    def _edge(api: Any) -> Any:
        return api.EdgeProperty.create(
            api.EdgeProperty.DataMovementType.BROADCAST,
            api.EdgeProperty.DataSourceType.PERSISTED,
            api.EdgeProperty.SchedulingType.SEQUENTIAL,
            api.OutputDescriptor.create(f"{PARTS}.NoOutput"),
            api.InputDescriptor.create(f"{PARTS}.NoInput"),
        )


def master_log(cluster: MiniCluster, application_id: str) -> str:
    """Return what the application masters of an application have logged."""
    files = cluster.folder.glob(f"nm*/containers/{application_id}/container_*_000001/*")
    return "".join(file.read_text("utf-8", "replace") for file in sorted(files) if file.is_file())
