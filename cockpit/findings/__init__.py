"""What is wrong, why, and which act would mend it: pure detectors over snapshots, and the judge that asks them."""

from cockpit.findings.facts import Facts
from cockpit.findings.judge import Detector, Judge
from cockpit.findings.memory import cgroup_limit, near_kill, oom_kills
from cockpit.findings.orphans import orphaned_memory
from cockpit.limits import Limits

__all__ = ["DETECTORS", "Detector", "Facts", "Judge", "Limits"]

DETECTORS: tuple[Detector, ...] = (orphaned_memory, near_kill, oom_kills, cgroup_limit)
