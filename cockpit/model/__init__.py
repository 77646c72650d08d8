"""Defines the values of a cluster, and the look-ups in one snapshot; all of them can be imported from here.

`None` means *unknown* everywhere: it is drawn as `–`, and is never 0 and never an empty list. Sizes are bytes, times POSIX seconds,
utilization 0-100. Every value is immutable. Text from the cluster is kept exactly as it came, because ids are sent back in calls; the code
that draws it cleans it first (`cockpit.text.clean`). Commands and entrypoints contain no secrets: the sources remove them.
"""

from cockpit.model.activity import *  # noqa: F403 each name is in one place: where it is defined
from cockpit.model.disk import *  # noqa: F403
from cockpit.model.engine import *  # noqa: F403
from cockpit.model.failure import *  # noqa: F403
from cockpit.model.finding import *  # noqa: F403
from cockpit.model.gpu import *  # noqa: F403
from cockpit.model.host import *  # noqa: F403
from cockpit.model.index import *  # noqa: F403
from cockpit.model.kubernetes import *  # noqa: F403
from cockpit.model.limits import *  # noqa: F403
from cockpit.model.machine import *  # noqa: F403
from cockpit.model.nccl import *  # noqa: F403
from cockpit.model.oom import *  # noqa: F403
from cockpit.model.proxy import *  # noqa: F403
from cockpit.model.ray import *  # noqa: F403
from cockpit.model.slurm import *  # noqa: F403
from cockpit.model.snapshot import *  # noqa: F403
from cockpit.model.start import *  # noqa: F403
from cockpit.model.value import *  # noqa: F403
