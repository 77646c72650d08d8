"""The way from one Ray on this host to another."""

from __future__ import annotations

from collections.abc import Sequence

from textual import work

from cockpit.config.settings import Address
from cockpit.ui.dialogs import AddressDialog
from cockpit.ui.log_reading import LogReadingApp


class OtherRaysApp(LogReadingApp):
    """The part of the application that goes to another Ray. Offered is only what has just answered."""

    @work(group="address", exclusive=True)
    async def action_address(self) -> None:
        """Go to another Ray on this host; those that answer are offered."""
        others = [ray for ray in await self.monitor.choice.find_others() if ray.answers]
        await self._offer([Address(ray.url, ray.session, owner=ray.owner) for ray in others], "No other Ray on this host answers")

    @work(group="address", exclusive=True)
    async def choose(self, addresses: tuple[Address, ...]) -> None:
        """Ask which of several live sessions to follow."""
        silent = f"No Ray on this host answers at its address ({len(addresses)} found); a tries again"
        await self._offer(await self.monitor.choice.find_answering(addresses), silent)

    async def _offer(self, addresses: Sequence[Address], silent: str) -> None:
        if not addresses:
            self.say(silent, "warning")
            return
        chosen = await self.push_screen_wait(AddressDialog(tuple(addresses)))
        if chosen is not None:
            self.monitor.follow(chosen)
