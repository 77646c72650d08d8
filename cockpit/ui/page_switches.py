"""What keys change about the open page: its tree, its user, its dead actors, its order; and the page on a node's memory."""

from __future__ import annotations

from textual import work

from cockpit.model import Process
from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.details import about
from cockpit.ui.pages.memory import MemoryPage, fullest_node, memory_of
from cockpit.ui.pages.page import Page
from cockpit.ui.pages.processes import BY_GPU_MEMORY, ProcessesPage
from cockpit.ui.replay import ReplayApp


class SwitchingApp(ReplayApp):
    """The part of the application that turns the switches of pages."""

    def _open_deeper(self, page: Page) -> None:
        """What is opened anew begins at its top; the way back leads to the row where one was."""
        self.table.forget_place(page.heading)
        self._open([*self.pages, page])

    def action_tree(self) -> None:
        """Show as a tree, or as a list again."""
        if self.page.can_tree:
            self.page.tree = not self.page.tree
            self.draw()
        else:
            self.say("Only the pages Actors and Processes have a tree")

    def action_memory(self) -> None:
        """Host memory of the node under the cursor, of a finding's node, or of the open one; else of the fullest."""
        if isinstance(self.page, MemoryPage):
            return
        page = memory_of(self.page, self.table.selected, self.drawn_snapshot)
        if page is None and (node := fullest_node(self.drawn_snapshot)) is not None:
            page = MemoryPage(node)
            self.say(f"Host memory of {node.title}, of all nodes the nearest to its kill line")
        if page is not None:
            self._open_deeper(page)
        else:
            self.say("No node's host memory is known")

    def action_gpu_memory(self) -> None:
        """Who holds most GPU memory: Processes, the greatest first; again: in their usual order."""
        is_again = isinstance(self.page, ProcessesPage) and self.table.sorts.get("processes") == BY_GPU_MEMORY
        self.table.sorts["processes"] = ("", False) if is_again else BY_GPU_MEMORY
        self._open([ProcessesPage()])
        self.table.action_move(-self.table.count)

    def action_user(self) -> None:
        """Only the processes of this row's user; again: of all users."""
        row = about(self.table.selected)
        if self.page.user is not None:
            self.page.user = None
        elif isinstance(self.page, ProcessesPage) and isinstance(row, Process) and row.user:
            self.page.user = row.user
        self.draw()

    @work(group="dead", exclusive=True)
    async def action_dead(self) -> None:
        """Dead actors and why they died; loaded on demand."""
        page = self.page
        if not isinstance(page, ActorsPage):
            self.say("Dead actors are listed on the page Actors (3)")
            return
        page.wants_dead = not page.wants_dead
        self.draw()
        if page.wants_dead:
            self.table.go_to_top()  # where they are listed
            await page.ask(self.monitor.dead_actors)
            self.draw()
