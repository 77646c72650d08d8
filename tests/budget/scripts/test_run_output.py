"""What a script prints and pipes, beside a real bash; what is not followed; and what starts it somewhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cockpit.budget.scripts import UNKNOWN, commands
from tests.budget.scripts.bash import BASH, all_that_is_known_is_so, by_bash, only, read_here

pytestmark = pytest.mark.process

HOSTS = "a slots=4\nb slots=4\n# c slots=4\nd slots=4\n"

KNOWN = {
    "what a function prints": "nodes() { case $1 in 7b) echo 2 ;; *) echo 8 ;; esac; }; show $(nodes 7b) $(nodes 70b)",
    "what a function answers": "big() { [[ $1 == 70b ]]; }; if big 70b; then show big; fi; if ! big 7b; then show small; fi",
    "functions in functions": "twice() { echo $(( $1 * 2 )); }; show $(twice $(twice 3))",
    "what goes to another stream isn't printed": "show $(echo no >&2; echo yes)",
    "names that are declared in words": 'for a in n=3 "e=x y"; do declare "$a"; done; show $n "$e"',
    "a local has no value yet": "A=1; f() { local A; show ${A:-none}; A=2; }; f; show $A",
    "a local takes the value from outside": "A=1; f() { local A=$A B+=2; A=${A}3; show $A $B; }; B=4; f; show $A $B",
    "comments within a command": "show a `# b` c",
}  # fmt: skip

NOT_FOLLOWED = {
    "two loops are left": "for a in 1 2; do for b in 1 2 3; do [ $b = 2 ] && continue 2; show $a$b; done; done",
    "a loop of a number that isn't known is left": "N=2; for a in 1 2; do for b in 1 2; do break $N; done; show $a; done",
    "the last of an array": "A=(1 2 3); show ${A[-1]}",
    "patterns": "case $1 in on?) show a ;; *) show b ;; esac; if [[ $1 == o* ]]; then show c; fi; [[ $1 ]] && show d; [ ! $1 ] || show e",
    "sums that compare, or have a sign": "A=2; B=A+1; show $((A > 1)) $((A == 1)) $((-7/2)) $((B * 2))",
    "heredocs for cat": "show \"$(cat <<EOF\nmod --x ${1}\nEOF\n)\" $(cat <<'EOF'\n--x $1\nEOF\n)",
    "a heredoc that sets a variable": "cat > f <<EOF\n${N:=4} $((M = 2))\nEOF\nshow ${N:-8} ${M:-1}",
    "escapes in quotes": "M=$'it\\'s'; N=4; show $N ${M:+x} 'end'",
    "counting": "I=1; ((I++)); I=$((I+1)); ((I+=2)); show $I $((I++)) $I",
    "cuts": "F=dir/sub/x.tar.gz; show ${F##*/} ${F%.*} ${F%%.*} ${F#*/} ${F/sub/top} ${F//r/R}",
    "a while over arguments": 'while [[ $# -gt 0 ]]; do case $1 in one) show first; shift;; *) show "$1"; shift;; esac; done',
    "until": "I=0; until [ $I -ge 2 ]; do show $I; I=$((I+1)); done",
    "commas to words": "G=0,1,2; L=(${G//,/ }); show ${#L[@]}",
    "a heredoc that becomes a file": "cat > f.sh <<EOF\nX=$1\nshow \\$1 \"\\$X\"\nEOF\n. ./f.sh z",
    "a quoted heredoc becomes a file": "cat <<'EOF' > f.sh\nshow \"$1\" $(( 2 * 3 ))\nEOF\nsource ./f.sh 'a b'",
    "a file grows": "echo 'A=1' > e; echo \"B=2\" >> e; . ./e; show $A $B",
    "tee writes": "echo 'show t' | tee t.sh > /dev/null; . ./t.sh",
    "a counted loop": "for ((i = 0; i < 4; i++)); do [ $i = 1 ] && continue; [ $i = 3 ] && break; show $i; done",
    "unset": "A=1; unset A; show ${A-none} ${A:-none} ${A+set}x",
    "a pattern in quotes stands for itself": 'A="*x"; case a in "*") show star ;; *) show any ;; esac; show ${A#"*"}',
    "fields are counted": "D=0,2,5; show $(echo $D | awk -F, '{print NF}') $(echo \"$D\" | awk -F ',' '{ print NF }')",
    "let": "let X=3*4; show $X",
    "length and slices": "A=abcdef; show ${#A} ${A:2} ${A:1:3}",
    "upper and lower": "A=aB; show ${A^^} ${A,,}",
    "a heredoc": "read -r -d '' T <<EOF\nmod --x ${1} \\\n  --y \"2\"\nEOF\nshow $T",
    "a heredoc without expansion": "read -r -d '' T <<'EOF'\n--x $1\nEOF\nshow $T",
    "a heredoc with tabs": "read -d '' T <<-EOF\n\t--x 1\n\tEOF\nshow $T",
    "echo, tr and wc": 'G=0,1,2,3; show $(echo $G | tr "," "\\n" | wc -l) $(echo hi) `echo there`',
    "seq and expr": "for i in $(seq 1 3); do show $i; done; show $(expr 2 + 3)",
    "read into an array": "G=0,1,2,3; IFS=',' read -ra L <<< \"$G\"; show ${#L[@]} ${L[1]}; read A B <<< 'x y z'; show $A \"$B\"",
    "read lines": "read -r A B C <<EOF\none two\nthree\nEOF\nshow $A $B end$C",
    "braces": "show {a,b}x pre{1..3} {}",
    "a file of many commands": "{ echo one; echo two three; } > w; while read -r a b; do show \"$a\" \"$b\"; done < w",
    "a file is copied": "echo 'A=5' > e; cp e g; echo 'A=6' > e; . ./g; show $A",
    "lines of a file": "n=0; while read -r host rest; do [[ $host == \\#* ]] && continue; n=$((n+1)); show $host; done < hosts; show $n",
    "a last line without an end": "printf 'a\\nb' > w; while read -r l || [[ -n $l ]]; do show $l; done < w",
    "lines of a file in an array": 'mapfile -t L < hosts; show "${L[@]}" ${#L[@]}',
    "words of a file": "show $(cat hosts | head -n 1) $(< hosts) $(wc -l < hosts)",
    "lines that are chosen": "show $(grep -v '^#' hosts | wc -l) $(grep -c slots hosts) $(head -n 1 hosts | cut -d= -f2)",
    "lines of another process": "readarray -t W < <(printf '%s\\n' a); show \"${W[@]}\"; while read -r x; do show $x; done < <(echo b c)",
    "words from a pipe": "echo b c | xargs echo a > w; show $(cat w)",
    "devices are joined": 'G=(0 2 5); D=$(IFS=,; echo "${G[*]}"); show "$D"; IFS=, read -ra E <<< "$D"; show ${#E[@]}',
    "arguments are parted by IFS": "D=0,1,2; IFS=','; set -- $D; unset IFS; show $# $2",
    "commas are counted": 'D=0,1,2; C="${D//[^,]/}"; show $(( ${#C} + 1 )) $(( $(echo "$D" | grep -o , | wc -l) + 1 ))',
    "a table": "declare -A T=([7b]=1 [70b]='8 9'); T[1b]=0; S=70b; show ${T[$S]} ${T[1b]} \"${T[none]}\" ${#T[@]}",
    "whole numbers": "declare -i N=1; N+=2; show $N; f() { local -i K=2*3; show $K; }; f",
    "options": "while getopts 'n:gh' o -n 3 -g rest; do show $o $OPTARG; done; show $OPTIND",
    "a name in a variable": 'v=A; A=5; show ${!v}; for kv in N:2 G:4; do printf -v "${kv%%:*}" %s ${kv##*:}; done; show $N $G',
    "arguments if there are any": 'A=(); B=(x "y z"); show ${A[@]+"${A[@]}"} ${B[@]+"${B[@]}"} end',
    "a number is a number": '[[ "12" =~ ^[0-9]+$ ]] && show yes; [[ "1x" =~ ^[0-9]+$ ]] || show no',
    "one of an array is set": "A=(1 2 3); A[1]=5; show ${A[1]} ${A[-1]} ${#A[@]}; show b",
    "a file's text": "show $(< hosts)",
    "characters": "A=$'a\\nb'; show $A $'c'; show d",
    "a sum of conditions": "A=4; show $(( A > 2 ? A / 2 : 1 )) $(( A == 1 || A == 4 )) $(( A && 0 ))",
    "powers": "A=2; show $((A ** 3)) $((A * 3))",
    "tests with -a and -o": "[ a = a -a b = c ] && show a; [ a = b -o c = c ] && show b; show c",
}  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="no bash here")
@pytest.mark.parametrize("script", NOT_FOLLOWED.values(), ids=NOT_FOLLOWED.keys())
def test_what_is_not_followed_is_never_taken_for_something_else(script: str, tmp_path: Path):
    (tmp_path / "hosts").write_text(HOSTS)
    assert all_that_is_known_is_so(script, "one", "two words", folder=tmp_path, files={"hosts": HOSTS})


@pytest.mark.skipif(BASH is None, reason="no bash here")
@pytest.mark.parametrize("script", KNOWN.values(), ids=KNOWN.keys())
def test_what_a_script_prints_is_read_as_bash_would(script: str, tmp_path: Path):
    (tmp_path / "hosts").write_text(HOSTS)
    expected = by_bash(script, "one", folder=tmp_path)
    assert expected
    assert read_here(script, "one", files={"hosts": HOSTS}) == expected


_NAMES = st.sampled_from(["A", "B"])
_VALUES = st.sampled_from(["a b", "3,4", "x.y", "", "k=v"])
_PRINTED = st.one_of(
    st.builds('echo "{}"'.format, st.sampled_from(["$A", "${L[*]}", "$#", "$*"])),
    st.sampled_from(["f q", "echo one; echo two", "basename p/q", "dirname p/q"]),
)
_WORDS = st.one_of(
    _PRINTED.map("$({})".format),
    _PRINTED.map('"$({})"'.format),
    st.builds('"${{{}{}}}"'.format, _NAMES, st.sampled_from(["", ":-d", "-d", ":+s"])),
    st.sampled_from(['"${L[@]}"', "${L[@]:1}", "${#L[@]}", "$(($# + 2))"]),
)
_CONDITIONS = st.sampled_from(['[[ "$A" == "a b" ]]', '[ -z "$B" ]', "f q", "f r", "[ $# -gt 1 ]"])
_COMMANDS = st.one_of(
    st.builds("show {} {}".format, _WORDS, _WORDS),
    st.builds("{}={}".format, _NAMES, _WORDS),
    st.builds("{}='{}'".format, _NAMES, _VALUES),
    st.builds("L=({} {})".format, _WORDS, _WORDS),
    st.builds("set -- {} {}".format, _WORDS, _WORDS),
)
_SCRIPTS = st.recursive(
    _COMMANDS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("\n".join),
        st.builds("if {}; then\n{}\nelse\n{}\nfi".format, _CONDITIONS, inner, inner),
        st.builds("{} || {{ {}\n}}".format, _CONDITIONS, inner),
        st.builds("(\n{}\n)".format, inner),
        st.builds("for i in a b; do\n{}\ndone".format, inner),
        st.builds("g() {{ local A=5\n{}\n}}\ng {}".format, inner, _WORDS),
    ),
    max_leaves=6,
)


@pytest.mark.skipif(BASH is None, reason="no bash here")
@given(_SCRIPTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_a_script_prints_it_is_what_bash_would(tmp_path: Path, script: str):
    whole = f"A='a b' B=3,4\nL=(p 'q r')\nf() {{ [ \"$1\" = q ]; }}\n{script}"
    (tmp_path / "w").write_text("one two\nthree\n")
    expected = by_bash(whole, "one", folder=tmp_path)
    assert read_here(whole, "one", files={"w": "one two\nthree\n"}) == expected


_NOT_FOLLOWED = st.one_of(
    st.builds("read -r {} B <<< {}".format, _NAMES, _WORDS),
    st.sampled_from(["IFS=, read -ra L <<< \"$A\"", "mapfile -t L < w", "let A++", "printf -v A %s 5", "IFS=,", "A=$(wc -l < w)"]),
    st.sampled_from(["declare -i I=1; I+=2; show $I", "cp v w", "L=({1..3})", "A=${A^^}", "B=${!A}", "declare -A L; L[x]=4"]),
    st.sampled_from(["echo $B >> w; A=$(cat w)", "unset A", "A=${B%%,*}", "L=(${B//,/ })", "show ${A#*.}"]),
    st.just('while [ $# -gt 0 ]; do case $1 in k=*) show ${1#*=};; *) show p "$1";; esac; shift; done'),
    st.sampled_from(["for ((i = 0; i < 2; i++)); do A=$i; show $A; done", "(( A++ ))", "B=$((A += 1))"]),
    st.sampled_from(["while read -r A; do show $A; B=$A; done < w", "A=$((1 ? 5 : 7))", "A=$(($# > 1))", '[[ "$A" == *b ]] && B=5']),
    st.sampled_from(["A=$(cat w)", "echo $A | { read B; show $B; }", "cat <<EOF\n${U:=5}\nEOF\nshow ${U:-6}", "A=$(cat <<< $B)"]),
)  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="no bash here")
@given(st.lists(_SCRIPTS, min_size=1, max_size=3), st.lists(_NOT_FOLLOWED, min_size=1, max_size=3), st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_among_what_is_not_followed_no_word_is_wrong(tmp_path: Path, followed: list[str], not_followed: list[str], data: st.DataObject):
    script = "\n".join(data.draw(st.permutations([*followed, *not_followed])))
    files = {"w": "one two\nthree\n", "v": "4 5\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert all_that_is_known_is_so(f"A='a b' B=3,4\nL=(p 'q r')\nf() {{ [ \"$1\" = q ]; }}\n{script}", "one", folder=tmp_path, files=files)


@pytest.mark.parametrize(
    "script", ["cat <<EOF | bash\nrun 3\nEOF", "echo 'run 4' | bash -s", "bash -s 5 <<'EOF'\nrun $1\nEOF", "bash < job.sh"]
)
def test_what_a_shell_is_given_on_standard_input_is_not_read_and_that_is_said(script: str):
    found = commands(script, env={}, read={"job.sh": "run 7"}.get)
    assert not [command for command in found.commands if command.argv[0] == "run"]
    assert found.unread


def test_a_script_that_is_written_is_not_read_and_that_is_said():
    found = commands("cat > job <<'EOF'\n#!/bin/bash\nrun $1\nEOF\nbash ./job 6", env={}, read={"job": "run 0"}.get)
    assert [command.argv for command in found.commands] == [("cat",)]
    assert found.unread == ("./job can't be read, so what it runs is unknown",)


def test_a_file_that_another_program_changed_is_not_read_any_more():
    files = {"env.sh": "N=1", "job.sh": "run $N"}
    assert commands("sed -i s/1/2/ env.sh; . ./env.sh; run $N", env={}, read=files.get).unread
    assert commands("envsubst < job.sh > run.sh; bash run.sh", env={}, read={**files, "run.sh": "run 0"}.get).unread
    assert commands("[ -d x ] && echo N=2 > env.sh; . ./env.sh; run $N", env={}, read=files.get).unread


def test_whether_a_file_is_there_is_not_known():
    assert only("if [ -f .env ]; then source .env; fi; run ${N:-1}", files={".env": "N=4"}) == ("run", UNKNOWN)
    assert only("if [ -f .env ]; then N=4; fi; run ${N:-1}") == ("run", UNKNOWN)


def test_names_of_files_that_would_be_looked_up_are_not_counted():
    assert only("H=(hosts/*); run ${#H[@]}") == ("run", UNKNOWN)
    assert only("set -- conf/*.yaml; run $#") == ("run", UNKNOWN)


def test_a_batch_job_has_what_slurm_sets_for_it():
    lines = "#!/bin/bash\n#SBATCH -N 2\n#SBATCH --gpus-per-node=a100:4 # each\n"
    lines += "run $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_GPUS_PER_NODE ${1:-none}\n"
    assert only(lines) == ("run", "2", "4", "a100:4", "none")
    assert only(lines, SLURM_NNODES="8") == ("run", "8", "4", "a100:4", "none")
    assert only("#SBATCH -N2-4 --gres gpu:8\nrun $SLURM_NNODES $SLURM_NTASKS $SLURM_GPUS_ON_NODE") == ("run", UNKNOWN, UNKNOWN, "8")


def test_what_sudo_and_env_may_take_away_is_unknown():
    assert only("export N=7; sudo bash -c 'run ${N:-1} ${M:-2}'") == ("run", UNKNOWN, "2")
    assert only("export N=7 M=8; env -u N bash -c 'run ${N:-1} $M'") == ("run", UNKNOWN, UNKNOWN)
    assert only("export N=7; env M=8 bash -c 'run $N $M'") == ("run", "7", "8")
    assert only("export N=7; srun -N1 bash -c 'run ${N:-1}'") == ("run", "7")


def test_the_folder_in_which_a_script_lies_leads_to_what_lies_beside_it():
    found = 'D=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n. "$D/env.sh"\nrun $N'
    files = {"scripts/run.sh": found, "scripts/env.sh": "N=2"}
    assert only("bash scripts/run.sh", files=files) == ("run", "2")
    assert only('R=$PWD; cd scripts; . "$R/scripts/env.sh"; run $N', files=files) == ("run", "2")
