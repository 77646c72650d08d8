"""Lines of Ray 2.60 about workers and runtime environments that it starts, as real starts wrote them."""

from __future__ import annotations

WORKER = "a1" * 28
HANGS = {"packages": ["nosuchpackage-xyz==1.0"], "pip_install_options": ["--index-url", "http://127.0.0.1:9999/simple"]}
FAILS = {"packages": ["nosuchpackage-abc==1.0"], "pip_install_options": ["--no-index"]}
HANGS_HASH, FAILS_HASH = "6c8849e65d8ddbd60efb995a13570a71cc3ba01d", "86b8c14b8c99cb4d236853efe4aace7ff24acc7c"
FOLDER = "/tmp/ray/session_2026-11-28_11-04-33_099775_12/runtime_resources/pip"


def run(number, digest, command="'-m', 'pip', 'install', '-r', 'requirements.txt'", at="11:08:39"):
    return f"2026-11-28 {at},568\tINFO utils.py:76 -- Run cmd[{number}] ['{FOLDER}/{digest}/virtualenv/bin/python', {command}]"


def ended(number, *output, at="11:08:45"):
    if not output:
        return [f"2026-11-28 {at},756\tINFO utils.py:103 -- No output for cmd[{number}]"]
    return [f"2026-11-28 {at},756\tINFO utils.py:101 -- Output of cmd[{number}]: {output[0]}", *output[1:], ""]


def deleted(digest, at="11:08:46"):
    return f"2026-11-28 {at},756\tINFO pip.py:292 -- Delete incomplete virtualenv: {FOLDER}/{digest}"


NO_MATCH = (
    "ERROR: Could not find a version that satisfies the requirement nosuchpackage-abc==1.0 (from versions: none)",
    "ERROR: No matching distribution found for nosuchpackage-abc==1.0",
)


def started(pid, at="11:10:10"):
    return f"[2026-11-28 {at},169 I 310 310] (raylet) worker_pool.cc:564: Started worker process with pid {pid} worker_id={WORKER}"


def unregistered(pid, state="dead, probably it crashed", at="11:11:10"):
    return (
        f"[2026-11-28 {at},170 E 310 310] (raylet) worker_pool.cc:660: Some workers of the worker process({pid}) have not registered "
        f"within the timeout. The process is {state} during start."
    )
