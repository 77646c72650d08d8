"""What is decided in one place is decided nowhere else: who runs a program, reads others' files, prints, and sends a token."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "cockpit"
STARTS = {
    *(f"subprocess.{name}" for name in ("Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput")),
    *(f"os.{name}" for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile")),
    *(f"os.{kind}{ending}" for kind in ("exec", "spawn") for ending in ("v", "ve", "vp", "vpe", "l", "le", "lp", "lpe")),
    *(f"asyncio.create_subprocess_{kind}" for kind in ("exec", "shell")),
    "pty.spawn", "multiprocessing.Process",
}  # fmt: skip
PRINTS = {"print", "click.echo", "click.secho", "click.prompt", "click.confirm", "sys.stdout.write", "sys.stderr.write"}
READS = {"open", "os.open", "io.open"}
READ_METHODS = {"read_text", "read_bytes", "open"}


def modules(*parts: str, but: tuple[str, ...] = ()) -> list[Path]:
    folder = ROOT.joinpath(*parts)
    return [path for path in sorted(folder.rglob("*.py")) if not any(path.is_relative_to(ROOT / other) for other in but)]


@cache
def calls(path: Path) -> tuple[tuple[str, ast.Call], ...]:
    """The dotted name of whatever is called, and the call."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return tuple((dotted(node.func), node) for node in nodes if isinstance(node, ast.Call))


def dotted(node: ast.expr) -> str:
    """As `ast.unparse` writes it, which is slow."""
    match node:
        case ast.Name(name):
            return name
        case ast.Attribute(value, name):
            return f"{dotted(value)}.{name}"
    return ast.unparse(node)


def named(found: list[Path], names: set[str]) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in found for name, _ in calls(path) if name in names}


def test_the_probe_starts_programs_in_one_place():
    """The task tunnel is sent to Ray's own worker alone, as one file, and starts nothing but itself."""
    assert named(modules("probe"), STARTS) == {"probe/programs.py", "probe/actions/ray_tunnel/task_tunnel.py"}


def test_the_cockpit_starts_its_probes_and_ssh_in_one_place():
    """And the editor that a person has chosen; the demo is a cluster of its own."""
    assert named(modules(but=("probe", "demo")), STARTS) == {"sources/probes/spawn.py", "ui/preset_files.py"}


def test_text_has_one_way_out():
    """The probe speaks to cockpit; what a demo's job prints is its log; `status --line` can't wait for imports, and reads clean text."""
    printing = named(modules(but=("probe", "demo/scripts")), PRINTS)
    assert printing == {"text/output.py", "cli/line.py"}


@pytest.mark.parametrize("path", modules("probe"), ids=lambda path: path.stem)
def test_the_probe_follows_no_link_into_what_others_may_write(path: Path):
    """Only the kernel's own files are opened by their path alone; all else by `trust`, or so that a link in its place is an error."""
    for name, call in calls(path):
        if name not in READS or path.name == "trust.py":
            continue
        said = ast.unparse(call)
        kernel = isinstance(call.args[0], (ast.Constant, ast.JoinedStr)) and said.split("'")[1].startswith("/proc/")
        whose = any(flag in said for flag in ("O_NOFOLLOW", "O_PATH", "FOLDER", "os.devnull"))
        assert kernel or whose or said in KERNEL, f"{path.name}: {said}"


KERNEL = {
    "open(f'{folder}/vendor')",  # of /sys/bus/pci, by gpus.py
    "open(f'{folder}/class')",
    "open(path, 'rb', buffering=0)",  # of /proc, by proc.py
    "os.open(path, os.O_RDONLY | os.O_CLOEXEC)",
    "os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)",  # /dev/kmsg, by kernel.py
}
"""Opened by a path of the kernel's that a variable holds."""


def test_a_token_is_sent_in_one_place_of_each_kind():
    """Ray's, and that of a pod's service account; the rules of what is a secret know the name too."""
    naming = {str(path.relative_to(ROOT)) for path in modules(but=("secrets",)) if '"Authorization"' in path.read_text()}
    assert naming == {"sources/ray/http.py", "sources/kubernetes/api.py"}


def test_secrets_and_tokens_ask_first_who_listens():
    assert "self._peer.meet(" in (ROOT / "sources/ray/http.py").read_text()
    for module in ("actions/launch/launch.py", "monitor/monitor.py"):
        assert "why_not_trusted" in (ROOT / module).read_text()
