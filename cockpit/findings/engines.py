"""Detects inference engines (vLLM, SGLang) that hold up their job: dead, silent, stuck, without work, or with a full KV cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from cockpit.findings.facts import Facts
from cockpit.findings.sources import rests_on
from cockpit.model import ENGINE_FRESH_S, Engine, Finding, Job, Level, Remedy
from cockpit.text import age, clean, plural, share_percent
from cockpit.text.grouping import group_by

MAX_NAMED = 3
MAX_MODEL = 60
"""Characters of the name of a model."""
FULL_CLEAR = 0.9
"""A KV cache no longer counts as full below this share in use."""
BY_PROCESS = {"vllm": "VLLM::EngineCore", "sglang": "sglang::scheduler"}


@rests_on("ray.engines", "ray.jobs")
def dead_engines(facts: Facts) -> Iterator[Finding]:
    """Engines whose processes have ended, although the process of their actor still runs.

    A job may have stopped all its engines on purpose. It needs them if other engines still run, or if requests were running or waiting.
    """
    for job, engines in _by_job(facts):
        dead = [
            engine
            for engine in engines
            if engine.actor
            and engine.ended is not None
            and (_silent_since(facts, [engine]) or facts.now) - engine.ended >= facts.limits.engine_dead_age
        ]
        if not dead:
            continue
        since = min(engine.ended for engine in dead if engine.ended is not None)
        is_needed = any(engine.ended is None for engine in engines) or any(engine.running or engine.waiting for engine in dead)
        its = "the process of its actor still runs" if len(dead) == 1 else "the processes of their actors still run"
        follows = "no request to it is answered" if len(dead) == 1 else "no request to them is answered"
        follows = follows if is_needed else f"unless the job has stopped {'it' if len(dead) == 1 else 'them'}, {follows}"
        text = f"{_name(facts, dead)} of job {job.id} ended {age(facts.now - since)} ago, although {its}: {follows}"
        evidence = [
            f"{_place(facts, engine)}: pid {engine.pid} has no {BY_PROCESS.get(engine.software, 'engine')} below it any more"
            + (f"; its last numbers: {numbers}" if (numbers := _numbers(engine)) else "")
            for engine in dead
        ]
        remedy = "the log of that actor says why it ended; stop the job, and start it again from its last checkpoint"
        level: Level = "critical" if is_needed else "warning"
        seen = _silent_since(facts, dead)
        yield _finding(job, "engine-dead", level, text, evidence, remedy, dead, since, seen)


@rests_on("ray.engines", "ray.jobs")
def silent_engines(facts: Facts) -> Iterator[Finding]:
    """Engines whose server has answered before and does not answer now, although its process runs."""
    for job, engines in _by_job(facts):
        silent = [
            engine
            for engine in engines
            if engine.by == "server"
            and engine.ended is None
            and engine.unanswered is not None
            and (_silent_since(facts, [engine]) or facts.now) - engine.unanswered >= facts.limits.engine_silent_age
        ]
        if not silent:
            continue
        since = min(engine.unanswered for engine in silent if engine.unanswered is not None)
        seen = _silent_since(facts, silent)
        has = "has" if len(silent) == 1 else "have"
        text = (
            f"{_name(facts, silent)} of job {job.id} {has} not answered for {age((seen or facts.now) - since)}, although its process runs: "
            "its rollouts probably hang"
        )
        evidence = [f"GET /metrics at port {engine.port} of {_place(facts, engine)}: {clean(engine.why or '')[:200]}" for engine in silent]
        remedy = "its stack shows where it waits, and the end of its log why; if it does not come back, stop the job"
        yield _finding(job, "engine-silent", "warning", text, evidence, remedy, silent, since, seen)


@rests_on("ray.engines", "ray.jobs")
def stuck_engines(facts: Facts) -> Iterator[Finding]:
    """Engines that have running requests and have generated nothing for minutes."""
    for job, engines in _by_job(facts):
        stuck = [
            (seconds, engine)
            for engine in engines
            if _is_judged(engine, facts)
            and engine.running
            and engine.tokens_per_second == 0
            and (seconds := facts.seconds_lasting("engine generates nothing", engine.key)) >= facts.limits.engine_stuck_age
        ]
        if not stuck or facts.is_single_sample:
            continue
        lasted, named = max(seconds for seconds, _ in stuck), [engine for _, engine in stuck]
        has, running = "has" if len(named) == 1 else "have", sum(engine.running or 0 for engine in named)
        text = (
            f"{_name(facts, named)} of job {job.id} {has} generated no token for {age(lasted)}, with {plural(running, 'running request')}"
        )
        evidence = [f"{_place(facts, engine)}: {_numbers(engine)}" for engine in named]
        remedy = (
            "if the job is updating weights, it goes on by itself; otherwise the stacks of its processes show where it hangs, "
            "often in a collective of its tensor-parallel ranks"
        )
        yield _finding(job, "engine-stuck", "warning", text, evidence, remedy, named, facts.now - lasted)


@rests_on("ray.engines", "ray.jobs")
def idle_engines(facts: Facts) -> Iterator[Finding]:
    """Engines without work for minutes, while requests for the same model wait at other engines of the job."""
    if facts.is_single_sample:
        return
    for job, engines in _by_job(facts):
        for model, alike in group_by(engines, lambda engine: (engine.software, engine.model)).items():
            known = [engine for engine in alike if _is_judged(engine, facts)]
            waiting = sum(engine.waiting or 0 for engine in known)
            if waiting < facts.limits.engine_idle_queue:
                continue
            idle = [
                (seconds, engine)
                for engine in known
                if _is_idle(engine)
                and (seconds := facts.seconds_lasting("engine idle while others queue", engine.key)) >= facts.limits.engine_idle_age
            ]
            if not idle:
                continue
            lasted, named = max(seconds for seconds, _ in idle), [engine for _, engine in idle]
            has = "has" if len(named) == 1 else "have"
            what = f" for {clean(model[1])[:MAX_MODEL]}" if model[1] else ""
            text = (
                f"{_name(facts, named)} of job {job.id} {has} had no work for {age(lasted)}, while {plural(waiting, 'request')}{what} "
                f"{'waits' if waiting == 1 else 'wait'} at other engines"
            )
            busy = sorted((engine for engine in known if engine.waiting), key=lambda engine: -(engine.waiting or 0))
            evidence = [f"{_place(facts, engine)}: {_numbers(engine)}" for engine in (*named[:MAX_NAMED], *busy[:MAX_NAMED])]
            remedy = (
                "requests are spread unevenly: see how the job's router or its rollout workers choose an engine "
                "(by session, by prefix, by number), and whether this engine is on their list"
            )
            yield _finding(job, "engine-idle", "info", text, evidence, remedy, named, facts.now - lasted)


@rests_on("ray.engines", "ray.jobs")
def full_caches(facts: Facts) -> Iterator[Finding]:
    """Engines whose KV cache has been full for minutes, so that requests are preempted and computed again."""
    for job, engines in _by_job(facts):
        mark = FULL_CLEAR if facts.was_found("engine-cache-full", job.id) else facts.limits.engine_cache
        full = [
            (seconds, engine)
            for engine in engines
            if _is_judged(engine, facts)
            and engine.kv_cache is not None
            and engine.kv_cache >= mark
            and engine.preemptions_per_minute is not None
            and isfinite(engine.preemptions_per_minute)
            and engine.preemptions_per_minute >= 1
            and (seconds := facts.seconds_lasting("KV cache full", engine.key)) >= facts.limits.engine_cache_age
        ]
        if not full or facts.is_single_sample:
            continue
        lasted, named = max(seconds for seconds, _ in full), [engine for _, engine in full]
        rate = sum(engine.preemptions_per_minute or 0 for engine in named)
        whose = "The KV cache" if len(named) == 1 else "The KV caches"
        verb = "has" if len(named) == 1 else "have"
        text = (
            f"{whose} of {_name(facts, named)} of job {job.id} {verb} been full for {age(lasted)}, and {rate:.0f} requests a "
            "minute are preempted: what they have generated is computed again"
        )
        evidence = [f"{_place(facts, engine)}: {_numbers(engine)}" for engine in named]
        remedy = (
            "give each engine fewer requests at once (max_num_seqs) or shorter ones (max_model_len), or more memory for its cache "
            "(gpu_memory_utilization, a larger tensor-parallel size)"
        )
        yield _finding(job, "engine-cache-full", "warning", text, evidence, remedy, named, facts.now - lasted)


def _by_job(facts: Facts) -> Iterator[tuple[Job, list[Engine]]]:
    """Each running job with its engines."""
    for job_id, engines in group_by(facts.snapshot.engines or (), lambda engine: engine.job or "").items():
        job = facts.index.jobs.get(job_id)
        if job is not None and job.running:
            yield job, engines


def _is_judged(engine: Engine, facts: Facts) -> bool:
    """Whether the numbers of the engine are fresh enough to judge them."""
    return engine.read is not None and facts.now - engine.read <= ENGINE_FRESH_S and engine.unanswered is None and engine.ended is None


def _silent_since(facts: Facts, engines: Sequence[Engine]) -> float | None:
    """When the host of the engines was last seen; `None`: it is seen now. Later, nobody sees their processes or asks their servers."""
    nodes = [node for engine in engines if (node := facts.index.nodes.get(engine.node or "")) is not None]
    hosts = [host for node in nodes if (host := facts.index.host_of(node)) is not None]
    return min((since for host in hosts if (since := facts.stale_since(host.name)) is not None), default=None)


def _is_idle(engine: Engine) -> bool:
    """Whether the engine has no requests. Through Ray, an engine without work reports only its old counters."""
    if engine.running is None and engine.waiting is None:
        return engine.tokens_per_second == 0
    return engine.running == 0 and engine.waiting == 0


def _numbers(engine: Engine) -> str:
    """`4 running, 8 waiting, KV cache 97%, 0 tokens/s, 12 preemptions/min`, without unknown numbers."""
    known = []
    if engine.running is not None:
        known.append(f"{engine.running} running")
    if engine.waiting is not None:
        known.append(f"{engine.waiting} waiting")
    if engine.kv_cache is not None:
        known.append(f"KV cache {share_percent(engine.kv_cache)}")
    if engine.tokens_per_second is not None:
        known.append(f"{engine.tokens_per_second:.0f} tokens/s")
    if engine.preemptions_per_minute is not None:
        known.append(f"{engine.preemptions_per_minute:.0f} preemptions/min")
    return ", ".join(known)


def _place(facts: Facts, engine: Engine) -> str:
    return f"{engine.title} on {facts.titles.of_host(engine.node or '') or '?'}"


def _name(facts: Facts, engines: Sequence[Engine]) -> str:
    """`vLLM (pid 4711) on w1`, or `3 engines (vLLM (pid 4711) on w1, …)`."""
    names = [_place(facts, engine) for engine in engines]
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return names[0] if len(names) == 1 else f"{len(names)} engines ({', '.join(names[:MAX_NAMED])}{more})"


def _finding(
    job: Job,
    code: str,
    level: Level,
    text: str,
    evidence: Sequence[str],
    remedy: str,
    engines: Sequence[Engine],
    since: float,
    seen: float | None = None,
) -> Finding:
    about = (job.key, *dict.fromkeys(f"actor:{engine.actor}" for engine in engines if engine.actor))
    return Finding(code, level, job.id, text, tuple(evidence[: 2 * MAX_NAMED]), since, Remedy(remedy, "stop-job"), about, seen)
