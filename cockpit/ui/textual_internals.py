"""The private names of Textual that cockpit uses: each has one function here, so that a new Textual breaks one file."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from textual.app import App


def withdraw_information(app: App[Any]) -> None:
    """Take back what was said last, but for warnings and errors: Textual lets a notification only run out."""
    for notification in list(app._notifications):
        if notification.severity == "information":
            app._unnotify(notification)


def end_with(app: App[Any], text: RenderableType | None) -> None:
    """End at once, and print a text below the prompt in place of Textual's own picture of an error."""
    if text is not None:
        app._exit_renderables.append(text)
    app._close_messages_no_wait()
