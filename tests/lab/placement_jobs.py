"""Jobs that ask a real Ray for resources, and what cockpit and Ray report about each while it waits."""

from __future__ import annotations

from typing import Any

from tests.lab.cluster import Cluster, eventually
from tests.lab.observe import Facts, once

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
    """The jobs of a test, and the state of their requests."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.signals: list[Any] = []

    def run(self, job: str, script: str) -> None:
        """Submit a job."""
        file = self.cluster.head.tmp / "jobs" / f"{job}.py"
        file.write_text(BEGIN + script + END)
        self.cluster.submit(job, f"python {job}.py")

    def send_signal(self, what: str) -> None:
        """Lets a job continue that waits for this signal."""
        file = self.cluster.head.tmp / what
        file.write_text("")
        self.signals.append(file)

    def ray(self, kind: str) -> dict[str, dict[str, Any]]:
        """Ray's list of this kind by name, without the dead and removed."""
        rows = self.cluster.http.get(f"/api/v0/{kind}", params={"limit": 1000, "detail": 1}).json()["data"]["result"]["result"]
        return {row["name"]: row for row in rows if row["state"] not in ("DEAD", "REMOVED")}

    def state(self, kind: str, name: str) -> str | None:
        """The state that Ray reports."""
        row = self.ray(kind).get(name)
        return row["state"] if row else None

    def why(self) -> dict[str, str | None]:
        """Why each of them waits, as `cockpit status --json` reports it."""
        _, facts, _ = once(self.cluster.head)
        return reasons(self, facts)

    def finding(self, code: str) -> str:
        """The text of this finding in `cockpit status --json`."""
        _, facts, _ = once(self.cluster.head)
        return next((str(each["text"]) for each in facts["findings"] if each["code"] == code), "")

    def reason(self, name: str, *words: str) -> str:
        """Waits for a reason that contains all these words."""
        seen: list[str | None] = []

        def match() -> str | None:
            seen.append(self.why().get(name))
            return seen[-1] if seen[-1] and all(map(seen[-1].__contains__, words)) else None

        try:
            return eventually(match, within=120) or ""
        except AssertionError as error:
            raise AssertionError(f"reasons of {name}: {list(dict.fromkeys(seen))}") from error


def reasons(jobs: PlacementJobs, facts: Facts) -> dict[str, str | None]:
    """Why each actor and placement group waits, by name; an actor without a name by its id."""
    names = {row["actor_id"]: name for name, row in jobs.ray("actors").items()}
    found = {names.get(actor["id"], actor["id"]): actor["why"] for actor in facts["actors"]["pending"]}
    return found | {group["name"]: group["why"] for group in facts["placement_groups"]}
