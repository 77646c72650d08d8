"""Cleans foreign text, and writes amounts, ages and errors as words."""

from cockpit.text.amounts import UNKNOWN, age, count, explain_os_error, gpus_words, join_first, percent, plural, ratio, share_percent, size
from cockpit.text.cleaning import UNSAFE, clean, to_ascii

__all__ = [
    "UNKNOWN",
    "UNSAFE",
    "age",
    "clean",
    "count",
    "explain_os_error",
    "gpus_words",
    "join_first",
    "percent",
    "plural",
    "ratio",
    "share_percent",
    "size",
    "to_ascii",
]
