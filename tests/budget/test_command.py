"""Words of a command are sorted, and what decides is looked up in layers."""

from __future__ import annotations

import pytest

from cockpit.budget.command import Gap, Settings, TrainingCommand, flatten, node_groups, one_each, read_words, whole, whole_nodes
from cockpit.budget.scripts import UNKNOWN


def test_flags_take_the_words_up_to_the_next_and_keys_are_read_as_yaml():
    words = read_words(("stray", "--a", "1", "2", "--b=x", "--c", "+k.l=3", "~gone=1", "group/x=y", "m={n: 2}", "t='4'"))
    assert words.flags == {"--a": ("1", "2"), "--b": ("x",), "--c": ("+k.l=3", "~gone=1", "group/x=y", "m={n: 2}", "t='4'")}
    assert words.values == {"k.l": 3, "m.n": 2, "t": "4"}
    assert (words.stray, words.loose, words.flag("--z", "--a"), words.given("--c")["--c"]) == (("stray",), False, "1", True)


@pytest.mark.parametrize(
    ("argv", "loose"),
    [(["--a", UNKNOWN], False), (["--a", "1", UNKNOWN], True), ([UNKNOWN], True), ([f"--{UNKNOWN}=1"], True), ([f"k={UNKNOWN}"], False)],
)
def test_a_word_that_may_be_any_flag_is_noticed(argv: list[str], loose: bool):
    assert read_words(tuple(argv)).loose is loose


def test_the_first_layer_that_has_a_key_wins_and_other_keys_are_followed():
    settings = Settings(TrainingCommand("x", ()), {"a": "${b.c}", "u": UNKNOWN}, {"b.c": 4, "a": 1}, {"d": 8})
    assert (settings.count("a"), settings.count("d"), settings.count("e", 2)) == (4, 8, 2)
    assert (settings.value("u"), settings.value("none")) == (Gap.UNKNOWN, Gap.ABSENT)
    assert settings.count("u") is None
    assert list(settings.missing) == ["u is known only at run time"]
    assert (settings.switch("u", default=True), list(settings.doubts)) == (True, ["u is known only at run time: counted as on"])


def test_where_a_count_may_stand_elsewhere_its_default_says_nothing():
    settings = Settings(TrainingCommand("x", ()), {}, open_because="and mine.yaml can't be read")
    assert (settings.count("a", 8), list(settings.missing)) == (None, ["a is not set, and mine.yaml can't be read"])


def test_the_environment_answers_and_its_default_is_a_doubt():
    settings = Settings(TrainingCommand("x", (), env={"N": "3"}), {"a": "${oc.env:N,1}", "b": "${oc.env:M, 2}"})
    assert (settings.count("a"), settings.count("b"), len(settings.doubts)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("value", "number"), [("8", 8), (" 8 ", 8), (8, 8), (True, None), (8.0, None), ("x", None), (10**9, None), (None, None)]
)
def test_a_count_is_a_whole_number_that_a_cluster_may_have(value: object, number: int | None):
    assert whole(value) == number


def test_groups_without_sense_have_no_bundles():
    assert one_each("a", 0).bundles is None
    assert whole_nodes("a", 1, -1).bundles is None
    assert node_groups("a", 10**6, 8)[0].bundles is None
    assert [group.bundles for group in node_groups("a", 2, 4)] == [(({"GPU": 1.0, "CPU": 1.0}, 4),)] * 2


def test_sections_become_keys():
    assert flatten({"a": {"b": 1}, "c": [1, 2], "d": [{"e": 3}]}) == {"a.b": 1, "c": [1, 2], "d.0.e": 3}


def test_a_long_value_is_not_quoted_and_not_cut():
    command = TrainingCommand("p", ())
    settings = Settings(command, {"n": "x" * 150, "m": ["hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345"] * 20})
    assert settings.count("n") is settings.count("m") is None
    assert [*settings.missing] == [f"n is '{'x' * 150}', not a number", "m is a value of 780 characters, not a number"]
