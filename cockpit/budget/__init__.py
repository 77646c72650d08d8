"""What a training command will ask of Ray, read the way its framework reads it. Pure: files are read through what the caller hands in."""

from cockpit.budget.demand import Budget, Group, Level, Line, Mark, entrypoint_groups
from cockpit.budget.entrypoint import budget_of

__all__ = ["Budget", "Group", "Level", "Line", "Mark", "budget_of", "entrypoint_groups"]
