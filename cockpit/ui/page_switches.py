"""What keys change about what is shown: tree, user, dead actors, order, hidden findings, a node's memory, another Ray."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from textual import work

from cockpit.config.address import Address
from cockpit.model import Finding, Process
from cockpit.ui.keys import PAGES
from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.details import DetailPage, about
from cockpit.ui.pages.memory import BY_GROWTH, OWNERS, MemoryPage, fullest_node, memory_node
from cockpit.ui.pages.processes import BY_GPU_MEMORY, ProcessesPage
from cockpit.ui.replay import ReplayApp
from cockpit.ui.section import Page


class SwitchingApp(ReplayApp):
    """The part of the application that turns the switches of pages."""

    def _open(self, pages: list[Page]) -> None:
        """Show the last of these; Esc leads back through the others."""
        self.pages = pages
        self.table.needle = ""
        self.refresh_bindings()
        self.refresh_presets()
        self.draw()

    def action_page(self, number: int) -> None:
        """Open a page by its number, from 0."""
        self._open([PAGES[number]()])

    def _open_deeper(self, page: Page) -> None:
        """What is opened anew begins at its top; the way back leads to the row where one was."""
        self.table.forget_place(page.heading)
        self._open([*self.pages, page])

    def action_tree(self) -> None:
        """Show the page as a tree, or as a list again."""
        self.page.tree = not self.page.tree
        self.draw()

    def action_memory(self) -> None:
        """Show host memory of the node under the cursor, of a finding's node, or of the open one; else of the fullest."""
        if isinstance(self.page, MemoryPage):
            self.say(f"Memory: this page shows that of {self.page.node.title}; for another node put the cursor on it on another page")
            return
        node = memory_node(self.page, self.table.selected, self.drawn_snapshot)
        if node is None and (node := fullest_node(self.drawn_snapshot)) is not None:
            self.say(f"Host memory of {node.title}, the node nearest to its kill line")
        if node is not None:
            self._open_deeper(MemoryPage(node))
        else:
            self.say("Host memory is unknown on all nodes")

    def action_growth(self) -> None:
        """On the Memory page: the owners that grow fastest first; again: in their usual order."""
        is_again = self.table.sorts.get(OWNERS) == BY_GROWTH
        self.table.sorts[OWNERS] = ("", False) if is_again else BY_GROWTH
        self.draw()

    def action_gpu_memory(self) -> None:
        """Show who holds most GPU memory: processes, the greatest first; again: in their usual order."""
        is_again = isinstance(self.page, ProcessesPage) and self.table.sorts.get("processes") == BY_GPU_MEMORY
        self.table.sorts["processes"] = ("", False) if is_again else BY_GPU_MEMORY
        self._open([ProcessesPage()])
        self.table.action_move(-self.table.count)

    def action_user(self) -> None:
        """Show only the processes of this row's user; again: of all users."""
        row = about(self.table.selected)
        if self.page.user is None and not (isinstance(row, Process) and row.user):
            self.say("User: put the cursor on a process whose user is known")
            return
        self.page.user = row.user if self.page.user is None else None
        self.draw()

    @work(group="dead", exclusive=True)
    async def action_dead(self) -> None:
        """Show dead actors and why they died; loaded on demand."""
        page = self.page
        if not isinstance(page, ActorsPage):
            return
        page.wants_dead = not page.wants_dead
        self.draw()
        if page.wants_dead:
            self.table.go_to_top()  # where they are listed
            await page.ask(self.monitor.dead_actors)
            self.draw()

    def action_hide(self) -> None:
        """Hide a finding until it clears; on a hidden one: show it again."""
        found = self.chosen_of(Finding)
        self.table.untag({row.key for row in self.table.chosen})
        self._update(self.hidden.toggle(found))
        if isinstance(self.page, DetailPage) and self.page.thing in found:
            self._open(self.pages[:-1])

    def action_unhide(self) -> None:
        """Show again the findings that were hidden last."""
        self._update(self.hidden.undo())

    def _update(self, sentence: str) -> None:
        self._show(self.drawn_snapshot, self.hidden.keys)
        if sentence:
            self.say(sentence)

    @work(group="address", exclusive=True)
    async def action_address(self) -> None:
        """Switch to another Ray cluster on this host; lists those that answer."""
        others = [ray for ray in await self.monitor.choice.find_others() if ray.answers]
        await self._offer([Address(ray.url, ray.session, owner=ray.owner) for ray in others], "No other Ray cluster on this host answers")

    @work(group="address", exclusive=True)
    async def choose(self, addresses: tuple[Address, ...]) -> None:
        """Ask which of several live sessions to follow."""
        silent = f"No Ray cluster on this host answers ({len(addresses)} found); press a to try again"
        await self._offer(await self.monitor.choice.find_answering(addresses), silent)

    async def _offer(self, addresses: Sequence[Address], silent: str) -> None:
        if not addresses:
            self.say(silent, "warning")
            return
        from cockpit.ui.dialogs import AddressDialog

        chosen = await self.push_screen_wait(AddressDialog(addresses))
        if chosen is not None:
            self.monitor.choice.follow(replace(chosen, chosen=chosen.origin.startswith("session")))
