"""What a real bash calls `show` with, and what the reader of scripts says that it would."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from cockpit.budget.scripts import UNKNOWN, commands

BASH = shutil.which("bash")
_SHOW = 'show() { printf "%s\\0" "$#" "$@" >&3; }\n'


def by_bash(script: str, *args: str, folder: Path | None = None) -> list[list[str]]:
    """What a real bash calls `show` with."""
    whole = f"exec 3>&1 >/dev/null 2>&1\n{_SHOW}{script}"
    words = [BASH or "bash", "--norc", "-c", whole, "x", *args]
    said = subprocess.run(words, capture_output=True, check=False, env={}, timeout=20, cwd=folder).stdout
    return _calls(said.decode(errors="replace").split("\0")[:-1])


def _calls(words: list[str]) -> list[list[str]]:
    calls = []
    while words:
        number = int(words[0])
        calls.append(words[1 : number + 1])
        words = words[number + 1 :]
    return calls


def given(script: str, args: tuple[str, ...]) -> str:
    """A script that sets its own arguments first."""
    return f"set -- {shlex.join(args)}\n{script}" if args else script


def read_here(script: str, *args: str, files: dict[str, str] | None = None, **env: str | None) -> list[list[str]]:
    """What the reader says that `show` is called with; nothing may be left unread."""
    found = commands(given(script, args), env=env, read=(files or {}).get)
    assert not found.unread
    return [list(command.argv[1:]) for command in found.commands if command.argv[0] == "show"]


def all_that_is_known_is_so(script: str, *args: str, folder: Path | None = None, files: dict[str, str] | None = None) -> bool:
    """Whether each call that the reader is sure of is one that bash makes too."""
    found = commands(given(script, args), env={}, read=(files or {}).get)
    calls = [list(command.argv[1:]) for command in found.commands if command.argv[0] == "show" and not command.maybe]
    expected = by_bash(script, *args, folder=folder)
    return all(call in expected for call in calls if UNKNOWN not in "".join(call))


def only(script: str, *args: str, files: dict[str, str] | None = None, **env: str | None) -> tuple[str, ...]:
    """The one command of a script that runs something."""
    found = commands(given(script, args), env=env, read=(files or {}).get)
    (command,) = (command for command in found.commands if command.argv[0] in {"run", "python"})
    return command.argv
