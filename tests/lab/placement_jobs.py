"""Jobs that ask a real Ray for resources, and what cockpit and Ray say of each while it waits."""

from __future__ import annotations

from typing import Any

from tests.lab.cluster import Cluster, eventually
from tests.lab.eyes import Facts, once

BEGIN = """
import pathlib, ray, sys, time
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as In
ray.init(address="auto", log_to_driver=False)

class Worker:
    def ready(self): return True

def named(name, **more):
    return ray.remote(type(name, (Worker,), {})).options(name=name, **more)

def wait(name):
    while not pathlib.Path(f"/tmp/{name}").exists(): time.sleep(0.1)
"""
END = "\ntime.sleep(10000)\n"


class PlacementJobs:
    """The jobs of a test, and what has come of what they asked for."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.told: list[Any] = []

    def run(self, job: str, script: str) -> None:
        """Submit a job."""
        file = self.cluster.head.tmp / "jobs" / f"{job}.py"
        file.write_text(BEGIN + script + END)
        self.cluster.submit(job, f"python {job}.py")

    def tell(self, what: str) -> None:
        """Let a job go on that waits for this."""
        file = self.cluster.head.tmp / what
        file.write_text("")
        self.told.append(file)

    def ray(self, kind: str) -> dict[str, dict[str, Any]]:
        """What Ray lists of it, by name; those that are no more left out."""
        rows = self.cluster.http.get(f"/api/v0/{kind}", params={"limit": 1000, "detail": 1}).json()["data"]["result"]["result"]
        return {row["name"]: row for row in rows if row["state"] not in ("DEAD", "REMOVED")}

    def state(self, kind: str, name: str) -> str | None:
        """What Ray has made of it."""
        row = self.ray(kind).get(name)
        return row["state"] if row else None

    def why(self) -> dict[str, str | None]:
        """Why each of them waits, as one `cockpit status --json` says."""
        _, facts, _ = once(self.cluster.head)
        return reasons(self, facts)

    def finding(self, code: str) -> str:
        """What one `cockpit status --json` finds of this."""
        _, facts, _ = once(self.cluster.head)
        return next((str(each["text"]) for each in facts["findings"] if each["code"] == code), "")

    def reason(self, name: str, *words: str) -> str:
        """The reason that has all these words in it, as soon as it is told."""
        told: list[str | None] = []

        def right() -> str | None:
            told.append(self.why().get(name))
            return told[-1] if told[-1] and all(map(told[-1].__contains__, words)) else None

        try:
            return eventually(right, within=120) or ""
        except AssertionError as error:
            raise AssertionError(f"of {name} is said: {list(dict.fromkeys(told))}") from error


def reasons(jobs: PlacementJobs, facts: Facts) -> dict[str, str | None]:
    """Why each actor and placement group waits, by name; an actor without one by its id."""
    names = {row["actor_id"]: name for name, row in jobs.ray("actors").items()}
    found = {names.get(actor["id"], actor["id"]): actor["why"] for actor in facts["actors"]["pending"]}
    return found | {group["name"]: group["why"] for group in facts["placement_groups"]}
