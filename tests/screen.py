"""What a test sees of a screen."""

from __future__ import annotations


def shown(app):
    """The screen as a person reads it."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def until(pilot, fact):
    for _ in range(300):
        if fact():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came true; the screen says:\n" + shown(pilot.app))
