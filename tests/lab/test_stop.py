"""A session of Ray is stopped with everything that belongs to it, while another one on the same host continues."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cockpit.demo import nvml
from cockpit.probe.actions.stop.parts import ORDER
from tests.lab import hosts
from tests.lab.cluster import ENV, eventually, start_patiently
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, Process
from tests.lab.observe import ask_probe

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30
WORK = """
import json, os, signal, subprocess, sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, namespace="train")
@ray.remote(num_cpus=0)
class Actor:
    def engine(self):
        return subprocess.Popen(["bash", "-c", "exec -a VLLM::EngineCore sleep infinity"], start_new_session=True).pid
    def ignore(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return os.getpid()
    def keep(self):
        self.kept = ray.put(bytes(50_000_000))
actor, deaf = Actor.remote(), Actor.remote()
ray.get(actor.keep.remote())
ready = {"engine": ray.get(actor.engine.remote()), "deaf": ray.get(deaf.ignore.remote())}
with open(sys.argv[2] + ".part", "w") as file:
    json.dump({**ready, "driver": os.getpid()}, file)
os.rename(sys.argv[2] + ".part", sys.argv[2])
time.sleep(10000)
"""
"""A driver with a worker that ignores SIGTERM, and one with 50 MB of objects and a child in its own session."""


class Session:
    """A Ray on the host with its own temp dir and ports."""

    def __init__(self, host: Host, number: int, ray: Path = RAY) -> None:
        self.host, self.ray, self.temp = host, ray, f"/tmp/ray{number}"
        self.gcs, self.dashboard = 6379 + number, 8265 + number
        low = 20000 + 1000 * number
        self._ports = (
            f"--port={self.gcs} --dashboard-port={self.dashboard} --dashboard-agent-listen-port={52365 + number} "
            f"--ray-client-server-port={10001 + number} --min-worker-port={low} --max-worker-port={low + 999}"
        )

    def start(self) -> None:
        env = " ".join(f"{name}={value}" for name, value in {**ENV, "RAY_AUTH_MODE": "disabled"}.items())
        start = f"{self.ray} start --head --temp-dir={self.temp} {self._ports} --num-cpus=4 --object-store-memory=100000000"
        self.host.ssh(f"export {env}; {start} --disable-usage-stats", timeout=120)
        eventually(self.answers, within=120)

    def answers(self) -> bool:
        """Whether its GCS and dashboard answer and both report its node alive."""
        url = f"http://127.0.0.1:{self.dashboard}/nodes?view=summary"
        answer = self.host.ssh(f"curl -s -m 5 '{url}'", check=False)
        return bool(answer) and [node["raylet"]["state"] for node in json.loads(answer)["data"]["summary"]] == ["ALIVE"]

    @property
    def name(self) -> str:
        return os.readlink(self.host.tmp / Path(self.temp).name / "session_latest").rpartition("/")[2]

    def processes(self) -> set[tuple[int, int]]:
        """Its parts and their descendants, by outer pid and start time."""
        roots = [one.outer for one in self.host.processes() if self.temp + "/" in one.text or f":{self.dashboard} " in one.text]
        family = {one for root in roots for one in (root, *root.children(recursive=True))}
        return {(one.pid, one.create_time()) for one in family}

    def work(self) -> dict[str, int]:
        """Starts a driver as a person does; returns the pids of its processes."""
        (self.host.tmp / "work.py").write_text(WORK)
        ready = self.host.tmp / f"ready{self.gcs}"
        ready.unlink(missing_ok=True)
        address = f"{self.host.address}:{self.gcs}"
        self.host.spawn("env", "RAY_AUTH_MODE=disabled", str(self.ray.with_name("python")), "/tmp/work.py", address, f"/tmp/{ready.name}")
        eventually(ready.exists, within=120)
        found: dict[str, int] = json.loads(ready.read_text())
        return found


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A host of its own without a Ray."""
    reason = hosts.why_not() or (None if RAY.exists() else NO_RAY)
    if reason:
        pytest.skip(reason)
    lab = Lab(f"s{os.getpid() % 100000}", ["both"], {"PATH": os.environ["PATH"]})
    yield lab["both"]
    lab.close()


@pytest.fixture
def other(host: Host) -> Session:
    """The session that must survive."""
    session = Session(host, 2)
    if not session.processes():
        start_patiently(session.start, lambda: clear(host))
    return session


@pytest.fixture
def one(host: Host, other: Session) -> Iterator[Session]:
    """The session that is stopped."""
    clear(host, other)
    session = Session(host, 1)
    start_patiently(session.start, lambda: clear(host, other))
    yield session
    clear(host, other)


def clear(host: Host, but: Session | None = None) -> None:
    """Ends everything there that is no part of that session."""
    kept = {pid for pid, _ in but.processes()} if but else set()
    for process in host.processes():
        if process.outer.pid not in kept:
            process.kill()
    host.reset_gpus()


def stop(host: Host, stage: str = "plan", **more: Any) -> dict[str, Any]:
    """The answer of the probe's `stop`."""
    request = {"act": "stop", "stage": stage, "session": None, "everything": False, "force": False, "grace": 6, **more}
    return ask_probe(host, request)


def hold(host: Host, device: int, pid: int, memory: int) -> None:
    """Lets this process hold memory of that GPU."""
    start = host.ssh(f"cat /proc/{pid}/stat").rpartition(")")[2].split()[19]
    nvml.add(host.state, f"proc {device} {pid} {memory} 0 start {start}")


def by_pid(targets: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {target["pid"]: target for target in targets}


def alive(host: Host) -> set[int]:
    return {process.pid for process in host.processes() if process.outer.status() != psutil.STATUS_ZOMBIE}


def part(plan: dict[str, Any], name: str) -> list[int]:
    return [target["pid"] for target in plan["targets"] if target["part"] == name]


def process_of(host: Host, pid: int) -> Process:
    return next(process for process in host.processes() if process.pid == pid)


@contextmanager
def frozen(processes: list[Process]) -> Iterator[None]:
    """Freezes the processes, and freezes them again when somebody continues them."""
    over = threading.Event()

    def hold_still() -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))  # runs before the held processes on a busy machine
        while not over.is_set():
            for process in processes:
                with suppress(psutil.NoSuchProcess):
                    process.freeze()
            over.wait(0.002)

    thread = threading.Thread(target=hold_still)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_one_of_two_sessions_is_stopped_and_the_other_survives(host: Host, one: Session, other: Session):
    mine, theirs = one.work(), other.work()
    hold(host, 3, mine["engine"], 20 * GIB)
    hold(host, 4, theirs["engine"], 30 * GIB)
    before = other.processes()
    assert "2 Ray sessions run on this host" in stop(host)["error"]
    plan = stop(host, session=one.name)
    parts = [target["part"] for target in plan["targets"]]
    assert (parts[0], parts[-1], plan["refused"]) == ("raylet", "gcs_server", [])
    assert set(parts) == {*ORDER}
    assert {target["session"] for target in plan["targets"]} == {one.name}
    assert by_pid(plan["targets"])[mine["engine"]]["part"] == "child"
    assert [driver["pid"] for driver in plan["weight"]["drivers"]] == [mine["driver"]]
    assert plan["weight"]["jobs"] == ["01000000"]

    done = stop(host, "do", session=one.name, targets=plan["targets"])
    assert not done["failed"]
    spared = {target["pid"]: target["reason"] for target in done["refused"]}
    assert {*spared} == {mine["driver"]}, spared
    assert "it still runs without its Ray, and holds Ray's shared memory" in spared[mine["driver"]]
    assert {*by_pid(done["done"])} == {*by_pid(plan["targets"])} - {mine["driver"]}
    assert {*by_pid(plan["targets"])} & alive(host) == {mine["driver"]}
    assert not one.processes()
    assert done["freed"]["gpu"] == 20 * GIB
    assert done["freed"]["shm"] < 50_000_000
    assert other.processes() == before
    assert {*theirs.values()} <= alive(host)
    assert other.answers()
    assert stop(host, session=one.name)["notes"] == [f"nothing of {one.name} runs on this host"]


def test_a_hanging_raylet_is_killed_after_the_grace_with_its_agents_and_a_deaf_worker(host: Host, one: Session, other: Session):
    mine, before = one.work(), other.processes()
    plan = stop(host, session=one.name)
    (raylet,) = part(plan, "raylet")
    agents = part(plan, "agent")  # while their raylet lives; without it nothing shows where they come from
    hanging = [process_of(host, pid) for pid in (raylet, mine["deaf"], *agents)]
    with frozen(hanging):
        process_of(host, mine["driver"]).kill()
        done = stop(host, "do", session=one.name, targets=plan["targets"], grace=3)
    assert not done["failed"] + done["refused"]
    assert 50_000_000 <= done["freed"]["shm"] < 100_000_000
    ended = by_pid(done["done"])
    assert ended[raylet]["outcome"].startswith("ended by SIGKILL after ")
    assert {mine["deaf"], *agents} <= ended.keys()
    assert alive(host).isdisjoint(by_pid(plan["targets"]))
    assert other.processes() == before


def test_the_rest_of_a_dead_session_is_stopped(host: Host, one: Session, other: Session):
    before, name = other.processes(), one.name
    live = stop(host, session=name)
    left = [*part(live, "autoscaler"), *part(live, "log_monitor")]
    for pid in left:
        process_of(host, pid).freeze()
    for pid in (*part(live, "raylet"), *part(live, "gcs_server")):
        process_of(host, pid).kill()
    eventually(lambda: alive(host).isdisjoint([*part(live, "raylet"), *part(live, "gcs_server")]))
    plan = stop(host, session=name)
    assert {*left} <= {*by_pid(plan["targets"])}
    assert {target["kind"] for target in plan["targets"]} <= {"stale", "orphan"}
    done = stop(host, "do", session=name, targets=plan["targets"], grace=3)
    assert not done["failed"] + done["refused"]
    eventually(lambda: alive(host).isdisjoint(by_pid(live["targets"])))  # agents that were already ending are in no plan
    assert other.processes() == before


def test_a_restarted_session_is_not_the_one_that_was_agreed_to(host: Host, one: Session):
    plan = stop(host, session=one.name)
    agreed = [target for target in plan["targets"] if target["part"] != "gcs_server"]
    refused = stop(host, "do", session=one.name, targets=agreed)
    assert "was started again after the plan was made (gcs_server" in refused["error"]
    assert one.answers()


@pytest.mark.incident
def test_ray_stop_hits_exactly_the_predicted_processes(host: Host, one: Session, other: Session):
    check_everything(host, one, other)


@pytest.mark.incident
@pytest.mark.old_ray
def test_an_old_ray_stop_hits_exactly_the_predicted_processes(host: Host, other: Session, old_ray: Path):
    old = Session(host, 3, old_ray)
    old.start()
    try:
        check_everything(host, old, other)
    finally:
        clear(host, other)


def check_everything(host: Host, one: Session, other: Session) -> None:
    mine, theirs = one.work(), other.work()
    hold(host, 3, mine["engine"], 20 * GIB)
    editor = host.spawn("bash", "-c", "exec -a 'vim /srv/monitor.py' sleep infinity").pid
    bystander = host.spawn("bash", "-c", "exec -a 'python gpu_monitor_py.py' sleep infinity").pid
    plan = stop(host, session=one.name, everything=True)
    targets = by_pid(plan["targets"])
    hits = {pid for pid, target in targets.items() if target["hit"]}
    assert {pid for pid, target in targets.items() if not target["beyond"]} == {*by_pid(stop(host, session=one.name)["targets"])}
    assert {*by_pid(stop(host, session=other.name)["targets"]), editor} <= {pid for pid, target in targets.items() if target["beyond"]}
    assert targets[editor]["why"][0] == "`ray stop` matches 'monitor.py'"
    assert {mine["driver"], theirs["driver"], mine["engine"], bystander}.isdisjoint(hits)

    late = host.spawn("bash", "-c", "exec -a 'less monitor.py' sleep infinity")
    refused = stop(host, "do", session=one.name, everything=True, targets=plan["targets"])
    assert f"would now kill processes that are not in the plan: sleep {late.pid} (monitor.py)" in refused["error"]
    late.kill()
    assert one.answers()

    before = alive(host)
    done = stop(host, "do", session=one.name, everything=True, targets=plan["targets"])
    gone = before - alive(host) - {late.pid}
    assert not done["failed"]
    assert hits <= gone <= {*targets}
    assert {*by_pid(done["done"])} == gone | (hits - before)
    assert {*by_pid(done["refused"])} == {*targets} - gone
    assert {mine["engine"], theirs["engine"]} <= gone
    assert bystander in alive(host)
    assert done["freed"]["gpu"] == 20 * GIB
    assert any("Stopped" in note for note in done["notes"])
