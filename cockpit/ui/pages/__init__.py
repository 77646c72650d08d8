"""Defines the pages: pure functions from a view to sections. `PAGES` has the numbered pages, in the order of their numbers."""

from cockpit.ui.pages.actors import ActorsPage
from cockpit.ui.pages.findings import FindingsPage
from cockpit.ui.pages.jobs import JobsPage
from cockpit.ui.pages.nodes import NodesPage
from cockpit.ui.pages.overview import OverviewPage
from cockpit.ui.pages.presets import PresetsPage
from cockpit.ui.pages.processes import ProcessesPage
from cockpit.ui.section import Page

PAGES: tuple[type[Page], ...] = (OverviewPage, NodesPage, ActorsPage, ProcessesPage, JobsPage, FindingsPage, PresetsPage)
