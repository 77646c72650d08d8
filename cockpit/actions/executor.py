"""Carries out actions, the only way anything is changed: plans them, performs exactly the plan, logs before and after, and refreshes.

It is not built when cockpit is read-only, and neither is the connection that changes hosts.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from msgspec.structs import replace

from cockpit.actions.action import Action, Impact
from cockpit.actions.action_context import ActionContext, OnProgress
from cockpit.actions.audit import Audit, audit_path
from cockpit.actions.plan import ActionTarget, Plan, Receipt
from cockpit.actions.table import find_action
from cockpit.config.reach import HostEntry
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.sources.source import NotMeantError, SourceError
from cockpit.text import clean

MAX_WORD_CHARS: Final = 100
"""Of a word that a person must type."""


class ActionExecutor:
    """Plans actions, and performs one plan at a time."""

    def __init__(self, monitor: ClusterMonitor, audit: Audit | None = None) -> None:
        self._monitor, self._audit = monitor, audit or Audit(audit_path(), time.time)
        self._context = ActionContext(monitor)
        self._busy = asyncio.Lock()
        self._running: tuple[str, Plan] | None = None
        """The log id and plan of the action whose outcome is not logged yet."""
        monitor.ending.append(self.close)

    def close(self) -> None:
        """Abort the running action. Its part on each host ends when the connection closes, and the log records that it was broken off."""
        self._context.close()
        self._log_outcome(None)

    def register_host(self, entry: HostEntry) -> str:
        """Return cockpit's name for a host; an unknown host is reached as the entry says from now on. Raises `SourceError`."""
        return self._context.register_host(entry)

    async def plan(self, action: Action, requested: ActionTarget, on_progress: OnProgress = lambda *_: None) -> Plan:
        """Return the changes that would be made now, the live work that ends, and the word to be typed. Nothing is changed.

        Raises `NotMeantError` if the action is not possible for this Ray, and `SourceError`.
        """
        if action.why_not_in_pods is not None and self._monitor.kubernetes is not None:
            raise NotMeantError(action.why_not_in_pods)
        await self._monitor.wait_until_complete()  # a key may be pressed before the first answers
        self._context.refuse_unshown(requested.shown)
        plan = self._context.with_ray(await action.plan(requested, self._context, self._by_title(on_progress)), requested)
        if action.is_for_followed and not plan.empty:
            await self._context.refuse_other_ray(plan)
        impact = action.impact(plan, self._context.snapshot, self._context.addresses) if plan.targets else Impact()
        return replace(plan, losses=(*plan.losses, *impact.ends), word=plan.word or _word_to_type(impact.word, action))

    async def perform(self, plan: Plan, on_progress: OnProgress = lambda *_: None) -> Receipt:
        """Perform exactly the plan, on targets that are still the same. Raises `SourceError` if nothing was begun."""
        if self._busy.locked():
            raise SourceError("another action is running")
        async with self._busy:
            action = find_action(plan.action)
            if action.is_for_followed:
                await self._context.refuse_other_ray(plan)

            # A full disk must not block the action that frees it: a log that can't be written is only reported.
            began, log_id, unlogged, receipt = time.monotonic(), "", None, None
            try:
                log_id = self._audit.begin(plan)
            except OSError as error:
                unlogged = error.strerror or str(error)
            self._running = log_id, plan
            try:
                receipt = await action.perform(plan, self._context, self._by_title(on_progress))
            finally:
                unlogged = self._log_outcome(receipt) or unlogged
                self._monitor.refresh()
            notes = (*receipt.notes, *([f"the action log could not be written: {unlogged}"] if unlogged else []))
            return replace(receipt, took=time.monotonic() - began, notes=notes)

    def _by_title(self, on_progress: OnProgress) -> OnProgress:
        """Report the progress of a host under the name that people use."""
        return lambda host, progress: on_progress(self._context.titles_of([host])[host], progress)

    def _log_outcome(self, receipt: Receipt | None) -> str | None:
        """Log the outcome once, also if `close` aborts the action. Return why it can't be logged, or `None`."""
        if self._running is None:
            return None
        (log_id, plan), self._running = self._running, None
        try:
            self._audit.end(log_id, plan, receipt)
        except OSError as error:
            return error.strerror or str(error)
        return None


def _word_to_type(word: str | None, action: Action) -> str | None:
    """Return the word, or the action's own for one that is blank, very long, or has signs that nobody sees: jobs choose their names."""
    return word if word is None or (word.strip() and len(word) <= MAX_WORD_CHARS and clean(word) == word) else action.id
