"""Computes what a training command will ask Ray for. Pure: the caller passes the functions that read files."""

from cockpit.budget.demand import Budget, Group, Level, Line, Mark, entrypoint_groups
from cockpit.budget.entrypoint import budget_of

__all__ = ["Budget", "Group", "Level", "Line", "Mark", "budget_of", "entrypoint_groups"]
