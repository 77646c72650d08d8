"""Asks the person at an open screen whether a plan that an agent has requested may be carried out.

Every screen that may act listens on a unix socket in a folder that only its user can enter. Both ends ask the kernel who the other is, and
speak only with the same user. The plan goes over as data: the screen itself writes it as text, and its person answers.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from cockpit.actions.plan import Plan, Receipt
from cockpit.actions.plan_text import plan_lines
from cockpit.actions.table import ACTIONS, STEPS
from cockpit.sources.source import wait_within
from cockpit.trust.private_folder import private_folders

MAX_BYTES: Final = 32 << 20
"""Of one message: a plan with 10,000 processes has 5 MB, and 10 MB if their command lines are long."""
HELLO_TIMEOUT_S: Final = 5.0
"""For a screen to accept the question: it draws many times a second."""
MAX_REASON_CHARS: Final = 300
_SUFFIX: Final = ".agreement"


class Question(msgspec.Struct, frozen=True):
    """A plan, and who wants it."""

    plan: Plan
    reason: str
    """The agent's own words."""
    client: str
    """The name that the agent's program gives itself."""

    @property
    def digest(self) -> str:
        """What an answer names, so that it can't be taken for the answer to another question."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()


class Answer(msgspec.Struct, frozen=True):
    """What the screen replies: first whether it shows the question, then what its person has decided."""

    digest: str
    agreed: bool = False
    shown: bool = False
    """It is on the screen now; the decision follows."""
    why: str = ""
    """Why it was not agreed to."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of a plan, for the screen. Without a receipt nothing was done, and `error` is the reason; without both it is unknown."""

    receipt: Receipt | None = None
    error: str = ""


class Asked:
    """A question on its way to the person at this screen."""

    def __init__(self, question: Question, pid: int) -> None:
        self.question, self.pid = question, pid
        """`pid`: the process that asks, as the kernel reports it."""
        loop = asyncio.get_running_loop()
        self.decision: asyncio.Future[bool] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        """Set when the agent's server has reported it, or is gone."""

    def decide(self, *, agreed: bool) -> None:
        """Answer, once."""
        if not self.decision.done():
            self.decision.set_result(agreed)


Show = Callable[[Asked], str | None]
"""Shows a question; returns why it can't be shown now, or `None`."""


class AgreementListener:
    """The screen's end."""

    def __init__(self, show: Show, folders: Callable[[], Iterable[str]] = private_folders) -> None:
        self._show, self._folders = show, folders
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def start(self) -> None:
        """Listen from now on; without a private folder nobody can ask here."""
        for folder in self._folders():
            path = Path(folder) / f"{os.getpid()}{_SUFFIX}"
            with suppress(OSError):  # the path is too long for a socket
                path.unlink(missing_ok=True)  # of a process that had this pid before
                self._server = await asyncio.start_unix_server(self._answer, path, limit=MAX_BYTES)
                self._path = path
                return

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            pid, uid = _peer_of(writer)
            if uid == os.geteuid():
                await self._ask_person(reader, writer, pid)
        except (OSError, EOFError, RecursionError, msgspec.MsgspecError):
            pass  # whoever asks is gone, or speaks something else
        finally:
            writer.close()

    async def _ask_person(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pid: int) -> None:
        question = msgspec.json.decode(await _read_line(reader), type=Question)
        asked = Asked(question, pid)
        why = self._show(asked) if _can_be_written(question.plan) else "the open screen is another release of cockpit"
        if why is not None:
            await _send(writer, Answer(question.digest, why=why))
            return
        await _send(writer, Answer(question.digest, shown=True))

        agreed = False
        following = asyncio.ensure_future(_read_line(reader))  # the outcome; its end, if nobody waits for the decision any more
        try:
            waited: list[asyncio.Future[Any]] = [asked.decision, following]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                return
            agreed = asked.decision.result()
            await _send(writer, Answer(question.digest, agreed=agreed, why="" if agreed else "the person at the screen has declined it"))
            if agreed:
                asked.outcome.set_result(msgspec.json.decode(await following, type=Outcome))
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError, EOFError, OSError):
                await following
            asked.decide(agreed=False)
            if not asked.outcome.done():
                lost = "nobody waits for an answer from here any more: it was given elsewhere, or the agent is gone"
                asked.outcome.set_result(Outcome() if agreed else Outcome(error=lost))


class Agreement:
    """The decision of a person at a screen. If it is a yes, the screen waits for the outcome."""

    def __init__(self, *, agreed: bool, why: str = "", writer: asyncio.StreamWriter | None = None) -> None:
        self.agreed, self.why, self._writer = agreed, why, writer

    async def report(self, outcome: Outcome) -> None:
        """Show the outcome on the screen that has agreed; a screen that is gone misses it."""
        if self._writer is not None:
            with suppress(OSError):
                await _send(self._writer, outcome)

    def close(self) -> None:
        """Tell the screen no more. Without an outcome it shows that it is unknown."""
        if self._writer is not None:
            self._writer.close()


async def ask_screens(question: Question, timeout_s: float, folders: Callable[[], Iterable[str]] = private_folders) -> Agreement:
    """Show the question on every open screen of this user; the first decision counts, and the others close their dialog."""
    asking = {asyncio.ensure_future(_ask_screen(path, question)) for path in _sockets(folders())}
    deadline = asyncio.get_running_loop().time() + timeout_s
    refusals: list[str] = []
    try:
        while asking:
            left = deadline - asyncio.get_running_loop().time()
            done, asking = await asyncio.wait(asking, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return Agreement(agreed=False, why=f"nobody has answered on a cockpit screen within {timeout_s:.0f} s")
            answers = [task.result() for task in done]
            decisions = sorted((answer for answer, was_shown in answers if was_shown), key=lambda answer: answer.agreed)
            for late in decisions[1:]:
                late.close()
            if decisions:
                return decisions[0]  # of two at the same moment a no
            refusals += [answer.why for answer, _ in answers if answer.why]
        return Agreement(agreed=False, why="; ".join(dict.fromkeys(refusals)) or "no cockpit screen of this user that may act is open")
    finally:
        for task in asking:
            if not task.cancel() and not task.cancelled() and task.exception() is None:  # it has ended just now
                task.result()[0].close()


async def _ask_screen(path: Path, question: Question) -> tuple[Agreement, bool]:
    """Return the decision, and whether a person has made it."""
    writer, is_kept, was_shown = None, False, False
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=MAX_BYTES)
        if _peer_of(writer)[1] != os.geteuid():
            return Agreement(agreed=False, why=f"another user's process listens at {path}"), False
        await _send(writer, question)
        answer = msgspec.json.decode(await wait_within(HELLO_TIMEOUT_S, _read_line(reader)), type=Answer)
        if not answer.shown:
            return Agreement(agreed=False, why=answer.why), False
        was_shown = True
        answer = msgspec.json.decode(await _read_line(reader), type=Answer)
        is_kept = answer.agreed and answer.digest == question.digest
        why = "" if is_kept else answer.why or "the screen has answered another question"
        return Agreement(agreed=is_kept, why=why, writer=writer if is_kept else None), True
    except asyncio.TimeoutError:  # an `OSError` too, since Python 3.11
        return Agreement(agreed=False, why="a cockpit screen does not answer"), False
    except (OSError, EOFError, RecursionError, msgspec.MsgspecError):  # a screen that was killed leaves its socket behind
        return Agreement(agreed=False, why="the cockpit screen was closed" if was_shown else ""), was_shown
    finally:
        if writer is not None and not is_kept:
            writer.close()


def _can_be_written(plan: Plan) -> bool:
    """Whether this release knows the action, and can write the plan for a person."""
    try:
        plan_lines(plan, time.time())
    except Exception:  # noqa: BLE001 whatever is wrong with another program's plan, it must not end the screen
        return False
    return plan.action in {action.id for action in (*ACTIONS, *STEPS)}


def _sockets(folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(Path(folder).glob(f"*{_SUFFIX}"))


def _peer_of(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Return pid and uid of the process at the other end, as the kernel reports them."""
    end: socket.socket = writer.get_extra_info("socket")
    pid, uid, _ = struct.unpack("3i", end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return pid, uid


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Read one message. Raises `EOFError`, also for one that is too long, and `OSError`."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError as error:
        raise EOFError(str(error)) from None


async def _send(writer: asyncio.StreamWriter, message: Question | Answer | Outcome) -> None:
    writer.write(msgspec.json.encode(message) + b"\n")
    await writer.drain()
