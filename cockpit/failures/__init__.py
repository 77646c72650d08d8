"""Finds the error in a log that caused the others, and knows what many errors mean."""

from cockpit.failures.describe import describe
from cockpit.failures.known import Match, find_all_known, find_known, known_errors
from cockpit.failures.known.error import KnownError
from cockpit.failures.root_error import RootError, find_root_error

__all__ = ["KnownError", "Match", "RootError", "describe", "find_all_known", "find_known", "find_root_error", "known_errors"]
