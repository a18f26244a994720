"""Keeps SLearn's table up to date: events that the model has taken, samples in and out, snapshots."""

from __future__ import annotations

from treadle import events
from treadle.compiled.array_types import Records
from treadle.events import ApplicationState, Event
from treadle.model.carry import Carried
from treadle.model.cluster import Cluster
from treadle.policy.slearn.carry import carry_table
from treadle.policy.slearn.samples import SampleLog, restore_samples
from treadle.policy.slearn.table import PilotTable


class PilotKeeper:
    """The `treadle.policy.parts.Keeper` of the gate that samples tasks."""

    def __init__(self) -> None:
        self.table = PilotTable()
        self._log = SampleLog()

    def observe(self, event: Event, cluster: Cluster) -> None:
        """Note what an event has changed in the model."""
        match event:
            case events.Containers():
                self.table.note(cluster)
            case events.Applications() if bool((event.state == int(ApplicationState.GONE)).any()):
                self.table.forget(cluster)

    def apply(self, event: events.Samples, cluster: Cluster) -> None:
        """Take back the samples of an earlier engine; raises `ModelError` for a number that is not possible."""
        restore_samples(event, cluster, self.table)

    def samples(self, cluster: Cluster) -> events.Samples | None:
        """Return the gate's samples and decisions since the last call; None if nothing has changed."""
        self.table.fit(cluster)
        return self._log.changed(cluster.apps, self.table.jobs)

    def ended(self, cluster: Cluster) -> Records:
        """Return how many tasks have ended whose containers were given back, by group, and how long they took."""
        return self.table.fit(cluster).ended

    def follow(self, old: Cluster, new: Cluster, carried: Carried) -> None:
        """Go on after a snapshot; all samples are reported anew next time."""
        carry_table(self.table, old, new, carried)
        self._log = SampleLog()
