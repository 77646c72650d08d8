"""`python -m tests.lab.healthy --minutes 10`: watches a healthy run on a real Ray and expects no finding above info.

Two jobs follow each other. Each holds memory for a minute and a half while its GPUs are at 0 %, then works, saves checkpoints, and ends.
Prints each finding of `cockpit status --json --watch` with its first and last time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import NamedTuple

from cockpit.model import LEVELS, Level
from tests.lab import hosts
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Host, Lab
from tests.lab.observe import COCKPIT, Facts, write_config

RAY = Path(sys.executable).with_name("ray")
EVERY = 1.0
"""Seconds between two samples."""
GPUS = 12
LOADING, STARTING, PAUSE = 90, 30, 30
"""Seconds: memory is held without work; driver and actors start; nothing runs at the end."""
TRAIN = """
import os, pathlib, ray, sys, time
import nvml
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In

GIB = 1 << 30
STEP, STEPS_A_CHECKPOINT = 5.0, 8
GPUS, LOADING, SECONDS = map(int, sys.argv[1:])
STATE = pathlib.Path(os.environ.get(nvml.STATE, ""))

class Rank:
    def __init__(self):
        self.gpu = os.environ["CUDA_VISIBLE_DEVICES"]

    def hold(self, gigabytes, busy):
        nvml.hold(STATE, os.getpid(), [self.gpu], int(gigabytes * GIB), busy=busy)

    def load(self):
        for part in range(1, 7):
            self.hold(10 * part, 0)
            time.sleep(LOADING / 6)

    def train(self):
        self.hold(62, 92)
        time.sleep(STEP)

    def save(self):
        self.hold(60, 0)
        pathlib.Path(f"/tmp/checkpoint-{self.gpu}").write_bytes(bytes(32 << 20))
        time.sleep(3 * STEP)

def main():
    ray.init(address="auto", log_to_driver=False)
    group = placement_group([{"GPU": 1, "CPU": 1}] * GPUS, strategy="PACK", name="ranks")
    ray.get(group.ready())
    ranks = [
        ray.remote(Rank).options(num_cpus=1, num_gpus=1, name=f"rank-{n}", scheduling_strategy=In(group, n)).remote() for n in range(GPUS)
    ]
    ray.get([rank.load.remote() for rank in ranks])
    step, end = 0, time.time() + SECONDS
    while time.time() < end:
        step += 1
        ray.get([rank.train.remote() for rank in ranks])
        print(f"step {step}", flush=True)
        if step % STEPS_A_CHECKPOINT == 0:
            ray.get([rank.save.remote() for rank in ranks])
            print("saved", flush=True)

main()
"""


class Seen(NamedTuple):
    """A finding with its first and last time, in seconds of the run, and its most severe text."""

    level: Level
    first: float
    last: float
    text: str


class Watch:
    """Collects all findings of `cockpit status --json --watch` on a host until the host is gone."""

    def __init__(self, host: Host) -> None:
        self.found: dict[tuple[str, str], Seen] = {}
        self.looks = self.loading = self.working = 0
        line = f"{COCKPIT} status --json --watch --interval {EVERY}"
        self._printed = subprocess.Popen(["ssh", "-F", host.ssh_config, host.name, line], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self._began = time.monotonic()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._printed.stdout or ():
            facts: Facts = json.loads(line)
            self._count(facts)
            now = time.monotonic() - self._began
            for each in facts["findings"]:
                key = (each["code"], each["subject"])
                self.found[key] = merge(self.found.get(key), each, now)

    def _count(self, facts: Facts) -> None:
        """Counts the samples in which all GPUs of the job hold memory, idle or busy."""
        gpus = [gpu for node in facts["nodes"] or () for gpu in node["gpus"] or () if (gpu["memory_used"] or 0) > 8 << 30]
        self.looks += 1
        self.loading += len(gpus) == GPUS and not any(gpu["utilization"] for gpu in gpus)
        self.working += len(gpus) == GPUS and all((gpu["utilization"] or 0) > 50 for gpu in gpus)

    def end(self) -> None:
        """Stops watching."""
        self._printed.terminate()
        self._printed.wait(60)
        self._reader.join(10)


def merge(before: Seen | None, finding: Facts, now: float) -> Seen:
    """Merges a finding with its earlier observation."""
    level: Level = finding["level"]
    if before is None:
        print(f"{now:5.0f} s  {level}: {finding['text']}", flush=True)
        return Seen(level, now, now, finding["text"])
    worse = LEVELS.index(level) < LEVELS.index(before.level)
    return before._replace(last=now, **({"level": level, "text": finding["text"]} if worse else {}))


def run(cluster: Cluster, seconds: float) -> None:
    """Runs two jobs one after the other, then pauses."""
    end = time.monotonic() + seconds
    cluster.start()
    (cluster.head.tmp / "jobs" / "train.py").write_text(TRAIN)
    for name, jobs in (("run-1", 2), ("run-2", 1)):
        work = (end - time.monotonic() - PAUSE) / jobs - LOADING - STARTING
        cluster.submit(name, f"python train.py {GPUS} {LOADING} {max(STARTING, work):.0f}")
        print(f"{name} is submitted, {end - time.monotonic():.0f} s before the end", flush=True)
        eventually(lambda name=name: cluster.job(name) not in ("PENDING", "RUNNING"), within=seconds + 300, every=1)
        if (status := cluster.job(name)) != "SUCCEEDED":
            sys.exit(f"{name} is {status}: {cluster.http.get(f'/api/jobs/{name}').json()['message']}")
    time.sleep(max(0.0, end - time.monotonic()))


def main() -> None:
    """Runs and watches the jobs; exits with 1 if something above info was found."""
    flags = ArgumentParser(description=__doc__)
    flags.add_argument("--minutes", type=float, default=10.0)
    minutes = flags.parse_args().minutes
    if reason := hosts.why_not():
        sys.exit(reason)
    hosts.sweep()
    lab = Lab(f"q{os.getpid() % 100000}", ["head", "w1"], {"PATH": f"{RAY.parent}:{os.environ['PATH']}"})
    try:
        write_config(lab)
        watch = Watch(lab["head"])
        run(Cluster(lab, ["head", "w1"], RAY), 60 * minutes)
        watch.end()
    finally:
        lab.close()
    for (code, subject), seen in watch.found.items():
        print(f"{seen.level:8} {code} of {subject}, {seen.first:.0f} s - {seen.last:.0f} s: {seen.text}")
    bad = [seen for seen in watch.found.values() if seen.level != "info"]
    print(f"{minutes:g} minutes, {watch.looks} looks, {watch.loading} at GPUs that load, {watch.working} at GPUs that work:", end=" ")
    print(f"{len(watch.found)} findings, {len(bad)} of them above info")
    sys.exit(bool(bad) or not watch.loading or not watch.working)


if __name__ == "__main__":
    main()
