"""Application masters without processes: each asks for what a test wants, and gives back what it got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from tests.support.client_gateway import ClientGateway

from treadle_lab.minicluster.cluster import MiniCluster

YARN = "org.apache.hadoop.yarn"


class Masters(ClientGateway):
    """Unmanaged application masters of any user, all in one client's JVM. Use it in a `with` statement."""

    def __init__(self, cluster: MiniCluster) -> None:
        super().__init__(cluster, "masters.log")
        self._conf: Any = None

    def __enter__(self) -> Self:
        super().__enter__()
        self._conf = self.java(f"{YARN}.conf.YarnConfiguration")()
        return self

    def java(self, name: str) -> Any:
        """Return the Java class of a full name."""
        found = self.jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _act_as(self, user: str, *tokens: Any) -> None:
        """Be another user, who has these tokens, in every connection that is opened from now on."""
        users = self.java("org.apache.hadoop.security.UserGroupInformation")
        somebody = users.createRemoteUser(user)
        for token in tokens:
            somebody.addToken(token)
        users.setLoginUser(somebody)

    def start(self, user: str, queue: str, tags: Sequence[str] = ()) -> Master:
        """Submit an application of a user and register its master."""
        clients, context = self._submission(user, queue)
        context.setUnmanagedAM(True)
        if tags:
            context.setApplicationTags(set(tags))
        application = context.getApplicationId()
        clients.submitApplication(context)
        token = self._cluster.wait_for("token of a master", lambda: clients.getAMRMToken(application))
        self._act_as(f"master of {user}", token)
        master = self.java(f"{YARN}.client.api.AMRMClient").createAMRMClient()
        master.init(self._conf)
        master.start()
        master.registerApplicationMaster("localhost", 0, "")
        return Master(self, str(application.toString()), master)

    def start_failing(self, user: str, queue: str, attempts: int) -> str:
        """Submit an application whose master fails at once, each time; returns its id."""
        clients, context = self._submission(user, queue)
        launch = self.java(f"{YARN}.api.records.ContainerLaunchContext")
        context.setAMContainerSpec(launch.newInstance({}, {}, ["exit 1"], {}, None, {}))
        context.setResource(self.resource(128))
        context.setMaxAppAttempts(attempts)
        clients.submitApplication(context)
        return str(context.getApplicationId().toString())

    def _submission(self, user: str, queue: str) -> tuple[Any, Any]:
        self._act_as(user)
        clients = self.java(f"{YARN}.client.api.YarnClient").createYarnClient()
        clients.init(self._conf)
        clients.start()
        context = clients.createApplication().getApplicationSubmissionContext()
        context.setApplicationName(f"{user} in {queue}")
        context.setQueue(queue)
        launch = self.java(f"{YARN}.api.records.ContainerLaunchContext")
        context.setAMContainerSpec(launch.newInstance(None, None, None, None, None, None))
        return clients, context

    def resource(self, memory_mb: int, more: Mapping[str, int] | None = None) -> Any:
        """Return a Resource of one virtual core."""
        resource = self.java(f"{YARN}.api.records.Resource").newInstance(memory_mb, 1)
        for name, amount in (more or {}).items():
            resource.setResourceValue(name, amount)
        return resource


class Master:
    """A registered application master. It never launches anything."""

    def __init__(self, masters: Masters, application_id: str, client: Any) -> None:
        self.application_id = application_id
        self._masters = masters
        self._client = client
        self._asks: list[Any] = []
        self._held: list[Any] = []
        self._wanted: dict[int, tuple[Any, int]] = {}
        """What is asked for by `want`, and how many, by priority."""

    def ask(
        self,
        priority: int,
        count: int,
        memory_mb: int,
        *,
        more: Mapping[str, int] | None = None,
        node: str | None = None,
        label: str | None = None,
    ) -> None:
        """Ask for this many containers, from the next heartbeat on: on one node and nowhere else if that is named."""
        masters = self._masters
        request = masters.java(f"{YARN}.client.api.AMRMClient$ContainerRequest")
        level = masters.java(f"{YARN}.api.records.Priority").newInstance(priority)
        wanted = masters.resource(memory_mb, more)
        nodes = None if node is None else masters.java("org.apache.hadoop.util.StringUtils").getStrings(node)
        for _ in range(count):
            made = request(wanted, nodes, None, level, node is None, label)
            self._client.addContainerRequest(made)
        self._asks.append(made)

    def want(self, priority: int, count: int, memory_mb: int) -> None:
        """Ask for this many containers at a priority, from the next heartbeat on, whatever was asked for before.

        For masters that take what they get with `take`.
        """
        masters = self._masters
        if priority not in self._wanted:
            request = masters.java(f"{YARN}.client.api.AMRMClient$ContainerRequest")
            level = masters.java(f"{YARN}.api.records.Priority").newInstance(priority)
            self._wanted[priority] = (request(masters.resource(memory_mb), None, None, level, True, None), 0)
        made, before = self._wanted[priority]
        # what is removed and added is sent again, also if it is as many as before
        for _ in range(before):
            self._client.removeContainerRequest(made)
        for _ in range(count):
            self._client.addContainerRequest(made)
        self._wanted[priority] = (made, count)

    def take(self) -> int:
        """Send a heartbeat: gives back what it took the time before; returns how many containers were placed.

        What was asked for and is there now must be asked for again with `want`.
        """
        self.give_back()
        return len(self.keep())

    def give_back(self, count: int | None = None) -> None:
        """Release all that it holds, or so many that it got first, with the next heartbeat."""
        given, self._held = self._held[:count], [] if count is None else self._held[count:]
        for container in given:
            self._client.releaseAssignedContainer(container)

    def keep(self) -> list[str]:
        """Send a heartbeat, and return the hosts of what was placed, which it holds until it is taken back or ends."""
        placed = list(self._client.allocate(0.1).getAllocatedContainers())
        self._held += [container.getId() for container in placed]
        return [str(container.getNodeId().getHost()) for container in placed]

    def blacklist(self, node: str) -> None:
        """Have nothing placed on a node, from the next heartbeat on."""
        self._client.updateBlacklist([node], [])

    def beat(self) -> int:
        """Send a heartbeat: takes what was placed, gives back what it took the time before, and asks anew for as much.

        Returns:
            how many containers were placed.
        """
        if self.take():
            # what was placed is off the RM's list, and only what changes is sent: the whole number again
            for request in self._asks:
                self._client.removeContainerRequest(request)
                self._client.addContainerRequest(request)
        return len(self._held)

    def end(self) -> None:
        """Unregister: the application succeeded."""
        states = self._masters.java(f"{YARN}.api.records.FinalApplicationStatus")
        self._client.unregisterApplicationMaster(states.SUCCEEDED, "", "")
        self._client.stop()
