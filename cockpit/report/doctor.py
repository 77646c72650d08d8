"""Runs every check once for `cockpit doctor`, reports the results, and packs them with logs into one file to send."""

from __future__ import annotations

import io
import os
import platform
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
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
from cockpit.model import Finding, Snapshot
from cockpit.recording.cut import cut
from cockpit.recording.files import SUFFIX, RecordingError
from cockpit.recording.recording import Recording
from cockpit.report.faults import also_down, by_cause
from cockpit.report.grouping import Repeats
from cockpit.report.incident.gather import make_account
from cockpit.report.incident.html import account_html
from cockpit.report.incident.markdown import account_markdown
from cockpit.report.snapshot_text import finding_lines, hosts_probed
from cockpit.report.status import status_json
from cockpit.secrets import LineRedactor
from cockpit.sources.probes.spawn import ENGINES, find_executor
from cockpit.text import clean, plural
from cockpit.trust import ROOT, read_end

ASSUMED_DURATION_S = 60.0
"""Seconds for which a single sample assumes every condition to have held."""
LOG_LINES = 200
"""Lines of each log in a bundle."""
LOG_BYTES = 1 << 20
"""Bytes read from the end of each log."""
LOGS = ("raylet.out", "raylet.err", "gcs_server.out", "gcs_server.err", "dashboard.log", "dashboard_agent.log", "monitor.log")
"""Ray's own logs of a session. Logs of jobs and workers belong to their owners, and are left out."""
RECORDED_S = 1800.0
"""Seconds from the end of a recording that go into a bundle."""
_PACKAGES = ("textual", "httpx", "msgspec", "psutil", "nvidia-ml-py", "click", "pyyaml")


class CheckResult(msgspec.Struct, frozen=True):
    """One check with its findings and the facts that it lacked."""

    check: Check
    found: tuple[Finding, ...]
    missing: tuple[str, ...]
    blind: bool
    """Whether nothing was checked, because too many facts were missing."""

    @property
    def verdict(self) -> str:
        """`found`; `fine`; `partly`: fine as far as it was checked; `unknown`: not checked.

        For the last two, `missing` has the facts that were missing, and `watches` the findings that only watching can find.
        """
        if self.found:
            return "found"
        if self.blind or not self.check.at_once:
            return "unknown"
        return "partly" if self.missing or self.check.watches else "fine"


def run_checks(snapshot: Snapshot, limits: Limits) -> list[CheckResult]:
    """Run every check that concerns this cluster on one snapshot."""
    results: list[CheckResult] = []
    for check in CHECKS:
        if check.concerns(snapshot):
            found = FindingTracker(limits, check.detectors, assumed=ASSUMED_DURATION_S)(snapshot).findings
            results.append(CheckResult(check, found, check.missing(snapshot), check.is_blind(snapshot)))
    return results


def doctor_text(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> str:
    """The findings, the most severe first; then failing sources, and each check once: not fully checked, not by one sample, or OK."""
    return "\n".join(clean(line) for line in _lines(snapshot, checked, config))


def _lines(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> Iterator[str]:
    # The cluster, and how other hosts are reached.
    cluster = snapshot.cluster
    at = f" at {cluster.address}" if cluster.address else ""
    ray = f"Ray {cluster.ray_version}{at}" if cluster.reachable else f"no Ray dashboard answers{at}"
    living = sum(node.state == "ALIVE" for node in snapshot.nodes or ())
    yield f"cockpit {__version__}: {ray}, {plural(living, 'node')} alive, {hosts_probed(snapshot)}"
    yield f"Other hosts: {describe_reach(config)}"
    yield from describe_containers(snapshot)

    # Findings, each line with its machine. Long names first: a finding on `w10` is not about `w1`.
    repeats = Repeats(snapshot)
    names = {name for node in snapshot.nodes or () for name in (node.title, node.host) if name} | set(snapshot.hosts)
    machines = sorted(names, key=len, reverse=True)
    for finding in snapshot.findings:
        yield ""
        lines = finding_lines(repeats.shorten_finding(finding), snapshot)
        yield from (_with_machine(line, finding, machines) for line in lines)

    silent: list[str] = []
    for fault in by_cause(snapshot.faults):
        is_named = fault.host is None or fault.host in fault.text
        place = "" if is_named else f" on {snapshot.index.titles.of_host(fault.host or '')}"
        silent.append(f"  - {fault.source}{place}: {fault.text}{also_down(fault)}")
    yield from ("", "Failing sources and old data:", *silent) if silent else ()

    # Each check once.
    over_time = [each for each in checked if each.check.watches and not each.blind]
    lacking = [each for each in checked if each.missing and each not in over_time]
    for title, results in (
        ("Not fully checked", lacking),
        ("Not checked, because one sample is not enough (`cockpit` and `cockpit status --watch` check it over time)", over_time),
        ("OK", [each for each in checked if each.verdict == "fine"]),
    ):
        yield from ("", f"{title}:") if results else ()
        for each in results:
            state = {"found": ": found, see above; ", "partly": ": ok as far as checked; ", "fine": "", "unknown": ": "}[each.verdict]
            why = "; ".join(filter(None, (None if each.blind else each.check.watches, *each.missing)))
            yield f"  - {each.check.title}{state}{f'not checked: {why}' if why else ''}"


def _with_machine(line: str, finding: Finding, machines: Sequence[str]) -> str:
    """A line of a finding about one machine, with the machine's name: people search reports of many hosts by it."""
    name = next((name for name in machines if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", finding.subject)), None)
    if name is None or name in line:
        return line
    indent, arrow, words = re.fullmatch(r"( *)((?:-> )?)(.*)", line, re.DOTALL).groups()  # type: ignore[union-attr]  # matches any line
    return f"{indent}{arrow}{name}: {words}"


def describe_reach(config: Config) -> str:
    """One sentence about how cockpit reaches other hosts: the program, the origin of that setting, its permissions, how to change it."""
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
    """The program that reaches other hosts, and the user that it acts as there."""
    words = config.reach.split()
    if place:
        return f"kubectl exec, into the pods of RayCluster {place.title}", "the user of their containers"
    if (engine := find_executor(words)) in ENGINES:
        return f"{engine} exec, into containers", "the user that the container runs it as"
    job = config.slurm if config.origins.get("reach") in (FLAG, JOB) else None
    steps = f", steps of Slurm job {job.job}" if job else ""
    if words[0] != "srun":
        return f"{words[0]}{steps}", "the user that it logs in as"
    limited = "" if os.geteuid() == ROOT else ", without root: other users' processes are shown, but only root can classify and kill them"
    return f"{words[0]}{steps}", f"you{limited}"  # a step runs as the user who starts it


def describe_containers(snapshot: Snapshot) -> Iterator[str]:
    """A line for each container with Ray processes that is not probed from inside: the unknown facts, and the command to get in."""
    seen = dict.fromkeys((one.host, one.container) for one in snapshot.processes or () if one.container and one.kind != "foreign")
    titles = snapshot.index.titles
    for host, container in seen:
        engine, name, user, title = container.engine, container.name, container.user, titles.of_host(host)
        yield (
            f"Container {name} on {title} ({engine}{f', user {user}' if user else ''}): its orphans and its /dev/shm can be seen only "
            f"from inside. {f'As {user}' if user else 'There'}, run `{engine} exec -it {name} cockpit`, or set `hosts: [{name}]` and "
            f'`reach: "{engine} exec -i {{name}} {{python}} -"` in {abbreviate_home(config_path())}'
        )


def doctor_json(snapshot: Snapshot, checked: Sequence[CheckResult], config: Config) -> str:
    """`{"status": as of `cockpit status --json`, "reach": a sentence, "checks": […]}`, each check with the codes of its findings."""
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
    """Write one .tar.gz that only its owner may read, without secrets. Raises `OSError`, also if the file exists already.

    `recorded`: more files by name, from which secrets have already been removed.
    """
    kernel = os.uname()  # platform.platform() would start a process to get the processor's name
    system = f"{kernel.sysname} {kernel.release} {kernel.machine}"
    versions = {"cockpit": __version__, "python": platform.python_version(), "platform": system}
    versions |= {package: _package_version(package) for package in _PACKAGES}
    files = {
        "doctor.txt": doctor_text(snapshot, checked, config),
        "status.json": doctor_json(snapshot, checked, config),
        "config.yaml": config_text(config),
        "versions.txt": "".join(f"{name}: {value}\n" for name, value in versions.items()),
        **_logs(snapshot),
    }
    safe: dict[str, bytes] = {}
    for name, text in files.items():
        hide = LineRedactor()
        safe[name] = "\n".join(clean(hide(line)) for line in text.split("\n")).encode("utf-8", "replace")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, data in [*safe.items(), *(recorded or {}).items()]:
            entry = tarfile.TarInfo(f"cockpit-doctor/{name}")
            entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
            bundle.addfile(entry, io.BytesIO(data))


def last_half_hour(folder: Path) -> Mapping[str, bytes]:
    """By name: a copy of the last half hour of a recording, and reports of it; empty if it can't be read. Raises `OSError`."""
    try:
        with closing(Recording.open(folder)) as recording:
            begin, end = max(recording.begin, recording.end - RECORDED_S), recording.end
            with TemporaryDirectory() as place:
                path = Path(place) / f"recording{SUFFIX}"
                cut(recording, begin, end, path)
                part = path.read_bytes()
            account = make_account(recording, begin, end)
            return {path.name: part, "report.md": account_markdown(account).encode(), "report.html": account_html(account).encode()}
    except RecordingError:
        return {}


def _package_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _logs(snapshot: Snapshot) -> Mapping[str, str]:
    """By name in the bundle: the end of each of Ray's own logs, of live sessions of root and of this user on this host."""
    local = {host.name for host in snapshot.hosts.values() if host.local}
    found: dict[str, str] = {}
    for session in snapshot.sessions or ():
        if not session.live or not session.trusted or session.host not in local:
            continue
        for name in LOGS:
            with suppress(OSError):
                text = read_end(Path(session.path) / "logs" / name, LOG_BYTES).decode("utf-8", "replace")
                found[f"logs/{session.name}/{name}"] = "\n".join(text.splitlines()[-LOG_LINES:])
    return found
