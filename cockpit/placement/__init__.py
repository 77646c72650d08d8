"""Whether what is asked for can be placed on the nodes there are, as Ray places it; and if not, why not. Pure and exact."""

from cockpit.placement.deadlock import *  # noqa: F403 each name is in one place: where it is defined
from cockpit.placement.fit import *  # noqa: F403
from cockpit.placement.free_capacity import *  # noqa: F403
from cockpit.placement.nodes import *  # noqa: F403
from cockpit.placement.request import *  # noqa: F403
from cockpit.placement.text import *  # noqa: F403
