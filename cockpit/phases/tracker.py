"""Finds the phases and steps of running jobs from the titles of their workers."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from cockpit.config.thresholds import STALE_AFTER_S
from cockpit.model import Activity, GpuPlace, Job, Laggard, LogSteps, Phase, PhaseSpan, Process, Snapshot, Step
from cockpit.phases.log_pace import LogPace
from cockpit.phases.methods import (
    ENGINE_CLASSES,
    MAY_TRAIN_IDLE,
    RESUMES,
    Method,
    ends_steps,
    find_method,
    framework_of,
    is_known_sync,
    shows_phases,
)
from cockpit.phases.ranks import is_engine, seen_at, unseen_actors, watched_workers, workers_of
from cockpit.phases.titles import Title, read_title

GAP_S: Final = 2.0
"""After so many seconds without any method, the last phase is over. Between two calls a trainer is idle for a moment."""
RECENT_S: Final = 6.0
"""If an actor shows only one of several calls, a method counts as running for so many seconds after it was seen."""
BUSY_PERCENT: Final = 5.0
"""Utilization above which a GPU works."""
MAX_SPANS, MAX_STEPS, MAX_JOBS, MAX_ENDED = 600, 50, 100, 10
"""Phases and steps that are kept of each job; running jobs that are followed; ended jobs that are kept."""
LAGGARD_SHARE: Final = 8
"""At most one in this many workers of a class is called behind; at least one may be."""
LAGGARD_AFTER_S: Final = 10.0
LISTED_STALE_S: Final = 60.0
"""After so many seconds, Ray's list of workers is too old to show the phase."""
LISTED_GAP_S: Final = 120.0
"""If so many seconds lie between two of Ray's lists, nothing is known about the time between them."""
LAST_TITLES_S: Final = 10.0
"""The last titles of a job's workers may come so many seconds after its end."""
LOG_LAG_S: Final = 15.0
"""A line of the log may be read so many seconds late."""
_ORDER: Final[tuple[Phase, ...]] = ("training", "weight sync", "checkpoint", "evaluation", "scoring", "rollout", "loading")
"""If several phases run at the same time, the first one in this list counts. Training comes first, because engines may always generate."""


class Reading(NamedTuple):
    """What a job does at one moment."""

    phase: Phase | None
    also: tuple[Phase, ...] = ()
    method: str | None = None
    mark: int = 0
    """The mark of the method, as in `Method`."""
    is_gap: bool = False
    """No method with a phase runs. This may be a pause within the last phase."""
    loads_trainers: bool = False
    """Trainers are being started."""
    resumes: bool = False
    """Trainers load a checkpoint."""


class Change(NamedTuple):
    """A change of a worker's title."""

    moment: float
    worker: str
    title: Title | None
    """`None`: the worker is gone."""


class ActivityTracker:
    """Keeps the phases and steps of running jobs."""

    def __init__(self) -> None:
        self._jobs: dict[str, _JobPhases] = {}
        self._unlisted: dict[str, _JobPhases] = {}
        """By Ray's id of a job: what its workers do until Ray's list, which is read every few seconds, has the job."""
        self._session: str | None = None

    def forget(self) -> None:
        """Another cluster is watched."""
        self._jobs.clear()
        self._unlisted.clear()

    def add_activities(self, snapshot: Snapshot) -> Snapshot:
        """Update the activities of running jobs from a snapshot, and return the snapshot with them."""
        session = snapshot.cluster.session
        if session is not None and session != self._session:
            if self._session is not None:
                self.forget()
            self._session = session
        if snapshot.jobs is None or snapshot.processes is None:
            self.forget()
            return snapshot
        running = [job for job in snapshot.jobs if job.running][:MAX_JOBS]
        listed = {job.key: job for job in snapshot.jobs}
        followed = {job.key for job in running}
        ended = [key for key in self._jobs if key not in followed]
        for key in ended:
            self._jobs[key].follow_to_end(listed.get(key), snapshot)
        self._jobs = {key: one for key, one in self._jobs.items() if key in listed and key not in ended[:-MAX_ENDED]}
        logs = {log.job: log for log in snapshot.log_steps}
        for job in running:
            (workers, read), log = watched_workers(job, snapshot), logs.get(job.key)
            if workers or log is not None or job.key in self._jobs:
                one = self._jobs.get(job.key)
                if one is None or one.has_ended:  # a job that runs again under its old id has no old phases
                    one = self._jobs[job.key] = self._unlisted.get(job.job or job.id) or _JobPhases(job.key)
                    one.rename(job.key)
                if read is not None:
                    one.observe_list(job, workers, read, snapshot)
                else:
                    one.observe(job, workers, snapshot)
                one.take_log(log)
        self._observe_unlisted(snapshot.jobs, snapshot)
        all_ = self._jobs.values()
        return replace(
            snapshot,
            activities=tuple(one.activity(snapshot) for one in all_ if one.key in followed),
            spans=tuple(span for one in all_ for span in one.spans),
            steps=tuple(step for one in all_ for step in one.joined_steps),
        )

    def _observe_unlisted(self, listed: Sequence[Job], snapshot: Snapshot) -> None:
        """Follow workers whose job Ray has not listed yet. Between two lists a job can load a small model."""
        known = {job.job or job.id for job in listed}
        new = [job for job in snapshot.index.processes_by_job if job not in known][:MAX_JOBS]
        self._unlisted = {job: self._unlisted.get(job) or _JobPhases(job) for job in new}
        for key, one in self._unlisted.items():
            job = Job(key, job=key)
            one.observe(job, workers_of(job, snapshot), snapshot)


class _JobPhases:
    """The phases of one job."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.has_ended = False
        self.spans: deque[PhaseSpan] = deque(maxlen=MAX_SPANS)
        """In order; the last one may still run."""
        self.steps: deque[Step] = deque(maxlen=MAX_STEPS)
        self._titles: dict[str, Title] = {}
        """By worker."""
        self._since: dict[str, float] = {}
        """By worker: when it got its title."""
        self._before: dict[str, Title] = {}
        """By worker: the title before the present one."""
        self._with_gpu: set[str] = set()
        """Workers that hold GPU memory."""
        self._seen: dict[str, float] = {}
        """By host of its workers: the time of the last titles that were taken over. Silent hosts are left out."""
        self._is_partly_unseen = False
        """Some of its workers are on silent hosts, or on nodes without a probe."""
        self._running: Counter[Title] = Counter()
        self._last: dict[Title, float] = {}
        """By title: when it was last seen, if no worker has it now."""
        self._mark_of_span = self._best_mark = 0
        self._gap_since: float | None = None
        self._also: tuple[Phase, ...] = ()
        self._has_trained = False
        self._after_training: float | None = None
        """When rollout or scoring began after the last training."""
        self._step_began: float | None = None
        self._steps_seen = 0
        self._is_from_start = False
        """Whether the trainers were seen starting, so that the numbers of the steps are known."""
        self._framework: str | None = None
        self._is_framework_sure = False
        self._pace = LogPace()
        self._listed: float | None = None
        """When Ray's list of workers was read; `None`: the titles come from probes."""
        self._is_list_idle = False

    def rename(self, key: str) -> None:
        """The job has another key than before."""
        if key != self.key:
            self.key = key
            self.spans = deque((replace(span, job=key) for span in self.spans), maxlen=MAX_SPANS)
            self.steps = deque((replace(step, job=key) for step in self.steps), maxlen=MAX_STEPS)

    def take_log(self, log: LogSteps | None) -> None:
        """Take over what the log of the job says about its steps."""
        self._pace.take(log, self._steps_seen)

    @property
    def joined_steps(self) -> Sequence[Step]:
        """The steps from titles and log."""
        return self._pace.join(self.steps, self._steps_seen)

    def observe(self, job: Job, workers: Sequence[tuple[Process, Title]], snapshot: Snapshot) -> None:
        """Take over what the workers have done since the last snapshot, except while all of their hosts were silent."""
        if workers:
            self._listed = None
        seen = {host: seen_at(process, snapshot) for host, process in {process.host: process for process, _ in workers}.items()}
        fresh = [(process, title) for process, title in workers if snapshot.taken - seen[process.host] <= STALE_AFTER_S]
        newest = max((seen[process.host] for process, _ in fresh), default=None)
        if workers and self._seen and (newest is None or newest - max(self._seen.values()) > STALE_AFTER_S):
            self._break_off(self._gap_since or max(self._seen.values()))
        if workers and not fresh:
            return
        self._is_partly_unseen = len(fresh) < len(workers) or any(unseen_actors(job, workers, snapshot))
        changes = self._find_changes(fresh, seen, snapshot)
        evidence = _Evidence(job, snapshot)
        changes.sort(key=lambda change: change.moment)
        for place, change in enumerate(changes):
            self._apply(change)
            if place + 1 == len(changes) or changes[place + 1].moment - change.moment > 0.2:
                self._advance(change.moment, self._read(change.moment, evidence))
        latest = max(self._seen.values(), default=0.0)
        if latest and (not changes or changes[-1].moment < latest):
            self._advance(latest, self._read(latest, evidence))

    def observe_list(self, job: Job, workers: Sequence[tuple[Process, Title]], read: float, snapshot: Snapshot) -> None:
        """Take over what the workers do by Ray's list. It is read so seldom that it shows only a rough phase, and no steps."""
        if read == self._listed:
            return
        if self._listed is not None and read - self._listed > LISTED_GAP_S:
            self._break_off(self._listed)
        self._listed, self._seen, self._last = read, {}, {}
        self._titles = {process.key: title for process, title in workers}
        self._running = Counter(self._titles.values())
        self._since = dict.fromkeys(self._titles, read)
        self._gap_since = self._step_began = None
        self._is_from_start = self._has_trained = False
        self._find_framework(title for _, title in workers)
        self._with_gpu = {process.key for process, _ in workers if process.gpus}
        self._is_partly_unseen = False
        reading = self._read(read, _Evidence(job, snapshot))
        was_idle, self._is_list_idle = self._is_list_idle, reading.is_gap
        if reading.is_gap and not was_idle:
            reading = Reading(None)  # it may only pause
        self._also = reading.also
        current = self.spans[-1] if self.spans else None
        if current is None or (reading.phase, reading.method) != (current.phase, current.method):
            if current is not None:
                self.spans[-1] = replace(current, ended=max(read, current.began))
            self.spans.append(PhaseSpan(self.key, reading.phase, read, method=reading.method))

    def follow_to_end(self, job: Job | None, snapshot: Snapshot) -> None:
        """Take over the last titles of a job that has ended: they may come after Ray says that it has. `None`: Ray lists it no longer."""
        is_recent = job is not None and job.ended is not None and snapshot.taken - job.ended < LAST_TITLES_S
        if job is not None and is_recent and self._titles and self._listed is None and not self.has_ended:
            self.observe(job, workers_of(job, snapshot), snapshot)
        if not (is_recent and self._titles):
            self.finish()

    def finish(self) -> None:
        """End the phases of a job that has ended. Its last phase ended when its workers were last seen in it."""
        if not self.has_ended and self.spans:
            moment = self._gap_since or max(self._seen.values(), default=self._listed or self.spans[-1].began)
            self.spans[-1] = replace(self.spans[-1], ended=max(moment, self.spans[-1].began))
            self._end_span(self.spans[-1])
        self.has_ended = True

    def _break_off(self, moment: float) -> None:
        """Nobody saw the job from this moment on: its phase and step end there, and no phase is known until it is seen again."""
        if self.spans and (self.spans[-1].phase is not None or self.spans[-1].method is not None):
            self.spans[-1] = replace(self.spans[-1], ended=max(moment, self.spans[-1].began))
            self.spans.append(PhaseSpan(self.key, None, self.spans[-1].ended or moment))
        for kept in (self._titles, self._since, self._before, self._seen, self._running, self._last):
            kept.clear()
        self._mark_of_span, self._also = 0, ()
        self._gap_since = self._step_began = self._after_training = None
        self._has_trained = self._is_from_start = False

    def _find_framework(self, titles: Iterable[Title]) -> None:
        """The framework of most workers whose titles show phases; other classes, such as a buffer, may have the names of another one."""
        if self._is_framework_sure:
            return
        classes = [title.class_ for title in titles]
        sure = Counter(name for class_ in classes if shows_phases(class_) and (name := framework_of(class_)))
        self._is_framework_sure = bool(sure)
        found = sure or Counter(name for class_ in classes if (name := framework_of(class_)))
        self._framework = max(found, key=lambda name: found[name], default=self._framework)

    def _find_changes(self, workers: Sequence[tuple[Process, Title]], seen: Mapping[str, float], snapshot: Snapshot) -> list[Change]:
        """The changes of titles since the last snapshot. `seen`: by host of a worker, when its titles were read."""
        changes: list[Change] = []
        living = {process.key for process, _ in workers}
        self._find_framework(title for _, title in workers)
        self._with_gpu = {process.key for process, _ in workers if process.gpus}
        for process, title in workers:
            key, taken = process.key, seen[process.host]
            if self._seen.get(process.host) == taken and key in self._titles:
                continue  # these titles were taken over with an earlier snapshot
            for moment, command in process.titles:
                between = read_title(command, title.class_)
                if between is not None:
                    changes.append(Change(moment, key, between))
            last = read_title(process.titles[-1][1], title.class_) if process.titles else self._titles.get(key)
            if last != title:
                changes.append(Change(taken, key, title))
        self._seen = {process.host: seen[process.host] for process, _ in workers}
        for key in self._titles.keys() - living:
            for moment, command in snapshot.index.last_titles.get(key, ()):
                changes.append(Change(moment, key, read_title(command, self._titles[key].class_)))
            changes.append(Change(snapshot.taken, key, None))
        return changes

    def _apply(self, change: Change) -> None:
        before = self._titles.get(change.worker)
        if change.title == before:
            return
        if before is not None:
            self._running[before] -= 1
            if self._running[before] <= 0:
                del self._running[before]
                self._last[before] = change.moment
        if change.title is None:
            for kept in (self._titles, self._since, self._before):
                kept.pop(change.worker, None)
            return
        if before is not None:
            self._before[change.worker] = before
        self._titles[change.worker] = change.title
        self._since[change.worker] = change.moment
        self._running[change.title] += 1

    def _read(self, moment: float, evidence: _Evidence) -> Reading:
        """What the job does, by the titles of its workers. If all titles are idle, engines and GPUs decide."""
        self._last = {title: last for title, last in self._last.items() if moment - last <= RECENT_S}
        rows: list[Method] = []
        loads_trainers = resumes = False
        unknown: Counter[str] = Counter()
        recent: list[Method] = []
        for title, count in [*self._running.items(), *((title, 0) for title in self._last if title not in self._running)]:
            row = find_method(title.class_, title.method) if title.method else None
            is_loading = (row is not None and row.phase == "loading") or title.method == "__init__"
            loads_trainers |= bool(count) and is_loading and ends_steps(title.class_)
            resumes |= bool(count) and title.method.endswith(RESUMES)
            if row is not None and count:
                rows.append(row)
            elif row is not None and row.kind == "overlapping":
                recent.append(row)
            elif row is None and title.method == "__init__" and count and not self._has_worked:
                rows.append(_CONSTRUCTOR)
            elif row is None and title.method and title.method != "__init__" and count:
                unknown[title.text] += count
        if any(row.needs_gpu for row in rows) and evidence.are_gpus_busy is False:
            rows = [row for row in rows if not row.needs_gpu]
        phases = [row.phase for row in rows if row.kind != "helper" and row.phase is not None]
        helpers = [row.phase for row in rows if row.kind == "helper" and row.phase is not None]
        calls = [row.phase for row in recent if row.phase is not None]
        found = next((some for names in (phases, calls, helpers) if (some := [phase for phase in _ORDER if phase in names])), [])
        if found:
            mark = max(row.mark for row in (*rows, *recent) if row.phase == found[0])
            return Reading(found[0], tuple(found[1:]), None, mark, loads_trainers=loads_trainers, resumes=resumes)
        if unknown and not any(row.kind == "brief" for row in rows):
            return Reading(None, (), max(unknown, key=lambda name: unknown[name]))
        may_train = self._is_method_hidden or any(title.class_ in MAY_TRAIN_IDLE for title in self._running)
        if evidence.are_gpus_busy:
            has_engine = evidence.has_engine_process or any(title.class_ in ENGINE_CLASSES for title in self._running)
            does_generate = evidence.do_only_engines_work if may_train else has_engine and evidence.do_engines_work
            return Reading("rollout" if does_generate else None, is_gap=True)
        is_idle = evidence.are_gpus_busy is False or all(not title.class_ or is_known_sync(title.class_) for title in self._running)
        is_seen = bool(self._titles) and not self._is_partly_unseen and not self._is_method_hidden
        return Reading("waiting" if is_idle and is_seen else None, is_gap=True)

    @property
    def _is_method_hidden(self) -> bool:
        """Whether a worker with a GPU runs a method that hides what it does: it may train."""
        hidden = {
            title
            for title in self._running
            if title.method and title.class_ not in ENGINE_CLASSES
            if (row := find_method(title.class_, title.method)) is not None and row.kind == "whole"
        }
        return bool(hidden) and any(self._titles.get(worker) in hidden for worker in self._with_gpu)

    @property
    def _has_worked(self) -> bool:
        return any(span.phase not in (None, "loading", "waiting") for span in self.spans)

    def _advance(self, moment: float, reading: Reading) -> None:
        """Continue the present span, or begin a new one."""
        if reading.loads_trainers:
            # Trainers that start again begin where their last checkpoint was, and only the log has that number.
            self._is_from_start = not self._steps_seen and not self._has_trained
        if reading.resumes:
            self._is_from_start = False
        current = self.spans[-1] if self.spans else None
        if current is not None and (reading.phase, reading.method) == (current.phase, current.method):
            self._gap_since = None
            self._mark_of_span = max(self._mark_of_span, reading.mark)
            self._also = reading.also
            return
        began = moment
        if reading.is_gap and current is None:
            reading = Reading(None)  # it may only pause
        if reading.is_gap and current is not None:
            self._gap_since = moment if self._gap_since is None else self._gap_since
            if moment - self._gap_since < GAP_S:
                return
            began = self._gap_since
        self._gap_since = None
        if current is not None:
            self.spans[-1] = replace(current, ended=max(began, current.began))
            self._end_span(self.spans[-1])
        self.spans.append(PhaseSpan(self.key, reading.phase, began, method=reading.method))
        self._mark_of_span, self._also = reading.mark, reading.also
        self._begin_span(self.spans[-1])

    def _begin_span(self, span: PhaseSpan) -> None:
        if span.phase in ("rollout", "scoring"):
            if self._step_began is None and self._is_from_start:
                self._step_began = span.began
            if self._has_trained and self._after_training is None:
                self._after_training = span.began
        if span.phase == "training":
            if self._has_trained and self._after_training is not None and self._best_mark > 1:
                self._end_step(self._after_training)  # the call that ends a step was too short to be seen
            self._has_trained, self._after_training = True, None

    def _end_span(self, span: PhaseSpan) -> None:
        mark, ended = self._mark_of_span, span.ended or span.began
        if mark == 0 or mark < self._best_mark:
            return
        is_better = mark > self._best_mark > 0
        self._best_mark = mark
        if self._has_trained:
            self._end_step(ended)
        elif is_better and self._step_began is not None and not (self._is_from_start and self._steps_seen == 0):
            # The last step went on until now: the method that had ended it was only a part of it.
            self._step_began = ended
            if self.steps:
                self.steps[-1] = replace(self.steps[-1], ended=ended)

    def _end_step(self, moment: float) -> None:
        self._has_trained, self._after_training = False, None
        if self._step_began is not None:
            self._steps_seen += 1
            number = self._steps_seen if self._is_from_start else None
            parts = {span.phase for span in self.spans if span.began < moment and (span.ended or moment) > self._step_began}
            is_longer = not parts.isdisjoint({"checkpoint", "evaluation"})
            self.steps.append(Step(self.key, self._step_began, moment, number, is_longer))
        self._step_began = moment

    def activity(self, snapshot: Snapshot) -> Activity:
        """What the job does now. If no worker was seen lately, the phase is unknown."""
        span = self.spans[-1] if self.spans else None
        seen = max(self._seen.values(), default=self._listed)
        is_old = span is None or seen is None or snapshot.taken - seen > (LISTED_STALE_S if self._listed else STALE_AFTER_S)
        now = Activity(
            self.key,
            phase=span.phase if span is not None and not is_old else None,
            also=() if is_old else self._also,
            method=span.method if span is not None and not is_old else None,
            since=span.began if span is not None else None,
            framework=self._framework,
            step=self._steps_seen + 1 if self._is_from_start and self._step_began is not None else None,
            step_began=self._step_began,
            steps_seen=self._steps_seen,
            listed=None if is_old else self._listed,
            laggards=() if is_old or self._listed else tuple(self._find_laggards(seen or snapshot.taken)),
        )
        return self._add_log(now)

    def _add_log(self, now: Activity) -> Activity:
        """Add the numbers of the log to the activity, and the phase of the log if the titles hide it."""
        pace, log = self._pace, self._pace.log
        if pace.disagrees:
            now = replace(now, step=None, step_began=None, steps_disagree=True)
        if (running := pace.running(self._steps_seen)) is not None:
            now = replace(now, step=running)
        if log is None:
            return now
        left = None if log.left is None else max(0, log.left - ((running or log.running) - log.running))
        now = replace(now, framework=now.framework or log.framework, total_steps=log.total, steps_left=left, log=replace(log, ended=()))
        if pace.disagrees or not self.steps:
            last = log.ended[-1] if log.ended else None
            began = last.ended if last is not None and last.number == log.running - 1 else None
            now = replace(now, steps_seen=pace.printed_since, step_began=now.step_began or began)
        is_hidden = now.phase is None or any(row.hides for title in self._running if (row := find_method(title.class_, title.method)))
        is_hidden = is_hidden or (now.phase == "rollout" and log.phase == "evaluation")
        is_of_it = now.phase is None or (log.phase_seen or 0.0) >= (now.since or 0.0) - LOG_LAG_S
        if log.phase is not None and is_hidden and is_of_it:
            now = replace(now, phase=log.phase, method=None, since=log.phase_seen, is_phase_logged=True)
        return now

    def _find_laggards(self, now: float) -> Iterable[Laggard]:
        """Workers that still run a method with a phase ten seconds after the others of their class have ended it."""
        by_class: dict[str, list[str]] = {}
        for worker, title in self._titles.items():
            if title.class_:
                by_class.setdefault(title.class_, []).append(worker)
        for class_, members in by_class.items():
            if len(members) < 2 or class_ in ENGINE_CLASSES:
                continue
            counts = Counter(self._titles[worker] for worker in members)
            for title, count in counts.items():
                row = find_method(title.class_, title.method) if title.method else None
                # Other workers of the class may never run this method: a critic's, or that of rank 0 alone.
                ended = [worker for worker in members if self._titles[worker] != title and self._before.get(worker) == title]
                if row is None or row.kind != "work" or not ended or count > max(1, (count + len(ended)) // LAGGARD_SHARE):
                    continue
                since = max(self._since[worker] for worker in ended)
                if now - since >= LAGGARD_AFTER_S:
                    for worker in members:
                        if self._titles[worker] == title:
                            yield Laggard(worker, title.text, since, len(ended))


_CONSTRUCTOR: Final = Method("Ray", "*", "__init__", "loading", "ray _private/worker.py: the title of a constructor")


class _Evidence:
    """What the GPUs and engines of a job show at one time."""

    def __init__(self, job: Job, snapshot: Snapshot) -> None:
        self._index, self._job = snapshot.index, job.job or job.id

    @cached_property
    def _rates(self) -> Mapping[GpuPlace, float | None]:
        """The utilization of each GPU that the job holds; `None`: unknown."""
        use = self._index.gpus_by_job.get(self._job)
        rates: dict[GpuPlace, float | None] = dict.fromkeys(use.places if use is not None else ())
        for key in {key for key, _ in rates}:
            node = self._index.nodes_by_key.get(key)
            for gpu in (self._index.machine(node).current_gpus if node is not None else None) or ():
                if (key, gpu.index) in rates:
                    rates[key, gpu.index] = gpu.utilization
        return rates

    @cached_property
    def _engines(self) -> Sequence[Process]:
        """The processes of engines: their actors, and processes that engines have started."""
        actors = self._index.actors
        return [
            process
            for process in self._index.processes_by_job.get(self._job, ())
            if is_engine(process) or ((actor := actors.get(process.actor or "")) is not None and actor.class_ in ENGINE_CLASSES)
        ]

    @cached_property
    def are_gpus_busy(self) -> bool | None:
        """Whether a GPU of the job works; `None`: unknown, or the job holds no GPU."""
        rates = self._rates.values()
        if any((rate or 0.0) > BUSY_PERCENT for rate in rates):
            return True
        return False if rates and None not in rates else None

    @property
    def do_only_engines_work(self) -> bool:
        """Whether GPUs work that only engines hold, and no others."""
        engines = {(self._index.place_of(process), hold.index) for process in self._engines for hold in process.gpus}
        own = {process.key for process in self._engines}
        others = [process for process in self._index.processes_by_job.get(self._job, ()) if process.key not in own]
        shared = engines & {(self._index.place_of(process), hold.index) for process in others for hold in process.gpus}
        busy = {place for place, rate in self._rates.items() if (rate or 0.0) > BUSY_PERCENT}
        return bool(busy) and not shared and busy <= engines

    @property
    def has_engine_process(self) -> bool:
        """Whether the job has an inference engine."""
        return bool(self._engines)

    @cached_property
    def do_engines_work(self) -> bool:
        """Whether a GPU of an engine works. An engine without a GPU of its own uses those of the trainers."""
        places = {(self._index.place_of(process), hold.index) for process in self._engines for hold in process.gpus} or set(self._rates)
        return any((self._rates.get(place) or 0.0) > BUSY_PERCENT for place in places)
