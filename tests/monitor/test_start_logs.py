"""What the logs of a node show of workers that don't start. The lines are those of Ray 2.60, as real starts wrote them."""

from __future__ import annotations

import json
import time

import pytest

from cockpit.monitor.start_logs import (
    build_of,
    environment_hash,
    find_early_death,
    find_package,
    find_words,
    has_no_port,
    read_builds,
    read_starts,
    words_of,
    workers_of,
)
from tests.monitor.start_lines import FAILS, FAILS_HASH, FOLDER, HANGS, HANGS_HASH, NO_MATCH, deleted, ended, run, started, unregistered

IDS = ["a1" * 28, "b2" * 28, "c3" * 28]


def test_what_was_over_long_ago_is_no_reason_any_more():
    old, late = unregistered(590, at="10:00:00"), "[2026-11-28 11:30:00,000 I 310 310] (raylet) node_manager.cc:1: alive"
    assert find_early_death(read_starts([started(590), late], [old]), ["ImportError: x"], []) is None
    assert not has_no_port(["[2026-11-28 11:06:23,709 E 590 590] No available ports"], read_starts([late], []))
    assert has_no_port(["[2026-11-28 11:29:23,709 E 590 590] No available ports"], read_starts([late], []))


def test_an_environment_that_was_built_at_the_second_try_is_no_trouble():
    assert read_builds([run(1, FAILS_HASH), *ended(1, *NO_MATCH), deleted(FAILS_HASH), run(2, FAILS_HASH), *ended(2)]) == []


def test_of_two_environments_each_job_has_its_own_the_one_that_runs_and_the_one_that_failed():
    lines = [run(9, HANGS_HASH), run(10, FAILS_HASH), *ended(10, *NO_MATCH), deleted(FAILS_HASH)]
    builds = read_builds(lines)
    hangs, fails = build_of(builds, {"pip": HANGS}), build_of(builds, {"pip": FAILS})
    assert (hangs.hash, words_of(hangs), hangs.clock, hangs.error) == (HANGS_HASH, "pip install", "11:08:39", None)
    assert (fails.hash, fails.command, fails.failures) == (FAILS_HASH, None, 1)
    assert fails.error == "ERROR: No matching distribution found for nosuchpackage-abc==1.0"


def test_the_folder_is_named_as_ray_names_it():
    assert environment_hash("pip", HANGS) == HANGS_HASH
    assert environment_hash("pip", FAILS) == FAILS_HASH
    assert environment_hash("uv", {"packages": ["nosuchpackage-xyz==1.0"], "uv_pip_install_options": HANGS["pip_install_options"]}) == (
        "c33b2af715252ce89d15248d0dc248990cbccff9"
    )


def test_two_builds_of_which_none_is_known_to_be_its_own_are_no_answer():
    builds = read_builds([run(1, HANGS_HASH), run(2, FAILS_HASH)])
    assert build_of(builds, {"pip": {"packages": ["other"]}}) is None
    assert build_of(builds, {"env_vars": {}}) is None
    assert build_of(builds, None) is None
    assert build_of(builds[:1], {"pip": {"packages": ["hidden ••••"]}}) is builds[0], "the only one that pip builds"


def test_a_build_that_failed_and_runs_again_keeps_its_error_and_its_number():
    lines = [run(1, FAILS_HASH), *ended(1, *NO_MATCH), deleted(FAILS_HASH)]
    lines += [run(2, FAILS_HASH), *ended(2, *NO_MATCH), deleted(FAILS_HASH), run(3, FAILS_HASH, at="11:12:00")]
    (build,) = read_builds(lines)
    assert (build.failures, build.error is not None, build.clock) == (2, True, "11:12:00")


def test_the_error_at_the_end_of_a_long_output_is_found():
    (build,) = read_builds([run(1, FAILS_HASH), *ended(1, *["Collecting x"] * 300, *NO_MATCH), deleted(FAILS_HASH)])
    assert build.error == "ERROR: No matching distribution found for nosuchpackage-abc==1.0"


def test_a_build_that_has_ended_well_and_one_of_an_agent_that_was_started_again_are_none():
    assert read_builds([run(1, HANGS_HASH), *ended(1)]) == []
    restarted = [run(5, HANGS_HASH), run(1, FAILS_HASH)]
    assert [build.hash for build in read_builds(restarted) if build.command] == [FAILS_HASH]


def test_an_index_that_cannot_be_reached_is_named_beside_pips_last_line():
    retry = (
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3."
        "connection.HTTPSConnection object>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')':"
    )
    (build,) = read_builds([run(1, FAILS_HASH), *ended(1, retry, *NO_MATCH), deleted(FAILS_HASH)])
    assert build.error.endswith("(the package index can't be reached: Temporary failure in name resolution)")


def test_an_output_with_a_password_or_with_escapes_is_shown_without_them():
    (build,) = read_builds([run(1, FAILS_HASH), *ended(1, "ERROR: \x1b[31mhttps://me:hunter2secret@host/simple"), deleted(FAILS_HASH)])
    assert "hunter2secret" not in build.error
    assert "\x1b" not in build.error


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("'-m', 'virtualenv', '/x'", "a copy of the Python environment"),
        ("'/ray/_private/runtime_env/_clonevirtualenv.py', '/x'", "a copy of the Python environment"),
        ("'-c', '\\nimport ray\\nwith open'", "a check of its Ray"),
        ("'-m', 'pip', 'install', '-r', 'x'", "pip install"),
    ],
)
def test_the_step_that_runs_is_named(command, words):
    (build,) = read_builds([run(1, HANGS_HASH, command)])
    assert words_of(build) == words


def test_conda_is_shown_with_its_last_line():
    lines = [
        f"2026-11-28 11:00:00,000\tINFO conda_utils.py:138 -- Creating conda environment {FOLDER.replace('pip', 'conda')}/{HANGS_HASH}",
        "2026-11-28 11:00:05,000\tINFO conda_utils.py:282 -- Solving environment: ...working...",
    ]
    (build,) = read_builds(lines)
    assert (build.last_line, build.clock) == ("Solving environment: ...working...", "11:00:05")
    assert build.tool == "conda"
    assert read_builds([*lines, "2026-11-28 11:01:00,000\tINFO conda.py:379 -- Finished creating conda environment at x"]) == []


def test_workers_of_the_job_that_have_not_registered_the_newest_first_each_with_its_stderr_first():
    out = [started(1105), unregistered(1182), started(1182), started(1183), started(1238), unregistered(1182)]
    starts = read_starts(out, [])
    names = [f"worker-{IDS[0]}-03000000-1182.{end}" for end in ("out", "err")]
    names += [f"worker-{IDS[1]}-03000000-1183.err", f"worker-{IDS[2]}-04000000-1238.err", "worker-x-03000000-1.err"]
    found = workers_of(starts, names, "03000000", registered=[1183])
    assert [(one.pid, one.is_dead) for one, _ in found] == [(1182, True)]
    assert [name[-3:] for name in found[0][1]] == ["err", "out"]


def test_why_a_worker_ended_is_its_error_or_rays_own_last_line():
    assert find_words(["Traceback (most recent call last):", '  File "a.py", line 1, in f', "ImportError: libfoo.so.1: no such file"]) == (
        "ImportError: libfoo.so.1: no such file"
    )
    raylet = "[2026-11-28 11:06:23,709 E 590 590] core_worker_process.cc:247: Failed to register worker to Raylet: IOError: refused"
    assert find_words([raylet]) == "Failed to register worker to Raylet: IOError: refused"
    assert find_words(["Loading checkpoint shards", ""]) is None


def test_workers_that_die_before_they_have_a_log_have_written_into_the_raylets():
    trace = ["Traceback (most recent call last):", '  File "/tmp/bad2/msgpack.py", line 1, in <module>', "ImportError: msgpack is broken"]
    err = [*trace, unregistered(638), *trace, unregistered(641)]
    starts = read_starts([started(638), started(641)], err)
    assert find_early_death(starts, err, claimed=[]) == ("ImportError: msgpack is broken", 2)
    assert find_early_death(starts, err, claimed=[641]) is None, "the newest one has a log of its own"
    assert find_early_death(read_starts([started(638)], []), [], claimed=[]) is None


URI = "https://127.0.0.1:9999/code.zip"
JSON = json.dumps({"env_vars": {"TOKEN": "hunter2"}, "working_dir": URI})


def agent(words, at="11:23:30"):
    return f"2026-11-28 {at},005\tINFO runtime_env_agent.py:543 -- {words}"


def test_a_package_that_is_not_there_yet_is_named_with_why_the_last_try_failed():
    begun = agent(f"Creating runtime env: {JSON} with timeout 600 seconds.")
    assert find_package([begun], {"working_dir": URI}).clock == "11:23:30"
    assert find_package([begun], {"working_dir": "gcs://_ray_pkg_other.zip"}) is None
    failed = [begun, agent(f"Failed to create runtime env {JSON}."), "Traceback (most recent call last):", '  File "x.py", line 2, in f',
              "requests.exceptions.ReadTimeout: Read timed out. (read timeout=60)"]  # fmt: skip
    wait = find_package(failed, {"working_dir": URI})
    assert (wait.failures, wait.error) == (1, "requests.exceptions.ReadTimeout: Read timed out. (read timeout=60)")
    assert find_package([*failed, agent("runtime_env creation failed 3 times, giving up.")], {"working_dir": URI}) is None
    assert find_package([begun, agent(f"Successfully created runtime env: {JSON}, context: {{}}")], {"py_modules": [URI]}) is None


def test_an_environment_and_a_log_of_a_hostile_job_take_little_time():
    many = {"working_dir": URI, "py_modules": [f"gcs://{number}.zip" for number in range(10_000)]}
    failures = [line for number in range(260) for line in (agent(f"Failed to create runtime env {JSON}"), "ValueError: " + "a" * 3_900)]
    begun = time.process_time()
    wait = find_package([agent(f"Creating runtime env: {JSON}"), *failures], many)
    assert time.process_time() - begun < 1.0
    assert wait is not None
    assert (wait.failures, (wait.error or "")[:15]) == (260, "ValueError: aaa")


def test_a_deep_environment_has_no_name():
    deep: dict[str, object] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert environment_hash("pip", {"packages": deep}) is None
