"""Two and three Rays on one host with equal job ids and submission ids: each view knows whose is what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import httpx
import psutil
import pytest

from tests.lab import hosts
from tests.lab.cluster import ENV, JOBS, copy_job_files, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab
from tests.lab.observe import COCKPIT, Facts, Screen, action, once, screen
from tests.lab.user import add_user

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

JOB = "02000000"
"""The first job submitted to a Ray; the id before it belongs to its supervisor."""
FAILS = "python evaluate.py"
WORKS = (
    "python -c \"import ray, models; ray.init(address='auto', log_to_driver=False); import time;"
    " engine = ray.remote(models.LLMRayActor).options(num_gpus=1, name='engine').remote();"
    ' ray.get(engine.ready.remote()); time.sleep(3600)"'
)


class OneRay:
    """A Ray with its own ports and temp dir on a host that has other Rays."""

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
        host.ssh(f"cd {JOBS} && {exports} ray start --head {words} --disable-usage-stats", timeout=240)
        self.session: str = eventually(lambda: self.get("/api/version")["session_name"], within=120)

    @property
    def temp(self) -> str:
        return f"/tmp/ray{self.number}"

    def get(self, path: str) -> Facts:
        found: Facts = httpx.get(f"{self.url}{path}", timeout=60, trust_env=False).json()
        return found

    def submit(self, entrypoint: str) -> None:
        """Submits the job `ppo`, as on every other Ray here."""
        body = {"entrypoint": f"cd {JOBS} && {entrypoint}", "submission_id": "ppo"}
        eventually(lambda: httpx.post(f"{self.url}/api/jobs/", json=body, timeout=60, trust_env=False).is_success)

    def until(self, status: str) -> None:
        """Waits until its job has an id and this status."""
        eventually(lambda: (named := self.get("/api/jobs/ppo"))["status"] == status and named["job_id"] == JOB, within=120)

    def look(self) -> Facts:
        """The status of a cockpit that follows this Ray."""
        return once(self.host, self.address)[1]

    def kill(self) -> None:
        """Kills it as a container's end does. Processes that its jobs started elsewhere stay."""
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
    copy_job_files(lab["box"])
    yield partial(OneRay, lab["box"])
    lab.close()


@pytest.fixture(scope="module")
def two(begin: partial[OneRay]) -> tuple[OneRay, OneRay]:
    """Our Ray, whose job has failed and left its engine, and another Ray, whose job with the same ids works."""
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
    """The first status with these kinds of processes of the job. On a busy machine some answers of Ray come late."""

    def look() -> Facts | None:
        facts = ray.look()
        return facts if {process["kind"] for process in of(facts, ray.session) if process["job"] == JOB} == kinds else None

    found: Facts = eventually(look, within=120)
    return found


def look_wholly(ray: OneRay) -> Facts:
    """The first status without missing answers. A busy machine takes its time."""
    found: Facts = eventually(lambda: None if (facts := ray.look())["faults"] else facts, within=120)
    return found


def planned(ray: OneRay) -> list[Facts]:
    """The leftovers that `kill-orphans` would end, once both Rays have reported their jobs."""
    plan: list[Facts] = eventually(lambda: action(ray.host, f"kill-orphans --dry-run {ray.address}")[1].get("plan"), within=120)
    return plan


def texts(facts: Facts, code: str) -> list[str]:
    """The texts of the findings with that code."""
    return [finding["text"] for finding in facts["findings"] if finding["code"] == code]


def of(facts: Facts, session: str) -> list[Facts]:
    """The processes of a session."""
    found = [process for process in facts["processes"] if process["session"] == session]
    assert found
    return found


def another(ray: OneRay) -> str:
    return f"job {JOB} of another Ray session ({ray.session})"


def check_apart(facts: Facts, ours: OneRay, *others: OneRay) -> None:
    """Only processes of our Ray have job, actor and name."""
    assert facts["cluster"]["session"] == ours.session
    assert {process["session"] for process in facts["processes"] if process["job"] or process["actor"]} == {ours.session}
    for other in others:
        theirs = of(facts, other.session)
        assert all(process["why"][0].endswith(f"another Ray session ({other.session})") for process in theirs)
        assert another(other) in {process["why"][0] for process in theirs}


def test_each_of_two_rays_with_equal_ids_gets_only_its_own_processes(two: tuple[OneRay, OneRay]):
    ours, theirs = two
    mine, other = look_until(ours, {"orphan"}), look_until(theirs, {"worker", "driver", "child"})
    check_apart(mine, ours, theirs)
    check_apart(other, theirs, ours)
    assert "orphan" not in {process["kind"] for process in of(mine, theirs.session)}
    for facts, followed in ((mine, ours), (other, theirs)):
        raylets = [process["pid"] for process in facts["processes"] if "/raylet/raylet" in (process["command"] or "")]
        (few,) = [finding for finding in facts["findings"] if finding["code"] == "open-files-limit"]
        named = [pid for pid in raylets if f"/proc/{pid}/" in " ".join(few["evidence"])]
        assert named == [process["pid"] for process in of(facts, followed.session) if process["pid"] in raylets]


def test_a_plan_says_that_a_process_is_of_another_ray(two: tuple[OneRay, OneRay]):
    ours, theirs = two
    (left,) = planned(ours)
    assert left["session"] == ours.session
    assert "another Ray" not in left["why"]
    (seen,) = planned(theirs)
    assert seen["pid"] == left["pid"]
    assert seen["why"].startswith(f"{another(ours)}; ")


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_another_rays_worker_is_no_leftover_on_the_screen(two: tuple[OneRay, OneRay], size: tuple[int, int]):
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
        assert [line for line in memory.splitlines() if f"job {JOB} of another Ray" in line], memory


@pytest.mark.parametrize("is_root", [True, False], ids=["root", "another user"])
def test_a_hanging_dashboard_is_blamed_on_its_own_process(two: tuple[OneRay, OneRay], is_root: bool):
    for ray in two:
        asker = ray.host if is_root else add_user(ray.host, "train", 1207)
        (dashboard,) = ray.host.matching("dashboard/dashboard.py", f"--port={8265 + ray.number}")
        dashboard.freeze()
        try:
            text = eventually(lambda asker=asker, ray=ray: texts(once(asker, ray.address)[1], "dashboard-silent"), within=120)[0]
        finally:
            dashboard.thaw()
        assert text.startswith(f"Ray session {ray.session} runs on box, but its dashboard at http://127.0.0.1:{8265 + ray.number}")
        assert f"its process on box (pid {dashboard.pid}) is stopped by a signal" in text


GATEWAY = """
import http.server
class Gateway(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = b"<html><head><title>504 Gateway Time-out</title></head></html>"
        self.send_response(504)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    def version_string(self):
        return "nginx/1.25.3"
http.server.ThreadingHTTPServer(("127.0.0.1", 8399), Gateway).serve_forever()
"""


@pytest.mark.parametrize(
    ("address", "code"),
    [("127.0.0.1:9999", 2), ("10.255.255.1:8265", 3), ("no-such-host.invalid:8265", 3), ("127.0.0.1:8399", 2)],
    ids=["refused", "unroutable", "unresolvable", "not Ray"],
)
def test_a_wrong_address_gives_the_same_line_and_exit_code_each_time(two: tuple[OneRay, OneRay], address: str, code: int):
    host = two[0].host
    gateway = host.spawn("python3", "-c", GATEWAY)
    try:
        eventually(lambda: "504" in host.ssh("curl -s http://127.0.0.1:8399/ || true"))
        looks = [once(host, f"--address http://{address}") for _ in range(6)]
    finally:
        gateway.kill()
    outcomes = {(found, tuple(texts(facts, "address-wrong"))) for found, facts, _ in looks}
    assert len(outcomes) == 1, outcomes
    (output,) = outcomes
    assert output[0] == code
    (text,) = output[1]
    assert text.endswith("; this host has a Ray cluster at http://127.0.0.1:8265 and a Ray cluster at http://127.0.0.1:8266")
    if address.endswith(":8399"):
        assert "HTTP 504" in text
        assert "titled “504 Gateway Time-out”, server nginx/1.25.3" in text


def test_no_action_is_planned_from_the_answer_of_another_program(two: tuple[OneRay, OneRay]):
    host = two[0].host
    gateway = host.spawn("python3", "-c", GATEWAY)
    try:
        eventually(lambda: "504" in host.ssh("curl -s http://127.0.0.1:8399/ || true"))
        for words in ("stop --yes", "stop-job ppo --yes"):
            code, facts, stderr = action(host, f"{words} --address http://127.0.0.1:8399")
            assert (code, facts["plan"], facts["done"]) == (3, [], []), stderr
        with screen(host, "--address http://127.0.0.1:8399", size=(80, 24)) as eyes:
            eyes.until("no dashboard", "does not answer like Ray", "critical")
    finally:
        gateway.kill()


def test_a_dead_rays_leftover_is_not_the_job_of_a_later_ray(begin: partial[OneRay], two: tuple[OneRay, OneRay]):
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
    targets = action(third.host, f"kill-orphans --dry-run {third.address}")[1]["plan"]
    plan = next(target for target in targets if target["pid"] == left["pid"])
    assert plan["why"].startswith(f"{another(dead)}; ")
    output = third.host.ssh(f"{COCKPIT} status {third.address} || true")
    assert f"Another Ray session on box: {theirs.session}" in output
    assert dead.session not in [line for line in output.splitlines() if line.startswith("Another Ray session")]


@pytest.mark.parametrize("size", [(160, 50), (80, 24)])
def test_the_chosen_ray_is_not_silently_replaced_by_another(begin: partial[OneRay], two: tuple[OneRay, OneRay], size: tuple[int, int]):
    """It ends, and another one starts at its address."""
    _, beside = two
    chosen = next_one = begin(3)
    try:
        with screen(chosen.host, size=size) as eyes:
            choose(eyes, chosen)
            action(chosen.host, f"stop --yes --session {chosen.session}")
            eyes.until("no dashboard", ":8268", "Ray was stopped on its head box")
            assert beside.session in plan_of_stop(eyes, chosen)
            next_one = begin(3)
            eyes.until("another Ray session answers", "no dashboard")
            plan_of_stop(eyes, chosen)
            eyes.press("a")
            choose(eyes, next_one)
            eyes.till(lambda text: "no dashboard" not in text)
    finally:
        next_one.kill()


def choose(eyes: Screen, ray: OneRay) -> None:
    """Follows this Ray, of those that the screen offers."""
    shown = eyes.until("Which of these Ray clusters", ray.session)
    offered = [line for line in shown.splitlines() if "http://127.0.0.1:" in line]
    place = next(number for number, line in enumerate(offered) if f":{8265 + ray.number}" in line)
    eyes.press(*["Down"] * place, "Enter")
    eyes.until(f"127.0.0.1:{8265 + ray.number}", "nodes 1/1")


def plan_of_stop(eyes: Screen, ray: OneRay) -> str:
    """`S` refers to this Ray, which has ended; returns the text of its dialog."""
    eyes.press("2")
    eyes.until("GPUS")
    eyes.press("S")
    plan = eyes.until("Stop Ray: nothing", f"{ray.session} at http://127.0.0.1:{8265 + ray.number}", "other Ray sessions here")
    assert f"nothing of {ray.session} runs on this host" in plan
    eyes.till(lambda text: eyes.press("Escape") or "Stop Ray: nothing" not in text)
    eyes.press("1")
    return plan
