"""What a test sees of a screen."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

HOSTILE = [
    "[/]",
    "x[/red]y",
    "Actor[MyClass]",
    "[@click=app.quit]x[/]",
    "\x1b]0;PWNED\x07",
    "\x1b]52;c;aGk=\x07",
    "\x9b31m",
    "\u202eabc",
    "a\nb\tc",
    "漢字漢字",
    "\x00",
    "\U000e0041",
]
"""Texts that could move the cursor, colour the screen, act as markup or reorder their neighbours."""


def shown(app):
    """The screen as a person reads it."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def pages_of(app):
    """The pages in front, or below a log or a dialog."""
    return app.page_screen.page_view


def table_of(app):
    return pages_of(app).table


def past_of(app):
    """The past moment that is shown; `None`: it is now."""
    return getattr(app.page_screen, "past", None)


def is_past(app):
    return past_of(app) is not None


def table_text(app):
    """The screen above the pane."""
    return shown(app).partition("Enter: opens the row")[0]


def footer(app):
    """The line of keys below the page."""
    return shown(app).splitlines()[-1]


def said(app):
    """What the notifications say that are shown now."""
    return "\n".join(each.message for each in app._notifications)


def unsafe(text):
    """The characters that must not reach a terminal."""
    return [
        char
        for char in text
        if (ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 or char in "\u202e\u2066" or ord(char) >= 0xE0000
    ]


@asynccontextmanager
async def running(app, size=(120, 40), **more):
    """The app on a screen, as soon as it shows rows."""
    async with app.run_test(size=size, **more) as pilot:
        await until(pilot, lambda: table_of(app).count > 0)
        yield pilot


@asynccontextmanager
async def at(app, *keys, then="", **more):
    """The app after these keys, which are pressed as soon as it shows rows, once it shows this text."""
    async with running(app, **more) as pilot:
        await press(pilot, *keys, then=then)
        yield app, pilot


async def until(pilot, fact):
    """Waits for a fact, up to a minute of the machine."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if fact():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came true; the screen says:\n" + shown(pilot.app))


async def press(pilot, *keys, then):
    """Presses these keys, and waits until this text is shown, or this fact is true."""
    await pilot.press(*keys)
    await until(pilot, (lambda: then in shown(pilot.app)) if isinstance(then, str) else then)
