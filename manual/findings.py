"""The page of all findings: of each what it says, with which evidence, and what helps, as the tests of the detectors make it happen."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from cockpit.actions.table import ACTIONS, find_action_or_runbook
from cockpit.failures.known.error import LookUp
from cockpit.findings import CHECKS, FindingTracker
from cockpit.findings.checks import Check
from cockpit.model import LEVELS, Finding
from cockpit.text import clean

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "findings.md"
MAX_EVIDENCE = 3
"""Lines of evidence that an example shows."""
HEAD = """\
# Findings

Each finding is one sentence with its numbers, for how long it has held, evidence that can be checked without cockpit, and what helps.
Page `6` lists them, `Enter` opens one; `cockpit doctor` runs every check once and says what it could not check. `◆` is critical: work is
lost, or will be soon. `▲` is a warning, `i` is good to know. The names, such as `gpu-lost`, are those of `codes` in
[notifications](notifications.md) and of `code` in the JSON (`cockpit schema status`). `cockpit config init` writes a file with all
thresholds.

The sentences are examples, made by the tests of the code that finds them: hosts and numbers in them are made up.
"""
# Names in the same folder that look like a code.
NO_CODES = frozenset({"placement-groups", "node-marked", *get_args(LookUp)})


def known_codes() -> set[str]:
    """Every code that a detector may give to a finding, from its source."""
    trees = [ast.parse(path.read_text()) for path in ROOT.glob("cockpit/findings/*.py")]
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {text for text in texts if re.fullmatch(r"[a-z]+(-[a-z]+)+|deadlock", text)} - NO_CODES - {action.id for action in ACTIONS}


class Collector:
    """What the tests of the detectors find, by detector and code."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, list[Finding]]] = {}
        self._by_the_way: list[tuple[str, Finding]] = []
        """Found by the tests of other modules: these show something else."""
        self._module = ""
        self._run_detector = FindingTracker._run_detector

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Tests of hostile clusters are no examples."""
        self._module = item.path.stem.removeprefix("test_")
        FindingTracker._run_detector = self._run_detector if "hostile" in item.nodeid else self._collect  # type: ignore[method-assign]

    def pytest_sessionfinish(self) -> None:
        """Leaves the tracker as it was."""
        for detector, finding in self._by_the_way:
            self.found.setdefault(detector, {}).setdefault(finding.code, []).append(finding)
        FindingTracker._run_detector = self._run_detector  # type: ignore[method-assign]

    @property
    def _collect(self) -> Any:
        def run(tracker: FindingTracker, detect: Any, facts: Any, bugs: Any) -> list[Finding]:
            findings = self._run_detector(tracker, detect, facts, bugs)
            is_its_own = self._module.startswith(detect.__module__.rpartition(".")[2])
            for finding in findings if is_its_own else ():
                self.found.setdefault(detect.__name__, {}).setdefault(finding.code, []).append(finding)
            self._by_the_way += [] if is_its_own else [(detect.__name__, finding) for finding in findings]
            return findings

        return run


def page(found: dict[str, dict[str, list[Finding]]]) -> str:
    """The checks in the doctor's order, each with its findings."""
    return HEAD + "".join(_check(check, found) for check in CHECKS)


def _check(check: Check, found: dict[str, dict[str, list[Finding]]]) -> str:
    examples: dict[str, list[Finding]] = {}
    for detector in check.detectors:
        for code, findings in found.get(detector.__name__, {}).items():
            examples.setdefault(code, []).extend(findings)
    told = f"\nOne sample is not enough to find: {check.watches}.\n" if check.watches else ""
    return f"\n## {check.title}\n{told}" + "".join(_finding(code, findings) for code, findings in examples.items())


def _finding(code: str, findings: list[Finding]) -> str:
    levels = sorted({finding.level for finding in findings}, key=LEVELS.index)
    # Of its worst level, with a remedy; of these the first that a test makes.
    example = min(findings, key=lambda one: (LEVELS.index(one.level), one.remedy is None))
    evidence = "".join(f"    {clean(line)}\n" for line in example.evidence[:MAX_EVIDENCE])
    return (
        f"\n### `{code}`\n\n{' or '.join(levels)}\n\n> {_escape(example.text)}\n"
        + (f"\nEvidence:\n\n{evidence}" if evidence else "")
        + _remedies([example, *findings])
    )


def _remedies(findings: Iterable[Finding]) -> str:
    """The first remedy of each action, and the first without an action if its text differs."""
    told: dict[str | None, str] = {}
    for finding in findings:
        if finding.remedy:
            told.setdefault(finding.remedy.action, finding.remedy.text)
    if told.get(None) in [text for action, text in told.items() if action]:
        del told[None]
    lines = [f"- {_escape(text)}{_key(action)}" for action, text in told.items()]
    return "\nWhat to do, by the case:\n\n" + "\n".join(lines) + "\n" if lines else ""


def _key(action: str | None) -> str:
    return f" (`{find_action_or_runbook(action).first_key}`: {find_action_or_runbook(action).title})" if action else ""


def _escape(text: str) -> str:
    """Outside of `…`, what Markdown or HTML would read."""
    parts = clean(text).split("`")
    return "`".join(part if place % 2 else re.sub(r"([\\*\[\]<>|])", r"\\\1", part) for place, part in enumerate(parts))


def missing(text: str) -> Iterator[str]:
    """Codes without a section on a page."""
    headings = set(re.findall(r"^### `([a-z-]+)`$", text, re.MULTILINE))
    return iter(sorted(known_codes() - headings))


def main() -> int:
    """Runs the tests of the detectors and writes the page; 1 where a finding has no test that makes it."""
    collector = Collector()
    # What this module imports has loaded plugins of pytest's before pytest could: it warns, and a warning is an error.
    options = ["-q", "--no-header", "-n0", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    if (code := pytest.main([*options, str(ROOT / "tests" / "findings")], plugins=[collector])) != 0:
        return int(code)
    text = page(collector.found)
    PAGE.write_text(text, encoding="utf-8")
    lacking = [*missing(text)]
    print("".join(f"No test makes {code}.\n" for code in lacking), end="")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
