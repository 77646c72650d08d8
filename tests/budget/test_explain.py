"""A missing count is named with its place in the scripts and the variable that would set it."""

from __future__ import annotations

import pytest

from cockpit.budget.explain import Texts, explain

UNKNOWN = "trainer.nnodes is known only at run time"


def told(script: str, sentence: str = UNKNOWN) -> str:
    texts = Texts("bash a.sh", {"a.sh": script}.get)
    texts.read("a.sh")
    return explain(sentence, texts)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("x\nrun trainer.nnodes=$N\n", "trainer.nnodes is $N (a.sh, line 2), which nothing sets: N=8 cockpit check …"),
        ("M=${N}\nrun trainer.nnodes=\"$M\"\n", "trainer.nnodes is $M (a.sh, line 2), which nothing sets: N=8 cockpit check …"),
        ("M=$1\nrun trainer.nnodes=$M\n", "trainer.nnodes is $M (a.sh, line 2), from argument 1 of the script, which is not given"),
        ("M=$(wc -l < h)\nrun trainer.nnodes=$M\n",
         "trainer.nnodes is $M (a.sh, line 2), which a.sh, line 1 sets in a way that cockpit does not follow"),
        ("# trainer.nnodes=$OLD\nrun trainer.nnodes=$A$B\n", "trainer.nnodes is $A$B (a.sh, line 2), which is known only at run time"),
        ("M=$M2\nM2=$M\nrun trainer.nnodes=$M\n", "trainer.nnodes is $M (a.sh, line 3), which nothing sets: M=8 cockpit check …"),
        ("nothing\n", UNKNOWN),
    ],
)  # fmt: skip
def test_the_line_and_the_variable_are_named(script: str, said: str):
    assert told(script) == said


def test_a_flag_is_found_with_its_value_and_another_sentence_stays():
    assert told("run --a-b $N\n", "--a-b is known only at run time").startswith("--a-b is $N (a.sh, line 1), which nothing sets")
    assert told("x\n", "the file x can't be read") == "the file x can't be read"
