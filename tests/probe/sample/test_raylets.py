"""Live raylets and GCSs: real processes with such names, in real folders of a simulated installation."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample import raylets
from cockpit.probe.sample.cgroups import parse_slurm_job
from cockpit.probe.sample.processes import ScannedProcess, read_stat
from cockpit.probe.sample.raylets import Fact, ServiceReader, frameworks, python_version, ray_version
from cockpit.probe.sample.roots import resolve_links
from tests.probe.process_tables import SESSION, process, raylet, table

pytestmark = pytest.mark.process

HERE = ".".join(map(str, sys.version_info[:3]))
HEADERS = Path(sysconfig.get_path("include")) / "patchlevel.h"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of the installed Ray."""
    folder = tmp_path / "env" / "lib" / "python3.11" / "site-packages" / "ray"
    for part in ("raylet", "gcs"):
        (folder / "core" / "src" / "ray" / part).mkdir(parents=True)
    (folder / "_version.py").write_text('# Replaced when building.\ncommit = "b7f4"\nversion = "2.60.0"\n')
    return folder


@contextmanager
def living(program: Path, *words: str, **environ: str) -> Iterator[ScannedProcess]:
    """A process with this program as argv[0], as a scan finds it; it waits until its stdin ends."""
    argv = [str(program), *words]
    script = "import sys; print(flush=True); sys.stdin.read()"
    code = f"import os, sys; os.execv({sys.executable!r}, [{str(program)!r}, '-c', {script!r}, *{list(words)!r}])"
    env = {**os.environ, "PYTHONHOME": sys.base_prefix, **environ}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as child:
        assert child.stdout
        child.stdout.readline()
        stat = read_stat(child.pid)
        assert stat
        yield process(child.pid, " ".join(argv), name=program.name[:15], ticks=stat.ticks)
        child.communicate(b"")


def look(process: ScannedProcess) -> Fact:
    return ServiceReader().read(table(process))[process.identity]


@contextmanager
def living_raylet(package: Path, **environ: str) -> Iterator[ScannedProcess]:
    program = package / "core" / "src" / "ray" / "raylet" / "raylet"
    with living(program, f"--raylet_socket_name={SESSION}/sockets/raylet", f"--session_dir={SESSION}", **environ) as one:
        yield one


def test_the_versions_and_settings_of_a_raylet_and_a_gcs_are_read(package):
    environ = {"http_proxy": "http://ann:secret@proxy:3128", "GLOO_SOCKET_IFNAME": "eth0"}
    with living_raylet(package, CUDA_VISIBLE_DEVICES="0,1", **environ) as one:
        found = look(one)
        assert found["files"] == len(os.listdir(f"/proc/{one.pid}/fd"))
        limits = Path(f"/proc/{one.pid}/limits").read_text()
    assert (found["ray"], found["visible"]) == ("2.60.0", "0,1")
    assert f"Max open files            {found['files_limit']} " in limits
    assert found["proxy"]
    assert (found["proxy"]["proxy"], found["gloo"]) == ("proxy:3128", "eth0")
    assert found["cpu_limit"]
    assert found["cpu_limit"]["affinity"] == len(os.sched_getaffinity(0))
    assert found["addresses"] is not None
    with living(package / "core" / "src" / "ray" / "gcs" / "gcs_server", f"--log_dir={SESSION}/logs") as one:
        found = look(one)
    assert (found["ray"], found["python"], found["visible"]) == ("2.60.0", None, os.environ.get("CUDA_VISIBLE_DEVICES"))
    assert found["files"]


def test_a_young_raylet_and_the_limit_of_open_files_are_read_again(package):
    rays = ServiceReader()
    with living_raylet(package) as one:
        young = one._replace(details=one.details._replace(settled=False))
        rays.read(table(young))
        (package / "_version.py").write_text('version = "2.60.1"\n')
        assert rays.read(table(one))[one.identity]["ray"] == "2.60.1"
        resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (512, 1024))
        assert rays.read(table(one))[one.identity]["files_limit"] == 512


def test_training_frameworks_beside_ray_are_reported_and_new_ones_are_found_while_ray_lives(package):
    site = package.parent
    for name in ("openrlhf-0.8.5.post1.dist-info", "verl-0.5.0.dev0-py3.10.egg-info", "vllm-0.9.1.dist-info", "verl_tool-0.1.dist-info"):
        (site / name).mkdir()
    rays = ServiceReader()
    with living_raylet(package) as one:

        def read() -> Mapping[str, str] | None:
            return rays.read(table(one))[one.identity]["frameworks"]

        assert read() == {"openrlhf": "0.8.5.post1", "verl": "0.5.0.dev0"}
        (site / "verl-0.5.0.dev0-py3.10.egg-info").rmdir()
        (site / "verl-0.6.1.dist-info").mkdir()
        assert read() == {"openrlhf": "0.8.5.post1", "verl": "0.6.1"}
        (site / "openrlhf-0.9.0.dist-info").mkdir()
        assert read() == {"verl": "0.6.1"}, "one of the two was removed incompletely"
        shutil.rmtree(site)
        assert read() is None


def test_nothing_is_known_of_an_ended_process():
    found = look(raylet(4_000_000))
    assert found.get("files") is found["files_limit"] is found["visible"] is None


def test_a_process_that_is_stuck_in_the_kernel_is_not_read(monkeypatch):
    monkeypatch.setattr("cockpit.probe.sample.raylets.read_environ", lambda _: pytest.fail("it would hang"))
    stuck = process(os.getpid(), name="raylet", stuck=True)
    assert "ray" not in look(stuck)


def workers(interpreter: Path) -> ScannedProcess:
    """A raylet in our own root whose workers use this interpreter."""
    return process(os.getpid(), f"/x/raylet --raylet_socket_name=s --python_worker_command={interpreter}")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A Python, with its headers."""
    (tmp_path / "base" / "bin").mkdir(parents=True)
    (tmp_path / "base" / "bin" / "python3.11").touch()
    headers = tmp_path / "base" / "include" / "python3.11"
    headers.mkdir(parents=True)
    (headers / "patchlevel.h").write_text('#define PY_MAJOR_VERSION 3\n#define PY_VERSION      \t"3.11.9"\n')
    return tmp_path / "base"


def test_the_python_of_a_raylets_workers_is_reported_with_its_last_number(base, tmp_path):
    assert python_version(workers(base / "bin" / "python3.11")) == "3.11.9"
    venv = tmp_path / "venv" / "bin"
    venv.mkdir(parents=True)
    (venv / "python").symlink_to("python3")
    (venv / "python3").symlink_to(base / "bin" / "python3.11")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = /elsewhere\nversion = 3.11.2\n")
    assert python_version(workers(venv / "python")) == "3.11.9", "what it was made with may have been replaced since"
    shutil.rmtree(base / "include")
    assert python_version(workers(venv / "python")) == "3.11.2"


@pytest.mark.skipif(not HEADERS.exists(), reason="this Python has no headers")
def test_the_version_of_this_python_is_right():
    assert python_version(workers(Path(sys.executable))) == HERE


@pytest.mark.parametrize("config", ["version_info = 3.11.2.final.0\n", "version_info = 3.11.2\n", "home = x\nversion = 3.11.2\n"])
def test_environments_of_all_tools_are_understood(tmp_path, config):
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text(config)
    assert python_version(workers(tmp_path / "bin" / "python")) == "3.11.2"


def test_no_version_is_guessed_if_two_pythons_have_headers_or_not_all_names_are_read(base, monkeypatch):
    (base / "include" / "python3.12").mkdir()
    assert python_version(workers(base / "bin" / "python3.11")) is None
    (base / "include" / "python3.12").rmdir()
    monkeypatch.setattr("cockpit.probe.sample.raylets.MAX_PACKAGES", 0)
    assert python_version(workers(base / "bin" / "python3.11")) is None


@pytest.mark.parametrize("argv", ["raylet", "python raylet.py", "/x/raylet --python_worker_command=python", "/core/src/ray/raylet/raylet"])
def test_missing_files_are_unknown(argv):
    one = process(os.getpid(), argv)
    assert ray_version(one) is python_version(one) is None


def test_links_are_followed_below_their_own_root(tmp_path):
    (tmp_path / "opt" / "py" / "bin").mkdir(parents=True)
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "bin").symlink_to("/opt/py/bin")
    (tmp_path / "opt" / "py" / "bin" / "python").symlink_to("../../py/./bin/python3")
    assert resolve_links(str(tmp_path), "/usr/bin/python") == "/opt/py/bin/python3"
    (tmp_path / "loop").symlink_to("/loop")
    with pytest.raises(OSError, match="Too many levels"):
        resolve_links(str(tmp_path), "/loop")


def test_a_file_behind_endless_links_is_unknown(package):
    (package / "ring").symlink_to(package / "ring")
    argv = f"{package}/ring/ray/core/src/ray/raylet/raylet --raylet_socket_name=s --python_worker_command={package}/ring/bin/python"
    one = process(os.getpid(), argv)
    assert ray_version(one) is python_version(one) is frameworks(one) is None


def test_a_pipe_in_the_place_of_a_file_delays_nothing(package):
    (package / "_version.py").unlink()
    os.mkfifo(package / "_version.py")
    one = process(os.getpid(), f"{package}/core/src/ray/raylet/raylet --raylet_socket_name=s")
    assert ray_version(one) is None


@pytest.mark.parametrize(
    ("cgroups", "job"),
    [
        ("5:memory:/slurm/uid_1000/job_42/step_0/task_0\n1:freezer:/slurm/uid_1000/job_42/step_0\n", "42"),
        ("0::/system.slice/slurmstepd.scope/job_42/step_3/user/task_0\n", "42"),
        ("0::/system.slice/n1_slurmstepd.scope/job_42/step_3/user/task_0\n", "42"),
        ("0::/user.slice/user-1000.slice/job_42\n", None),
        ("0::/\n", None),
        ("5:memory:/slurm/uid_1000/job_42\n1:freezer:/slurm/uid_1000/job_43\n", None),
        ("", None),
    ],
)
def test_the_slurm_job_is_read_from_the_cgroups(cgroups: str, job: str | None):
    assert parse_slurm_job(cgroups) == job


@pytest.mark.parametrize(("uid", "expected"), [(os.geteuid(), ("10.0.0.9:6379", "42")), (4711, (None, None))])
def test_gcs_address_and_slurm_job_are_believed_only_of_our_own_raylet(monkeypatch: pytest.MonkeyPatch, uid: int, expected: object):
    monkeypatch.setattr(raylets, "read_environ", lambda _: {"SLURM_JOB_ID": "42"})
    planted = raylet(os.getpid(), uid=uid)
    argv = (*planted.details.argv, "--gcs-address=10.0.0.9:6379")
    started = raylets._read_started(planted._replace(details=planted.details._replace(argv=argv)))
    assert (started["gcs"], started["slurm"]) == expected
