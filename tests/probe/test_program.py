"""The probe as a program: real processes, simulated GPUs, and readers that go away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cockpit.demo import nvml
from cockpit.probe import __main__ as program
from cockpit.probe.sample.processes import read_stat
from tests.probe.orphans import Orphan, dead_session, ended_pid, left_variables
from tests.probe.probe_copy import copy_probe
from tests.pythons import installed_pythons, version_of

pytestmark = pytest.mark.process

GIB = 1 << 30


@contextmanager
def running(*command: str, session: bool = False, **environ: str) -> Iterator[int]:
    with subprocess.Popen(command, env={**os.environ, **environ}, start_new_session=session) as child:
        try:
            yield child.pid
        finally:
            child.kill()


def process(sample, pid):
    return next((one for one in sample["processes"] or () if one["pid"] == pid), None)


def faults(sample, source="nvml"):
    return [fault for fault in sample["faults"] if fault["source"] == source]


class EnoughError(Exception):
    """The condition that the test waits for."""


def test_an_answer_that_arrives_while_a_sample_is_written_is_sent_at_once(monkeypatch):
    sampler = SimpleNamespace(first=threading.Event(), answered=[])
    sampler.start = lambda _: None
    sampler.sample = lambda: {"unanswered": [] if sampler.answered else ["nvml"]}
    told = []

    def say(line):
        told.append(line.get("unanswered"))
        if told == [None, ["nvml"]]:  # the first line, and a sample that was made before the answer came
            sampler.answered.append("nvml")
            sampler.first.set()
        elif len(told) > 2:
            raise EnoughError

    monkeypatch.setattr(program, "Sampler", lambda _: sampler)
    monkeypatch.setattr(program, "write_line", say)
    with pytest.raises(EnoughError):
        program.stream_samples(3600.0, once=False)
    assert told == [None, ["nvml"], []]


def test_the_first_line_describes_the_probe_and_a_full_sample_follows(start, gpus, state):
    with running("sleep", "600") as pid:
        nvml.hold(state, pid, [3], 20 * GIB)
        probe = start("--interval", "30", **gpus)
        hello = probe.line()
        assert hello["hello"] == 1
        assert hello["pid"] == probe.pid
        sample = probe.until(lambda one: all(one[fact] for fact in ("gpus", "memory", "shm", "disks", "processes")) and not one["faults"])
    assert len(sample["gpus"]) == 8
    assert sample["memory"]["total"] > sample["memory"]["used"] > 0
    assert sample["shm"]["total"] > 0
    assert all(one["user"] and one["size"] >= 0 for one in sample["shm_users"])
    assert sample["disks"]
    assert 1 < len(sample["memory_users"]) <= 12
    assert sample["memory_users"][0]["rss"] >= sample["memory_users"][1]["rss"]
    assert all(0 <= one["shared"] <= one["rss"] for one in sample["memory_users"] if one["shared"] is not None)
    assert {"cpu", "cpus", "processes", "sessions", "nodes"} <= set(sample)


@pytest.mark.parametrize("words", [(), ("--no-lifeline",)])
def test_samples_follow_each_other_without_a_lifeline_also_if_stdin_is_closed(start, words):
    probe = start("--interval", "0.1", *words)
    if words:
        probe.process.stdin.close()
    times = [probe.until(lambda one: one)["taken"] for _ in range(5)]
    assert times == sorted(set(times))


def test_once_is_one_full_sample(start, gpus):
    probe = start("--once", **gpus)
    hello, sample = probe.line(), probe.line()
    assert "hello" in hello
    assert sample["faults"] == []
    assert sample["cpu"] is not None
    assert probe.process.wait(60) == 0
    assert (probe.process.stdout.read(), probe.errors()) == (b"", "")


def test_a_worker_reports_its_new_titles_although_the_name_that_the_kernel_knows_stays_the_same(start):
    """`exec` sets the title; the name is `bash` all the time."""
    idle, busy = "ray::WorkerDict", "ray::WorkerDict.actor_rollout_generate_sequences"
    script = f"read line; exec -a {busy} bash -c 'read line; exec -a {idle} bash -c \"read line\"'"
    environ = {**os.environ, "RAY_RAYLET_PID": str(ended_pid())}
    with subprocess.Popen([idle, "-c", script], executable="bash", stdin=subprocess.PIPE, text=True, env=environ) as child:
        assert child.stdin
        try:
            probe = start("--interval", "1.5")
            first = process(probe.until(lambda one: process(one, child.pid)), child.pid)
            assert (first["command"].split()[0], first.get("titles")) == (idle, None)
            probe.until(lambda one: process(one, child.pid)["command"] == idle)  # its title was read
            for title in (busy, idle):
                print(file=child.stdin, flush=True)
                sample = probe.until(lambda one: process(one, child.pid).get("titles"))
                found = process(sample, child.pid)
                assert found["command"] == title
                assert [text for _, text in found["titles"]] == [title]
                assert 0 <= found["titles"][0][0] < 10
                assert "titles" not in process(probe.until(lambda one: one), child.pid), "it is told once"
        finally:
            child.kill()


# GPUs


def test_a_gpu_reports_its_state(start, gpus, state):
    nvml.edit(state, lambda lines: ["gpu 0 GPU-x 80000000000 1000 37 20 51 350000 0 3 NVIDIA H100 80GB HBM3", *lines[1:2]])
    found = start(**gpus).until(lambda one: one["gpus"])["gpus"]
    assert [gpu["index"] for gpu in found] == [0, 1]
    assert found[0].pop("xids") in (None, []), "by whether the kernel's log may be read here, and was"
    assert found[0] == {
        "index": 0, "uuid": "GPU-x", "name": "NVIDIA H100 80GB HBM3", "utilization": 37, "memory_used": 1000, "memory_total": 80000000000,
        "power": 350.0, "power_limit": 700.0, "power_default": 700.0, "temperature": 51, "ecc": 3, "fault": None,
        "recovery": None, "remap": False, "slowed": [], "clock": 1980, "clock_reasons": 0,
        "links": {
            "pcie_generation": 5, "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16, "pcie_replays": 0,
            "nvlinks": 18, "nvlinks_active": 18, "nvlink_errors": 0,
        },
    }  # fmt: skip


def test_a_lost_gpu_keeps_its_name_and_reports_the_fault(start, gpus, state):
    probe = start("--interval", "0.2", **gpus)
    before = probe.until(lambda one: one["gpus"])["gpus"][3]
    nvml.edit(state, lambda lines: [line.replace(" 0 0 NVIDIA", " 1 0 NVIDIA") if line.startswith("gpu 3 ") else line for line in lines])
    sample = probe.until(lambda one: one["gpus"][3]["fault"])
    lost = sample["gpus"][3]
    assert lost["fault"] == "GPU is lost"
    assert (lost["uuid"], lost["name"]) == (before["uuid"], before["name"])
    assert lost.get("memory_used") is lost.get("utilization") is lost.get("memory_total") is None
    assert [gpu["fault"] for gpu in sample["gpus"]].count(None) == 7


def test_a_gpu_reports_its_recovery_action_unusual_slowdowns_and_pending_row_remaps(start, gpus, state):
    actions = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 5: 9}
    slow = ("0x1", "0x4", "0x48", "0x20", "0x88", "0x8", "0x28", "0xe8")
    nvml.add(state, *(f"set {index} recovery {action}" for index, action in actions.items()), "set 1 remap 1")
    nvml.add(state, *(f"set {index} slow {reasons}" for index, reasons in enumerate(slow)))
    found = start(**gpus).until(lambda one: one["gpus"])["gpus"]
    assert [gpu["recovery"] for gpu in found] == [
        "reset", "reboot", "drain P2P", "drain and reset", "system reboot", "recovery action 9", None, None,
    ]  # fmt: skip
    assert [gpu["slowed"] for gpu in found] == [
        [], [], ["thermal"], ["thermal"], ["power brake"], ["hardware"], ["thermal", "hardware"], ["thermal", "power brake"],
    ]  # fmt: skip
    assert [gpu["remap"] for gpu in found] == [False, True] + [False] * 6


def test_a_gpu_reports_its_link_clocks_and_power_limit(start, gpus, state):
    nvml.add(
        state, "set 2 pcie_generation 3", "set 2 pcie_width 8", "set 2 pcie_replays 41", "set 2 nvlinks_down 2", "set 2 nvlink_errors 7",
        "set 2 clock 1200", "set 2 power_limit 500000", "set 2 slow 0x2",
    )  # fmt: skip
    told = start(**gpus).until(lambda one: one["gpus"])["gpus"]
    assert told[2]["links"] == {
        "pcie_generation": 3, "pcie_generation_max": 5, "pcie_width": 8, "pcie_width_max": 16, "pcie_replays": 41,
        "nvlinks": 18, "nvlinks_active": 16, "nvlink_errors": 7,
    }  # fmt: skip
    assert [told[2][name] for name in ("clock", "clock_reasons", "power_limit", "power_default")] == [1200, 2, 500.0, 700.0]
    assert told[1]["links"]["nvlinks_active"] == 18


def test_a_gpus_problem_is_reported_while_it_lasts(start, gpus, state):
    probe = start("--interval", "0.1", **gpus)
    probe.until(lambda one: one["gpus"])
    nvml.add(state, "set 2 slow 0x40")
    probe.until(lambda one: one["gpus"][2]["slowed"] == ["thermal"])
    nvml.remove(state, "set 2 slow")
    probe.until(lambda one: one["gpus"][2]["slowed"] == [])


def test_an_old_driver_reports_everything_else(start, gpus, state):
    asked = (
        "FieldValues", "RemappedRows", "CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "CurrPcieLinkWidth", "ClockInfo",
        "PcieReplayCounter", "PowerManagementDefaultLimit",
    )  # fmt: skip
    nvml.add(state, *(f"error 13 nvmlDeviceGet{what}" for what in asked), "error 13 nvmlSystemGetDriverVersion")
    sample = start(**gpus).until(lambda one: one["gpus"])
    gpu = sample["gpus"][0]
    assert sample["driver"] is gpu["recovery"] is gpu["remap"] is gpu["slowed"] is gpu["fault"] is None
    assert gpu["clock"] is gpu["clock_reasons"] is gpu["power_default"] is None
    links = gpu["links"]
    assert links["nvlinks"] is links["nvlinks_active"] is links["nvlink_errors"] is links["pcie_replays"] is links["pcie_width"] is None
    assert (gpu["temperature"] > 0, links["pcie_generation"]) == (True, 5)


def test_a_driver_that_calls_it_throttling_is_understood(start, gpus, state):
    nvml.add(state, "error 13 nvmlDeviceGetCurrentClocksEventReasons", "set 0 slow 0x40", "driver 525.60.13")
    sample = start(**gpus).until(lambda one: one["gpus"])
    assert (sample["gpus"][0]["slowed"], sample["driver"]) == (["thermal"], "525.60.13")


def test_mig_devices_replace_their_gpu_and_share_its_problems(start, gpus, state):
    nvml.add(state, f"mig 2 0 MIG-a {10 * GIB} 5 NVIDIA H100 MIG 1g.10gb", f"mig 2 1 MIG-b {10 * GIB} 7 NVIDIA H100 MIG 1g.10gb")
    nvml.add(state, "set 2 recovery 1", "set 2 slow 0x80")
    found = start(**gpus).until(lambda one: one["gpus"])["gpus"]
    assert [gpu["index"] for gpu in found] == [0, 1, 2000, 2001, 3, 4, 5, 6, 7]
    assert [(gpu["uuid"], gpu["memory_used"], gpu.get("utilization")) for gpu in found[2:4]] == [("MIG-a", 5, None), ("MIG-b", 7, None)]
    assert {gpu["index"]: (gpu["recovery"], gpu["slowed"]) for gpu in found if gpu["recovery"]} == {
        2000: ("reset", ["power brake"]),
        2001: ("reset", ["power brake"]),
    }


def test_unsupported_values_of_a_gpu_are_unknown(start, gpus, state):
    nvml.add(state, "error 3 nvmlDeviceGetPowerUsage", "error 3 nvmlDeviceGetTotalEccErrors", "error 3 nvmlDeviceGetUtilizationRates")
    gpu = start(**gpus).until(lambda one: one["gpus"])["gpus"][0]
    assert gpu["power"] is gpu["ecc"] is gpu["utilization"] is None
    assert gpu["temperature"] > 0
    assert gpu["fault"] is None


def test_no_driver_is_no_fault(start):
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("there is a driver here")
    sample = start("--once").until(lambda one: one)
    assert sample["gpus"] is None
    assert not faults(sample)


def test_a_broken_driver_is_a_fault(start, gpus, state):
    nvml.add(state, "error 18 nvmlInit")
    sample = start("--once", **gpus).until(lambda one: one)
    assert sample["gpus"] is None
    (fault,) = faults(sample)
    assert fault["text"].startswith("NVML can't be started: ")


def test_without_pynvml_everything_else_is_reported(start, tmp_path):
    (tmp_path / "pynvml.py").write_text("raise ImportError('not for this Python')")
    sample = start("--once", PYTHONPATH=str(tmp_path)).until(lambda one: one)
    assert sample["gpus"] is None
    assert sample["memory"]["total"]
    assert [fault["text"] for fault in sample["faults"]] == [
        "NVML can't be asked: the Python module pynvml is missing (not for this Python)"
    ]


def test_a_driver_that_hangs_at_the_start_stops_no_sample(start, gpus, state):
    nvml.add(state, "hang forever nvmlInit")
    probe = start("--interval", "0.2", **gpus)
    sample = probe.until(lambda one: one["memory"]["total"])
    assert sample["gpus"] is None
    assert not faults(sample)
    (later,) = faults(probe.until(faults))
    assert later["text"].startswith("NVML has not answered")
    assert later["since"] < sample["taken"]
    nvml.remove(state, "hang")
    assert len(probe.until(lambda one: one["gpus"])["gpus"]) == 8


def test_a_driver_that_hangs_later_leaves_the_last_facts_and_a_fault(start, gpus, state):
    probe = start("--interval", "0.2", **gpus)
    probe.until(lambda one: one["gpus"])
    nvml.add(state, "hang forever nvmlDeviceGetMemoryInfo")
    sample = probe.until(faults)
    assert faults(sample)[0]["text"] == "NVML has not answered for 5 s"
    assert len(sample["gpus"]) == 8
    probe.process.stdin.close()
    assert probe.process.wait(60) == 0, "a hanging thread must not hold the program"


# Owners


def test_a_process_of_a_dead_raylet_that_holds_a_gpu_is_an_orphan(start, gpus, state, tmp_path):
    dead = ended_pid()
    session = dead_session(tmp_path / "ray", dead)
    with closing(Orphan("sleep", "600", environ=left_variables(tmp_path, dead))) as left:
        pid = left.pid
        nvml.hold(state, pid, [3], 20 * GIB)
        told = start("--interval", "0.2", **gpus)  # on a busy machine, processes may be read before sessions
        sample = told.until(lambda one: (seen := process(one, pid)) and seen["gpus"] and seen["kind"] != "unknown")
    found = process(sample, pid)
    assert found["kind"] == "orphan", found["why"]
    assert found["why"] == [f"its raylet {dead} of {session.name} is dead (RAY_RAYLET_PID)"]
    assert found["gpus"] == [{"index": 3, "memory": 20 * GIB}]
    assert (found["job"], found["command"], found["state"]) == ("02000000", "sleep 600", "S")


def test_an_unrelated_process_that_holds_a_gpu_is_foreign(start, gpus, state):
    with running("sleep", "600", session=True) as pid:
        nvml.hold(state, pid, [0, 1], GIB)
        sample = start("--interval", "0.2", **gpus).until(lambda one: process(one, pid) and process(one, pid)["command"] == "sleep 600")
    assert process(sample, pid)["kind"] == "foreign"
    assert [held["index"] for held in process(sample, pid)["gpus"]] == [0, 1]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to run as two users")
def test_another_users_process_is_unknown_to_a_plain_user(library, state, tmp_path):
    python = shutil.which("python3", path="/usr/bin")
    if python is None or subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 8))"]).returncode:
        pytest.skip("no Python here that another user may run")
    folder = copy_probe(Path("/tmp") / f"probe-{os.getpid()}")
    with running("sleep", "600", RAY_RAYLET_PID=str(ended_pid())) as pid:
        shutil.copytree(library, folder / "nvml")
        shutil.copy(state, folder / "state")
        nvml.hold(folder / "state", pid, [0], GIB)
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        env = {**nvml.environment(folder / "nvml", folder / "state"), "PYTHONPATH": str(folder)}
        out = subprocess.check_output(
            [python, "-m", "probe", "--once"], env=env, cwd="/", user=65534, group=65534, extra_groups=[], stdin=subprocess.DEVNULL
        )
    shutil.rmtree(folder)
    found = process(json.loads(out.splitlines()[1]), pid)
    assert (found["kind"], found["why"], found["user"]) == ("unknown", ["its environment can't be read: no permission"], "root")


# The environment of one process


def test_the_environment_of_one_process_is_shown_on_request(start):
    with running("sleep", "600", COLOUR="green") as pid:
        while read_stat(pid).name != "sleep":
            pass
        answer = start("environ", str(pid), str(read_stat(pid).ticks)).line()
        other = start("environ", str(pid), "7").line()
    assert answer["environ"]["COLOUR"] == "green"
    assert (answer["pid"], answer["ticks"] > 7) == (pid, True)
    assert other == {"error": f"Process {pid} has ended; that pid is free or another process's now."}


# The end of the probe


def test_it_ends_with_its_parent(start):
    probe = start()
    probe.until(lambda one: one)
    probe.process.stdin.close()
    assert probe.process.wait(60) == 0


@pytest.mark.parametrize("words", [(), ("--no-lifeline",)])
def test_it_ends_when_nobody_reads_any_more(start, words):
    """It ends at once, long before its next sample, or during a late sample."""
    probe = start("--interval", "600", *words)
    probe.until(lambda one: one)
    probe.process.stdout.close()
    assert probe.process.wait(60) in (0, -signal.SIGPIPE)
    assert probe.errors() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_it(start, number):
    probe = start()
    probe.until(lambda one: one)
    probe.process.send_signal(number)
    assert probe.process.wait(60) == -number
    assert probe.errors() == ""


# The payload


def test_it_runs_elsewhere_on_any_python(start, gpus, tmp_path):
    folder = copy_probe(tmp_path / "there")
    tried = [path for path in installed_pythons() if version_of(path) != sys.version_info[:2]]
    if not any(version_of(path) == (3, 8) for path in tried):
        pytest.skip(f"there is no Python 3.8 here; found only {tried}")
    for python in tried:
        probe = start("--once", python=python, module="probe", cwd=tmp_path, PYTHONPATH=str(folder), PYTHONWARNINGS="error", **gpus)
        sample = probe.until(lambda one: one)
        assert len(sample["gpus"]) == 8, python
        assert sample["faults"] == []
        assert probe.process.wait(60) == 0
        assert probe.errors() == ""


def test_it_imports_nothing_of_cockpit(tmp_path):
    folder = copy_probe(tmp_path)
    show = "import sys, probe.__main__; print(*[name for name in sys.modules if name.split('.')[0] in ('cockpit', 'psutil', 'pynvml')])"
    shown = subprocess.run([sys.executable, "-S", "-c", show], cwd=folder, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == []
