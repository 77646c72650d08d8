"""What a cluster is: the words that every other module speaks, all of them importable from here.

`None` means *unknown* everywhere: it is drawn as `–`, and is never 0 and never an empty list. Sizes are bytes, times POSIX seconds,
utilization 0-100. Every value is immutable. Text from the cluster is kept exactly as it came (ids are sent back in calls); whatever
draws it makes it safe first (`cockpit.text.clean`). Commands and entrypoints have had their secrets taken out before they get here.
"""

from cockpit.model.disk import *  # noqa: F403 each name is in one place: where it is defined
from cockpit.model.finding import *  # noqa: F403
from cockpit.model.gpu import *  # noqa: F403
from cockpit.model.host import *  # noqa: F403
from cockpit.model.index import *  # noqa: F403
from cockpit.model.kubernetes import *  # noqa: F403
from cockpit.model.limits import *  # noqa: F403
from cockpit.model.machine import *  # noqa: F403
from cockpit.model.oom import *  # noqa: F403
from cockpit.model.proxy import *  # noqa: F403
from cockpit.model.ray import *  # noqa: F403
from cockpit.model.slurm import *  # noqa: F403
from cockpit.model.snapshot import *  # noqa: F403
from cockpit.model.value import *  # noqa: F403
