"""Scripts are read as bash reads them: beside a real bash, and without one where a value can't be known."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cockpit.budget.scripts import UNKNOWN, commands
from tests.budget.scripts.bash import BASH, by_bash, only, read_here

KNOWN = {
    "plain words": "show a b  c",
    "a line that goes on": "show a \\\n  b\\\nc",
    "comments between and behind": "# one\nshow a # two\nshow b#c",
    "quotes": """show 'a b' "c d" e'f'"g" '' "" """,
    "what another program takes": "show a > >(cat) 2>&1; show b 2> >(cat) c; show d < <(true)",
    "escapes": r"""show a\ b "c\"d\$e" 'f\g' """,
    "a variable": "N=8; show $N ${N}0 \"$N\" '$N'",
    "words of a variable are split": 'A="x  y z"; show $A "$A" p$A',
    "an empty variable is no word": 'A=; show $A b "$A" $A$A',
    "defaults": 'A=1; E=; show ${A:-2} ${E:-3} ${E-4} "${E:+5}" ${A:+6}',
    "defaults in defaults": "A=4; E=; show ${E:-${A:-7}}8",
    "a default is kept": "E=; show ${E:=9} $E",
    "arguments": 'show $1 "$2" $# "$@" $3',
    "all arguments in words": 'show "a$@b" $*',
    "shift": "shift; show $1 $#",
    "set arguments": 'set -- a "b c"; show "$@"',
    "sums": "A=2; B=3; show $((A*B)) $(( (A + $B) * 4 / 3 )) $((B % A))",
    "arrays": 'A=(a "b c" d); show "${A[@]}" ${A[1]} "${#A[@]}" ${A[*]} $A',
    "arrays grow": 'A=(--x 1); A+=(--y "2 3"); show "${A[@]}"',
    "an empty array is no word": 'A=(); show "${A[@]}" end',
    "an array over lines, with comments": 'A=(\n  --x 1 # one\n  # none\n  --y 2\n)\nshow "${A[@]}"',
    "some of many": 'A=(a b c d); show "${A[@]:1}" "${A[@]:1:2}" "${@:2}" ${*:1:1}',
    "one of an array": "A=(1 2 3); show ${A[1]} ${A[2]}",
    "text grows": 'A="a"; A+=" b"; show $A',
    "and, or": "true && A=1 || A=2; false && B=1 || B=2; show $A $B; false || show c; true && show d",
    "a condition holds": 'N=4; if [ $N -gt 2 ]; then show many; else show few; fi; if [[ "$1" == a ]]; then show a; fi',
    "a condition does not hold": 'if [[ ${1} != "one" && -n $2 ]]; then show x; elif test "$1" = one; then show y; else show z; fi',
    "not": 'if ! [ "$1" = one ]; then show a; else show b; fi; if ! [[ -z $1 ]]; then show c; fi',
    "cases": 'case "$1" in zero) show 0;; one|two) show 1;; *) show 2;; esac',
    "a for": 'for i in 1 "2 3" $1; do show $i; done',
    "a for over arguments": "for a; do show $a; done",
    "break and continue": "for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; show $i; done",
    "a function": 'f() { local A=$1; show "$A" $#; B=2; }; A=0; f x y; show $A $B',
    "a function returns": "function g { show a; return; show b; }; g; show c",
    "a heredoc is passed over": "show $1 <<EOF\nshow no\nEOF\nshow b <<-'EOF'\n\tshow \"no\n\tEOF\nshow c <<E\n$((2*4)) --x=1\nE\nshow d",
    "a heredoc in a substitution": "A=$(cat <<EOF\nif this can't be :) read (\nEOF\n)\nshow a",
    "a heredoc in quotes": "A=\"$(cat <<-'EOF'\n\tit's \\\"\n\tEOF\n)\"\nshow a",
    "two heredocs of one line": "A=$(cat <<X - <<Y\n)\nX\n'\nY\n)\nshow a",
    "a sum that is escaped in a heredoc": "A=$(cat <<EOF\n\\$(( \\$(date +%s) - 1 ))s A=1 :) \nEOF\n)\nshow a",
    "a comment in a substitution": "A=$(true # can't (\n)\nshow a$(true)#b",
    "bits that are shifted": "A=$((1 <<\n3)); B=$(true $((1 <<\n2))\n)\nshow a",
    "words from a line": 'A=$(cat <<<"it\'s )"); show a',
    "length": "A=abcdef; show ${#A}",
    "a shell of its own": "A=1; (A=2; show $A); show $A; { A=3; }; show $A",
    "a pipe": "A=1; show a | { cat > /dev/null; A=2; show $A; }; show $A",
    "dirname and basename": "show $(dirname a/b/c.sh) $(basename a/b/c.sh) $(dirname c.sh)",
    "eval": 'A="show a"; eval "$A b"',
    "exit": "show a; exit 0; show b",
    "set -x and redirections": "set -euxo pipefail; show a > /dev/null 2>&1; show b &>> /dev/null < /dev/null",
    "in the background": "show a & wait; show b",
    "all that is joined is in the background": "A=1; A=2 && show $A & wait; show $A; A=3 || true & wait; show $A",
    "assignments for one command": "A=1; A=2 show $A; show $A; A=2 eval 'show $A'",
    "export": 'export A=5 B="x y"; show $A "$B"',
    "a JSON in quotes": """show --env='{"a": {"b": "c"}}' -- x""",
    "semicolons everywhere": "if true; then show a;fi;{ show b;};(show c)",
}


@pytest.mark.process
@pytest.mark.skipif(BASH is None, reason="no bash here")
@pytest.mark.parametrize("script", KNOWN.values(), ids=KNOWN.keys())
def test_a_script_runs_what_bash_would_run(script: str):
    expected = by_bash(script, "one", "two words")
    assert expected or "exit" in script
    assert read_here(script, "one", "two words") == expected


_NAMES = st.sampled_from(["A", "B", "N"])
_VALUES = st.sampled_from(["1", "8", "x", "a b", "", "--flag", "0"])
_WORDS = st.one_of(
    _VALUES.map(lambda value: f"'{value}'"),
    _NAMES.map(lambda name: f"${name}"),
    _NAMES.map(lambda name: f'"${{{name}}}"'),
    st.builds(lambda name, value: f'"${{{name}:-{value}}}"', _NAMES, _VALUES),
    st.builds(
        lambda one, sign, other: f"$(({one} {sign} {other}))", st.integers(0, 9), st.sampled_from(["+", "-", "*"]), st.integers(0, 9)
    ),
    st.sampled_from(["$1", '"$@"', "$#", '"${L[@]}"', "${L[0]}"]),
)
_COMMANDS = st.one_of(
    st.lists(_WORDS, min_size=1, max_size=4).map(lambda words: "show " + " ".join(words)),
    st.builds(lambda name, value: f"{name}='{value}'", _NAMES, _VALUES),
    st.lists(_WORDS, max_size=3).map(lambda words: f"L=({' '.join(words)})"),
    st.lists(_WORDS, max_size=3).map(lambda words: f"L+=({' '.join(words)})"),
    st.just("shift"),
)
_CONDITIONS = st.builds(
    lambda word, other: f'[ "{word}" = {other} ]', _NAMES.map(lambda name: f"${name}"), st.sampled_from(["1", "8", "''"])
)
_SCRIPTS = st.recursive(
    _COMMANDS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("\n".join),
        st.builds(lambda test, one, other: f"if {test}; then\n{one}\nelse\n{other}\nfi", _CONDITIONS, inner, inner),
        st.builds(
            lambda name, words, body: f"for {name} in {' '.join(words)}; do\n{body}\ndone", _NAMES, st.lists(_WORDS, max_size=2), inner
        ),
        st.builds(lambda body: f"(\n{body}\n)", inner),
        st.builds(lambda test, body: f"{test} && {{ {body}\n}}", _CONDITIONS, inner),
    ),
    max_leaves=8,
)


@pytest.mark.process
@pytest.mark.skipif(BASH is None, reason="no bash here")
@given(_SCRIPTS, st.lists(_VALUES, max_size=3))
def test_any_script_runs_what_bash_would_run(script: str, args: list[str]):
    whole = f"A=1 B='a b' N=\nL=()\n{script}"
    assert read_here(whole, *args) == by_bash(whole, *args)


@given(st.text(alphabet=st.sampled_from("ab1 $'\"`\\(){}[]<>|&;!#=*?~\n\0-:,@+%/"), max_size=60))
def test_no_text_trips_it(text: str):
    commands(text, env={}, read=lambda _: None)


_SIGNS = (
    "if",
    "then",
    "fi",
    "for i in",
    "do",
    "done",
    "case x in",
    "esac",
    "<<E",
    "E",
    "((",
    "))",
    "${",
    "}",
    "$(",
    ")",
    "\n",
    ";",
    "a",
    "[[",
)


@example(["((", "${", "))"])
@given(st.lists(st.sampled_from(_SIGNS), max_size=25))
def test_no_shape_trips_it(words: list[str]):
    commands(" ".join(words), env={}, read=lambda _: None)


def test_what_nobody_can_know_is_unknown():
    assert only("run $(nproc) x$(date)y $NOBODY ${RANDOM} $$") == ("run", UNKNOWN, f"x{UNKNOWN}y", UNKNOWN, UNKNOWN, UNKNOWN)
    assert only("run $((N * 2)) $GIVEN", GIVEN=None) == ("run", UNKNOWN, UNKNOWN)
    assert only("N=$(nproc); run --n=$N ${N:-8} ${#N} ${N%x}") == ("run", f"--n={UNKNOWN}", UNKNOWN, UNKNOWN, UNKNOWN)


def test_a_variable_that_nothing_sets_has_its_default_and_that_is_said():
    found = commands("run ${GPUS:-8}", env={}, read=lambda _: None)
    assert found.commands[0].argv == ("run", "8")
    assert found.assumed == ("GPUS",)
    assert only("run ${GPUS:-8}", GPUS="4") == ("run", "4")
    assert only("run ${GPUS:-8}", GPUS=None) == ("run", UNKNOWN)


def test_what_a_scheduler_may_set_has_its_default_and_that_is_noted():
    found = commands("run ${WORLD_SIZE:-1} ${SLURM_NNODES:-2} $SLURM_NNODES", env={}, read=lambda _: None)
    assert found.commands[0].argv == ("run", "1", "2", UNKNOWN)
    assert found.assumed == ("WORLD_SIZE", "SLURM_NNODES")


def test_what_the_calling_shell_exports_is_used_where_nothing_else_sets_it_and_noted():
    found = commands("M=1; run $N ${N:-3} $M $HOME", env={}, read=lambda _: None, shell={"N": "2", "M": "7", "HOME": "/home/a"})
    assert (found.commands[0].argv, found.assumed) == (("run", "2", "2", "1", "/home/a"), ("N",))
    assert commands("ray job submit -- x; run ${N:-3}", env={"N": "5"}, read=lambda _: None, shell={"N": "2"}).commands[1].argv == (
        "run",
        "5",
    )


def test_all_branches_are_walked_where_the_condition_is_not_known():
    found = commands("if [ -d /data ]; then N=1; run a; else N=2; M=3; run b; fi; run $N ${M}", env={}, read=lambda _: None)
    assert [(command.argv, command.maybe) for command in found.commands] == [
        (("run", "a"), True), (("run", "b"), True), (("run", UNKNOWN, UNKNOWN), False),
    ]  # fmt: skip


def test_a_branch_that_leaves_does_not_count_after_it():
    assert only("N=1; [ -f x ] || { N=2; exit 1; }; run $N") == ("run", "1")


def test_after_a_loop_of_unknown_length_what_it_changes_is_unknown():
    found = commands("N=1; M=1; for f in $(ls); do N=$((N+1)); run $f $N; done; run $N $M", env={}, read=lambda _: None)
    assert [command.argv for command in found.commands[1:]] == [("run", UNKNOWN, UNKNOWN), ("run", UNKNOWN, "1")]


def test_a_loop_that_may_have_been_left_early_leaves_what_any_of_its_turns_left():
    assert only("for i in 1 2 3; do N=$i; [ -d x$i ] && break; done; run $N") == ("run", UNKNOWN)
    assert only("for i in 1 2 3; do N=4; [ -d x$i ] && break; done; run $N") == ("run", "4")
    assert only("while true; do if [ -e up ]; then break; fi; sleep 1; done; run a") == ("run", "a")
    assert only("n=0; until ray status; do n=$((n+1)); [ $n -gt 9 ] && exit 1; done; run a") == ("run", "a")


def test_what_goes_on_for_ever_in_the_background_holds_nothing_up():
    script = "watch() { while true; do sleep 9; [ -f end ] && exit; done; }; watch & run a"
    assert [command.argv for command in commands(script, env={}, read=FILES.get).commands] == [("run", "a")]


def test_a_while_is_followed_turn_by_turn_as_long_as_its_condition_is_known():
    options = "N=1; while [ $# -gt 0 ]; do case $1 in -n) N=$2; shift ;; esac; shift; done; run $N"
    assert only(options) == ("run", "1")
    assert only(options, "-n", "2", "-x") == ("run", "2")
    assert only("N=1; while ray status; do N=2; sleep 1; done; run $N") == ("run", UNKNOWN)
    assert only("N=1; while true; do N=$((N+1)); sleep 1; done; run $N") == ("run", UNKNOWN)
    assert only("N=1; while true; do N=$((N+1)); if [ $N -eq 4 ]; then break; fi; done; run $N") == ("run", "4")


@pytest.mark.parametrize("guard", ['[ -z "$X" ] && exit 1', 'if [ -z "$X" ]; then echo X is missing; exit 2; fi', '[ -n "$X" ] || exit 1'])
def test_a_guard_that_ends_the_script_with_a_failure_is_passed_and_that_is_said(guard):
    found = commands(f"{guard}\nrun a", env={}, read=lambda _: None)
    assert [command.argv for command in found.commands] == [("run", "a")]
    assert "ends with an error before the training command" in found.unread[0]
    assert commands(f"{guard.replace('exit 1', 'exit 0').replace('exit 2', 'exit 0')}\nrun a", env={}, read=lambda _: None).commands == ()


def test_what_a_branch_starts_before_it_fails_counts():
    found = commands("if true; then python train.py; exit 1; fi; run a", env={}, read=lambda _: None)
    assert [command.argv for command in found.commands] == [("python", "train.py")]


def test_slurm_lines_count_behind_sbatch_and_in_a_script_and_flags_of_sbatch_go_first():
    files = {"job.sh": "#!/bin/bash\n#SBATCH --nodes=4\nrun $SLURM_NNODES $1"}
    for command, nodes in (("sbatch job.sh a", "4"), ("sbatch --nodes 2 -p gpu --exclusive job.sh a", "2"), ("sbatch -N3 job.sh a", "3")):
        found = commands(command, env={}, read=files.get)
        assert (found.commands[0].argv, found.unread) == (("run", nodes, "a"), ())
    found = commands("bash job.sh a", env={}, read=files.get)
    assert (found.commands[0].argv, found.unread) == (
        ("run", "4", "a"),
        ("the #SBATCH lines of job.sh are counted, which only sbatch applies",),
    )


def test_what_tmux_types_is_run():
    found = commands("N=2; tmux new -d -s t; tmux send-keys -t t 'cd code && python train.py --n 2' C-m", env={}, read=lambda _: None)
    assert (("python", "train.py", "--n", "2"), "/…/code") in [(command.argv, command.folder) for command in found.commands]


@pytest.mark.parametrize(("model", "nodes"), [("Qwen-7b-it", "1"), ("Qwen-70b", "4"), ("x", "2"), ("a*b", "8"), ("$(hostname)", UNKNOWN)])
def test_patterns_of_case_are_matched(model, nodes):
    cases = "case $M in *7b*) N=1 ;; Qwen-[67]0?) N=4 ;; 'a*b') N=8 ;; *) N=2 ;; esac"
    assert only(f'M="{model}"; {cases}; run $N') == ("run", nodes)


@pytest.mark.parametrize(("model", "nodes"), [("Qwen-7b-it", "1"), ("x", "2"), ("*b*", "2"), ("$(hostname)", UNKNOWN)])
def test_patterns_of_conditions_are_matched(model, nodes):
    assert only(f'M="{model}"; if [[ $M == *"7b"* ]]; then N=1; elif [[ $M != *7* ]]; then N=2; fi; run $N') == ("run", nodes)


def test_a_loop_with_a_counter_changes_only_what_it_counts():
    assert only("N=2; for ((i = 1; i < N; i++)); do :; done; run $N $i") == ("run", "2", UNKNOWN)


def test_paths_are_made_by_the_usual_programs():
    folder = 'D=$(cd -- "$(dirname -- x/y.sh)" && pwd)'
    assert only(f"{folder}; run $(basename a/b.sh .sh) $(echo tests/a.sh | sed 's#tests#examples#') $(realpath $D/../z)") == (
        "run",
        "b",
        "examples/a.sh",
        "/…/x/../z",
    )


def test_what_follows_a_program_with_and_is_in_doubt():
    found = commands("pip install x && run a; grep -q y z && run b; cd d && run c", env={}, read=lambda _: None)
    runs = [(command.argv[1], command.maybe) for command in found.commands if command.argv[0] == "run"]
    assert runs == [("a", True), ("b", True), ("c", False)]


FILES = {"train.sh": "run $1 $N ${#}", "sub/env.sh": "N=5; export M=6", "loop.sh": "bash loop.sh"}


def test_other_scripts_are_read_with_their_arguments_and_what_is_exported():
    found = commands("N=1; bash train.sh a b; export N=2; sh -x ./train.sh c; cd sub; . env.sh; run $N $M", env={}, read=FILES.get)
    assert [command.argv for command in found.commands] == [("run", "a", UNKNOWN, "2"), ("run", "c", "2", "1"), ("run", "5", "6")]


def test_a_script_that_cannot_be_read_is_said():
    found = commands("bash other.sh; bash $X; source env.sh; source ~/.venv/bin/activate; cd $D; bash train.sh", env={}, read=FILES.get)
    assert found.commands == ()
    assert [sentence.split()[0] for sentence in found.unread] == ["other.sh", "…", "env.sh", "train.sh"]


def test_after_a_file_that_cannot_be_read_a_default_is_taken_and_the_file_is_said():
    found = commands("source env.sh; run ${N:-8} $N", env={}, read=FILES.get)
    assert (found.commands[0].argv, found.unread) == (("run", "8", UNKNOWN), ("env.sh can't be read, so what it sets is unknown",))
    assert commands("N=4; source env.sh; run ${N:-8}", env={}, read=FILES.get).commands[0].argv == ("run", "4")


def test_a_script_that_calls_itself_ends():
    assert commands("bash loop.sh", env={}, read=FILES.get).unread
    assert commands("f() { f; }; f", env={}, read=FILES.get).unread


@pytest.mark.parametrize(
    "before",
    [
        "nohup",
        "env A=1",
        "env -u B A=1",
        "exec",
        "time",
        "sudo -E",
        "timeout -k 5 60",
        "nice -n 5",
        "setsid",
        "srun --nodes=1 -w n1",
    ],
)
def test_what_only_starts_another_program_is_taken_off(before: str):
    assert only(f"{before} python x.py") == ("python", "x.py")


def test_text_for_another_shell_is_read():
    assert only("bash -c 'run $0 $1' a b") == ("run", "a", "b")
    assert only('bash -lc "run 1"') == ("run", "1")
    assert only("srun -N1 bash -c 'run 2'") == ("run", "2")


def test_commands_in_a_substitution_are_found_too():
    assert only("ID=$(run a --b 2 | grep -o x)") == ("run", "a", "--b", "2")


def test_what_is_no_shell_is_said():
    assert commands("run a\ndone\nb", env={}, read=lambda _: None).unread[0].endswith("line 2: done was not expected")
    assert "line 2" in commands("run a\nif true; then", env={}, read=lambda _: None).unread[0]
    assert commands("echo 'a", env={}, read=lambda _: None).unread
