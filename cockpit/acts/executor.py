"""The only way anything is changed: an act is planned, performed as planned, logged before and after, and followed by a refresh.

It knows of an act only that it can be planned, weighed and performed. It is never built when cockpit is read-only, and neither is the way
to hosts that writes.
"""

from __future__ import annotations

import asyncio
import time

from msgspec.structs import replace

from cockpit.acts.act import Act, Impact
from cockpit.acts.audit import Audit, audit_path
from cockpit.acts.plan import Aim, Plan, Receipt
from cockpit.acts.table import find_act
from cockpit.acts.world import ActContext, Hear
from cockpit.config.reach import HostEntry
from cockpit.monitor.monitor import ClusterMonitor
from cockpit.sources.source import NotMeantError, SourceError


class ActionExecutor:
    """Makes plans of acts, and carries out plans. One act at a time."""

    def __init__(self, monitor: ClusterMonitor, audit: Audit | None = None) -> None:
        self._monitor, self._audit = monitor, audit or Audit(audit_path(), time.time)
        self._context = ActContext(monitor)
        self._busy = asyncio.Lock()
        self._under_way: tuple[str, Plan] | None = None
        """The act that the log has no outcome of yet."""
        monitor.ending.append(self.close)

    def close(self) -> None:
        """End what is under way at once; an act on a host ends with whoever listens to it, and the log says that it was broken off."""
        self._context.close()
        self._end(None)

    def register_host(self, entry: HostEntry) -> str:
        """What a host is called here; one that nobody knows is reached as the entry says from now on. Raises `SourceError`."""
        return self._context.register_host(entry)

    async def plan(self, act: Act, aim: Aim, hear: Hear = lambda *_: None) -> Plan:
        """What would be hit, as of now, what ends with it, and the word to be typed; nothing is changed.

        Raises `NotMeantError` where it is not for this Ray, `SourceError`.
        """
        if act.why_not_in_pods is not None and self._monitor.kubernetes is not None:
            raise NotMeantError(act.why_not_in_pods)
        await self._monitor.wait_until_complete()  # a key may be pressed before the first answers are in
        self._context.refuse_unshown(aim.shown)
        plan = self._context.with_ray(await act.plan(aim, self._context, self._by_title(hear)), aim)
        if act.is_for_followed and not plan.empty:
            await self._context.refuse_other_ray(plan)
        impact = act.impact(plan, self._context.snapshot, self._context.addresses) if plan.targets else Impact()
        return replace(plan, losses=(*plan.losses, *impact.ends), word=plan.word or impact.word)

    async def perform(self, plan: Plan, hear: Hear = lambda *_: None) -> Receipt:
        """Exactly what was planned, where it is still so. Raises `SourceError` when nothing was begun."""
        if self._busy.locked():
            raise SourceError("another action is running")
        async with self._busy:
            if find_act(plan.act).is_for_followed:
                await self._context.refuse_other_ray(plan)
            return await self._log(plan, hear)

    async def _log(self, plan: Plan, hear: Hear) -> Receipt:
        began, receipt = time.monotonic(), None
        unlogged = self._begin(plan)
        try:
            receipt = await find_act(plan.act).perform(plan, self._context, self._by_title(hear))
        finally:
            unlogged = self._end(receipt) or unlogged
            self._monitor.refresh()
        notes = (*receipt.notes, *([f"the action log could not be written: {unlogged}"] if unlogged else []))
        return replace(receipt, took=time.monotonic() - began, notes=notes)

    def _by_title(self, hear: Hear) -> Hear:
        """Tells how far a host is by what people call it."""
        return lambda host, progress: hear(self._context.titles_of([host])[host], progress)

    def _begin(self, plan: Plan) -> str | None:
        """Why it is not in the log, if it isn't: a full disk must not hinder the act that mends it."""
        act, unlogged = "", None
        try:
            act = self._audit.begin(plan)
        except OSError as error:
            unlogged = error.strerror or str(error)
        self._under_way = act, plan
        return unlogged

    def _end(self, receipt: Receipt | None) -> str | None:
        """Once: whoever closes it in the middle of an act may not come back to its end."""
        if self._under_way is None:
            return None
        (act, plan), self._under_way = self._under_way, None
        try:
            self._audit.end(act, plan, receipt)
        except OSError as error:
            return error.strerror or str(error)
        return None
