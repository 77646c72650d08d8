"""The screen: the only package that knows Textual."""

import os
from importlib import import_module
from typing import Final

FRAMES_A_SECOND: Final = 240
"""Frames that Textual may draw in a second. It draws at fixed ticks: what changes just after one waits for up to two of them
(`Timer._run` in textual/timer.py). With its 60 a second a key that was pressed right after new figures was drawn 17 to 33 ms later."""
if "TEXTUAL_FPS" not in os.environ:
    os.environ["TEXTUAL_FPS"] = str(FRAMES_A_SECOND)
    import_module("textual.constants")  # reads it once
    del os.environ["TEXTUAL_FPS"]  # nothing that is started from here is to have it

IMPORT_STEPS: Final = (
    "textual.widget",
    "textual.screen",
    "textual.command",
    "textual.app",
    "cockpit.acts.table",
    "cockpit.ui.pages.details",
    "cockpit.ui.app",
)
"""What the screen is imported from, some 10 ms at a time, the program last: between two of them Ray's answers are read."""
