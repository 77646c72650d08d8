"""A user of a shared host without any rights against root's cockpit: nothing of others is killed, removed, run, read or leaked."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from cockpit.probe.sample.sizes import LARGE_BYTES
from tests.lab import hosts
from tests.lab.cluster import ENV, copy_job_files, eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.hosts import Host, Lab, Process
from tests.lab.observe import COCKPIT, Facts, action, once

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

MALLORY = 65534
"""The user `nobody`, who has an account as a real user has."""
HIS_PYTHON = "/usr/bin/python3"
EVIL = Path("/tmp/evil")
"""The attacker's folder, on each host."""
RAYS = "/tmp/disk/ray"
"""Root's Ray has this temp dir; it is a link to a disk."""
OLD = "session_2026-11-20_01-17-58_164160_10000"
OLDEST = "session_1999-01-01_00-00-00_000000_1"
SECRET = "s3cret-of-the-operator"
PLAIN = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10000)"])
apart = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(10001)"], start_new_session=True)
time.sleep(10000)
"""
"""A job that never calls ray.init."""
WITNESS = "#!/bin/sh\n(id -u; env) >> /tmp/evil/ran\nexec sleep 1\n"
"""Writes down the user and the environment that ran it."""
SWAPS = """
import os
os.chdir("LOGS")
while True:
    try:
        os.rename("old", "../o")
        os.symlink("/tmp/rights/kept", "old")
        os.unlink("old")
        os.rename("../o", "old")
    except OSError:
        pass
"""
SUDO = "#define _GNU_SOURCE\n#include <unistd.h>\nint main(void) { if (setresuid(0, 0, 0)) return 1; for (;;) pause(); }\n"
"""Keeps another user's identity and root's, as sudo does while it waits for a password."""


class Box:
    """A host of the lab with its root and its attacker."""

    def __init__(self, host: Host) -> None:
        self.host = host
        copy_job_files(host)
        for path, mode in ((self.at(EVIL), 0o755), (self.at("/tmp/rights"), 0o755)):
            path.mkdir(mode=mode)
        os.chown(self.at(EVIL), MALLORY, MALLORY)
        shutil.copy(Path(__file__).with_name("hostile.py"), self.at(EVIL))
        self.lay()

    def at(self, path: Path | str) -> Path:
        """A path below its /tmp, seen from outside."""
        return self.host.tmp / Path(path).relative_to("/tmp")

    def lay(self) -> None:
        """Writes the programs that the attacker wants root to run."""
        for name in ("python", "bin/python", "bin/ray"):
            self.write(EVIL / name, WITNESS)

    def write(self, path: Path, text: str = "x", uid: int = MALLORY, mode: int = 0o755) -> Path:
        """Writes a file on the host, and its folders, owned by that user."""
        outside = self.at(path)
        for folder in [*reversed(outside.parents)][len(self.host.tmp.parts) :]:
            if not folder.exists():
                folder.mkdir()
                os.chown(folder, uid, uid)
        outside.write_text(text)
        outside.chmod(mode)
        os.chown(outside, uid, uid)
        return outside

    def root(self, command: str, timeout: float = 120) -> str:
        return self.host.ssh(command, timeout=timeout)

    def mallory(self, command: str) -> str:
        """The output of a command of the attacker; it may fail."""
        return self.host.ssh(f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups sh -c {shlex.quote(command)}", check=False)

    def his(self, *words: str, name: str = HIS_PYTHON, env: Sequence[str] = (), program: str = HIS_PYTHON, log: str = "") -> Process:
        """Starts a process of the attacker that stays: hostile.py with these words, called `name`."""
        line = f"exec -a {shlex.quote(name)} {program} {EVIL}/hostile.py {shlex.join(words)}{f' >{log} 2>&1' if log else ''}"
        become = ("setpriv", f"--reuid={MALLORY}", f"--regid={MALLORY}", "--clear-groups", "env", *env)
        return self.host.spawn(*become, "bash", "-c", line)

    def raylet(self, session: str, *flags: str, temp: str = "/tmp/evil/ray", name: str = "raylet") -> Process:
        """Starts a process of the attacker that looks like a raylet of that session."""
        program = self.at(EVIL / "ray/core/src/ray/raylet/raylet")
        if not program.exists():
            self.write(EVIL / "ray/core/src/ray/raylet/raylet")
            shutil.copy(os.path.realpath(HIS_PYTHON), program)
        words = ("--raylet_socket_name=x", f"--session_dir={temp}/{session}", "--gcs-address=127.0.0.1:6379", *flags)
        inside = f"/tmp/{program.relative_to(self.host.tmp)}"
        return self.his("stay", f"--python_worker_command={EVIL}/bin/python", *words, name=name, program=inside)

    def plan(self, request: dict[str, Any], env: str = "") -> Facts:
        """The answer of root's probe to a plan."""
        words = shlex.quote(json.dumps({"stage": "plan", "jobs": [], "past": [], **request}))
        probe = f"PYTHONPATH={Path(__file__).parents[2]} {sys.executable} -m cockpit.probe --no-lifeline"
        output = self.root(f"cd / && {env} {probe} act {words}")
        answer: Facts = json.loads(output.splitlines()[-1])
        return answer

    @property
    def ran(self) -> str:
        """What has run of the attacker's programs: user and environment."""
        path = self.at(EVIL / "ran")
        return path.read_text() if path.exists() else ""

    def clear(self) -> None:
        """Ends all processes of the attacker and removes the files."""
        for process in self.host.processes():
            with suppress(psutil.NoSuchProcess):
                if MALLORY in (*process.outer.uids(), *process.outer.gids()) or "/tmp/rights/" in process.text:
                    process.kill()
        self.root("rm -rf /tmp/ray /tmp/evil/* /dev/shm/psm_* /tmp/rights/*")
        shutil.copy(Path(__file__).with_name("hostile.py"), self.at(EVIL))
        self.lay()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """The host `box` is for a Ray of root, `bare` has none."""
    if reason := hosts.why_not() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    made = Lab(f"a{os.getpid() % 100000}", ["box", "bare"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    yield made
    made.close()


@pytest.fixture(scope="module")
def rays(lab: Lab) -> Box:
    """Root's Ray with a plain job; its temp dir is a link to a larger disk."""
    box = Box(lab["box"])
    box.root(f"mkdir -p {RAYS} && ln -s {RAYS} /tmp/r")
    env = " ".join(f"{name}={value}" for name, value in {**ENV, "RAY_AUTH_MODE": "disabled"}.items())
    start = f"export {env}; ray start --head --temp-dir=/tmp/r --num-cpus=4 --object-store-memory=80000000 --disable-usage-stats"
    box.host.ssh(start, timeout=120)
    (box.host.tmp / "jobs" / "plain.py").write_text(PLAIN)
    eventually(
        lambda: "plain" in box.host.ssh("ray job submit --no-wait --submission-id plain -- python /tmp/jobs/plain.py 2>&1", 60, False), 90
    )
    eventually(lambda: len(box.host.matching("time.sleep(1000")) == 2, within=90)
    return box


@pytest.fixture
def box(rays: Box) -> Iterator[Box]:
    yield rays
    rays.clear()


@pytest.fixture(scope="module")
def _bare(lab: Lab) -> Box:
    return Box(lab["bare"])


@pytest.fixture
def bare(_bare: Box) -> Iterator[Box]:
    yield _bare
    _bare.clear()


def session(box: Box) -> str:
    """The session of root's Ray."""
    return os.path.basename(os.readlink(box.at(RAYS) / "session_latest"))


def roots(box: Box) -> set[tuple[int, float]]:
    """All processes of root on the host, except those that come and go by themselves."""
    living = [one.outer for one in box.host.processes() if one.outer.uids().effective == 0 and "setpriv" not in one.text]
    return {(one.pid, one.create_time()) for one in living if one.status() != psutil.STATUS_ZOMBIE}


def ray_of(box: Box) -> set[tuple[int, float]]:
    """Root's Ray and its job."""
    parts = [one for one in box.host.processes() if "/tmp/r" in one.text or "time.sleep(1000" in one.text or "plain.py" in one.text]
    return {(one.outer.pid, one.outer.create_time()) for one in parts if one.outer.uids().real == 0}


def dead_session(box: Box, name: str = OLD, temp: str = "/tmp/ray", uid: int = 0) -> str:
    """Makes a session of that user whose raylet 99999 left only a log."""
    path = Path(temp) / name
    head = "[2026-11-20 01:17:58,521 I 99999 99999] (raylet) main.cc:283: Setting cluster ID\n"
    box.write(path / "logs" / "raylet.out", head, uid)
    box.write(path / "sockets" / ".none", "", uid)
    for folder in (Path(temp), path, path / "logs", path / "sockets"):
        box.at(folder).chmod(0o777)
    for one in (box.at(path), *box.at(path).rglob("*")):
        os.utime(one, (time.time() - 7200,) * 2)
    return str(path)


def refusals(answer: Facts) -> str:
    return json.dumps(answer.get("refused", []))


# 1 to 17: findings of an audit


def test_01_a_plain_job_survives_if_rays_temp_dir_is_a_link(box: Box):
    before = ray_of(box)
    assert len(before) > 5
    _, answer, stderr = action(box.host, "kill-orphans --yes --force")
    assert (answer["done"], stderr) == ([], ""), answer
    assert before <= ray_of(box)
    assert {one["kind"] for one in once(box.host)[1]["processes"] if one["session"] == session(box)} <= {"ray", "worker", "driver", "child"}


@pytest.mark.parametrize("how", ["su", "sudo", "plain"])
def test_02_a_setuid_program_does_not_make_root_run_another_program(bare: Box, how: str):
    flags = f"--raylet_socket_name=x --session_dir=/tmp/ray/{OLDEST} --gcs-address=127.0.0.1:1 --python_worker_command={EVIL}/bin/python"
    (bare.host.tmp / "rights" / "sudo.c").write_text(SUDO)
    bare.root("gcc -o /tmp/rights/sudo /tmp/rights/sudo.c && chmod 4755 /tmp/rights/sudo")
    script = {"su": f"sleep 1000 | (exec -a raylet su root -- {flags})", "sudo": f"exec -a raylet /tmp/rights/sudo {flags}"}
    if how == "plain":
        bare.raylet(OLDEST)
    else:
        bare.host.spawn(*f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups bash -c".split(), script[how])
    eventually(lambda: bare.host.matching("raylet", OLDEST))
    for request in (
        {"act": "ray", "verb": "kill_actor", "ids": ["ab" * 16], "session": OLDEST},
        {"act": "start", "role": "head", "words": [], "env": {"WANDB_API_KEY": SECRET}},
        {"act": "stop", "everything": True, "session": None},
        {"act": "stop", "everything": True, "session": OLDEST},
    ):
        bare.plan(request)
    assert "0" not in bare.ran.splitlines(), "as root"
    assert SECRET not in bare.ran
    assert bool(bare.ran) == (how == "plain")  # a person has named this session: its programs run as its owner


def test_03_a_log_that_is_a_link_or_a_pipe_or_endless_is_not_followed(bare: Box):
    """`start` looks in `monitor.log` for the Ray that ran here last."""
    line = f"using ray installation: {EVIL}/lib/python3.11/site-packages/ray/__init__.py\n"
    secret = bare.write(Path("/tmp/rights/monitor.log"), line, 0, 0o600)
    folders = [dead_session(bare, f"session_2026-11-20_01-17-5{number}_164160_1000{number}", uid=0) for number in range(6)]
    makes = (
        "ln -s /tmp/rights/monitor.log {}", "mkfifo {}", "ln -s /dev/zero {}", "truncate -s 4T {}", f"printf '%s' '{line}' > {{}}",
        "ln -s /etc/shadow {}",
    )  # fmt: skip
    for folder, make in zip(folders, makes, strict=True):
        bare.mallory(make.format(f"{folder}/logs/monitor.log"))
        assert os.path.lexists(bare.at(folder) / "logs" / "monitor.log")
    assert secret.exists()
    began = time.monotonic()
    bare.plan({"act": "start", "role": "head", "words": []}, env="PATH=/usr/bin:/bin")
    assert time.monotonic() - began < 60
    assert bare.ran == ""


@pytest.mark.parametrize("command", ["kill-orphans --dry-run localhost", "clean --dry-run", "status", "doctor"])
def test_04_no_module_of_the_current_folder_is_imported(bare: Box, command: str):
    for name in (
        "base64",
        "json",
        "zlib",
        "runpy",
        "argparse",
        "site",
        "sitecustomize",
        "usercustomize",
        "pynvml",
        "cockpit",
        "socket",
        "pwd",
    ):
        bare.write(EVIL / f"{name}.py", "import os; os.system('/tmp/evil/python &')\n")
    bare.host.ssh(f"cd {EVIL} && {COCKPIT} {command}", timeout=90, check=False)
    assert bare.ran == ""


def test_05_a_foreign_session_and_a_link_to_it_get_no_token(bare: Box):
    path = dead_session(bare, temp="/tmp/evil/ray", uid=MALLORY)
    bare.raylet(OLD)
    bare.his("listen", f"{path}/sockets/raylet")
    bare.his("dashboard", "9265", "/tmp/evil/heard", name="python", program=HIS_PYTHON)
    script = (
        f"exec -a python {HIS_PYTHON} {EVIL}/ray/dashboard/dashboard.py dashboard 8265 /tmp/evil/heard --port=8265 --session-dir={path}"
    )
    bare.write(
        EVIL / "ray" / "dashboard" / "dashboard.py",
        (Path(__file__).with_name("hostile.py")).read_text().replace("*sys.argv[2:]", "*sys.argv[2:4]"),
    )
    bare.host.spawn(*f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups bash -c".split(), script)
    bare.mallory("mkdir -p /tmp/ray && chmod 777 /tmp/ray && echo 127.0.0.1:9265 > /tmp/ray/ray_current_cluster")
    eventually(lambda: "200" in bare.host.ssh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8265/ || true"))
    env = f"RAY_AUTH_TOKEN={SECRET}"
    for command in ("status", "doctor", "kill-orphans --yes", "stop --dry-run"):
        output = bare.host.ssh(f"{env} {COCKPIT} {command} 2>&1", timeout=90, check=False)
        assert "Traceback" not in output
    heard = bare.at("/tmp/evil/heard")
    assert SECRET not in (heard.read_text() if heard.exists() else "")
    output = bare.host.ssh(f"{env} {COCKPIT} status 2>&1", timeout=90, check=False)
    assert f"user {MALLORY}" in output or "another user" in output or "only Ray sessions of other users" in output, output


def test_06_a_presets_secrets_are_not_sent_to_another_users_ray(bare: Box):
    """The attacker's raylet runs, and its session's name sorts first."""
    bare.raylet(OLDEST, temp="/tmp/evil/temp")
    bare.plan({"act": "start", "role": "head", "words": [], "env": {"WANDB_API_KEY": SECRET}}, env="PATH=/usr/bin:/bin")
    assert SECRET not in bare.ran
    assert bare.ran == ""


def test_07_another_users_log_in_a_dead_session_makes_no_orphan(bare: Box):
    folder = dead_session(bare, uid=0)
    log = bare.write(EVIL / "mine" / "out.log", "", 0, 0o666)
    ours = bare.host.spawn("bash", "-c", "exec sleep 10000 >>/tmp/evil/mine/out.log 2>&1")
    os.chown(log.parent, MALLORY, MALLORY)
    bare.mallory(f"mv /tmp/evil/mine/out.log {folder}/logs/worker-ab-01000000-99.out")
    shown = os.readlink(f"/proc/{ours.outer.pid}/fd/1")
    assert shown.endswith("worker-ab-01000000-99.out")
    answer = action(bare.host, "kill-orphans --yes --force")[1]
    assert answer["done"] == []
    assert ours.is_alive()
    ours.kill()


def test_08_an_inherited_variable_makes_no_orphan(bare: Box):
    dead_session(bare, temp="/tmp/evil/ray", uid=MALLORY)
    bare.raylet(OLD, temp="/tmp/evil/ray").kill()
    inherited = ("RAY_JOB_ID=02000000", f"RAY_NODE_ID={'ab' * 28}", "RAY_TMPDIR=/tmp/evil")
    ours = [bare.host.spawn("env", "RAY_RAYLET_PID=99999", each, "sleep", "10000") for each in inherited]
    answer = action(bare.host, "kill-orphans --yes --force")[1]
    assert answer["done"] == []
    assert all(one.is_alive() for one in ours)
    for one in ours:
        one.kill()


def test_09_a_bundle_follows_no_link_and_waits_for_no_pipe(box: Box):
    box.write(Path("/tmp/rights/secret"), SECRET, 0, 0o600)
    logs = f"{RAYS}/{session(box)}/logs"
    output = box.mallory(
        f"cd {logs} && mv raylet.err raylet.err.0 && ln -s /tmp/rights/secret raylet.err"
        f" && mv dashboard.log dashboard.log.0 && mkfifo dashboard.log"
        f" && mv monitor.log monitor.log.0 && echo planted-by-mallory > monitor.log && echo ok"
    )
    assert output.strip() == "ok"
    began = time.monotonic()
    box.host.ssh(f"cd /tmp && rm -f b.tar.gz && {COCKPIT} doctor --bundle /tmp/b.tar.gz", timeout=110, check=False)
    assert time.monotonic() - began < 100
    with tarfile.open(box.at("/tmp/b.tar.gz")) as bundle:
        packed = {one.name: bundle.extractfile(one).read().decode() for one in bundle}  # type: ignore[union-attr]
    box.root(f"cd {logs} && for each in raylet.err dashboard.log monitor.log; do mv -f $each.0 $each; done")
    assert any(name.endswith("raylet.out") for name in packed)
    assert not any(SECRET in text or "planted-by-mallory" in text for text in packed.values())


def test_10_a_session_that_another_user_renamed_is_not_removed(bare: Box):
    for part in ("logs", "sockets", "thesis"):
        bare.write(EVIL / "ray" / "theirs" / part / "chapter.tex", "years of work", 0)
    os.chown(bare.at(EVIL / "ray"), MALLORY, MALLORY)
    bare.mallory(f"mv {EVIL}/ray/theirs {EVIL}/ray/{OLDEST}")
    assert bare.at(EVIL / "ray" / OLDEST / "thesis").exists()
    bare.his("stay", env=("RAY_TMPDIR=/tmp/evil",))
    answer = action(bare.host, "clean --yes")[1]
    assert bare.at(EVIL / "ray" / OLDEST / "thesis" / "chapter.tex").exists()
    assert "to remove this session, put the cursor on it, or name its path by --session" in refusals(answer)


def test_11_a_jobs_results_stay_when_its_session_is_removed(bare: Box):
    folder = Path(dead_session(bare))
    package = folder / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    bare.write(package / "train.py", "x" * 100, 0)
    dear = [package / name for name in ("wandb/offline-run-1/run.wandb", "outputs/results.jsonl", "model.bin", "step_500/x.bin")]
    for path in dear:
        bare.write(path, "x" * (LARGE_BYTES if path.suffix == ".bin" else 100), 0)
    for one in (bare.at(folder), *bare.at(folder).rglob("*")):
        os.utime(one, (time.time() - (7200 if one.name == "train.py" else 3600),) * 2)
    answer = action(bare.host, "clean --yes")[1]
    assert answer["done"], answer
    assert all(bare.at(path).exists() for path in dear)
    assert not bare.at(folder / "logs" / "raylet.out").exists()


def test_12_another_user_cannot_block_stop_clean_or_start(box: Box):
    name = session(box)
    gone = dead_session(box, uid=0)
    box.raylet(name, temp="/tmp/r")
    box.his("stay", "--log_dir=x", name="gcs_server")
    box.his("stay", f"--log_dir={gone}/logs", "--gcs_server_port=6379", name="gcs_server")
    box.his("abstract", "cockpit/ray-start/6379")
    box.mallory(f"mkfifo {EVIL}/worker-ab-ffffffff-1.out")
    box.his("stay", log=f"{EVIL}/worker-ab-ffffffff-1.out <>{EVIL}/worker-ab-ffffffff-1.out")
    box.his("listen", f"{gone}/sockets/raylet")
    eventually(lambda: (box.at(gone) / "sockets" / "raylet").is_socket())
    for one in (box.at(gone), *box.at(gone).rglob("*")):
        os.utime(one, (time.time() - 7200,) * 2, follow_symlinks=False)
    stop = action(box.host, "stop --dry-run")[1]
    assert [one["part"] for one in stop["plan"] if one["part"] in ("raylet", "gcs_server")] == ["raylet", "gcs_server"]
    assert stop.get("refused", []) == []
    began = time.monotonic()
    box.plan({"act": "start", "role": "head", "words": ["--port=6379"]})
    assert time.monotonic() - began < 60
    answer = action(box.host, "clean --yes")[1]
    assert [one["path"] for one in answer["done"] if one["what"] == "session"] == [gone], answer
    assert ray_of(box)


def test_17_an_engines_title_makes_no_orphan(bare: Box):
    titles = ("VLLM::APIServer", "VLLM::EngineCore", "ray::IDLE")
    ours = [bare.host.hold(device, 2 << 30, title=title) for device, title in enumerate(titles)]
    dead_session(bare, temp="/tmp/evil/ray", uid=MALLORY)
    answer = action(bare.host, "kill-orphans --yes --force")[1]
    assert answer["done"] == []
    assert all(one.is_alive() for one in ours)
    for one in ours:
        one.kill()
    bare.host.reset_gpus()


# Attacks beyond the audit


@pytest.mark.incident
def test_many_hostile_processes_do_not_stop_or_mislead_cockpit(box: Box):
    """All of them at once, beside root's Ray with a job. A real orphan of root's dead Ray is still found."""
    name, before = session(box), ray_of(box)
    gone = dead_session(box, uid=0)
    left = box.host.spawn("env", "RAY_RAYLET_PID=99999", "RAY_JOB_ID=02000000", "RAY_TMPDIR=/tmp", "sleep", "10000")
    words = ("--raylet_socket_name=x", f"--session_dir=/tmp/r/{name}", "--gcs-address=127.0.0.1:6379")
    box.his("endless")
    box.his("renames")
    box.his("wordless")
    box.his("long", "/", "1")
    box.his("long", "x", "15")
    box.his("stay", *words, env=(f"RAY_RAYLET_PID={box.host.matching('raylet/raylet')[0].pid}", "LD_PRELOAD=/tmp/evil/x.so"), name="raylet")
    box.his("memory", "raylet", *words)
    box.his("deleted", "raylet", *words)
    box.his("many", "60")
    box.his("floods", "/dev/shm", "psm_", "8000")
    box.his("digs", f"{EVIL}/ray/{OLDEST}/logs", "300")
    box.his("listen", f"{RAYS}/{name}/sockets/raylet_7")
    for inside in ("unshare --user --map-root-user", "unshare --user --map-root-user --pid --fork", "unshare -Urmpf --mount-proc"):
        line = f"{inside} bash -c 'exec -a raylet {HIS_PYTHON} {EVIL}/hostile.py stay {shlex.join(words)}'"
        box.host.spawn(*f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups bash -c".split(), line)
    box.mallory(
        f"cd {RAYS}/{name}/logs && ln -s /dev/zero raylet.7.out; mkfifo raylet.8.out; truncate -s 4T raylet.9.out;"
        f" ln -s /etc/shadow raylet.6.out; cd {gone}/logs; rm -f raylet.err; ln -s / up; ln /etc/passwd raylet.5.out;"
        " cd ../sockets; ln -s /run/sshd raylet_x; ln -s raylet_y raylet_y"
    )
    eventually(lambda: len(box.host.matching("hostile.py", "listen", "many")) == 60, within=60)
    there = {word for one in box.host.processes() for word in one.command if one.outer.uids().real == MALLORY}
    assert there >= {"endless", "renames", "raylet", f"--session_dir=/tmp/r/{name}"}
    began = time.monotonic()
    _, facts, stderr = once(box.host)
    assert facts["cluster"]["session"] == name, stderr
    assert {one["kind"] for one in facts["processes"] if one["session"] == name and one["user"] == "root"} <= {
        "ray",
        "worker",
        "driver",
        "child",
    }
    _, answer, stderr = action(box.host, "kill-orphans --yes")
    assert [one["pid"] for one in answer["done"]] == [left.pid], (answer, stderr)
    _, answer, stderr = action(box.host, "stop --dry-run")
    assert {one.get("user") for one in answer["plan"]} == {"root"}, [one for one in answer["plan"] if one.get("user") != "root"]
    _, answer, stderr = action(box.host, "clean --yes")
    assert gone in [one["path"] for one in (*answer["done"], *answer["failed"])], (answer, stderr)
    print(f"figure: four commands among a mob of hostile processes took {time.monotonic() - began:.1f} s")
    assert before <= ray_of(box)
    assert Path("/etc/passwd").exists()
    assert box.root("curl -s http://127.0.0.1:8265/api/jobs/plain").count('"RUNNING"') == 1
    box.root(f"cd {RAYS}/{name} && rm -f logs/raylet.[6-9].out sockets/raylet_7")


@pytest.mark.incident
def test_a_bind_mount_in_the_attackers_namespace_leads_nowhere(bare: Box):
    """In that namespace `/tmp/ray` is the host's `/etc`; the attacker's raylet names a session in it."""
    line = (
        f"unshare --user --map-root-user --mount bash -c 'mkdir -p /tmp/evil/r && mount --rbind /etc /tmp/evil/r && "
        f"exec -a raylet {HIS_PYTHON} {EVIL}/hostile.py stay --raylet_socket_name=x --session_dir=/tmp/evil/r/{OLDEST}'"
    )
    bare.host.spawn(*f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups bash -c".split(), line)
    eventually(lambda: bare.host.matching("raylet", OLDEST))
    etc = set(os.listdir("/etc"))
    answer = action(bare.host, "clean --yes")[1]
    assert answer["done"] == []
    assert set(os.listdir("/etc")) == etc
    output = bare.plan({"act": "ray", "verb": "kill_actor", "ids": ["ab" * 16], "session": OLDEST})
    assert "error" in output
    assert bare.ran == ""


def test_a_hard_link_to_roots_file_in_a_dead_session_does_not_harm_that_file(bare: Box):
    """On kernels that let the attacker make such a link."""
    folder = dead_session(bare, uid=0)
    kept = bare.write(Path("/tmp/rights/kept"), SECRET, 0, 0o644)
    os.link(kept, bare.at(folder) / "logs" / "monitor.log")
    os.utime(bare.at(folder), (time.time() - 7200,) * 2)
    answer = action(bare.host, "clean --yes")[1]
    assert [one["path"] for one in answer["done"]] == [folder], answer
    assert kept.read_text() == SECRET


def test_links_that_move_while_a_session_is_removed_harm_nothing_outside(bare: Box):
    """The attacker keeps exchanging a folder for a link to root's folder, as fast as possible."""
    folder = Path(dead_session(bare, uid=0))
    kept = [bare.write(Path(f"/tmp/rights/kept/{number}"), "x", 0) for number in range(50)]
    bare.root(
        f"cd {folder} && mkdir -m 777 logs/old && for n in $(seq 3000); do echo x > logs/old/$n; done"
        " && find . -exec touch -d '2 hours ago' {} +"
    )
    swaps = SWAPS.replace("LOGS", f"{folder}/logs")
    bare.write(EVIL / "swaps.py", swaps)
    his = bare.host.spawn(*f"setpriv --reuid={MALLORY} --regid={MALLORY} --clear-groups {HIS_PYTHON} {EVIL}/swaps.py".split())
    for _ in range(3):
        action(bare.host, "clean --yes")
    his.kill()
    assert all(path.exists() for path in kept)


def test_a_process_that_gets_the_pid_of_a_planned_one_survives(bare: Box):
    """The attacker ends the planned process and starts others until root's next process gets that pid."""
    dead_session(bare, uid=0)
    left = bare.host.spawn("env", "RAY_RAYLET_PID=99999", "RAY_JOB_ID=02000000", "RAY_TMPDIR=/tmp", "sleep", "10000")
    plan = bare.plan({"act": "kill", "named": None})
    (target,) = [one for one in plan["targets"] if one["pid"] == left.pid]
    left.kill()
    bare.root(f"echo {left.pid - 1} > /proc/sys/kernel/ns_last_pid; setsid sleep 10000 </dev/null >/dev/null 2>&1 &")
    taken = eventually(lambda: [one for one in bare.host.matching("sleep 10000") if one.pid == left.pid])[0]
    done = bare.plan({"act": "kill", "named": None, "stage": "do", "targets": [target]})
    assert done["done"] == []
    assert "its pid now belongs to another process" in done["refused"][0]["reason"]
    assert taken.is_alive()
    taken.kill()


@pytest.mark.parametrize("place", ["preset", "hosts"])
def test_a_pipe_in_place_of_a_named_file_is_not_waited_for(bare: Box, place: str):
    bare.mallory(f"mkfifo {EVIL}/named.yaml")
    command = f"check {EVIL}/named.yaml" if place == "preset" else f"status --hosts {EVIL}/named.yaml"
    output = bare.host.ssh(f"timeout 60 {COCKPIT} {command} 2>&1; echo $?", timeout=90)
    assert output.strip().splitlines()[-1] != "124"
    assert "regular file" in output or "another user" in output, output


def test_the_attackers_environment_after_sudo_is_ignored(bare: Box):
    """HOME, XDG_*, PYTHON* and BASH_ENV, as `sudo -E` keeps them."""
    for name in (".bash_profile", ".profile", ".bashrc", ".config/cockpit/config.yaml", ".ray/auth_token"):
        bare.write(EVIL / name, "reach: /tmp/evil/python\n" if name.endswith("yaml") else f"{EVIL}/python &\n")
    bare.write(EVIL / ".local/lib/python3.11/site-packages/usercustomize.py", "import os; os.system('/tmp/evil/python &')\n")
    env = f"env HOME={EVIL} XDG_RUNTIME_DIR={EVIL} BASH_ENV={EVIL}/.bashrc TMPDIR={EVIL} PYTHONUSERBASE={EVIL}/.local"
    output = bare.host.ssh(f"{env} {COCKPIT} status 2>&1", timeout=60, check=False)
    assert "another user" in output
    for request in ({"act": "start", "role": "head", "words": []}, {"act": "stop", "everything": True, "session": None}):
        bare.plan(request, env=f"{env} PATH=/usr/bin:/bin")
    assert bare.ran == ""
    assert not bare.at(EVIL / "cockpit-0").exists()
