"""Sends notifications to all targets in tasks of its own, unless another cockpit does so for this cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from cockpit.config.notify import NotifyTarget
from cockpit.model import Snapshot
from cockpit.notify.delivery import deliver
from cockpit.notify.message import Message
from cockpit.notify.recipient import Recipient
from cockpit.notify.robots import ChatBotRefusedError
from cockpit.notify.sent_state import SentNotices, cluster_folder, identify, load_sent, save_sent
from cockpit.recording.folder import Lock, make_folder
from cockpit.sources.source import SourceError, run_in_thread
from cockpit.text import explain_os_error
from cockpit.text.bug import bug

RETRY_S = 30.0
"""Seconds between two tries to take the lock of the cluster: the cockpit that holds it may end."""
Deliver = Callable[[NotifyTarget, Message], Awaitable[None]]


class Notifier:
    """Sends what changes from snapshot to snapshot; its callers never wait."""

    def __init__(
        self, targets: Sequence[NotifyTarget], root: Path, show_fault: Callable[[str | None], None], *, send: Deliver = deliver
    ) -> None:
        """`root`: the folder with a folder for each cluster; `show_fault`: called with the present trouble; `None`: none."""
        self.holder: str | None = None
        """The other cockpit that sends for this cluster, in words."""
        self._targets, self._root, self._show_fault, self._send = targets, root, show_fault, send
        self._recipients: list[Recipient] = []
        self._folder: Path | None = None
        self._lock: Lock | None = None
        self._last_try = float("-inf")
        self._trouble: str | None = None
        """An error of the file of sent notices, or of the lock."""
        self._snapshot = Snapshot()
        self._has_news = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._saving = asyncio.Lock()

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Take a new snapshot; returns at once."""
        self._snapshot = snapshot
        self._has_news.set()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="notify")

    def close(self) -> None:
        """Stop at once. The next cockpit sends what was not sent yet."""
        if self._running is not None:
            self._running.cancel()
        self._leave()

    async def _run(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            snapshot = self._snapshot
            try:
                if snapshot.cluster.address is not None and await self._try_lock(snapshot):
                    for number, recipient in enumerate(self._recipients):
                        recipient.update(snapshot)
                        if number not in self._sending and (message := recipient.message(snapshot)) is not None:
                            self._start_sending(number, recipient, message)
            except (OSError, SourceError) as error:
                self._trouble = _describe_save_error(error)
            except Exception as error:  # noqa: BLE001 nobody waits for this task: it must go on, and report the error
                self._trouble = bug(error)
            self._report_trouble()

    def _start_sending(self, number: int, recipient: Recipient, message: Message) -> None:
        self._sending[number] = task = asyncio.get_running_loop().create_task(self._send_one(recipient, message), name="notify one")

        def forget(done: asyncio.Task[None]) -> None:
            if self._sending.get(number) is done:  # another cluster's message may be on its way to the same target by now
                del self._sending[number]

        task.add_done_callback(forget)

    async def _send_one(self, recipient: Recipient, message: Message) -> None:
        try:
            await self._send(recipient.target, message)
        except ChatBotRefusedError as error:
            recipient.note_failure(str(error), self._snapshot.taken, error.pause)
        except Exception as error:  # noqa: BLE001 its text may contain an address, so only its type is shown
            recipient.note_failure(f"cockpit has a bug: {type(error).__name__}", self._snapshot.taken)
        else:
            recipient.note_sent(message, self._snapshot.taken)
            await self._save()
        self._report_trouble()

    async def _try_lock(self, snapshot: Snapshot) -> bool:
        """Whether this cockpit holds the lock of the cluster; tries to take it now and then."""
        folder = self._root / cluster_folder(snapshot.cluster)
        if folder != self._folder:
            self._leave()
            self._folder = folder
        if not self._recipients and not 0 <= snapshot.taken - self._last_try < RETRY_S:
            self._last_try = snapshot.taken

            def take_lock() -> tuple[Lock, SentNotices | None]:
                make_folder(folder)
                lock = Lock(folder)
                # `None`: another cockpit holds it. A file system without locks counts as ours.
                return lock, None if lock.take() is False else load_sent(folder)

            lock, sent = await run_in_thread(take_lock, folder)
            if sent is None:
                self.holder = lock.holder()
            else:
                self.holder, self._lock, self._trouble = None, lock, None
                self._recipients = [Recipient(target, sent.get(identify(target), ())) for target in self._targets]
        return bool(self._recipients)

    async def _save(self) -> None:
        """Write down which notices were sent."""
        async with self._saving:
            folder, sent = self._folder, {identify(one.target): one.open_notices for one in self._recipients}
            if folder is None:
                return
            try:
                await run_in_thread(lambda: save_sent(folder, sent), folder)
                self._trouble = None
            except (OSError, SourceError) as error:
                self._trouble = _describe_save_error(error)

    def _leave(self) -> None:
        """Stop sending for this cluster, and release its lock."""
        for task in self._sending.values():
            task.cancel()
        if self._lock is not None:
            self._lock.release()
        self._lock, self._folder, self._recipients, self._last_try, self.holder = None, None, [], float("-inf"), None

    def _report_trouble(self) -> None:
        names = [f"target {number} ({one.target.kind}): {one.failure}" for number, one in enumerate(self._recipients, 1) if one.failure]
        self._show_fault("; ".join([*names, *([self._trouble] if self._trouble else [])]) or None)


def _describe_save_error(error: OSError | SourceError) -> str:
    return f"the list of sent messages can't be saved: {explain_os_error(error) if isinstance(error, OSError) else error}"
