from __future__ import annotations

import base64
import glob
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cockpit.probe.sample.proc import read_link
from cockpit.sources.probes.payload import program
from cockpit.sources.probes.spawn import LOCAL_PYTHON
from tests.pythons import python_or_skip
from tests.sources.probes.ray_stop import WORDS_OF_RAY_STOP

pytestmark = pytest.mark.process


@contextmanager
def running(interpreter: str, words: list[str], **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """Pipe the payload through a shell, as ssh does, into a Python without our modules and environment."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": env.pop("HOME", "/root"), **env}
    command = ["sh", "-c", f"cat | exec {interpreter} -"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bare, cwd="/") as child:
        assert child.stdin is not None
        child.stdin.write(program(words))
        child.stdin.close()
        try:
            yield child
        finally:
            child.kill()


def first_lines(child: subprocess.Popen[bytes]) -> tuple[dict[str, object], dict[str, object]]:
    assert child.stdout is not None
    assert child.stderr is not None
    lines = [child.stdout.readline(), child.stdout.readline()]
    if not all(lines):
        pytest.fail(child.stderr.read().decode())
    hello, sample = map(json.loads, lines)
    return hello, sample


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_the_probe_runs_on_every_supported_python(version):
    with running(python_or_skip(version), ["--interval", "0.5", "--no-lifeline"]) as child:
        hello, sample = first_lines(child)
        assert child.stdout
        while sample["memory"]["total"] is None:  # unknown until the probe has read it
            sample = json.loads(child.stdout.readline())
    assert str(hello["python"]).startswith(version + ".")
    assert sample["cpus"] == os.cpu_count()
    assert sample["memory"]["total"] > 0


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_an_older_python_is_refused_in_one_sentence(version):
    with running(python_or_skip(version), ["--no-lifeline"]) as child:
        assert child.stderr is not None
        assert child.wait(60) == 1
        assert child.stderr.read().decode().strip() == f"Python {version} is too old there: the probe needs 3.8 or later"


def test_the_probe_writes_nothing_imports_nothing_of_others_and_is_not_matched_by_ray_stop(tmp_path):
    home, code = tmp_path / "home", tmp_path / "code"
    home.mkdir()
    code.mkdir()
    for name in ("pynvml", "cockpit"):
        (code / f"{name}.py").write_text("raise SystemExit('a stranger')")
    places = (tmp_path, Path("/dev/shm"))
    before = [set(place.rglob("*")) for place in places]
    env = {"HOME": str(home), "TMPDIR": str(tmp_path), "PYTHONPATH": str(code)}
    with running(sys.executable, ["--interval", "0.5", "--no-lifeline"], **env) as child:
        hello, _ = first_lines(child)
        process = Path(f"/proc/{hello['pid']}")
        files = [*filter(None, map(read_link, glob.glob(f"{process}/fd/*")))]  # it may close some of them meanwhile
        assert [set(place.rglob("*")) for place in places] == before
        assert not any("memfd" in file or str(tmp_path) in file for file in files)
        words = (process / "cmdline").read_text() + (process / "comm").read_text()
    assert words
    assert not [word for word in WORDS_OF_RAY_STOP if word in words]


def test_the_probe_ends_when_its_reader_is_gone_without_waiting_for_the_next_sample():
    with running(sys.executable, ["--interval", "3600", "--no-lifeline"]) as child:
        hello, _ = first_lines(child)
        assert child.stdout is not None
        child.stdout.close()
        limit = time.monotonic() + 60
        while state(int(str(hello["pid"]))) not in ("gone", "Z"):
            assert time.monotonic() < limit
            time.sleep(0.02)


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "gone"


def test_one_question_gets_one_answer():
    with subprocess.Popen(["sleep", "60"], env={"FLAVOUR": "vanilla"}) as other:
        ticks = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()[19]
        with running(sys.executable, ["--no-lifeline", "environ", str(other.pid), ticks]) as child:
            assert child.stdout is not None
            answer = json.loads(child.stdout.read())
        other.kill()
    assert answer["environ"] == {"FLAVOUR": "vanilla"}


def test_arguments_arrive_unchanged():
    with running(sys.executable, ['"; import os; os.abort() #', "\\", "–"]) as child:
        assert child.stderr is not None
        stderr = child.stderr.read().decode()
    assert "os.abort()" in stderr
    assert child.returncode == 2


def test_the_program_is_small():
    assert len(program(["--interval", "2"])) < 220_000, "each start of a probe sends so many bytes to its host"


@pytest.mark.parametrize("module", ["cockpit.probe.actions.ray.gcs", "cockpit.probe.actions.ray_tunnel.task_tunnel"])
def test_a_probe_can_send_the_source_of_its_own_modules_on(module):
    """`program_text` sends such a module to the cluster's own Python."""
    shared = program([], acting=True).rpartition(b"boot[")[0]
    ask = f"""
import sys
sys.meta_path.insert(0, boot["MemoryImporter"](modules))
from cockpit.probe.actions.ray import program_text
print(len(program_text({module!r}, "/x")))
"""
    assert int(subprocess.run(LOCAL_PYTHON, input=shared + ask.encode(), capture_output=True, check=True).stdout) > 1000


def test_the_actions_are_sent_only_where_something_is_to_be_done():
    def packed(acting: bool) -> bytes:
        line = next(line for line in program([], acting=acting).splitlines() if line.startswith(b"modules = "))
        return zlib.decompress(base64.b64decode(line.split(b'"')[1]))

    assert b"cockpit.probe.actions" in packed(acting=True)
    assert b"cockpit.probe.actions" not in packed(acting=False)
