"""Every check once: what is wrong, what is fine, and what could not be looked at; and all of it in one file for somebody else to read."""

from __future__ import annotations

import io
import os
import platform
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import msgspec

from cockpit import __version__
from cockpit.config import Config, config_text
from cockpit.findings import CHECKS, Check, Judge, Limits
from cockpit.model import Finding, Session, Snapshot
from cockpit.report import finding_lines
from cockpit.status import status_json
from cockpit.text import clean, plural, redact

ONE_LOOK = 60.0
LAST_LINES = 200
"""Of each log that goes into a bundle."""
LONGEST = 1 << 20
LOGS = ("raylet.out", "raylet.err", "gcs_server.out", "gcs_server.err", "dashboard.log", "dashboard_agent.log", "monitor.log")
"""What Ray writes of itself in `logs` of a session. Logs of jobs and workers are their owner's words, and stay where they are."""
_PARTS = ("textual", "httpx", "msgspec", "psutil", "nvidia-ml-py", "click", "pyyaml")


class Checked(NamedTuple):
    """What came of one check."""

    check: Check
    found: tuple[Finding, ...]
    missing: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`found`; `fine`; `partly`: fine as far as it could be looked at; `unknown`: it could not."""
        if self.found:
            return "found"
        if self.missing and len(self.missing) == len(self.check.needs):
            return "unknown"
        return "partly" if self.missing else "fine"


class CheckStatus(msgspec.Struct, frozen=True):
    """`checks[]` of `cockpit doctor --json`."""

    title: str
    verdict: str
    missing: tuple[str, ...]
    watches: str | None
    findings: tuple[str, ...]
    """Their codes."""


def examined(snapshot: Snapshot, limits: Limits) -> list[Checked]:
    """Every check on one look."""
    return [
        Checked(check, Judge(limits, check.detectors, assumed=ONE_LOOK)(snapshot).findings, check.missing(snapshot)) for check in CHECKS
    ]


def doctor_text(snapshot: Snapshot, checked: Sequence[Checked]) -> str:
    """The worst first, then who did not answer, what could not be looked at, and what is fine."""
    return "\n".join(clean(line) for line in _lines(snapshot, checked))


def _lines(snapshot: Snapshot, checked: Sequence[Checked]) -> Iterator[str]:
    yield _where(snapshot)
    for finding in snapshot.findings:
        yield ""
        yield from finding_lines(finding, snapshot.taken)
    silent = [f"  - {fault.source}: {fault.text}" for fault in snapshot.faults]
    yield from ("", "Did not answer, or can't be believed:", *silent) if silent else ()
    for title, verdicts in (("Not looked at", ("unknown", "partly")), ("Fine", ("fine",))):
        lines = [_line(each) for each in checked if each.verdict in verdicts]
        yield from ("", f"{title}:", *lines) if lines else ()
    later = [f"  - {each.check.title}: {each.check.watches}" for each in checked if each.check.watches and each.verdict != "unknown"]
    yield from ("", "Only seen by whoever watches (`cockpit`, or `cockpit status --watch`):", *later) if later else ()


def _where(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    ray = (
        f"Ray {cluster.ray_version} at {cluster.address}"
        if cluster.reachable
        else f"no Ray dashboard at {cluster.address or 'any address'}"
    )
    living = sum(node.state == "ALIVE" for node in snapshot.nodes or ())
    return f"cockpit {__version__}: {ray}, {plural(living, 'living node')}, {plural(snapshot.looked_at, 'host')} looked at"


def _line(each: Checked) -> str:
    mark = {"fine": "ok", "partly": "ok as far as seen", "unknown": "not known"}[each.verdict]
    return f"  - {each.check.title}: {mark}{'; ' if each.missing else ''}{'; '.join(each.missing)}"


def doctor_json(snapshot: Snapshot, checked: Sequence[Checked]) -> str:
    """`{"status": as of cockpit status --json, "checks": […]}`."""
    told = [
        CheckStatus(each.check.title, each.verdict, each.missing, each.check.watches, tuple(finding.code for finding in each.found))
        for each in checked
    ]
    raw = msgspec.json.encode({"status": msgspec.Raw(status_json(snapshot).encode()), "checks": told})
    return msgspec.json.format(raw, indent=2).decode()


def write_bundle(path: Path, snapshot: Snapshot, checked: Sequence[Checked], config: Config) -> None:
    """One .tar.gz that only its owner may read, secrets hidden in all of it. Raises `OSError`, also where there is such a file already."""
    files = {
        "doctor.txt": doctor_text(snapshot, checked),
        "status.json": doctor_json(snapshot, checked),
        "config.yaml": config_text(config),
        "versions.txt": _versions(),
        **_logs(snapshot),
    }
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, text in files.items():
            _add(bundle, f"cockpit-doctor/{name}", _safe(text).encode("utf-8", "replace"))


def _safe(text: str) -> str:
    return "\n".join(map(redact, text.split("\n")))


def _add(bundle: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
    bundle.addfile(entry, io.BytesIO(data))


def _versions() -> str:
    known = {"cockpit": __version__, "python": platform.python_version(), "platform": platform.platform()}
    known.update((part, _version(part)) for part in _PARTS)
    return "".join(f"{name}: {value}\n" for name, value in known.items())


def _version(part: str) -> str:
    try:
        return version(part)
    except PackageNotFoundError:
        return "not installed"


def _logs(snapshot: Snapshot) -> Mapping[str, str]:
    """The ends of what Ray's own processes write in live sessions of this host."""
    local = {host.name for host in snapshot.hosts.values() if host.local}
    near = [session for session in snapshot.sessions or () if session.live and session.host in local]
    found = {f"logs/{session.name}/{name}": _end(session, name) for session in near for name in LOGS}
    return {name: text for name, text in found.items() if text is not None}


def _end(session: Session, name: str) -> str | None:
    try:
        with open(Path(session.path) / "logs" / name, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LONGEST))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-LAST_LINES:])
    except OSError:
        return None
