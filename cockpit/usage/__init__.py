"""Who has and uses which GPUs: at one moment, and over as long as somebody has watched (pure)."""

from cockpit.usage.look import *  # noqa: F403 each name is in one place: where it is defined
from cockpit.usage.usage import *  # noqa: F403
