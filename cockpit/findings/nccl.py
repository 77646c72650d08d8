"""Writes NCCL's report about a job in sentences, and compares it with other facts about the job (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from cockpit.model import MAX_COMMUNICATORS, Communicator, CountGap, Gpu, Job, NcclRank, NcclReport, Process, Snapshot
from cockpit.model.titles import whole_name
from cockpit.text import age, clean, join_first, percent, plural

MAX_NAMED = 4
"""A sentence names so many ranks at most."""
MAX_SENTENCES = 6
"""A finding has so many sentences of a report at most."""
MAX_QUIET = 8
"""So many communicators without a difference are listed; the others are counted."""
COUNTS_ONLY_WHERE_DIFFERENT = (
    "This NCCL reports as text, which has counts only where ranks differ: whether the others move on can't be seen."
)
WHAT_IS_COUNTED = (
    "A count rises when the host launches a collective, not when the GPU has finished it. Send, Recv, AlltoAll and what runs in CUDA "
    "graphs are not counted. While a job works, a short difference is normal: ask again. Counts that stand still are a hang or an idle "
    "group."
)


def find_report(job: Job, snapshot: Snapshot) -> NcclReport | None:
    """The last report about the job; `None`: NCCL was not asked."""
    return next((report for report in snapshot.nccl if report.job == job.key), None)


class NcclWords:
    """Writes the sentences about one report. The caller must clean them before it shows them."""

    def __init__(self, report: NcclReport, snapshot: Snapshot) -> None:
        self.report, self._snapshot = report, snapshot
        self._processes = {process.key: process for process in snapshot.processes or ()}

    def heading(self, now: float) -> str:
        """`NCCL 2.29.7, asked 3s ago: 5 communicators`."""
        report = self.report
        version = f" {', '.join(report.versions)}" if report.versions else ""
        said = plural(report.number, "communicator") if report.versions else "no report"
        timeouts = f", {plural(report.timeouts, 'timeout')} while its processes asked each other" if report.timeouts else ""
        return f"NCCL{version}, asked {age(max(0.0, now - report.asked))} ago: {said}{timeouts}"

    def sentences(self) -> Iterator[str]:
        """Sentences on differences and troubles; differences of counts come first."""
        for one in self.report.communicators:
            yield from (sentence for gap in one.gaps for sentence in self._gap_sentences(gap))
        for one in self.report.communicators:
            yield from (f"{self._subject(trouble.ranks, trouble.number)}: {trouble.what}" for trouble in one.troubles)
        yield from self.report.troubles

    def sentences_on(self, one: Communicator) -> Iterator[str]:
        """Sentences on the differences and troubles of one communicator."""
        yield from (sentence for gap in one.gaps for sentence in self._gap_sentences(gap))
        yield from (f"{self._subject(trouble.ranks, trouble.number)}: {trouble.what}" for trouble in one.troubles)

    def _gap_sentences(self, gap: CountGap) -> Iterator[str]:
        usual = max(gap.groups, key=lambda group: (group.number, group.launched))
        number = "the other rank" if usual.number == 1 else f"the {usual.number} others" if len(gap.groups) == 2 else "most ranks"
        for group in gap.groups:
            if group is not usual:
                is_behind, by = group.launched < usual.launched, abs(group.launched - usual.launched)
                verb, where = "is" if group.number == 1 else "are", "behind" if is_behind else "ahead of"
                counts = f"({group.launched:,} launched, not {usual.launched:,})"
                yield f"{self._subject(group.ranks, group.number)} {verb} {by:,} {gap.collective} {where} {number} {counts}"

    def _subject(self, ranks: Sequence[NcclRank], number: int) -> str:
        names = [self.name(rank) for rank in ranks[:MAX_NAMED]]
        if number <= len(names):
            return join_first(names, MAX_NAMED)
        return f"{plural(number, 'rank')}{f', among them {join_first(names, MAX_NAMED)}' if names else ''}"

    def name(self, rank: NcclRank) -> str:
        """`rank 3 (PolicyModelActor actor3, w1 GPU 3, pid 4003)`."""
        process = self._processes.get(rank.process or "")
        if process is None:
            known = [f"GPU {rank.gpu}" if rank.gpu is not None else "", f"pid {rank.pid}" if rank.pid else "", rank.address]
            words = ", ".join(filter(None, known))
            return f"rank {rank.rank} ({words})" if words else f"rank {rank.rank}"
        return f"rank {rank.rank} ({self._process_words(process)})"

    def _process_words(self, process: Process) -> str:
        index = self._snapshot.index
        actor = index.actors.get(process.actor or "")
        who = f"{actor.class_} {actor.name}".strip() if actor is not None else whole_name(process)
        gpus = f" GPU {','.join(str(hold.index) for hold in process.gpus)}" if process.gpus else ""
        node = index.nodes.get(process.node or "")
        place = index.titles.of_node(node) if node is not None else index.titles.of_host(process.host)
        return ", ".join(filter(None, (who, f"{place}{gpus}", f"pid {process.pid}")))

    # Comparison of NCCL with other sources

    @property
    def suspects(self) -> tuple[str, ...]:
        """The keys of the processes that are behind or ahead of most others by NCCL's counts, or that NCCL has trouble with."""
        found: list[str] = []
        for one in self.report.communicators:
            for gap in one.gaps:
                usual = max(gap.groups, key=lambda group: (group.number, group.launched))
                found += [rank.process for group in gap.groups if group is not usual for rank in group.ranks if rank.process]
            found += [rank.process for trouble in one.troubles for rank in trouble.ranks if rank.process]
        return tuple(dict.fromkeys(found))

    def disagreement(self, by_power: Collection[str]) -> str | None:
        """A sentence, if NCCL and the power of the GPUs point to different processes; `None`: they agree, or one names no process."""
        named = self.suspects
        if not named or not by_power or set(named) & set(by_power):
            return None
        by_nccl, powers = (join_first([self._words_of(key) for key in keys], MAX_NAMED) for keys in (named, by_power))
        return f"NCCL and power disagree: NCCL names {by_nccl}; by GPU power it is {powers}"

    def _words_of(self, key: str) -> str:
        process = self._processes.get(key)
        return self._process_words(process) if process is not None else "a process that has ended"

    def witnesses(self) -> Iterator[str]:
        """Lines on what NCCL, power, titles and stacks say."""
        suspects = self.suspects
        some = next(self.sentences(), None)
        yield f"NCCL    {some}" if some else f"NCCL    {'no difference between ranks' if self.report.versions else 'has given no report'}"
        by_power = tuple(key for finding in self._snapshot.findings if finding.code == "job-hung" and self.report.job in finding.about
                         for key in finding.about if key in self._processes)  # fmt: skip
        hung = f"different from the others: {join_first([self._words_of(key) for key in by_power], MAX_NAMED)}" if by_power else ""
        yield f"power   {hung or 'no GPU of the job is found to differ'}"
        for key in suspects[:MAX_NAMED]:
            if (process := self._processes.get(key)) is not None and (figures := self._gpu_figures(process)):
                yield f"        {self._process_words(process)}: {figures}"
        yield f"titles  {self._titles(suspects)}"
        yield "stacks  not read with it: s on the job reads them"
        if (doubt := self.disagreement(by_power)) is not None:
            yield doubt

    def _gpu_figures(self, process: Process) -> str:
        node = self._snapshot.index.nodes.get(process.node or "")
        gpus = (self._snapshot.index.machine(node).gpus if node is not None else None) or ()
        held = {hold.index for hold in process.gpus}
        return ", ".join(_figures(gpu) for gpu in gpus if gpu.index in held)

    def _titles(self, suspects: Collection[str]) -> str:
        """The titles of the processes that NCCL names, and the most frequent titles of the others: they show the running methods."""
        index, named_by_nccl = self._snapshot.index, set(suspects)
        of_job = (processes for job, processes in index.processes_by_job.items() if f"job:{index.job_title(job)}" == self.report.job)
        holders = (process for processes in of_job for process in processes if process.gpus)
        others = Counter(whole_name(process) for process in holders if process.key not in named_by_nccl)
        named = [f"{whole_name(self._processes[key])} (pid {self._processes[key].pid})" for key in suspects if key in self._processes]
        most = [f"{number} of the {'others' if named else 'ranks'} are {title}" for title, number in others.most_common(2) if title]
        return "; ".join([*named[:MAX_NAMED], *most]) or "unknown"


def _figures(gpu: Gpu) -> str:
    power = "" if gpu.power is None else f", {gpu.power:.0f} W"
    return f"GPU {gpu.label} at {percent(gpu.utilization)}{power}"


def evidence_lines(report: NcclReport, snapshot: Snapshot, by_power: Collection[str], now: float) -> list[str]:
    """Lines of evidence from NCCL's report, for a finding on a stuck job. `by_power`: the keys of processes whose GPU power differs."""
    words = NcclWords(report, snapshot)
    said = list(islice(words.sentences(), MAX_SENTENCES))
    lines = [f"NCCL's RAS, asked {age(max(0.0, now - report.asked))} ago: {sentence}" for sentence in said]
    if not said and report.versions:
        has_counts = any(one.counts is not None for one in report.communicators)
        lines = [f"{words.heading(now)}, no difference between ranks{'' if has_counts else '; it has no counts'}"]
    lines += [f"NCCL's RAS: {problem}" for problem in report.problems[:2]]
    still = [one.unchanged_since for one in report.communicators if one.gaps and one.unchanged_since is not None]
    if still:
        lines.append(f"NCCL's counts have not changed for {age(max(0.0, now - min(still)))}, in each report since")
    if (doubt := words.disagreement(by_power)) is not None:
        lines.append(doubt)
    return [clean(line) for line in lines]


def report_lines(report: NcclReport, snapshot: Snapshot, now: float) -> list[str]:
    """All lines of a report, for the screen and the command."""
    words = NcclWords(report, snapshot)
    communicators: list[str] = []
    different = [one for one in report.communicators if one.gaps or one.troubles]
    quiet = [one for one in report.communicators if not one.gaps and not one.troubles]
    listed = [*different, *quiet[:MAX_QUIET]]
    for one in listed:
        of = "" if one.size is None else f" of {plural(one.size, 'rank')}"
        answered = "" if one.answered in (None, one.size) else f", {one.answered} answered"
        communicators.append(f"Communicator {one.hash.partition(' ')[0]}{of}{answered}")
        communicators += [f"  {sentence}" for sentence in words.sentences_on(one)]
        if one.counts is not None:
            counts = ", ".join(f"{count:,} {name}" for name, count in one.counts.items() if count)
            communicators.append(f"  launched by each rank: {counts or 'nothing that is counted'}")
        if one.unchanged_since is not None:
            communicators.append(f"  no count has changed for {age(max(0.0, now - one.unchanged_since))}")
    if (number := report.number - len(listed)) > 0 and report.versions:
        more = plural(number, "more communicator" if listed else "communicator")
        if len(different) >= MAX_COMMUNICATORS:  # some of the others may differ too
            communicators.append(f"{more} {'is' if number == 1 else 'are'} not listed")
        else:
            communicators.append(f"{more} {'has' if number == 1 else 'have'} no difference")
    communicators += report.troubles

    witnesses = ["Who says what", *(f"  {line}" for line in words.witnesses())] if report.versions else []
    unknown = [f"  {problem}" for problem in report.problems]
    if report.not_covered:
        unknown.append(f"  {plural(report.not_covered, 'process', 'processes')} of the job with GPUs: no report is about them")
    is_text = all(one.counts is None for one in report.communicators)
    legend = [*([COUNTS_ONLY_WHERE_DIFFERENT] if is_text else []), WHAT_IS_COUNTED] if report.versions else []
    lines = [words.heading(now)]
    for section in (communicators, witnesses, ["Not known", *unknown] if unknown else [], legend):
        lines += ["", *section] if section else []
    return [clean(line) for line in lines]
