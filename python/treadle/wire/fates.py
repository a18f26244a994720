"""What each fate of a proposal means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from treadle.events import Fate

MEANINGS: Final[Mapping[Fate, str]] = {
    Fate.COMMITTED: "The container was placed.",
    Fate.UNKNOWN_APPLICATION: "The ResourceManager has the application no more.",
    Fate.FINISHED_ATTEMPT: "Another attempt of the application is current.",
    Fate.STOPPED_ATTEMPT: "The attempt has been stopped.",
    Fate.INACTIVE_APPLICATION: "The application is not activated (limit of masters, parallel applications).",
    Fate.UNKNOWN_REQUEST: "A request key that this application was never given.",
    Fate.NO_PENDING_ASK: "Nothing is asked for any more under that request key.",
    Fate.UNKNOWN_NODE: "The ResourceManager has the node no more.",
    Fate.NODE_NOT_RUNNING: "The node is not RUNNING.",
    Fate.NODE_STALE: "No recent heartbeat of the node has come.",
    Fate.NODE_RESERVED: "The ResourceManager has reserved the node.",
    Fate.BLACKLISTED: "The application has blacklisted the node or its rack.",
    Fate.WRONG_PARTITION: "The node is not in the partition of the ask.",
    Fate.LOCALITY: "relaxLocality is off and the node is elsewhere.",
    Fate.CONSTRAINT: "The node does not meet what the application requires of nodes.",
    Fate.CONTAINER_UPDATE: "A resize or promotion, which the shim places itself.",
    Fate.NODE_FULL: "The node has too little left, in any resource that the calculator counts.",
    Fate.QUEUE_MAXIMUM: "A queue would be above its maximum.",
    Fate.USER_LIMIT: "The user would be above the limit.",
    Fate.DUPLICATE: "The same proposal again, and no ask is left.",
    Fate.OUT_OF_RANGE: "An application or node never given out.",
    Fate.OVER_BATCH: "Beyond the frame's limit of proposals, or its turn had not come when half a lease was over.",
    Fate.LEASE_LOST: "The engine had lost the lease by then.",
    Fate.NOT_READY: "The ResourceManager is still recovering.",
    Fate.STALE_STATE: "The ResourceManager said no and the reason had gone when the shim looked.",
    Fate.INTERNAL_ERROR: "An exception, which the ResourceManager's log has.",
    Fate.OBSERVED: "It would have been committed (mode `observe_only`).",
    Fate.NEGATIVE: "An index below zero.",
    Fate.NOT_OWNER: "Several engines only: another engine serves the application.",
    Fate.CHANGED: "Several engines only: others have committed on the node since the frame that was decided on.",
    Fate.TRANSACTION: "Another row of the transaction cannot be committed, or it has more than 512, or is for more "
    "than one application.",
    Fate.CLAIM: "Several engines only: the engine's applications would use more of the partition than its `claim`.",
}
