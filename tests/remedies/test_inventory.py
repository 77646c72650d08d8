"""Every command that cockpit tells people to type is typed by a test, or parsed, or stands in a short list with the reason."""

from __future__ import annotations

import ast
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from cockpit.cli.main import main
from cockpit.failures import known_errors
from cockpit.text import clean
from manual.findings import Collector
from tests.remedies.how_checked import NEITHER, PARSED, TYPED
from tests.remedies.inventory import HOLE, commands_in, said_commands

TESTS = Path(__file__).parents[1]
NVIDIA_SMI: Mapping[str, Mapping[str, frozenset[str] | None]] = {
    "": {
        "-L": frozenset(), "-q": frozenset(), "-r": frozenset(), "-rgc": frozenset(), "-rac": frozenset(), "-i": None, "-pl": None,
        "-d": frozenset(("ECC", "POWER", "CLOCK", "PERFORMANCE", "ROW_REMAPPER", "TEMPERATURE", "MEMORY", "UTILIZATION", "PIDS")),
    },
    "dmon": {"-s": None, "-i": None, "-c": None, "-d": None},
    "nvlink": {"-s": frozenset(), "-e": frozenset(), "-i": None},
    "topo": {"-m": frozenset(), "-i": None},
}  # fmt: skip
"""Flags by subcommand, with the values that each takes; `None`: any. From nvidia-smi's manual (docs.nvidia.com/deploy/nvidia-smi, 580)."""


def every_form() -> Counter[str]:
    """Of the tables, how often each stands there."""
    return Counter([*PARSED, *(form for forms in (*TYPED.values(), *NEITHER.values()) for form in forms)])


def test_every_command_in_the_source_stands_in_one_table():
    said = said_commands()
    assert not {form: sorted(files) for form, files in said.items() if form not in every_form()}, (
        "say in how_checked.py how they are checked"
    )
    assert sorted(every_form() - Counter(said.keys())) == [], "nobody says these any more, or they stand there twice"


def test_the_tests_that_type_them_exist():
    for name in TYPED:
        file, _, test = name.partition("::")
        names = {node.name for node in ast.walk(ast.parse((TESTS / file).read_text())) if isinstance(node, ast.FunctionDef)}
        assert test in names, name


def parse(group: click.Command, words: Sequence[str]) -> None:
    """As the program itself reads the words, of which a hole may be anything; raises `click.UsageError` where it can't."""
    context = click.Context(group, info_name="program")
    rest = list(words)
    while isinstance(group, click.Group) and rest and not rest[0].startswith("-"):
        command = group.get_command(context, rest[0])
        assert command is not None, f"no command {rest[0]}"
        group, rest = command, rest[1:]
        context = click.Context(group, parent=context, info_name=rest[0] if rest else None)
    group.make_parser(context).parse_args(args=rest)


@pytest.mark.parametrize("form", [form for form in PARSED if form.split()[0] == "cockpit"])
def test_cockpit_reads_its_own_commands(form: str):
    parse(main, shlex.split(form)[1:])


def test_a_flag_that_does_not_exist_is_noticed():
    with pytest.raises(click.UsageError):
        parse(main, ["status", "--wach"])
    with pytest.raises(AssertionError):
        parse(main, ["drain"])


def ray_cli() -> Any:
    """Ray's own commands."""
    return pytest.importorskip("ray.scripts.scripts").cli


RAYS_FORMS = [form for form in every_form() if form.split()[0] == "ray"]


@pytest.mark.slow
@pytest.mark.parametrize("form", RAYS_FORMS)
def test_ray_reads_its_commands(form: str):
    parse(ray_cli(), [word.replace(HOLE, "actors").replace("$USER", "") for word in form.split()[1:]])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "command"),
    [
        ("--num-cpus", ("start",)),
        ("--num-gpus", ("start",)),
        ("--labels", ("start",)),
        ("--min-worker-port", ("start",)),
        ("--max-worker-port", ("start",)),
        ("--dashboard-agent-listen-port", ("start",)),
        ("--entrypoint-num-cpus", ("job", "submit")),
        ("--entrypoint-num-gpus", ("job", "submit")),
    ],
)
def test_ray_has_the_flags_that_are_named_alone(flag: str, command: tuple[str, ...]):
    parse(ray_cli(), [*command, flag, "1"])


@pytest.mark.parametrize("form", [form for form in PARSED if form.split()[0] == "nvidia-smi"])
def test_nvidia_smi_documents_these_flags(form: str):
    words = form.split()[1:]
    flags = NVIDIA_SMI[words.pop(0) if words and words[0] in NVIDIA_SMI else ""]
    while words:
        values = flags[words.pop(0)]
        if values is None or values:
            given = words.pop(0)
            assert values is None or set(given.split(",")) <= values, form


def _harvested() -> Iterator[tuple[str, str]]:
    """Code and command of each remedy and each line of evidence that the detectors' tests produce."""
    collector = Collector()
    # Without the plugin for pictures: both sessions would use one folder. The inner removes it, so the outer fails and reports nothing.
    options = ["-q", "--no-header", "-n0", "-p", "no:cacheprovider", "-p", "no:textual-snapshot"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    assert pytest.main([*options, str(TESTS / "findings")], plugins=[collector]) == 0
    for by_code in collector.found.values():
        for code, findings in by_code.items():
            for finding in findings:
                for text in (finding.remedy.text if finding.remedy else "", *finding.evidence):
                    yield from ((code, command) for command in commands_in(clean(text)))


@pytest.mark.remedy
@pytest.mark.process
@pytest.mark.timeout(1200)
def test_every_command_that_a_finding_says_stands_in_a_table():
    patterns = [re.compile(".+".join(map(re.escape, form.split(HOLE)))) for form in every_form()]
    # Commands of known errors have their proof in the row's source, and a test of their own in tests/failures.
    of_rows = {command for row in known_errors() for command in commands_in(row.remedy)}
    patterns += [re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(command))) for command in of_rows]
    found = set(_harvested())
    assert len(found) > 50
    assert sorted((code, command) for code, command in found if not any(pattern.fullmatch(command) for pattern in patterns)) == []
