"""Finds out from process titles what a job does: its phase, its steps, and which worker is behind (pure)."""

from cockpit.phases.ranks import Rank, ranks_of
from cockpit.phases.steps import UsualTime, seconds_by_phase, seconds_left, usual_seconds
from cockpit.phases.tracker import ActivityTracker

__all__ = ["ActivityTracker", "Rank", "UsualTime", "ranks_of", "seconds_by_phase", "seconds_left", "usual_seconds"]
