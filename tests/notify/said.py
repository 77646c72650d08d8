"""Findings and snapshots shared by the tests of notifications."""

from __future__ import annotations

from typing import Any

from cockpit.config.notify import NotifyTarget
from cockpit.model import Cluster, Fault, Finding, Remedy, Snapshot
from cockpit.notify.message import Message, notice_of

NOW = 1_800_000_000.0
HEAD = Cluster("http://head:8265")


def finding(subject: str = "w1 GPU 3", **more: Any) -> Finding:
    return Finding(**{
        "code": "gpu-lost", "level": "critical", "subject": subject, "text": f"{subject} is lost",
        "since": NOW - 60, "remedy": Remedy("drain the node\nthen more"), **more,
    })  # fmt: skip


def message(*begun: Finding, ended: tuple[Finding, ...] = (), **more: Any) -> Message:
    return Message("http://head:8265", NOW, [notice_of(one) for one in begun], [notice_of(one) for one in ended], **more)


def snapshot(*findings: Finding, at: float = 0.0, cluster: Cluster = HEAD, faults: tuple[Fault, ...] = ()) -> Snapshot:
    return Snapshot(taken=NOW + at, cluster=cluster, findings=findings, faults=faults)


def robot(form: Any = "json", webhook: str = "https://robot.example/hook/0123456789", **more: Any) -> NotifyTarget:
    return NotifyTarget(webhook=webhook, form=form, **more)
