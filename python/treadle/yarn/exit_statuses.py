"""Exit statuses of containers that YARN sets itself, by YARN's names (`ContainerExitStatus`).

Other statuses above 0 are those of the container's process: 128 plus the signal where one ended it.
"""

from __future__ import annotations

from typing import Final

SUCCESS: Final = 0
ABORTED: Final = -100
"""Given back by its application, or lost with its node."""
PREEMPTED: Final = -102
KILLED_EXCEEDED_VMEM: Final = -103
KILLED_EXCEEDED_PMEM: Final = -104
KILLED_BY_APPMASTER: Final = -105
KILLED_BY_RESOURCEMANAGER: Final = -106
KILLED_AFTER_APP_COMPLETION: Final = -107
"""Its application had ended: its work was done."""
KILLED_BY_CONTAINER_SCHEDULER: Final = -108
"""An opportunistic container that made room."""
KILLED_FOR_EXCESS_LOGS: Final = -109

SIGKILL: Final = 128 + 9
SIGTERM: Final = 128 + 15
