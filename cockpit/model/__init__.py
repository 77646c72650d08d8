"""What a cluster is: the words that every other module speaks.

`None` means *unknown* everywhere: it is drawn as `–`, and is never 0 and never an empty list. Sizes are bytes, times POSIX seconds,
utilization 0-100. Every value is immutable. Text from the cluster is kept exactly as it came (ids are sent back in calls); whatever
draws it makes it safe first (`cockpit.text.clean`). Commands and entrypoints have had their secrets taken out before they get here.
"""

from cockpit.model.finding import LEVELS, Finding, Level, Remedy
from cockpit.model.host import (
    LEFT_OVER,
    Amount,
    Disk,
    Fault,
    Gpu,
    Hold,
    Host,
    HostMemory,
    Kind,
    MemoryUser,
    OomKill,
    Past,
    Pointer,
    Process,
    RayProcess,
    Session,
    TempDir,
)
from cockpit.model.ray import (
    PENDING_STATES,
    Actor,
    Bundle,
    Cluster,
    Demand,
    Holder,
    Job,
    Node,
    NodeState,
    PlacementGroup,
    Quantity,
    Wait,
    Worker,
)
from cockpit.model.snapshot import Snapshot
from cockpit.model.value import Value

__all__ = [
    "LEFT_OVER",
    "LEVELS",
    "PENDING_STATES",
    "Actor",
    "Amount",
    "Bundle",
    "Cluster",
    "Demand",
    "Disk",
    "Fault",
    "Finding",
    "Gpu",
    "Hold",
    "Holder",
    "Host",
    "HostMemory",
    "Job",
    "Kind",
    "Level",
    "MemoryUser",
    "Node",
    "NodeState",
    "OomKill",
    "Past",
    "PlacementGroup",
    "Pointer",
    "Process",
    "Quantity",
    "RayProcess",
    "Remedy",
    "Session",
    "Snapshot",
    "TempDir",
    "Value",
    "Wait",
    "Worker",
]
