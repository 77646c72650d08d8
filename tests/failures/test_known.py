"""The table of known errors."""

from __future__ import annotations

import re
import string
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from cockpit.actions.table import ACTIONS
from cockpit.failures import KnownError, find_all_known, find_known, find_root_error, known_errors
from tests.remedies.inventory import PROGRAMS

MAX_TEXT = 6_000
MAX_SECONDS = 0.05
"""Of CPU, for one pattern on one hostile text. The slowest needs 2 ms."""
MAX_REMEDY = 300
MORE_PROGRAMS = """
    accelerate apptainer apt-get aws bash cat chmod conda curl date deepspeed dkms docker dos2unix echo enroot env export fi_info
    file findmnt firewall-cmd fusermount gcc gcloud getent git hccn_tool head hf ibdev2netdev ibstat ibv_devinfo ip ipcs iptables
    ldconfig ldd lfs ln locale ls lscpu lsmod lsof mkdir module namei nc npu-smi nvcc nvidia-container-cli nvidia-cuda-mps-control
    nvidia-imex-ctl ps ptxas python python3 quota rdma redis-cli rm rocm-smi rocminfo sacct sacctmgr scancel sed serve setsid
    show_gids source ssh ssh-keygen ssh-keyscan sudo systemctl tail torchrun umount uname uptime uv wandb which {python}
"""
"""Programs with which a command of a remedy begins, beside those of cockpit's other remedies."""
QUOTED = (
    "if not ray.is_initialized(): ray.init(...)",
    "ref = ray.put(data)",
    "medium: Memory",
    "pin_memory: false",
    "readOnly: false",
    "device-side assert",
    "srun: error:",
    "srun: error: Node failure on ...",
    "version https://git-lfs",
)
"""Words of Python, of configuration files and of logs that remedies quote."""


def names(rows: tuple[KnownError, ...] = known_errors()) -> list[str]:
    return [row.name for row in rows]


def row(name: str) -> KnownError:
    return next(each for each in known_errors() if each.name == name)


def groups_of(error: KnownError) -> set[str]:
    return set(re.compile(error.pattern).groupindex)


def parts_of(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None}


def test_each_name_stands_once():
    assert [name for name, times in Counter(names()).items() if times > 1] == []
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names())


def test_each_row_is_the_root_error_of_a_log_that_ends_with_its_first_text():
    def found(row: KnownError) -> str | None:
        error = find_root_error(f"step 1\nstep 2\n{row.matches[0]}\nshutting down\n".splitlines())
        return error.known.error.name if error and error.known else None

    assert [(row.name, name) for row in known_errors() if (name := found(row)) != row.name] == []


def test_each_row_is_found_in_its_own_lines():
    wrong = []
    for error in known_errors():
        for text in error.matches:
            # A row that is no cause by itself gives way to one that is.
            found = (
                find_known(text) if error.is_certain else next((each for each in find_all_known(text) if not each.error.is_certain), None)
            )
            if found is None or found.error is not error:
                wrong.append((error.name, found.error.name if found else None))
    assert wrong == []


def test_no_row_is_found_in_lines_that_only_look_like_its_own():
    assert [
        error.name for error in known_errors() for text in error.differs if any(each.error is error for each in find_all_known(text))
    ] == []


def test_each_part_of_a_sentence_is_a_named_group_and_is_filled():
    for error in known_errors():
        assert parts_of(error.cause) | parts_of(error.remedy) <= groups_of(error), error.name
        for text in error.matches:
            match = next(each for each in find_all_known(text) if each.error is error)
            assert [name for name in parts_of(error.cause) | parts_of(error.remedy) if not match.parts[name]] == [], (error.name, text)
            assert match.cause
            assert match.remedy


def test_a_cause_is_one_sentence_without_a_full_stop_and_a_remedy_is_short():
    for error in known_errors():
        assert not error.cause.endswith("."), error.name
        assert not re.search(r"[a-z]\. [A-Z]", error.cause), error.name
        assert len(error.remedy) <= MAX_REMEDY, error.name
        assert len(error.cause) <= MAX_REMEDY, error.name
        assert "\n" not in error.cause + error.remedy, error.name


def test_general_rows_stand_last_and_a_row_is_a_consequence_or_a_notice_but_not_both():
    general = [error.is_general for error in known_errors()]
    assert general == sorted(general)
    assert [error.name for error in known_errors() if error.is_consequence and error.is_warning] == []


def test_an_action_is_one_of_cockpits():
    ids = {action.id for action in ACTIONS}
    assert {error.action for error in known_errors() if error.action} <= ids


def test_the_parts_that_findings_look_up_have_the_same_names_in_all_rows():
    for error in known_errors():
        if error.look_up == "actor-name" and error.action == "kill-actor":
            assert "actor_name" in groups_of(error), error.name
        if "port" in groups_of(error):
            assert error.look_up == "port", f"{error.name}: a port that is not in use on this host is a peer_port"
    assert not {"ip", "file_path", "directory", "wanted", "need"} & {name for error in known_errors() for name in groups_of(error)}


def test_a_source_says_something_to_people_outside():
    for error in known_errors():
        assert error.source, error.name
        assert not re.search(r"\bindex\b|\bstored\b|incidents|failures\.md|\d{7,}", error.source), (error.name, error.source)


def test_each_command_in_a_remedy_begins_with_a_known_program():
    known = {*PROGRAMS, *MORE_PROGRAMS.split()}
    unknown = []
    for error in known_errors():
        for quoted in re.findall(r"`([^`]+)`", error.remedy):
            first = quoted.split(" ")[0]
            is_command = " " in quoted.strip() and re.match(r"[a-z{]", quoted) and not re.match(r"[\w.+]+[=.(\[]", quoted)
            if is_command and first not in known and quoted not in QUOTED and not first.startswith("d=$("):
                unknown.append((error.name, quoted))
    assert unknown == []


def test_every_repetition_in_a_pattern_has_a_limit():
    without_sets = {error.name: re.sub(r"\[(?:\\.|[^\]\\])*\]|\\.", "x", error.pattern) for error in known_errors()}
    assert [(name, pattern) for name, pattern in without_sets.items() if re.search(r"[*+]|\{\d*,\}", pattern)] == []


def hostile_texts(error: KnownError) -> Iterator[str]:
    """Texts made of the row's own pieces, each as long as a text can be."""
    marker = error.markers[0]
    for fill in ("a", " ", "0.", "/a", "a\n"):
        yield (marker + fill * MAX_TEXT)[:MAX_TEXT]
        yield (fill * (MAX_TEXT - 200 - len(marker)))[: MAX_TEXT - 200] + marker + (fill * 200)[:200]
    for text in error.matches:
        for piece in (
            marker,
            text,
            text[: len(text) // 2],
            text[len(text) // 3 :],
            f"{text[:-3]} ",
            f"{text[: len(text) // 2]}{'0' * 40}",
        ):
            yield (piece * (MAX_TEXT // max(1, len(piece)) + 1))[:MAX_TEXT]


def test_no_pattern_is_slow_on_a_hostile_text():
    slow = []
    for error in known_errors():
        pattern = re.compile(error.pattern, re.MULTILINE)
        for text in hostile_texts(error):
            begun = time.process_time()
            pattern.search(text)
            if (took := time.process_time() - begun) > MAX_SECONDS:
                slow.append((error.name, took, text[:80]))
    assert slow == []


def test_a_port_that_a_line_names_is_read():
    for line, port in (
        ("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).", 29500),
        ("OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address already in use", 8265),
        ("zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5557')", 5557),
        ("OSError: [Errno 98] Address already in use", None),
        ("2026-11-23 10:00:01 OSError: [Errno 98] Address already in use", None),
    ):
        match = find_known(line)
        assert match is not None, line
        assert (int(match.parts["port"]) if match.parts.get("port") else None) == port, line
    assert find_known("connected to 127.0.0.1:6379") is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("NCCL WARN Error: failed to extend /dev/shm/nccl-CsYXMW to 9637892 bytes, error: No space left on device (28)", "nccl-shm-extend"),
        ("RuntimeError: CUDA error: out of memory", "cuda-error-out-of-memory"),
        ("bash: ray: command not found", "command-not-found"),
        ("PermissionError: [Errno 13] Permission denied: '/tmp/ray/session_1'", "ray-directory-permission"),
        ("PermissionError: [Errno 13] Permission denied: '/data/out'", "permission-denied-path"),
    ],
)
def test_of_rows_that_match_the_same_text_the_most_special_one_counts(text: str, name: str):
    match = find_known(text)
    assert match is not None
    assert match.error.name == name
