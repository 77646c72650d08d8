"""Two and three Rays on one host, one after another, with equal job ids and submission ids: whose is what, in every view."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import httpx
import psutil
import pytest

from tests.lab import hosts
from tests.lab.cluster import ENV, JOBS, eventually, lay_out
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.eyes import COCKPIT, Facts, act, once, screen
from tests.lab.hosts import Host, Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

JOB = "02000000"
"""The first job that is submitted to a Ray: the one before it is its supervisor's."""
FAILS = "python evaluate.py"
WORKS = (
    "python -c \"import ray, models; ray.init(address='auto', log_to_driver=False); import time;"
    " engine = ray.remote(models.LLMRayActor).options(num_gpus=1, name='engine').remote();"
    ' ray.get(engine.ready.remote()); time.sleep(3600)"'
)


class OneRay:
    """A Ray of its own on a host that has others: every port and its temp dir are its own."""

    def __init__(self, host: Host, number: int) -> None:
        self.host, self.number = host, number
        self.address = f"--address http://127.0.0.1:{8265 + number}"
        self.url = f"http://{host.address}:{8265 + number}"
        env = {**ENV, "RAY_AUTH_MODE": "disabled", "PATH": f"{RAY.parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
        flags = {
            "port": 6379 + number, "dashboard-host": "0.0.0.0", "dashboard-port": 8265 + number, "ray-client-server-port": 10001 + number,
            "dashboard-agent-listen-port": 52365 + number, "min-worker-port": 20000 + 1000 * number,
            "max-worker-port": 20900 + 1000 * number, "temp-dir": self.temp, "num-cpus": 4, "object-store-memory": 80_000_000,
        }  # fmt: skip
        exports = " ".join(f"{name}={value}" for name, value in env.items())
        words = " ".join(f"--{name}={value}" for name, value in flags.items())
        host.ssh(f"cd {JOBS} && {exports} ray start --head {words} --disable-usage-stats", timeout=90)
        self.session: str = eventually(lambda: self.get("/api/version")["session_name"], within=120)

    @property
    def temp(self) -> str:
        return f"/tmp/ray{self.number}"

    def get(self, path: str) -> Facts:
        found: Facts = httpx.get(f"{self.url}{path}", timeout=60, trust_env=False).json()
        return found

    def submit(self, entrypoint: str) -> None:
        """As `ppo`, like on every other Ray here."""
        body = {"entrypoint": f"cd {JOBS} && {entrypoint}", "submission_id": "ppo"}
        eventually(lambda: httpx.post(f"{self.url}/api/jobs/", json=body, timeout=60, trust_env=False).is_success)

    def until(self, status: str) -> None:
        """Wait until its job is known by its id and has this status."""
        eventually(lambda: (told := self.get("/api/jobs/ppo"))["status"] == status and told["job_id"] == JOB, within=120)

    def look(self) -> Facts:
        """What cockpit says that follows this one."""
        return once(self.host, self.address)[1]

    def kill(self) -> None:
        """As when its container is killed; what its jobs have started elsewhere stays."""
        ours = [
            process for process in self.host.processes() if f"{self.temp}/" in process.text or f"--temp-dir={self.temp}" in process.text
        ]
        family = [each for process in ours for each in (process.outer, *process.outer.children(recursive=True))]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                if "VLLM" not in " ".join(process.cmdline()):
                    process.kill()


@pytest.fixture(scope="module")
def begin() -> Iterator[partial[OneRay]]:
    """Starts one Ray after another on a host."""
    if reason := hosts.why_not() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"s{os.getpid() % 100000}", ["box"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    lay_out(lab["box"])
    yield partial(OneRay, lab["box"])
    lab.close()


@pytest.fixture(scope="module")
def two(begin: partial[OneRay]) -> tuple[OneRay, OneRay]:
    """Ours, whose job has failed and left its engine behind; and another one, whose job of the same ids works."""
    ours = begin(0)
    ours.submit(FAILS)
    theirs = begin(1)
    theirs.submit(WORKS)
    ours.until("FAILED")
    theirs.until("RUNNING")
    eventually(lambda: len(theirs.host.matching("VLLM::EngineCore")) == 2, within=120)
    look_until(theirs, {"worker", "driver", "child"})
    return ours, theirs


def look_until(ray: OneRay, kinds: set[str]) -> Facts:
    """A look in which its processes of the job are these: while the machine is busy one may have to do without an answer of Ray's."""

    def look() -> Facts | None:
        facts = ray.look()
        return facts if {process["kind"] for process in of(facts, ray.session) if process["job"] == JOB} == kinds else None

    found: Facts = eventually(look, within=120)
    return found


def look_wholly(ray: OneRay) -> Facts:
    """A look in which everybody has answered in time: a busy machine takes its time."""
    found: Facts = eventually(lambda: None if (facts := ray.look())["faults"] else facts, within=120)
    return found


def planned(ray: OneRay) -> list[Facts]:
    """Which leftovers `kill-orphans` would end, as soon as both Rays have told it of their jobs."""
    plan: list[Facts] = eventually(lambda: act(ray.host, f"kill-orphans --dry-run {ray.address}")[1].get("plan"), within=120)
    return plan


def of(facts: Facts, session: str) -> list[Facts]:
    """The processes of a session; each has some."""
    found = [process for process in facts["processes"] if process["session"] == session]
    assert found
    return found


def another(ray: OneRay) -> str:
    return f"job {JOB} of another Ray session ({ray.session})"


def check_apart(facts: Facts, ours: OneRay, *others: OneRay) -> None:
    """Job, actor and name are those of ours alone."""
    assert facts["cluster"]["session"] == ours.session
    assert {process["session"] for process in facts["processes"] if process["job"] or process["actor"]} == {ours.session}
    for other in others:
        theirs = of(facts, other.session)
        assert all(process["why"][0].endswith(f"another Ray session ({other.session})") for process in theirs)
        assert another(other) in {process["why"][0] for process in theirs}


def test_of_two_rays_with_equal_ids_each_is_told_only_its_own(two: tuple[OneRay, OneRay]):
    ours, theirs = two
    mine, other = look_until(ours, {"orphan"}), look_until(theirs, {"worker", "driver", "child"})
    check_apart(mine, ours, theirs)
    check_apart(other, theirs, ours)
    assert "orphan" not in {process["kind"] for process in of(mine, theirs.session)}
    for facts, followed in ((mine, ours), (other, theirs)):
        raylets = [process["pid"] for process in facts["processes"] if "/raylet/raylet" in (process["command"] or "")]
        (few,) = [finding for finding in facts["findings"] if finding["code"] == "open-files-limit"]
        told = [pid for pid in raylets if f"/proc/{pid}/" in " ".join(few["evidence"])]
        assert told == [process["pid"] for process in of(facts, followed.session) if process["pid"] in raylets]


def test_what_would_be_killed_is_said_to_be_of_another_ray(two: tuple[OneRay, OneRay]):
    ours, theirs = two
    (left,) = planned(ours)
    assert left["session"] == ours.session
    assert "another Ray" not in left["why"]
    (seen,) = planned(theirs)
    assert seen["pid"] == left["pid"]
    assert seen["why"].startswith(f"{another(ours)}; ")


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_on_the_screen_another_rays_worker_is_no_leftover_of_ours(two: tuple[OneRay, OneRay], size: tuple[int, int]):
    ours, theirs = two
    (worker,) = theirs.host.matching("ray::LLMRayActor")
    (engine,) = [process for process in theirs.host.matching("VLLM::EngineCore") if process.outer.ppid() == worker.outer.pid]
    with screen(ours.host, ours.address, size=size) as eyes:
        eyes.until("orphan")
        eyes.press("4")
        eyes.until("PROCESSES")
        eyes.press("/")
        eyes.type("other Ray")
        eyes.press("Enter")
        shown = eyes.till(lambda text: [line for line in text.splitlines() if "▸other Ray" in line and str(engine.pid) in line])
        assert "ppo" not in "".join(line for line in shown.splitlines() if "other Ray" in line)
        eyes.press("K")
        plan = eyes.until("What ends with it", f"Type {engine.pid} to continue")
        assert "another Ray" in plan
        assert "job ppo" not in plan
        eyes.press("Escape")
        eyes.till(lambda text: "What ends with it" not in text)
        eyes.press("2")
        eyes.until("GPUS")
        eyes.press("m")
        memory = eyes.until("BY JOB AND ACTOR", "another Ray")
        assert [line for line in memory.splitlines() if f"job {JOB} of another Ray session (session" in line]


def test_what_a_dead_ray_has_left_is_not_the_job_of_one_that_came_after_it(begin: partial[OneRay], two: tuple[OneRay, OneRay]):
    dead, theirs = two
    dead.kill()
    third = begin(2)
    third.submit(WORKS)
    third.until("RUNNING")
    eventually(lambda: len(third.host.matching("VLLM::EngineCore")) == 3, within=120)
    facts = look_wholly(third)
    check_apart(facts, third, theirs)
    (left,) = [process for process in of(facts, dead.session) if "VLLM" in process["command"]]
    assert (left["kind"], left["job"], left["why"][0]) == ("orphan", None, another(dead)), left["why"]
    assert [process for process in facts["processes"] if process["kind"] == "orphan"] == [left]
    targets = act(third.host, f"kill-orphans --dry-run {third.address}")[1]["plan"]
    plan = next(target for target in targets if target["pid"] == left["pid"])
    assert plan["why"].startswith(f"{another(dead)}; ")
    said = third.host.ssh(f"{COCKPIT} status {third.address} || true")
    assert f"Another Ray session on box: {theirs.session}" in said
    assert dead.session not in [line for line in said.splitlines() if line.startswith("Another Ray session")]
