"""Overrides, read as Hydra reads them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.budget.frameworks.hydra import Gap, Override, Overrides, parse, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        (" 8 ", 8),
        ("+8", 8),
        ("1_000", 1000),
        ("007", "007"),
        ("-1", -1),
        ("1e3", 1000.0),
        ("0.6", 0.6),
        ("True", True),
        ("off", "off"),
        ("null", None),
        ("", ""),
        ("'8'", "8"),
        ('"a,b"', "a,b"),
        ("/data/x.parquet", "/data/x.parquet"),
        ("a:b", "a:b"),
        ("${trainer.nnodes}", "${trainer.nnodes}"),
        ("${oc.env:A,2}", "${oc.env:A,2}"),
    ],
)
def test_a_value_is_what_hydra_makes_of_it(text: str, value: object):
    found = parse(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("text", ["1,2", "fsdp,megatron", "'a','b'", "[1],[2]", "choice(1,2)"])
def test_several_values_are_a_sweep_and_unknown(text: str):
    assert parse(text) is Gap.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "\0",
        "8\0",
        "[1,\0]",
        "int(8)",
        "[console,wandb]",
        "[]",
        "{a:1}",
        "{}",
        "[1",
        "{a:1",
        "'open",
        r"'it\'s'",
        "[1]2",
        "a]b",
        "]",
        "[" * 500,
    ],
)
def test_what_is_not_read_is_unknown(text: str):
    assert parse(text) is Gap.UNKNOWN


def value(key: str, *words: str) -> object:
    return read(words).overrides.value(key)


def test_the_last_override_wins():
    assert value("trainer.nnodes", "trainer.nnodes=2", "++trainer.nnodes=3", "trainer.nnodes=4") == 4


def test_a_dict_and_a_word_for_a_section_leave_its_keys_unknown():
    assert value("trainer.nnodes", "trainer.nnodes=2", "trainer={nnodes:4}") is Gap.UNKNOWN
    assert value("trainer.nnodes", "trainer.nnodes=2", "trainer=null") is Gap.UNKNOWN
    assert value("trainer.nnodes", "trainer={nnodes:4}", "trainer.nnodes=2") == 2


def test_a_dict_of_a_file_is_merged():
    overrides = Overrides((Override(("trainer",), {"nnodes": 2}), Override(("trainer",), {"n_gpus_per_node": 4})))
    assert (overrides.value("trainer.nnodes"), overrides.value("trainer.n_gpus_per_node")) == (2, 4)


def test_what_is_deleted_has_no_value_until_it_is_added_again():
    assert value("trainer.nnodes", "trainer.nnodes=2", "~trainer.nnodes") is Gap.UNKNOWN
    assert value("trainer.nnodes", "~trainer", "+trainer.nnodes=2") == 2


def test_a_word_that_can_be_anything_hides_only_what_stands_before_it():
    assert value("trainer.nnodes", "trainer.nnodes=2", "\0") is Gap.UNKNOWN
    assert value("trainer.nnodes", "\0", "trainer.nnodes=2") == 2
    assert value("trainer.nnodes", "trainer.nnodes=2", "trainer.\0=3") is Gap.UNKNOWN
    assert value("trainer.nnodes", "trainer.nnodes=2", "data.path=\0") == 2


def test_flags_are_told_from_overrides():
    command = read(["--config-path=/a", "--config-name", "b", "-m", "x.y=1"])
    assert (command.config_path, command.config_name, command.refused) == ("/a", "b", None)
    assert read(["-cn", "b"]).config_name == "b"
    assert read(["--config-n=b"]).config_name == "b"
    assert read(["--cfg", "job", "x.y=1"]).only_prints


def test_groups_are_told_from_keys():
    groups = read(
        ["actor@actor_rollout_ref.actor=megatron_actor", "hydra/launcher=joblib", "model_engine=dp"], frozenset({"model_engine"})
    ).groups
    assert groups == (("actor@actor_rollout_ref.actor", "megatron_actor"), ("hydra/launcher", "joblib"), ("model_engine", "dp"))


@pytest.mark.parametrize(
    "words",
    [
        ["trainer.nnodes"],
        ["--config-name", ""],
        ["--config-path="],
        ["--config-name"],
        ["=2"],
        ["--nnodes=2"],
        ["a b=2"],
        ["x.y=1", "--config-name=b", "x.z=1"],
    ],
)
def test_what_hydra_would_not_start_is_refused(words: list[str]):
    assert read(words).refused is not None


def test_an_empty_word_is_none_that_hydra_would_start_with():
    assert read(["x.y=1", ""]).empty
    assert read([" "]).refused is not None
    assert not read(["x.y=1"]).empty


@settings(max_examples=300)
@given(st.lists(st.text(alphabet="ab.=+~@/-[]{}:,'\"$\\\0 12", max_size=20), max_size=6))
def test_no_words_break_it(words: list[str]):
    command = read(words)
    command.overrides.value("a.b")
