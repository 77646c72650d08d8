"""The documentation names what the code has, and its two front pages say the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cockpit.actions.table import ACTION_KEYS
from cockpit.cli.main import main
from cockpit.config.settings import ConfigFile
from cockpit.failures import known_errors
from cockpit.ui.app import Cockpit
from cockpit.ui.log_view import LogView
from cockpit.ui.screens.help import KEY_NAMES
from cockpit.ui.screens.live import LiveScreen
from cockpit.ui.screens.log import LogScreen
from cockpit.ui.screens.page_view import PageView
from cockpit.ui.screens.replay import ReplayScreen
from cockpit.ui.table import Table
from manual.findings import known_codes, missing
from manual.known_errors import known_errors_page
from manual.man_page import man_page
from manual.reference import commands_page, config_page, walk_commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"


def text_of(name: str) -> str:
    return (DOCS / name).read_text()


def keys_of(bindings: Any) -> set[str]:
    """As the help names them."""
    keys = {key for binding in bindings for key in binding.key.split(",")}
    return {KEY_NAMES.get(key, key.title() if len(key) > 1 and "+" not in key else key) for key in keys}


@pytest.mark.parametrize("node", [Cockpit, LiveScreen, ReplayScreen, PageView, Table, LogScreen, LogView])
def test_every_key_is_documented(node: Any):
    named = {word for code in re.findall(r"`([^`]+)`", text_of("keys.md")) for word in code.split()}
    assert keys_of(node.BINDINGS) - named == set()


def test_every_key_of_an_action_is_documented():
    named = {word for code in re.findall(r"`([^`]+)`", text_of("keys.md")) for word in code.split()}
    assert {KEY_NAMES.get(key, key) for key in ACTION_KEYS} - named == set()


def test_every_key_that_newcomers_are_told_is_one_of_ours():
    """In the last column of the tables of `coming-from.md`: a word is a key, several words are a command."""
    documented = {word for code in re.findall(r"`([^`]+)`", text_of("keys.md")) for word in code.split()}
    rows = re.findall(r"^\|.*\| ([^|]+) \|$", text_of("coming-from.md"), re.MULTILINE)
    spans = {span for row in rows for span in re.findall(r"`([^`]+)`", row)}
    keys = {span for span in spans if " " not in span} - {"cockpit"}
    assert len(keys) > 25
    assert keys - documented - {*"1234567"} == {"ctrl+c"}, "of ctrl+c it says that nothing is signalled"


def test_every_command_is_in_the_table_and_in_the_reference_with_its_options():
    table, reference = text_of("commands.md"), commands_page()
    commands = dict(walk_commands(main))
    assert len(commands) > 20
    assert [words for words in commands if f"## `{words}`" not in reference] == []
    assert [words for words in commands if not re.search(rf"[`, |]{words.split()[-1]}\b", table)] == []
    options = {opt for command in commands.values() for parameter in command.params for opt in parameter.opts if opt.startswith("--")}
    assert {option for option in options if option not in reference} == set()


def test_the_manual_page_is_what_the_commands_say_and_no_line_of_it_is_a_command_by_accident():
    assert (ROOT / "man" / "ray-cockpit.1").read_text() == man_page(), "run `make man`"
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", '.\\"'}
    assert {line.split()[0] for line in man_page().splitlines() if line.startswith((".", "'"))} == known


def test_the_findings_are_documented_and_no_others():
    assert len(known_codes()) > 50
    assert [*missing(text_of("findings.md"))] == []
    assert set(re.findall(r"^### `([a-z-]+)`$", text_of("findings.md"), re.MULTILINE)) - known_codes() == set()


def test_every_key_of_the_config_file_is_documented():
    page = config_page()
    assert [field for field in ConfigFile.__struct_encode_fields__ if f"| `{field}` |" not in page] == []


def test_what_readers_name_by_code_exists():
    """`codes` in the notifications, findings in tables: a name that is misspelt would never match."""
    named = set(re.findall(r"codes: \[([a-z-]+)\]", "".join(page.read_text() for page in DOCS.glob("*.md"))))
    assert named
    assert named <= known_codes()


def test_links_and_pictures_lead_somewhere():
    made = {
        "all-commands.md", "config.md", "preset-keys.md", "json.md", "known-errors.md", "contributing.md",
        "architecture.md", "security.md", "changelog.md",
    }  # fmt: skip
    lost = []
    for page in (ENGLISH, CHINESE, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *DOCS.glob("*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            if not (page.parent / link).exists() and link not in made:
                lost.append(f"{page.name}: {link}")
    assert lost == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name)
def test_a_form_for_issues_is_yaml(path: Path):
    form = yaml.safe_load(path.read_text())
    assert "blank_issues_enabled" in form or {"name", "description", "body"} <= set(form)


def test_the_page_of_known_errors_has_every_row_once_and_each_of_its_lines_is_one_row_of_a_table():
    lines = known_errors_page().splitlines()
    names = re.findall(r"^\| `([a-z0-9-]+)` \|", "\n".join(lines), re.MULTILINE)
    assert sorted(names) == sorted(row.name for row in known_errors())
    rows = [line for line in lines if line.startswith("| `")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {5}


def test_the_readme_is_short():
    assert len(ENGLISH.read_text().splitlines()) <= 150


def test_both_readmes_have_the_same_sections():
    """By their number, their links and their pictures, in order."""
    english, chinese = (re.split(r"^## .+$", page.read_text(), flags=re.MULTILINE)[1:] for page in (ENGLISH, CHINESE))
    assert len(english) == len(chinese) > 5
    for ours, theirs in zip(english, chinese, strict=True):
        assert re.findall(r"\]\(([^)]+)\)", ours) == re.findall(r"\]\(([^)]+)\)", theirs)


def test_both_readmes_have_the_same_commands():
    """But for the words behind them."""
    english, chinese = (re.findall(r"^    (.+?)(?: +#.*)?$", page.read_text(), re.MULTILINE) for page in (ENGLISH, CHINESE))
    assert len(english) > 10
    assert english == chinese


def lines_of(page: Path) -> list[str]:
    """What a reader could copy: lines, and words between backticks, that begin with the program's name."""
    written = re.findall(r"`(cockpit [^`\n]+)`|^ {4,}(cockpit [^`\n]+)$", page.read_text(), re.MULTILINE)
    return [line for line in map("".join, written) if not line.startswith("cockpit is ")]


def parse(line: str) -> None:
    """As the program does, without doing anything. Raises `click.UsageError`."""
    words = shlex.split(re.split(" [|>] ", line)[0], comments=True)[1:]
    command: click.Command = main
    context = main.make_context("cockpit", words, **main.context_settings)
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, words = command.resolve_command(context, rest)
        assert found is not None
        if not words and found.params:  # it is only named
            return
        command, context = found, found.make_context(name, words, parent=context)


@pytest.mark.parametrize(
    "page", [ENGLISH, CHINESE, *sorted({*DOCS.glob("*.md")} - {DOCS / "findings.md", DOCS / "commands.md"})], ids=lambda page: page.name
)
def test_every_command_that_a_page_has_is_one_that_the_program_takes(page: Path):
    for line in lines_of(page):
        try:
            parse(line)
        except click.UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")


def test_what_the_program_does_not_take_would_be_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("Type `cockpit status --jsn`, or\n\n    cockpit state\n")
    assert len(lines_of(page)) == 2
    for line in lines_of(page):
        with pytest.raises(click.UsageError):
            parse(line)


def test_both_readmes_name_no_command_that_there_is_not():
    known = {words.split()[1] for words, _ in walk_commands(main)}
    make = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in (ENGLISH, CHINESE):
        lines = re.findall(r"^    (.+)$", page.read_text(), re.MULTILINE)
        ours = {found[1] for line in lines if (found := re.match(r"cockpit ([a-z][a-z-]+)", line))}
        assert ours
        assert ours <= known
        assert set(re.findall(r"(?:`|^    )make ([a-z-]+)", page.read_text(), re.MULTILINE)) <= make
