"""The result of a check is written as text and as JSON."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from cockpit.budget import Budget, Group, Line
from cockpit.check.check import check
from cockpit.check.result import CheckStatus, check_json, exit_code, judge
from cockpit.check.result_text import check_text
from cockpit.config.document import json_schema
from tests.check.worlds import asked, cluster, down, group, machine, of, preset

ACTOR, VLLM = group("actor", 8), group("vLLM", 8, "STRICT_PACK")


def test_the_number_stands_first_then_the_verdict_then_the_groups_and_every_line_with_its_sign():
    lines = check_text("ppo", of(cluster(machine(1), machine(2)), ACTOR, VLLM, VLLM, dialect="0.10.2 and later")).splitlines()
    assert lines[0] == "● needs 24 GPUs as 3 × 8 (OpenRLHF)"
    assert lines[1] == "● ppo can never fit here: all groups together: needs 8 x 1 GPU, 2 x 8 GPUs; there are only 16 GPUs in total"
    assert lines[2] == "-> add 1 node with 8 GPUs"
    assert lines[4:9] == [
        "OpenRLHF (0.10.2 and later)",
        "GROUP  BUNDLES                  STRATEGY     GPUS  CPUS",
        "actor  8 x 1 GPU + 1 CPU        PACK            8     8",
        "vLLM   2 x (8 x 1 GPU + 1 CPU)  STRICT_PACK    16    16",
        "total                                          24    24",
    ]
    assert sum("all groups together" in line for line in lines) == 1, "nothing is said twice"


def test_a_first_line_that_would_be_long_tells_the_rest_in_its_line_alone():
    reason = f"needs 8 GPUs on one node; {'w1 has 8 but 6 are held, ' * 8}"
    first, *others = check_text("ppo", judge(Budget(None), [Line("later", reason)])).splitlines()
    assert first == "ppo does not fit now, but could later: needs 8 GPUs on one node"
    assert any("6 are held" in line for line in others)


def test_in_ascii_there_are_signs_too():
    text = check_text("ppo", of(cluster(machine(1)), VLLM), ascii=True)
    assert text.isascii()
    assert "\nok vLLM: 8 x 1 GPU + 1 CPU: 8 GPUs on head, which has 8 of 8 free" in text
    assert text.splitlines()[:2] == ["* needs 8 GPUs (OpenRLHF)", "* ppo fits now"]


@pytest.mark.parametrize(
    ("groups", "more", "first"),
    [
        ((group("pool", 8),) * 4, {"framework": "veRL", "doubts": ("?",)}, "◐ needs 32 GPUs as 4 × 8 (veRL, likely)"),
        ((group("a", 2, "STRICT_SPREAD", GPU=8.0, CPU=8.0), group("vLLM", 4)), {}, "● needs 20 GPUs as 2 × 8 + 4 (OpenRLHF)"),
        ((group("a", 2, "STRICT_SPREAD", GPU=8.0), group("b", 2, "STRICT_SPREAD", GPU=8.0), group("vLLM", 4)), {},
         "● needs 36 GPUs as 4 × 8 + 4 (OpenRLHF)"),
        ((group("r", 4, NPU=1.0),) * 2, {"framework": "AReaL"}, "● needs 8 NPUs as 2 × 4 (AReaL)"),
        ((group("a", 1),), {"framework": "Ray"}, "● needs 1 GPU (job)"),
    ],
)  # fmt: skip
def test_the_first_line_has_the_number_how_it_comes_and_how_sure_it_is(groups, more, first):
    assert check_text("ppo", of(cluster(machine(1)), *groups, **more)).splitlines()[0] == first


def test_without_ray_the_number_is_told_and_whether_it_fits_is_unknown():
    lines = check_text("ppo", check(preset(), asked(ACTOR, doubts=("?",)), down())).splitlines()
    assert lines[:2] == [
        "◐ needs 8 GPUs (OpenRLHF, likely)",
        "? unknown whether ppo fits: no Ray dashboard answers at http://10.0.0.1:8265",
    ]
    assert sum("dashboard" in line for line in lines) == 1


def test_the_first_line_has_what_is_missing_and_nothing_is_said_twice():
    budget = Budget("veRL", groups=(Group("actor", None),), unread=("trainer.nnodes is $N (line 4), which nothing sets",))
    lines = check_text("ppo", check(preset(), budget, cluster(machine(1)))).splitlines()
    assert lines[0] == "? unknown: trainer.nnodes is $N (line 4), which nothing sets"
    assert sum("trainer.nnodes" in line for line in lines) == 1
    assert any(line.startswith("-> set needs.gpus") for line in lines)


@pytest.mark.parametrize(
    ("levels", "verdict", "code", "first"),
    [
        ((), "now", 0, "ppo fits now"),
        (("fine", "doubt"), "now", 1, "ppo fits now, with 1 doubt"),
        (("later", "doubt"), "later", 1, "ppo does not fit now, but could later: line 0"),
        (("later", "unknown"), "unknown", 3, "unknown whether ppo fits: line 1"),
        (("unknown", "never", "later"), "never", 2, "ppo can never fit here: line 1"),
    ],
)
def test_the_verdict_is_as_bad_as_the_worst_line(levels, verdict, code, first):
    result = judge(Budget(None), [Line(level, f"line {number}") for number, level in enumerate(levels)])
    assert (result.verdict, exit_code(result)) == (verdict, code)
    assert check_text("ppo", result).splitlines()[0] == first


def test_a_mistake_in_the_command_is_not_called_a_lack_of_room():
    mistake = Line("never", "--reward.model_name_or_path is missing")
    result = judge(Budget(None, lines=(mistake,)), [mistake])
    assert check_text("ppo", result).splitlines()[0] == "ppo can't run as written: --reward.model_name_or_path is missing"


def test_what_is_not_known_or_depends_on_the_release_is_no_number_in_text_and_null_in_json():
    result = of(cluster(machine(1)), ACTOR, Group("vLLM", None))
    rows = check_text("ppo", result).splitlines()
    assert next(row.split() for row in rows if row.startswith("total")) == ["total", "–", "–"]
    told = json.loads(check_json(result))
    assert (told["verdict"], told["budget"]["gpus"], told["budget"]["groups"][1]["bundles"]) == ("unknown", None, None)
    nothing = json.loads(check_json(check(preset(), Budget(None, unread=("?",)), cluster(machine(1)))))
    assert nothing["budget"]["groups"] is None
    assert "What the job needs is unknown." in check_text("ppo", check(preset(), Budget(None), cluster(machine(1))))
    result = of(cluster(machine(1)), replace(VLLM, unsure=("CPU",)))
    assert "vLLM   8 x 1 GPU + – CPU  STRICT_PACK     8     –" in check_text("ppo", result)
    told = json.loads(check_json(result))["budget"]
    assert (told["cpus"], told["groups"][0]["bundles"]) == (None, [{"needs": {"GPU": 1.0, "CPU": None}, "count": 8}])


def test_json_is_what_its_schema_says():
    told = json.loads(check_json(of(cluster(machine(1)), ACTOR)))
    assert told["budget"] == {
        "gpus": 8.0,
        "cpus": 8.0,
        "mark": "firm",
        "framework": "OpenRLHF",
        "dialect": None,
        "groups": [{"name": "actor", "bundles": [{"needs": {"GPU": 1.0, "CPU": 1.0}, "count": 8}], "strategy": "PACK"}],
        "unread": [],
    }
    assert all(set(line) == {"level", "text", "change"} for line in told["lines"])
    schema = json_schema(CheckStatus)
    assert set(schema["$defs"]["CheckStatus"]["properties"]) == set(told)


def test_secrets_and_what_moves_a_cursor_reach_no_eye():
    bad = Line("doubt", "not read: \x1b[2J WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "export HF_TOKEN=hf_abcdefghijklmnop")
    result = check(preset(), replace(asked(ACTOR), lines=(bad,)), cluster(machine(1)))
    for told in (check_text("ppo", result), check_json(result)):
        assert "0123456789abcdef" not in told
        assert "hf_abcdefgh" not in told
        assert "\x1b" not in told
