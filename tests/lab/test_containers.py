"""Ray in containers of root and of a user, seen from outside and inside. Kills reach the right namespace or nothing."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from cockpit.demo import nvml
from tests.lab import hosts
from tests.lab.cluster import eventually
from tests.lab.conftest import NO_RAY, RAY
from tests.lab.containers import Container, Podman, lay_out_podman, numbers_of, remove_cgroups, why_no_podman
from tests.lab.hosts import Host, Lab, is_alive
from tests.lab.leftovers import GIB
from tests.lab.observe import COCKPIT, Facts, kinds, screen

pytestmark = [pytest.mark.lab, pytest.mark.incident, pytest.mark.timeout(600)]

REACH = 'reach: "podman exec -i {name} {python} -"\n'
SLIRP = "--network slirp4netns -p 8270:8265 --memory 2g"
DRIVER = "import ray, time; ray.init(); time.sleep(10000)"


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    """A host with podman and an ordinary user beside root."""
    if reason := hosts.why_not() or why_no_podman() or (None if RAY.exists() else NO_RAY):
        pytest.skip(reason)
    lab = Lab(f"pd{os.getpid() % 100000}", ["head"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}:/usr/sbin"})
    try:
        lay_out_podman(lab["head"])
        yield lab["head"]
    finally:
        lab.close()
        remove_cgroups()


@pytest.fixture
def made(host: Host) -> Iterator[ExitStack]:
    """Removes what a test has made."""
    with ExitStack() as stack:
        stack.callback(host.reset_gpus)
        for user in ("root", "train"):
            Podman(host, user).write_config("{}\n")
        yield stack


def container(made: ExitStack, podman: Podman, name: str, *args: str, **more: str) -> Container:
    one = Container(podman, name, *args, **more)
    made.callback(one.remove)
    return one


def probes_in(one: Container) -> list[psutil.Process]:
    """The probes that cockpit has started in the container."""
    return [process for process in one.processes() if is_alive(process) and "given.readline" in " ".join(process.cmdline())]


def why(facts: Facts, pid: int) -> str:
    return next(" ".join(process["why"]) for process in facts["processes"] if process["pid"] == pid)


def host_pid_of_a_driver(host: Host, one: Container) -> int:
    """A process of the host whose pid is that of a job's driver in the container. Raises `ValueError` if that pid is taken; try again."""
    job = f"ppo{time.monotonic_ns()}"
    one.run(f"{RAY} job submit --no-wait --submission-id {job} -- {sys.executable} -c '{DRIVER}'")
    wanted = int(eventually(lambda: json.loads(one.run(f"curl -s http://127.0.0.1:8265/api/jobs/{job}"))["driver_info"])["pid"])
    pid = int(host.ssh(f"echo {wanted - 1} > /proc/sys/kernel/ns_last_pid; setsid sleep 10000 </dev/null >/dev/null 2>&1 & echo $!"))
    if pid != wanted:
        host.ssh(f"kill -9 {pid}")
        raise ValueError
    return pid


@pytest.mark.parametrize(
    ("user", "words", "ray"),
    [
        ("root", "--network host", ""),
        ("train", "--network host", ""),
        ("root", SLIRP, "--dashboard-host 0.0.0.0"),
        ("root", "--network none", ""),
    ],
    ids=["root", "rootless", "own network", "no network"],
)
def test_inside_and_outside_agree_about_a_ray_in_a_container_and_kills_hit_the_right_process(host, made, user, words, ray):
    podman = Podman(host, user)
    one = container(made, podman, "train", words)
    one.start_ray(ray)
    at = " --address http://127.0.0.1:8270" if words == SLIRP else ""
    inside, outside = one.look(), podman.cockpit(f"status{at}")[1]
    assert (inside["cluster"]["reachable"], inside["faults"]) == (True, [])
    assert (outside["cluster"]["reachable"], outside["faults"] == []) == ((words != "--network none"),) * 2
    for facts in (inside, outside):
        assert {process["kind"] for process in facts["processes"]} == {"ray", "child"}

    orphan = one.leave_orphan()
    one.hold(orphan, 3, 30 * GIB)
    parts = one.parts()
    assert len(parts) == 4
    _, near, within = numbers_of(orphan.pid)[-3:]
    code, refused = podman.cockpit("kill-orphans --yes")
    assert (code, refused["done"]) == (1, []), "its namespace is another one: nothing proves from here that it is dead"
    assert kinds(podman.cockpit(f"status{at}")[1], "head")[near] == "unknown"
    command = "podman exec -it train cockpit"
    assert f"`{command}`" in podman.print_for_people("kill-orphans --yes")
    assert f"run `{command}`" in podman.print_for_people(f"doctor{at}")
    assert is_alive(orphan)

    code, ended = one.cockpit("kill-orphans --yes")
    assert (code, [row["pid"] for row in ended["done"]], ended["freed"]["gpu"]) == (0, [within], 30 * GIB)
    eventually(lambda: not is_alive(orphan))
    assert one.parts() == parts

    podman.write_config(f"hosts: [train]\n{REACH}")
    second = one.leave_orphan()
    within = numbers_of(second.pid)[-1]
    code, ended = podman.cockpit("kill-orphans --yes --hosts train")
    assert [(row["host"], row["pid"]) for row in ended["done"]] == [("train", within)]
    eventually(lambda: not is_alive(second))
    assert one.parts() == parts
    eventually(lambda: not probes_in(one))


def test_a_containers_limits_are_its_rays_and_unknown_outside(host, made):
    """Memory by a real cgroup, its own /dev/shm, two of eight GPUs."""
    root, state = Podman(host), host.state.with_name("two.state")
    lines = [line for line in host.state.read_text().splitlines() if line.startswith(("gpu 4 ", "gpu 5 "))]
    state.write_text("".join(line.replace("gpu 4", "gpu 0").replace("gpu 5", "gpu 1") + "\n" for line in lines))
    one = container(made, root, "own", SLIRP, shm="64m", state="/run/lab/two.state")
    one.start_ray("--dashboard-host 0.0.0.0")

    inside = one.look()
    assert {"shm-small", "memory-limit-cgroup"} <= {finding["code"] for finding in inside["findings"]}
    (node,) = inside["nodes"]
    assert (node["memory"]["total"], node["memory"]["kill_at"], node["shm"]["total"]) == (2 * GIB, int(0.95 * 2 * GIB), 64 << 20)

    outside = eventually(
        lambda: (facts := root.cockpit("status --address http://127.0.0.1:8270")[1])["nodes"][0]["memory"]["total"] and facts
    )
    (seen,) = outside["nodes"]
    assert (seen["memory"]["total"], seen["memory"]["kill_at"], seen["shm"]["total"]) == (2 * GIB, None, None)
    assert [gpu["uuid"] for gpu in seen["gpus"]] == [gpu["uuid"] for gpu in node["gpus"]]
    assert [gpu["index"] for gpu in seen["gpus"]] == [4, 5]
    assert "gpu-unused" not in {finding["code"] for finding in outside["findings"]}

    root.write_config(f"hosts: [own]\nprobe_hosts: always\n{REACH}")
    facts = json.loads(root.run(f"{COCKPIT} doctor --json --address http://127.0.0.1:8270; true"))
    both = next(each for each in facts["status"]["nodes"] if each["id"] == node["id"])
    limits = ("total", "kill_at", "host_total")
    assert [both["memory"][name] for name in limits] == [node["memory"][name] for name in limits]
    assert both["shm"]["total"] == 64 << 20
    assert {process["host"] for process in facts["status"]["processes"]} == {"own"}, "each is listed once, as seen from inside"


def test_status_and_doctor_look_into_a_configured_container_while_ray_is_well(host, made):
    root = Podman(host)
    one = container(made, root, "train")
    one.start_ray()
    root.write_config(f"hosts: [train]\n{REACH}")
    orphan = numbers_of(one.leave_orphan().pid)[-1]
    for words in ("status", "doctor"):
        facts = root.cockpit(words)[1]
        facts = facts.get("status", facts)
        assert kinds(facts, "train")[orphan] == "orphan"
        assert [node["state"] for node in facts["nodes"]] == ["ALIVE"]
        assert "node-missing" not in {finding["code"] for finding in facts["findings"]}
    root("stop -t 0 train")
    assert "train: Error: can only create exec sessions on running containers" in root.print_for_people("status")


def test_a_host_process_with_the_pid_of_a_containers_driver_is_not_that_driver(host, made):
    root = Podman(host)
    one = container(made, root, "train")
    one.start_ray()
    pid = eventually(lambda: host_pid_of_a_driver(host, one))
    made.callback(lambda: host.ssh(f"kill -9 {pid}", check=False))
    stranger = next(process for process in host.processes() if process.pid == pid)
    nvml.add(host.state, f"proc 2 {pid} {30 * GIB} 0 start {nvml.start_ticks(stranger.outer.pid)}")
    for words in ("status", "doctor"):
        facts = root.cockpit(words)[1]
        listed = {process["pid"]: process for process in facts.get("status", facts)["processes"]}
        assert (listed[pid]["kind"], listed[pid]["job"], listed[pid]["actor"]) == ("foreign", None, None)
    root.cockpit("kill-orphans --yes")
    assert stranger.is_alive()


def test_pids_of_another_namespace_belong_to_nobody_in_a_container(host, made):
    root = Podman(host)
    one = container(made, root, "train")
    bystander, user = one.spawn("sleep 10000"), one.spawn("bash -c 'touch /dev/nvidia0; exec sleep 10000 3</dev/nvidia0'")
    one.run("touch /dev/nvidiactl")
    (*_, first), (*_, second) = numbers_of(bystander.pid), numbers_of(user.pid)
    nvml.add(host.state, f"proc 2 {first} {GIB} 0", f"proc 3 {second} {GIB} 0")
    held = {process["pid"]: process for process in one.look()["processes"]}
    assert (held[second]["kind"], [hold["index"] for hold in held[second]["gpus"]]) == ("foreign", [3])
    assert first not in held
    assert (held[0]["kind"], [hold["index"] for hold in held[0]["gpus"]]) == ("unknown", [2])
    assert "NVML names a pid outside of this container (PID namespace)" in why({"processes": held.values()}, 0)
    one.cockpit("kill-orphans --yes")
    assert is_alive(bystander)
    assert is_alive(user)


@pytest.mark.parametrize("user", ["root", "train"])
def test_orphans_in_several_containers_are_ended_through_podman_exec(host, made, user):
    podman = Podman(host, user)
    both = [container(made, podman, name, "--network none") for name in ("one", "two")]
    podman.write_config(f"hosts: [one, two]\n{REACH}")
    orphans = [one.leave_orphan() for one in both]
    pids = [numbers_of(orphan.pid)[-1] for orphan in orphans]
    done = podman.cockpit("kill-orphans --yes")[1]["done"]
    assert sorted((row["host"], row["pid"]) for row in done) == sorted(zip(("one", "two"), pids, strict=True))
    eventually(lambda: not any(map(is_alive, orphans)))


def test_a_container_restarted_during_a_plan_keeps_the_process_with_the_same_pid(host, made):
    root = Podman(host)
    one = container(made, root, "train", "--network none")
    root.write_config(f"hosts: [train]\n{REACH}")
    pid = numbers_of(one.leave_orphan().pid)[-1]
    with screen(host, "kill-orphans") as terminal:
        terminal.until("[y/N]")
        one.restart()
        innocent = one.spawn_as(pid)
        assert numbers_of(innocent.pid)[-1] == pid
        terminal.type("y")
        terminal.press("Enter")
        terminal.until("its pid now belongs to another process")
    assert is_alive(innocent)


def test_a_stopped_or_removed_container_is_reported(host, made):
    root = Podman(host)
    one = container(made, root, "train", "--network none")
    root.write_config(f"hosts: [train]\n{REACH}")
    one.leave_orphan()
    root("stop -t 0 train")
    assert root.cockpit("kill-orphans --yes")[0] == 1
    assert "container state improper" in root.print_for_people("kill-orphans --yes")
    root("rm -f train")
    assert 'no container with name or ID "train"' in root.print_for_people("kill-orphans --yes")


def test_a_restarted_container_is_noticed_and_its_new_ray_is_followed(host, made):
    user = Podman(host, "train")
    one = container(made, user, "train")
    one.start_ray()
    user.write_config(f"hosts: [train]\nprobe_hosts: always\n{REACH}")
    watched = user.watch(made)
    eventually(lambda: {process["host"] for process in watched()["processes"]} == {"train"} and not watched()["faults"])
    old = watched()["cluster"]["session"]
    one.restart()
    eventually(lambda: watched()["cluster"]["reachable"] is False)
    one.start_ray()
    eventually(lambda: watched()["cluster"]["session"] not in (None, old) and not watched()["faults"])
    user.end_watch()
    eventually(lambda: not probes_in(one))


@pytest.mark.parametrize("words", ["kill-orphans", "kill-orphans --hosts train"])
def test_another_users_container_of_the_same_name_is_never_hit(host, made, words):
    """Another user's podman has a container of this name, with a process that looks left over."""
    root, stranger = Podman(host), Podman(host, "train")
    ours, others = (container(made, podman, "train", "--network none") for podman in (root, stranger))
    root.write_config(f"hosts: [train]\n{REACH}")
    meant, kept = ours.leave_orphan(), others.leave_orphan()
    within = numbers_of(meant.pid)[-1]
    done = root.cockpit(f"{words} --yes")[1]["done"]
    assert [(row["host"], row["pid"]) for row in done] == [("train", within)]
    eventually(lambda: not is_alive(meant))
    assert is_alive(kept)


@pytest.mark.parametrize(("way", "at"), [("mount", "/tmp/ray"), ("link", "/other")])
def test_a_ray_in_another_container_with_a_shared_folder_is_not_called_dead(host, made, way, at):
    root = Podman(host)
    one = container(made, root, f"{way}-there", "--network none")
    one.start_ray()
    two = container(made, root, f"{way}-here", f"--network none -v {one.root}.tmp/ray:{at}")
    if way == "link":
        two.run(f"ln -s {at} /tmp/ray")
    parts, files = one.parts(), sorted(one.tmp.glob("ray/session_*/*"))
    seen = two.look()
    assert [session["live"] for session in seen["sessions"]] == [True]
    for words in ("kill-orphans", "stop", "clean"):
        assert two.cockpit(f"{words} --yes")[1].get("done", []) == []
    assert one.parts() == parts
    assert sorted(one.tmp.glob("ray/session_*/*")) == files


def test_a_lying_python_in_an_image_is_an_error_of_that_container(host, made):
    root = Podman(host)
    one = container(made, root, "train", "--network none")
    fake = one.tmp / "python3"
    fake.write_text('#!/bin/sh\ntouch /run/lies\necho "{\\"taken\\": \\"$(id)\\"}"\nsleep 1\n')
    fake.chmod(0o755)
    root.write_config("hosts: [{name: train, python: /tmp/python3}]\n" + REACH)
    assert 'FAILING SOURCE probe on train: train: {"taken": "uid=0(root)' in root.print_for_people("status"), (
        "as text: what it says can't be read as facts"
    )
    assert root.cockpit("kill-orphans --yes")[0] == 1
    assert one.run("ls /run/lies").strip() == "/run/lies"
    assert not (host.folder / "run" / "lies").exists()


EATER = "import ray; ray.init(); ray.get(ray.remote(max_retries=0)(lambda: len(bytearray(4 << 30))).remote())"


def test_a_worker_killed_at_the_containers_memory_limit_is_reported_with_that_limit(host, made):
    """Repeats until it is reported: kills before the first sample are not."""
    root = Podman(host)
    one = container(made, root, "train", "--network host --memory 2g --memory-swap 2g")
    one.start_ray(env="-e RAY_memory_monitor_refresh_ms=0")
    root.write_config(f"hosts: [train]\n{REACH}")
    watched = root.watch(made)

    def reported() -> dict[str, str]:
        one.run(f"{sys.executable} -c {shlex.quote(EATER)} >/dev/null 2>&1")
        return {finding["code"]: finding["text"] for finding in watched()["findings"]}

    found = eventually(lambda: (now := reported()).get("workers-killed-oom") and now)
    assert "The kernel killed " in found["workers-killed-oom"]
    assert "is unknown; its container may use 2.0G of memory there, " in found["workers-killed-oom"]
    assert "Ray may use 2.0G of memory on" in found["memory-limit-cgroup"]


def test_docker_exec_reaches_a_container_by_its_real_client(host, made):
    """Podman answers in place of Docker's engine."""
    root = Podman(host)
    if "Docker version" not in root.run("docker --version", check=False):
        pytest.skip("needs the client of Docker")
    one = container(made, root, "train", "--network none")
    made.callback(host.spawn("podman", "system", "service", "--time=0", "unix:///run/docker.sock").outer.kill)
    engine = "docker --host unix:///run/docker.sock"
    eventually(lambda: "train" in root.run(f"{engine} ps", check=False))
    root.write_config(f'hosts: [train]\nreach: "{engine} exec -i {{name}} {{python}} -"\n')
    orphan = one.leave_orphan()
    done = root.cockpit("kill-orphans --yes")[1]["done"]
    assert [(row["host"], row["pid"]) for row in done] == [("train", numbers_of(orphan.pid)[-1])]
    eventually(lambda: not is_alive(orphan))
    assert "by docker exec, into containers" in root.print_for_people("doctor")
    eventually(lambda: not probes_in(one))
