"""What a training command will ask of Ray, read the way its framework reads it. Pure: files are read through what the caller hands in."""

from cockpit.budget.demand import Budget, Group, Level, Line
from cockpit.budget.entrypoint import budget_of

__all__ = ["Budget", "Group", "Level", "Line", "budget_of"]
