"""What a person pastes into a shell from a remedy is the command of the table, whatever the log says."""

from __future__ import annotations

import re
import shlex

import pytest

from cockpit.failures import known_errors
from cockpit.failures.commands import fill_remedy
from cockpit.failures.known.error import KnownError

MARK = "rm -rf ~"
HOSTILE = (
    f"x'; {MARK} #", f"x\"; {MARK} #", f"$({MARK})", f"`{MARK}`", f"x; {MARK}", f"x | {MARK}", f"x\n{MARK}", f"x && {MARK}", f"x' '{MARK}",
    "--use-compress-program=reboot", "-rf", "$IFS", "x > /etc/passwd", "x\\", "!rm", "*", "{0.__class__}", "x\u2028y", "x\u202ey",
)  # fmt: skip
PART = re.compile(r"\{(\w+)\}")


def commands_with_parts(error: KnownError) -> list[str]:
    return [command for command in error.remedy.split("`")[1::2] if PART.search(command.replace("{{", "").replace("}}", ""))]


ROWS = [error for error in known_errors() if commands_with_parts(error)]


def test_many_rows_say_a_command_with_a_part():
    assert len(ROWS) > 50


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("error", ROWS, ids=[error.name for error in ROWS])
def test_a_hostile_part_is_left_out_of_every_command(error: KnownError, hostile: str):
    names = PART.findall(error.remedy)
    said = fill_remedy(error.remedy, dict.fromkeys(names, hostile)).split("`")[1::2]
    meant = fill_remedy(error.remedy, {name: name.upper() for name in names}).split("`")[1::2]
    assert len(said) == len(meant)
    for command, harmless in zip(said, meant, strict=True):
        if hostile not in ("x > /etc/passwd", "-rf"):
            assert command == harmless
        assert MARK not in command
        if command != harmless:
            assert len(shlex.split(command)) == len(shlex.split(harmless)), "the part is one word"
        assert " -rf" not in command


@pytest.mark.parametrize("error", ROWS, ids=[error.name for error in ROWS])
def test_no_log_chooses_what_is_run_or_deleted(error: KnownError):
    for command in commands_with_parts(error):
        filled = fill_remedy(f"`{command}`", dict.fromkeys(PART.findall(command), "/tmp/evil"))
        assert not filled.startswith("`/tmp/evil ")
        program = re.match(r"`(\S+)", filled)
        assert program is not None
        acts = program[1] in ("rm", "mv", "kill", "chmod", "chown", "bash", "sh", "source", "ldd", "enroot") or any(
            words in filled
            for words in ("pip install", "pip download", "git config", "ray start", "ray job delete", "RAY_ADDRESS=", "-image=", "-m verl.")
        )
        assert not acts or "evil" not in filled


def test_usual_parts_stand_in_the_command():
    assert fill_remedy("`ls -d '{path}'`", {"path": "/data/my models/v1.2"}) == "`ls -d '/data/my models/v1.2'`"
    assert fill_remedy("`python -c 'import {module}'`", {"module": "flash_attn.ops"}) == "`python -c 'import flash_attn.ops'`"
    assert fill_remedy("`curl http://{host}:{port}/x`", {"host": "[::1]", "port": "80"}) == "`curl http://[::1]:80/x`"


def test_what_is_installed_or_joined_is_named_beside_the_command():
    said = fill_remedy("{want} is missing: `python -m pip install '{want}'`", {"want": "numpy>=1.17,!=2.0"})
    assert said == "numpy>=1.17,!=2.0 is missing: `python -m pip install 'WANT'`"
    assert fill_remedy("`ray start --address={head}:6379`", {"head": "203.0.113.9"}) == "`ray start --address=HEAD:6379`"
    assert fill_remedy("`ray start --address=...:{port}`", {"port": "6379"}) == "`ray start --address=...:6379`"
    assert fill_remedy("`pip install ray=={ray}`", {"ray": "2.44.1.post1"}) == "`pip install ray==2.44.1.post1`"
    assert fill_remedy("`pip install ray=={ray}`", {"ray": "2.44.1@https://example.com/x.whl"}) == "`pip install ray==RAY`"


def test_a_backtick_of_the_log_begins_no_command():
    assert fill_remedy("See {what}: `df`", {"what": "`reboot`"}) == "See 'reboot': `df`"
