"""How a moment of the recording is chosen, from now and from another moment: by steps, by events, by a typed time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from textual.screen import Screen

from cockpit.moment import EXAMPLES, moment_text, parse_moment
from cockpit.text import plural
from cockpit.ui.notices import say, telling_failures
from cockpit.ui.recorded import RecordedPast
from cockpit.ui.services import Services
from cockpit.ui.time_line import event_text

if TYPE_CHECKING:
    from cockpit.recording.events import Event

STEP_S: Final = 10.0
"""Seconds of a step: hosts are looked at every 2 s and Ray's agents every 5 s, so that each step shows something new."""
MAX_TOLD_EVENTS: Final = 3
"""Of several that happened at one time."""
SEVERITIES: Final[Mapping[str | None, str]] = {"critical": "error", "warning": "warning"}


def find_recording(screen: Screen[Any], services: Services) -> RecordedPast | None:
    """What is recorded of this cluster; `None`: nothing, and it has been said why."""
    if services.recorded is None:
        say(screen, f"Nothing to go back to: {services.why_unrecorded}", "warning")
    return services.recorded


async def find_next_events(screen: Screen[Any], services: Services, moment: float, direction: int) -> Sequence[Event]:
    """Those of one time that come next (1) or came last (-1); none: there are none, and it has been said."""
    if (recorded := find_recording(screen, services)) is None:
        return ()
    with telling_failures(screen):
        if events := await recorded.read_next(moment, direction):
            return events
        say(screen, f"No {'later' if direction > 0 else 'earlier'} event is recorded")
    return ()


async def ask_moment(screen: Screen[Any], services: Services, *, is_live: bool) -> float | None:
    """A time that somebody types; `None`: they have changed their mind, or it is no time, and it has been said."""
    if (recorded := find_recording(screen, services)) is None:
        return None
    from cockpit.ui.screens.dialogs import NameDialog

    typed = await screen.app.push_screen_wait(NameDialog(f"Go to the time ({EXAMPLES}):", ""))
    if typed is None:
        return None
    try:
        newest = services.clock() if is_live else (await recorded.read_range())[1]
        return parse_moment(typed, newest, at_its_end=True)
    except ValueError as error:
        say(screen, str(error), "warning")
        return None


def tell_events(screen: Screen[Any], events: Sequence[Event], now: float) -> None:
    """What happened, each sentence once, instead of what was told before."""
    screen.app.clear_notifications()
    said = {f"{moment_text(event.at, now)}  {event_text(event)}": event.level for event in events}
    for text in islice(said, MAX_TOLD_EVENTS):
        say(screen, text, SEVERITIES.get(said[text], "information"))
    if len(said) > MAX_TOLD_EVENTS:
        say(screen, f"and {plural(len(said) - MAX_TOLD_EVENTS, 'more event')} at this time")
