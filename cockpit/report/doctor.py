"""Every check once: what is wrong, what is OK, and what could not be checked; and all of it packed into one file to send."""

from __future__ import annotations

import io
import os
import platform
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from cockpit import __version__
from cockpit.config.document import abbreviate_home
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.config.reach import THROUGH_RAY
from cockpit.config.settings import Config, config_path, config_text
from cockpit.config.slurm import FLAG, JOB
from cockpit.findings import CHECKS, Check, FindingTracker, Limits
from cockpit.model import Fault, Finding, Session, Snapshot
from cockpit.recording.cut import cut
from cockpit.recording.files import SUFFIX, RecordingError
from cockpit.recording.recording import Recording
from cockpit.report.faults import also_down, by_cause
from cockpit.report.grouping import Repeats
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown
from cockpit.report.status import status_json
from cockpit.report.text import finding_lines, hosts_probed
from cockpit.secrets import LineRedactor
from cockpit.sources.probes.spawn import ENGINES, find_executor
from cockpit.text import clean, plural
from cockpit.trust import ROOT, read_end

ASSUMED_DURATION_S = 60.0
"""For which one look takes what it sees to have lasted, where a finding needs a duration."""
LOG_LINES = 200
"""Of each log that goes into a bundle."""
LOG_BYTES = 1 << 20
"""Read of each log, from its end."""
LOGS = ("raylet.out", "raylet.err", "gcs_server.out", "gcs_server.err", "dashboard.log", "dashboard_agent.log", "monitor.log")
"""What Ray writes of itself in `logs` of a session. Logs of jobs and workers are their owner's words, and stay where they are."""
RECORDED_S = 1800.0
"""Of the end of a recording, which go into a bundle."""
_PARTS = ("textual", "httpx", "msgspec", "psutil", "nvidia-ml-py", "click", "pyyaml")


class CheckResult(msgspec.Struct, frozen=True):
    """One check, what it found, and the sources that it lacked."""

    check: Check
    found: tuple[Finding, ...]
    missing: tuple[str, ...]
    blind: bool
    """Whether so much was missing that nothing was checked."""

    @property
    def verdict(self) -> str:
        """`found`; `fine`; `partly`: fine as far as it was checked; `unknown`: not checked.

        What was not checked, and why: `missing` has the sources that did not answer, `watches` what no single look can find.
        """
        if self.found:
            return "found"
        if self.blind or not self.check.at_once:
            return "unknown"
        return "partly" if self.missing or self.check.watches else "fine"


def run_checks(snapshot: Snapshot, limits: Limits) -> list[CheckResult]:
    """Every check on one snapshot."""
    return [_run(check, snapshot, limits) for check in CHECKS if check.concerns(snapshot)]


def _run(check: Check, snapshot: Snapshot, limits: Limits) -> CheckResult:
    found = FindingTracker(limits, check.detectors, assumed=ASSUMED_DURATION_S)(snapshot).findings
    return CheckResult(check, found, check.missing(snapshot), check.is_blind(snapshot))


def doctor_text(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> str:
    """The findings, worst first; then failing sources, and each check once: not fully checked, not checked by one look, or OK."""
    return "\n".join(clean(line) for line in _lines(snapshot, checked, config))


def _lines(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> Iterator[str]:
    yield _where(snapshot)
    yield f"Other hosts: {describe_reach(config)}"
    yield from describe_containers(snapshot)
    repeats = Repeats(snapshot)
    machines = _machine_names(snapshot)
    for finding in snapshot.findings:
        yield ""
        lines = finding_lines(repeats.shorten_finding(finding), snapshot)
        yield from (_with_machine(line, finding, machines) for line in lines)
    silent = [f"  - {_source_words(fault, snapshot)}: {fault.text}{also_down(fault)}" for fault in by_cause(snapshot.faults)]
    yield from ("", "Failing sources and old data:", *silent) if silent else ()
    over_time = [each for each in checked if each.check.watches and not each.blind]
    lacking = [each for each in checked if each.missing and each not in over_time]
    for title, results in (
        ("Not fully checked", lacking),
        ("Not checked, because one sample is not enough (`cockpit` and `cockpit status --watch` check it over time)", over_time),
        ("OK", [each for each in checked if each.verdict == "fine"]),
    ):
        yield from ("", f"{title}:", *map(_line, results)) if results else ()


def _source_words(fault: Fault, snapshot: Snapshot) -> str:
    """What fails, and where, unless its text says that too."""
    is_told = fault.host is None or fault.host in fault.text
    return fault.source if is_told else f"{fault.source} on {snapshot.index.titles.of_host(fault.host or '')}"


def _machine_names(snapshot: Snapshot) -> list[str]:
    """Longest first: `w10` is not about `w1`."""
    names = {name for node in snapshot.nodes or () for name in (node.title, node.host) if name} | set(snapshot.hosts)
    return sorted(names, key=len, reverse=True)


def _with_machine(line: str, finding: Finding, machines: Sequence[str]) -> str:
    """A line of a finding about one machine, with the name of that machine: reports of many hosts are searched by it."""
    name = next((name for name in machines if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", finding.subject)), None)
    if name is None or name in line:
        return line
    indent, arrow, words = re.fullmatch(r"( *)((?:-> )?)(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]  # matches any line
    return f"{indent}{arrow}{name}: {words}"


def _where(snapshot: Snapshot) -> str:
    cluster = snapshot.cluster
    at = f" at {cluster.address}" if cluster.address else ""
    ray = f"Ray {cluster.ray_version}{at}" if cluster.reachable else f"no Ray dashboard answers{at}"
    living = sum(node.state == "ALIVE" for node in snapshot.nodes or ())
    return f"cockpit {__version__}: {ray}, {plural(living, 'node')} alive, {hosts_probed(snapshot)}"


def describe_reach(config: Config) -> str:
    """How other hosts are reached, who has said so, what that allows, and how to change it."""
    origin = config.origins.get("reach", "default")
    place = config.kubernetes if config.kubernetes and origin == config.kubernetes.origin else None
    if config.reach == THROUGH_RAY:
        more = f"; with kubectl in PATH also into the pods of RayCluster {place.title}" if place else ""
        way = f"through Ray ({origin}): no probes; actions reach only nodes of a Ray cluster that runs on this host{more}"
    else:
        probes = "no probes (probe_hosts: never)" if config.probe_hosts == "never" else "probes"
        program, user = _program_and_user(config, place)
        way = f"by {program} ({origin}): {probes}, and every action, as {user}"
    allowed = f"; {config.readonly_reason}" if config.readonly else ""
    return f"{way}{allowed}. To change it: `reach` in {abbreviate_home(config_path())}"


def _program_and_user(config: Config, place: KubernetesPlace | None) -> tuple[str, str]:
    """What reaches other hosts, where it leads, and as whom everything is done there."""
    words = config.reach.split()
    if place:
        return f"kubectl exec, into the pods of RayCluster {place.title}", "the user of their containers"
    if (engine := find_executor(words)) in ENGINES:
        return f"{engine} exec, into containers", "the user that the container runs it as"
    job = config.slurm if config.origins.get("reach") in (FLAG, JOB) else None
    steps = f", steps of Slurm job {job.job}" if job else ""
    return f"{words[0]}{steps}", _slurms_user() if words[0] == "srun" else "the user that it logs in as"


def _slurms_user() -> str:
    """A step runs as whoever has started it."""
    return (
        "you" if os.geteuid() == ROOT else "you, without root: other users' processes are shown, but only root can classify and kill them"
    )


def describe_containers(snapshot: Snapshot) -> Iterator[str]:
    """A line for each container with processes of Ray's that nobody looks into: what is not known of it, and the way in."""
    seen = dict.fromkeys((one.host, one.container) for one in snapshot.processes or () if one.container and one.kind != "foreign")
    titles = snapshot.index.titles
    for host, container in seen:
        engine, name, user, title = container.engine, container.name, container.user, titles.of_host(host)
        yield (
            f"Container {name} on {title} ({engine}{f', user {user}' if user else ''}): its orphans and its /dev/shm can be seen only "
            f"from inside. {f'As {user}' if user else 'There'}, run `{engine} exec -it {name} cockpit`, or set `hosts: [{name}]` and "
            f'`reach: "{engine} exec -i {{name}} {{python}} -"` in {abbreviate_home(config_path())}'
        )


def _line(each: CheckResult) -> str:
    state = {"found": ": found, see above; ", "partly": ": ok as far as checked; ", "fine": "", "unknown": ": "}[each.verdict]
    why = "; ".join(filter(None, (None if each.blind else each.check.watches, *each.missing)))
    return f"  - {each.check.title}{state}{f'not checked: {why}' if why else ''}"


def doctor_json(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> str:
    """`{"status": as of cockpit status --json, "reach": a sentence, "checks": […]}`, each with the codes of what it found."""
    results = [
        {
            "title": each.check.title,
            "verdict": each.verdict,
            "missing": each.missing,
            "watches": each.check.watches,
            "findings": [finding.code for finding in each.found],
        }
        for each in checked
    ]
    raw = msgspec.json.encode({"status": msgspec.Raw(status_json(snapshot).encode()), "reach": describe_reach(config), "checks": results})
    return msgspec.json.format(raw, indent=2).decode()


def write_bundle(
    path: Path, snapshot: Snapshot, checked: Sequence[CheckResult], config: Config, recorded: Mapping[str, bytes] | None = None
) -> None:
    """One .tar.gz that only its owner may read, secrets hidden in all of it. Raises `OSError`, also where there is such a file already.

    `recorded`: more files, by name, of which secrets have been taken out already.
    """
    files = {
        "doctor.txt": doctor_text(snapshot, checked, config),
        "status.json": doctor_json(snapshot, checked, config),
        "config.yaml": config_text(config),
        "versions.txt": _versions(),
        **_logs(snapshot),
    }
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        safe = {name: _safe(text).encode("utf-8", "replace") for name, text in files.items()}
        for name, data in [*safe.items(), *(recorded or {}).items()]:
            entry = tarfile.TarInfo(f"cockpit-doctor/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            bundle.addfile(entry, io.BytesIO(data))


def last_half_hour(folder: Path) -> Mapping[str, bytes]:
    """By name the files that tell of the end of a recording; none where nothing of it can be read. Raises `OSError`."""
    try:
        with closing(Recording.open(folder)) as recording:
            return _recorded_files(recording)
    except RecordingError:
        return {}


def _recorded_files(recording: Recording) -> Mapping[str, bytes]:
    begin, end = max(recording.begin, recording.end - RECORDED_S), recording.end
    with TemporaryDirectory() as place:
        cut(recording, begin, end, path := Path(place) / f"recording{SUFFIX}")
        part = path.read_bytes()
    account = make_account(recording, begin, end)
    return {path.name: part, "report.md": account_markdown(account).encode(), "report.html": account_html(account).encode()}


def _safe(text: str) -> str:
    """Without secrets, and without what would act on the terminal of whoever reads it."""
    hide = LineRedactor()
    return "\n".join(clean(hide(line)) for line in text.split("\n"))


def _versions() -> str:
    kernel = os.uname()  # platform.platform() would start a process to tell the processor's name
    known = {"cockpit": __version__, "python": platform.python_version(), "platform": f"{kernel.sysname} {kernel.release} {kernel.machine}"}
    known.update((part, _version(part)) for part in _PARTS)
    return "".join(f"{name}: {value}\n" for name, value in known.items())


def _version(part: str) -> str:
    try:
        return version(part)
    except PackageNotFoundError:
        return "not installed"


def _logs(snapshot: Snapshot) -> Mapping[str, str]:
    """By name in the bundle, the end of each log of Ray's own, in live sessions of root and of this user on this host."""
    local = {host.name for host in snapshot.hosts.values() if host.local}
    near = [session for session in snapshot.sessions or () if session.live and session.trusted and session.host in local]
    found = {f"logs/{session.name}/{name}": _end(session, name) for session in near for name in LOGS}
    return {name: text for name, text in found.items() if text is not None}


def _end(session: Session, name: str) -> str | None:
    try:
        return "\n".join(read_end(Path(session.path) / "logs" / name, LOG_BYTES).decode("utf-8", "replace").splitlines()[-LOG_LINES:])
    except OSError:
        return None
