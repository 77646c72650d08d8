"""Computes which owner has and uses which GPUs, at one moment and summed over time (pure)."""

from cockpit.usage.gpu_shares import CAUSES, Fleet, IdleCause, Owner, sample_usage
from cockpit.usage.usage import LONGEST_STEP_S, HourSums, MemoryMark, OwnerUsage, Usage, UserUsage, users_of

__all__ = [
    "CAUSES",
    "LONGEST_STEP_S",
    "Fleet",
    "HourSums",
    "IdleCause",
    "MemoryMark",
    "Owner",
    "OwnerUsage",
    "Usage",
    "UserUsage",
    "sample_usage",
    "users_of",
]
