"""A plan of an agent and a person at a screen: the decision comes from the same user, for this very question, or not at all."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import msgspec
import pytest

from cockpit.actions import agreement
from cockpit.actions.agreement import AgreementListener, Answer, Outcome, Question, ask_screens
from cockpit.actions.plan import Plan, Target
from cockpit.trust import private_folder
from cockpit.trust.private_folder import is_private, private_folders

PLAN = Plan("kill-orphans", "Kill orphans", (Target("process", "node1", pid=1200, ticks=5),), requests={"node1": {"act": "kill"}})
QUESTION = Question(PLAN, "it holds GPU 2", "an agent")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="c") as made:  # a socket's path has at most 107 bytes
        yield made


class Screen:
    """A screen that answers at once, or when a test wants it to."""

    def __init__(self, folder, says=None, why=None):
        self.asked, self.says, self.why = [], says, why
        self.listener = AgreementListener(self.show, lambda: [folder])

    def show(self, asked):
        if self.why:
            return self.why
        self.asked.append(asked)
        if self.says is not None:
            asked.decide(agreed=self.says)
        return None

    async def __aenter__(self):
        await self.listener.start()
        return self

    async def __aexit__(self, *_):
        self.listener.close()


def ask(folder, timeout_s=5.0):
    return ask_screens(QUESTION, timeout_s, lambda: [folder])


async def test_a_yes_is_passed_on_and_the_outcome_comes_back_to_the_screen(folder):
    async with Screen(folder, says=True) as screen:
        answer = await ask(folder)
        assert answer.agreed
        (asked,) = screen.asked
        assert (asked.question, asked.pid) == (QUESTION, os.getpid())
        await answer.report(Outcome(PLAN.receipt(done=PLAN.targets)))
        assert (await asked.outcome).receipt.done == PLAN.targets


@pytest.mark.parametrize(("says", "is_agreed"), [((True, True), True), ((True, False), False), ((False, True), False)])
async def test_of_two_screens_that_answer_at_the_same_moment_a_no_counts_and_none_waits(folder, says, is_agreed):
    places = [f"{folder}/{number}" for number in range(2)]
    for place in places:
        os.mkdir(place)
    async with Screen(places[0]) as one, Screen(places[1]) as two:
        asking = asyncio.ensure_future(ask_screens(QUESTION, 5.0, lambda: places))
        while not (one.asked and two.asked):
            await asyncio.sleep(0.01)
        for screen, said in zip((one, two), says, strict=True):
            screen.asked[0].decide(agreed=said)
        answer = await asking
        assert answer.agreed is is_agreed
        answer.close()
        assert [(await asyncio.wait_for(screen.asked[0].outcome, 5)).receipt for screen in (one, two)] == [None, None]


async def test_a_no_is_a_no(folder):
    async with Screen(folder, says=False):
        answer = await ask(folder)
    assert (answer.agreed, answer.why) == (False, "the person at the screen has declined it")


async def test_without_a_screen_it_says_so_and_a_socket_left_behind_is_no_screen(folder):
    assert (await ask(folder)).why == "no cockpit screen of this user that may act is open"
    async with Screen(folder) as screen:
        os.rename(screen.listener._path, f"{folder}/1.agreement")
    assert (await ask(folder)).why == "no cockpit screen of this user that may act is open"


async def test_a_screen_that_can_not_show_it_says_why(folder):
    async with Screen(folder, why="another dialog of an action is open on the screen"):
        assert (await ask(folder)).why == "another dialog of an action is open on the screen"


async def test_a_screen_that_is_stopped_is_no_closed_one(folder, monkeypatch):
    async def hang(reader, writer):
        await reader.read()
        writer.close()

    monkeypatch.setattr(agreement, "HELLO_TIMEOUT_S", 0.1)
    server = await asyncio.start_unix_server(hang, f"{folder}/3.agreement")
    assert (await ask(folder)).why == "a cockpit screen does not answer"
    server.close()


async def test_nobody_answers_in_time_and_the_dialog_learns_that_nobody_waits(folder):
    async with Screen(folder) as screen:
        answer = await ask(folder, timeout_s=0.2)
        assert (answer.agreed, answer.why) == (False, "nobody has answered on a cockpit screen within 0 s")
        assert (await screen.asked[0].outcome).receipt is None


async def test_a_yes_after_the_agent_has_gone_does_nothing(folder):
    async with Screen(folder) as screen:
        await ask(folder, timeout_s=0.1)
        await screen.asked[0].outcome
        screen.asked[0].decide(agreed=True)
        assert screen.asked[0].decision.result() is False


async def test_another_user_can_neither_ask_nor_answer(folder, monkeypatch):
    own = os.geteuid()
    async with Screen(folder, says=True) as screen:
        monkeypatch.setattr(agreement, "_peer_of", lambda writer: (1, own + 1))
        answer = await ask(folder)
        assert (answer.agreed, screen.asked) == (False, [])


async def test_an_answer_to_another_question_is_no_answer(folder):
    async def forge(reader, writer):
        await reader.readuntil(b"\n")
        for answer in (Answer("other", shown=True), Answer("other", agreed=True)):
            writer.write(msgspec.json.encode(answer) + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(forge, f"{folder}/2.agreement")
    answer = await ask(folder)
    server.close()
    assert (answer.agreed, answer.why) == (False, "the screen has answered another question")


@pytest.mark.parametrize(
    "said",
    [
        b"", b"{}\n", b"[]\n", b"\xff\n", b"x" * 100_000 + b"\n", b'{"plan": {"action": "kill", "title": "x"}}\n',
        b'{"plan": {"action": "kill", "title": "x", "requests": {"a": {"b": ' + b"[" * 100_000 + b"\n",
    ],
    ids=["nothing", "an empty object", "a list", "no text", "a long line", "a part", "a deep one"],
)  # fmt: skip
async def test_a_screen_survives_whatever_is_sent_to_it(folder, said):
    async with Screen(folder, says=True) as screen:
        reader, writer = await asyncio.open_unix_connection(screen.listener._path)
        writer.write(said)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        assert screen.asked == []
        assert (await ask(folder)).agreed


@pytest.mark.parametrize(
    "plan", [Plan("format-disks", "Format"), Plan("kill", "Kill", (Target("process", "node1"),))], ids=["no action", "no pid"]
)
async def test_a_plan_that_the_screen_can_not_write_is_not_shown(folder, plan):
    async with Screen(folder, says=True) as screen:
        answer = await ask_screens(Question(plan, "x", "y"), 5.0, lambda: [folder])
    assert (answer.agreed, answer.why, screen.asked) == (False, "the open screen is another release of cockpit", [])


def test_only_a_folder_that_nobody_else_can_enter_is_private(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir(mode=0o755)
    os.chmod(tmp_path / "open", 0o755)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    assert [is_private(str(tmp_path / name)) for name in ("new", "open", "link")] == [True, False, False]
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert next(private_folders()) == str(tmp_path / "cockpit")
    assert Path(tmp_path / "cockpit").stat().st_mode & 0o777 == 0o700


def test_another_user_who_takes_the_name_of_the_folder_first_blocks_nobody(tmp_path, monkeypatch):
    taken = tmp_path / f"cockpit-{os.geteuid()}"
    taken.mkdir()
    taken.chmod(0o777)
    monkeypatch.setattr(private_folder, "SHARED", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    (found,) = private_folders()
    assert found != str(taken)
    assert Path(found).stat().st_mode & 0o777 == 0o700
    assert list(private_folders()) == [found]
