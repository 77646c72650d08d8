"""Running a program gives its lines, or an error of one sentence. The programs are real ones."""

from __future__ import annotations

import pytest

from cockpit.sources.probes import process as program
from cockpit.sources.probes.process import ask_program
from cockpit.sources.source import SourceError

pytestmark = pytest.mark.process


async def test_the_answer_is_the_printed_lines():
    assert await ask_program("Slurm", "printf", "a\nb\n") == [b"a", b"b"]
    assert await ask_program("Kubernetes", "cat", send=b"heard\n") == [b"heard"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("no-such-program-here",), "Slurm can't be asked: no-such-program-here: no such file or directory"),
        (("sh", "-c", "echo not now >&2; exit 3"), "sh: not now"),
        (("sh", "-c", "echo sh: fatal >&2; exit 3"), "^sh: fatal"),
        (("sleep", "100"), r"Slurm \(sleep\) did not answer within 0 s"),
        (("yes",), r"Slurm \(yes\) sent more than 0 MiB and was stopped"),
    ],
)  # fmt: skip
async def test_a_failure_is_one_sentence(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], why: str):
    monkeypatch.setattr(program, "ANSWER_S", 0.3 if words[0] == "sleep" else 20.0)
    monkeypatch.setattr(program, "MAX_BYTES", 100_000)
    with pytest.raises(SourceError, match=why):
        await ask_program("Slurm", *words)
