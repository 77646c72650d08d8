"""Describes the files that fill a disk or /dev/shm, such as logs of a job, caches or checkpoints, and how to free space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from cockpit.findings.facts import Facts
from cockpit.findings.shell_words import quote_word
from cockpit.model import Filler, Host, Job, Machine, Node, Process, Snapshot
from cockpit.model.titles import process_title, shorten_command
from cockpit.text import clean, plural, size

MAX_NAMED = 3
"""Fillers named in a sentence."""
NAMED_SHARE = 0.02
"""Share of a disk from which on a filler is named in a sentence."""
MAX_CHARS = 60
FRESH_S = 60.0
"""Seconds after which an answer is shown with its age."""
_MOVES = {
    "Hugging Face": "HF_HOME",
    "vLLM": "VLLM_CACHE_ROOT",
    "Triton": "TRITON_CACHE_DIR",
    "torch.compile": "TORCHINDUCTOR_CACHE_DIR",
    "ModelScope": "MODELSCOPE_CACHE",
}
"""The environment variable with the place of a cache."""
_PURGES = {"pip": "pip cache purge", "uv": "uv cache prune"}


class Filling(msgspec.Struct, frozen=True):
    """The contents of a disk in words; empty if they are unknown."""

    words: str = ""
    """`; largest: driver log of job train1 (61G), cache of vLLM (9.0G)`."""
    lines: tuple[str, ...] = ()
    """Evidence."""
    remedy: str = ""
    """The remedy for the largest filler."""
    largest: int = 0
    """Bytes of the largest filler."""
    about: tuple[str, ...] = ()
    """Keys of the jobs and processes that fill the disk."""


def find_filling(facts: Facts, node: Node, path: str, total: float | None) -> Filling:
    """The contents of a node's disk, without the folders of dead sessions."""
    host, machine, snapshot = facts.index.host_of(node), facts.index.machine(node), facts.snapshot
    fillers, whole = list_fillers(machine, host, path, total)
    if host is None or whole is None:
        return Filling()
    title, here = facts.title(node), facts.index.processes_by_host.get(host.name, ())
    named = [one for one in fillers if one.size >= NAMED_SHARE * (total or 0)][:MAX_NAMED]
    words = ", ".join(f"{filler_words(snapshot, here, one)} ({size(one.size)})" for one in named)
    jobs = [job.key for one in named if (job := find_job(snapshot, here, one)) is not None]
    users = [process.key for one in named if (process := _find_process(here, one)) is not None]
    seen = next((one.seen for one in machine.filled if one.path == path), None)
    old = facts.now - seen if seen is not None else 0.0
    as_of = f", as of {old // 60:.0f} min ago" if old > FRESH_S else ""
    return Filling(
        words=f"; largest{as_of}: {words}" if words else "",
        lines=tuple(_lines(snapshot, here, title, fillers, whole=whole)),
        remedy=filler_remedy(snapshot, here, title, named[0]) if named else "",
        largest=named[0].size if named else 0,
        about=tuple(dict.fromkeys([*jobs, *users])),
    )


def list_fillers(machine: Machine, host: Host | None, path: str, total: float | None) -> tuple[list[Filler], bool | None]:
    """The fillers of a disk, without the files of dead sessions, the largest first; and whether the whole disk was counted.

    The second is `None` if the probe has not read the disk. A filler has a session's name only if it lies in the session's folder.
    """
    known = next((one for one in machine.filled if one.path == path), None)
    if known is None or not total:
        return [], None
    sessions = (host.sessions if host else None) or ()
    dead = {session.name for session in sessions if session.live is False} - {one.name for one in sessions if one.live is not False}
    plausible = [one for one in known.fillers if 0 < one.size <= total and one.session not in dead]
    return sorted(plausible, key=lambda one: -one.size), known.whole


def _lines(snapshot: Snapshot, here: Sequence[Process], title: str, fillers: Sequence[Filler], *, whole: bool) -> Iterator[str]:
    """One line of evidence for each filler: a command that shows it, its size, and its description."""
    for one in fillers:
        process = _find_process(here, one)
        number = "" if one.files == 1 else f" in {plural(one.files, 'file')}"
        owner = f", of {clean(one.user)[:MAX_CHARS]}" if one.user else ""
        has_no_name = one.kind == "deleted" or (one.kind == "shm" and one.pid is not None)
        used = f"; used by pid {one.pid} {_command_words(one, process)}".rstrip() if one.pid is not None and one.kind != "deleted" else ""
        # The path of shared memory is a pattern. A path that can't be typed is shown without a command.
        is_pattern = one.kind == "shm" and one.path.endswith("*")
        word = quote_word(one.path.removesuffix("*") if is_pattern else one.path)
        shown = f"du -sh {word}{'*' if is_pattern else ''}" if word is not None else clean(one.path)
        shown = f"ls -lL /proc/{one.pid}/fd" if has_no_name else shown
        beside = " besides what is named here" if any(other.path.startswith(f"{one.path}/") for other in fillers) else ""
        yield f"{shown} on {title}: {size(one.size)}{number}{beside} ({filler_words(snapshot, here, one)}{owner}{used})"
    if not whole:
        yield "not all of it was counted (too many files, or files that the probe may not see): there may be more"


def filler_words(snapshot: Snapshot, here: Sequence[Process], one: Filler) -> str:
    """A description, such as `driver log of job train1`; `here`: the processes of its host."""
    name, base = clean(one.name or "")[:MAX_CHARS], clean(one.path.rpartition("/")[2])[:MAX_CHARS]

    # Its job. A log that Ray has no job for is named by its path.
    known_job, job = find_job(snapshot, here, one), ""
    if known_job is not None:
        job = f" of {'' if known_job.running else 'ended '}job {clean(known_job.id)[:MAX_CHARS]}"
    elif one.job and one.kind in ("driver_log", "worker_log"):
        other = f" of {clean(one.session)[:MAX_CHARS]}" if one.session and one.session != snapshot.cluster.session else ""
        job = f" of job {clean(one.job)[:MAX_CHARS]}{other}"

    path, end = clean(one.path)[:MAX_CHARS], clean(one.path)[-MAX_CHARS:]
    if one.kind == "worker_log":
        worker = next((each for each in here if one.worker in (each.ns_pid, each.pid)), None)
        actor = snapshot.index.actors.get(worker.actor or "") if worker else None
        return f"log of {f'actor {clean(actor.name or actor.class_)[:MAX_CHARS]}' if actor else f'worker {one.worker}'}{job}"
    if one.kind == "ray_log":
        return f"Ray's log {base}"
    if one.kind == "deleted":
        return f"a deleted file{job} that pid {one.pid} {_command_words(one, _find_process(here, one))} has open"
    words = {
        "driver_log": "driver log",
        "cache": f"cache of {name}",
        "checkpoints": f"checkpoints of run {name}",
        "shm": f"{name} ({path})",
        "spilled": "objects that Ray spilled",
        "runtime_env": "Ray's runtime environments",
        "session": f"other files of {clean(one.session or 'a session')[:MAX_CHARS]}",
        "wandb": f"W&B runs in {end}",
        "core": f"core dump {end}",
        "folder": f"files in {end}",
    }
    return f"{words.get(one.kind, end)}{job}"


def filler_remedy(snapshot: Snapshot, here: Sequence[Process], title: str, one: Filler) -> str:
    """The remedy that does not end its job, with commands to type; empty if its path can't be typed."""
    path = quote_word(one.path)
    if path is None:
        return ""
    if one.kind in ("driver_log", "worker_log"):
        job = find_job(snapshot, here, one)
        id_word = quote_word(job.id) if job is not None and job.running else None
        stop = f"`cockpit stop-job {id_word}` ends the job; or " if id_word is not None else ""
        return f"{stop}{_empty_words(path, title, is_over=job is not None and not job.running)}; then let the job print less"
    if one.kind == "ray_log":
        return _empty_words(path, title, is_over=False)
    if one.kind == "cache":
        name = one.name or ""
        purge = f"`{_PURGES[name]}` on {title} makes room" if name in _PURGES else f"remove from {path} on {title} what no job uses"
        return f"{purge}; set {_MOVES[name]} to a larger disk for the next start" if name in _MOVES else purge
    if one.kind == "checkpoints":
        return (
            f"move old checkpoints out of {path} on {title}, and keep fewer "
            "(OpenRLHF: --ckpt.max_num, up to 0.10.1 --max_ckpt_num; veRL: trainer.max_actor_ckpt_to_keep)"
        )
    if one.kind == "spilled":
        return (
            "`ray memory` lists who refers to the objects; they are removed from disk when nobody does: let the job hold fewer, or end it"
        )
    if one.kind == "deleted":
        return f"the room comes back when process {one.pid} on {title} closes the file or ends"
    if one.kind == "shm":
        return f"`ls -lS /dev/shm` on {title} shows them; `cockpit clean` removes those that nobody uses"
    if one.kind == "core":
        return f"remove the core dump {path} on {title} after you have looked at it"
    return f"see what of it can go: `du -xh --max-depth 3 {path} | sort -h` on {title}"


def _empty_words(path: str, title: str, *, is_over: bool) -> str:
    """Words without a command: everybody may write in a session's folders, so any part of the path may be replaced by a link.

    Ray 2.60 opens all its logs to append: seen in /proc/PID/fdinfo of drivers, workers, raylets and dashboards.
    """
    when = "its job is over" if is_over else "also while it is written, for Ray appends to it"
    return f"empty the log {path} on {title} ({when}), but see first that no folder of that path is a link: others can put one there"


def find_job(snapshot: Snapshot, here: Sequence[Process], one: Filler) -> Job | None:
    """The job of the followed cluster that writes the file, or that has a process using it."""
    if one.session is not None and one.session == snapshot.cluster.session:
        if one.kind == "driver_log":
            return next((job for job in snapshot.jobs or () if one.job in (job.submission, job.id)), None)
        if one.kind == "worker_log" and (job := snapshot.index.jobs.get(one.job or "")) is not None:
            return job
    process = _find_process(here, one)
    return snapshot.index.jobs.get(process.job or "") if process else None


def _find_process(here: Sequence[Process], one: Filler) -> Process | None:
    return next((each for each in here if each.pid == one.pid), None) if one.pid is not None else None


def _command_words(one: Filler, process: Process | None) -> str:
    return clean(process_title(process) if process else shorten_command(one.command or ""))[:MAX_CHARS]
