"""Tests the simulated NVML with the real pynvml in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.demo import nvml

pytestmark = pytest.mark.process

GIB = 1 << 30
PRELUDE = """
import json, pynvml as n
def refused(ask, *arguments):
    try:
        return ask(*arguments)
    except n.NVMLError as error:
        return type(error).__name__
def gpu(index):
    return n.nvmlDeviceGetHandleByIndex(index)
def tell(value):
    print(json.dumps(value))
"""

Ask = Callable[[str], object]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "gpus"
    nvml.edit(path, lambda _: nvml.gpus(host="w1"))
    return path


@pytest.fixture
def ask(library: Path, state: Path) -> Ask:
    """The value that a new process passes to `tell` after it has initialized NVML."""

    def run(code: str) -> object:
        env = {**os.environ, **nvml.environment(library, state)}
        program = f"{PRELUDE}\nn.nvmlInit()\n{code}"
        result = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_eight_idle_gpus_have_uuids_of_their_own_and_those_of_another_host_too(ask: Ask):
    told = ask("tell([[n.nvmlDeviceGetName(gpu(i)), n.nvmlDeviceGetUUID(gpu(i))] for i in range(n.nvmlDeviceGetCount())])")
    assert isinstance(told, list)
    assert {name for name, _ in told} == {"NVIDIA H100 80GB HBM3"}
    assert len(told) == len({uuid for _, uuid in told}) == 8
    assert not set(nvml.gpus(host="head")) & set(nvml.gpus(host="w1"))


def test_used_memory_is_that_of_the_processes_and_of_the_driver_and_holding_again_replaces(
    ask: Ask, state: Path, sleeper: subprocess.Popen[bytes]
):
    nvml.hold(state, sleeper.pid, [1, 2], 10 * GIB)
    nvml.hold(state, sleeper.pid, [2], 11 * GIB)
    assert ask("tell([n.nvmlDeviceGetMemoryInfo(gpu(i)).used for i in range(3)])") == [GIB // 2, 10 * GIB + GIB // 2, 11 * GIB + GIB // 2]


@pytest.mark.parametrize("version", ["_v2", "_v3"])
def test_every_version_of_the_call_lists_the_same_processes(ask: Ask, state: Path, sleeper: subprocess.Popen[bytes], version: str):
    with subprocess.Popen(["sleep", "60"]) as other:
        nvml.hold(state, sleeper.pid, [0], 10 * GIB)
        nvml.hold(state, other.pid, [0], 11 * GIB)
        told = ask(f"tell([[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses{version}(gpu(0))])")
        other.kill()
    assert told == [[sleeper.pid, 10 * GIB], [other.pid, 11 * GIB]]


def test_dead_processes_zombies_and_processes_with_a_reused_pid_hold_nothing(ask: Ask, state: Path, sleeper: subprocess.Popen[bytes]):
    asked = "[n.nvmlDeviceGetMemoryInfo(gpu(i)).used, len(n.nvmlDeviceGetComputeRunningProcesses(gpu(i)))]"
    nvml.hold(state, sleeper.pid, [0], 10 * GIB)
    nvml.add(state, f"proc 1 {sleeper.pid} {10 * GIB} 0 start 1")
    assert ask(f"tell([{asked} for i in (0, 1)])") == [[10 * GIB + GIB // 2, 1], [GIB // 2, 0]]
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet waited for
    assert ask(f"i = 0\ntell({asked})") == [GIB // 2, 0]
    sleeper.wait()
    assert ask(f"i = 0\ntell({asked})") == [GIB // 2, 0]


def test_memory_grows_with_the_age_of_its_process(ask: Ask, state: Path, sleeper: subprocess.Popen[bytes]):
    nvml.hold(state, sleeper.pid, [0], GIB, grow=GIB)
    first, second = ask("""
import time
look = lambda: n.nvmlDeviceGetComputeRunningProcesses(gpu(0))[0].usedGpuMemory
first = look()
time.sleep(0.2)
tell([first, look()])""")  # type: ignore[misc]
    assert GIB < first < second < 20 * GIB


def test_a_fault_of_a_gpu_is_reported_for_that_gpu_alone(ask: Ask, state: Path):
    nvml.add(state, "set 1 recovery 4", "set 1 remap 1", "set 1 slow 0x60", "driver 570.10")
    nvml.edit(state, lambda lines: [line.replace(" 0 0 NVIDIA", " 0 17 NVIDIA") if line.startswith("gpu 1 ") else line for line in lines])
    told = ask("""
tell([[n.nvmlDeviceGetFieldValues(gpu(i), [230])[0].value.uiVal, n.nvmlDeviceGetRemappedRows(gpu(i))[2],
       n.nvmlDeviceGetCurrentClocksEventReasons(gpu(i)), n.nvmlDeviceGetTotalEccErrors(gpu(i), 1, n.NVML_VOLATILE_ECC)] for i in (0, 1)]
     + [n.nvmlDeviceGetFieldValues(gpu(0), [1])[0].nvmlReturn == n.NVML_ERROR_NOT_SUPPORTED, n.nvmlSystemGetDriverVersion()])""")
    assert told == [[0, 0, 0, 0], [4, 1, 0x60, 17], True, "570.10"]


def test_busy_processes_make_the_gpu_busy_hot_and_hungry_and_each_has_its_share(ask: Ask, state: Path, sleeper: subprocess.Popen[bytes]):
    nvml.hold(state, sleeper.pid, [0], GIB, busy=80)
    busy, idle, *shares = ask("""
both = n.nvmlDeviceGetProcessesUtilizationInfo, n.nvmlDeviceGetProcessUtilization
shares = [[[s.pid, s.smUtil] for s in ask(gpu(0), 0)] for ask in both]
tell([[n.nvmlDeviceGetUtilizationRates(gpu(i)).gpu, n.nvmlDeviceGetTemperature(gpu(i), 0), n.nvmlDeviceGetPowerUsage(gpu(i))]
      for i in (0, 4)] + shares)""")  # type: ignore[misc]
    assert (busy[0], idle[0]) == (80, 0)
    assert busy[1] > idle[1]
    assert busy[2] > 300_000 > idle[2]
    assert shares == [[[sleeper.pid, 80]]] * 2


MIG = [
    "mig 7 0 MIG-11111111 42949672960 1048576 NVIDIA H100 80GB HBM3 MIG 3g.40gb",
    "mig 7 2 MIG-22222222 42949672960 1048576 NVIDIA H100 80GB HBM3 MIG 3g.40gb",
]


def test_mig_devices_have_their_own_memory_and_processes_and_their_gpu_has_no_utilization(
    ask: Ask, state: Path, sleeper: subprocess.Popen[bytes]
):
    nvml.add(state, *MIG)
    nvml.hold(state, sleeper.pid, ["7.2"], GIB)
    told = ask("""
mig = lambda i: n.nvmlDeviceGetMigDeviceHandleByIndex(gpu(7), i)
tell([[n.nvmlDeviceGetUUID(mig(i)), n.nvmlDeviceGetMemoryInfo(mig(i)).used, [p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(mig(i))]]
      for i in range(n.nvmlDeviceGetMaxMigDeviceCount(gpu(7))) if refused(mig, i) != 'NVMLError_NotFound']
     + [n.nvmlDeviceGetMigMode(gpu(0)), n.nvmlDeviceGetMigMode(gpu(7)), refused(n.nvmlDeviceGetUtilizationRates, gpu(7))])""")
    assert told == [
        ["MIG-11111111", 1048576, []],
        ["MIG-22222222", GIB + 1048576, [sleeper.pid]],
        [0, 0],
        [1, 1],
        "NVMLError_NotSupported",
    ]


@pytest.mark.parametrize(("lost", "handle"), [(1, "a handle"), (2, "NVMLError_GpuIsLost")])
def test_a_lost_gpu(ask: Ask, state: Path, lost: int, handle: str):
    nvml.edit(
        state, lambda lines: [line.replace(" 0 0 NVIDIA", f" {lost} 0 NVIDIA") if line.startswith("gpu 3 ") else line for line in lines]
    )
    told = ask("""
handle = refused(gpu, 3)
tell([handle if isinstance(handle, str) else 'a handle', refused(lambda: n.nvmlDeviceGetName(gpu(3))), n.nvmlDeviceGetIndex(gpu(4))])""")
    assert told == [handle, "NVMLError_GpuIsLost", 4]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (None, "NVMLError_DriverNotLoaded"),
        (9, "NVMLError_DriverNotLoaded"),
        (18, "NVMLError_LibRmVersionMismatch"),
        (999, "NVMLError_Unknown"),
    ],
)
def test_any_function_can_fail_and_without_the_file_there_is_no_driver(ask: Ask, state: Path, code: int | None, name: str):
    nvml.add(state, f"error {code} nvmlInit") if code else state.unlink()
    with pytest.raises(AssertionError, match=name):
        ask("tell(None)")


def test_a_call_that_hangs_for_a_while_hangs_alone(ask: Ask, state: Path):
    nvml.add(state, "hang 2 nvmlDeviceGetMemoryInfo")
    quick, slow = ask("""
import time
began = time.monotonic(); n.nvmlDeviceGetName(gpu(0)); quick = time.monotonic() - began
n.nvmlDeviceGetMemoryInfo(gpu(0)); tell([quick, time.monotonic() - began])""")  # type: ignore[misc]
    assert slow >= 2
    assert quick < slow - 1.9


def test_a_hanging_call_ends_when_its_line_is_removed(library: Path, state: Path):
    nvml.add(state, "hang forever nvmlInit")
    code = "import pynvml; print('asking', flush=True); pynvml.nvmlInit()"
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **nvml.environment(library, state)}, stdout=-1) as process:
        assert process.stdout
        assert process.stdout.readline() == b"asking\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        nvml.remove(state, "hang")
        assert process.wait(60) == 0


def test_the_state_may_change_while_a_program_runs(library: Path, state: Path):
    env = {**os.environ, **nvml.environment(library, state)}
    program = "import pynvml as n\nn.nvmlInit()\nwhile input(): print(n.nvmlDeviceGetCount(), flush=True)"
    with subprocess.Popen([sys.executable, "-c", program], env=env, stdin=-1, stdout=-1, text=True, bufsize=1) as process:
        assert process.stdin
        assert process.stdout
        counts = []
        for count in (8, 4, 0):
            nvml.edit(state, lambda _, count=count: nvml.gpus(count))
            process.stdin.write("go\n")
            counts.append(int(process.stdout.readline()))
        process.stdin.write("\n")
    assert counts == [8, 4, 0]


def test_writers_at_the_same_time_lose_nothing(state: Path):
    program = f"""
import sys
sys.path.insert(0, {str(Path(nvml.__file__).parent)!r})
import nvml
from pathlib import Path
for i in range(40):
    nvml.add(Path({str(state)!r}), f'proc 0 {{sys.argv[1]}}{{i:02d}} 1 0')
"""
    writers = [subprocess.Popen([sys.executable, "-c", program, str(number)]) for number in (1, 2, 3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(set(state.read_text().splitlines())) == 8 + 120


def test_it_is_built_once_and_without_a_compiler_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = nvml.build(tmp_path)
    built = (folder / "libnvidia-ml.so.1").stat()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvml.build(tmp_path) == folder
    assert (folder / "libnvidia-ml.so.1").stat().st_mtime_ns == built.st_mtime_ns
    with pytest.raises(nvml.CompilerError, match="no C compiler"):
        nvml.build(tmp_path / "elsewhere")


def test_nvitop_shows_the_simulated_gpus(library: Path, state: Path, sleeper: subprocess.Popen[bytes]):
    nvml.add(state, *MIG)
    nvml.hold(state, sleeper.pid, [0, "7.2"], 10 * GIB, busy=50)
    nvitop = Path(sys.executable).with_name("nvitop")
    if not nvitop.exists():
        pytest.skip("nvitop is not installed")
    began = time.monotonic()
    env = {**os.environ, **nvml.environment(library, state)}
    shown = subprocess.run([nvitop, "-1"], env=env, capture_output=True, text=True, check=True, timeout=60)
    assert shown.stderr == "", f"after {time.monotonic() - began:.1f} s"
    assert shown.stdout.count("H100 80GB HBM3") == 8
    assert f"{sleeper.pid} C" in shown.stdout


def test_an_event_set_reports_later_xids_and_never_waits(ask: Ask, state: Path):
    nvml.add(state, "xid 1 13")
    told = ask(
        f"""
events = n.nvmlEventSetCreate()
n.nvmlDeviceRegisterEvents(gpu(0), n.nvmlEventTypeXidCriticalError, events)
before = refused(n.nvmlEventSetWait, events, 60000)
open({str(state)!r}, "a").write("xid 3 79\\n")
event = n.nvmlEventSetWait(events, 1)
tell([before, n.nvmlDeviceGetIndex(event.device), event.eventData, refused(n.nvmlEventSetWait, events, 1)])
n.nvmlEventSetFree(events)
"""
    )
    assert told == ["NVMLError_Timeout", 3, 79, "NVMLError_Timeout"]


def test_links_and_clocks_of_a_gpu_follow_its_lines(ask: Ask, state: Path):
    nvml.add(state, "set 3 nvlinks_down 2", "set 3 nvlink_errors 5", "set 3 pcie_width 4", "set 3 clock 900", "set 3 power_limit 300000")
    told = ask(
        """
def field(index, number, link=0):
    answer = n.nvmlDeviceGetFieldValues(gpu(index), [(number, link)])[0]
    return [answer.nvmlReturn, answer.value.uiVal]
tell([field(3, 91), field(3, 165, 15), field(3, 165, 16), field(4, 165, 17), field(3, 161), field(3, 161, 1), field(3, 165, 18),
      n.nvmlDeviceGetCurrPcieLinkWidth(gpu(3)), n.nvmlDeviceGetClockInfo(gpu(3), n.NVML_CLOCK_SM),
      n.nvmlDeviceGetEnforcedPowerLimit(gpu(3)), n.nvmlDeviceGetPowerManagementDefaultLimit(gpu(3))])
"""
    )
    assert told == [[0, 18], [0, 1], [0, 0], [0, 1], [0, 5], [0, 0], [2, 0], 4, 900, 300000, 700000]
