"""Defines the action that removes the files of dead sessions from Ray's temp dirs and /dev/shm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from cockpit.actions.action import Flag, Impact, Nouns
from cockpit.actions.on_hosts import HostAction, without_none
from cockpit.actions.plan import ActionTarget, Plan, Target
from cockpit.model import Session, Snapshot

if TYPE_CHECKING:
    from cockpit.actions.action_context import ActionContext


class Clean(HostAction):
    """Cleans up after all dead sessions on all hosts, or after some."""

    id = "clean"
    keys = "C"
    title = "Clean"
    help = "Remove files of dead sessions"
    flags = (
        Flag("sessions", "--session", "name", "Only this dead session.", "NAME", many=True),
        Flag("older_than", "--older-than", "age", "Only sessions at least this old.", "1d"),
        Flag(
            "protected",
            "--delete-protected",
            "path",
            "Also delete PATH, a protected file: it looks like a checkpoint or a core dump, and is kept by default. Then only this host is "
            "cleaned, unless HOST is given.",
            "PATH",
            many=True,
        ),
    )
    nouns: ClassVar[Nouns] = {
        "session": ("session folder", "session folders"),
        "link": ("link", "links"),
        "file": ("file", "files"),
        "shm": ("file in /dev/shm", "files in /dev/shm"),
    }
    why_word = "Files that look like checkpoints or core dumps will be deleted."
    also_takes = Session
    ends_nothing_alive = True

    def request(self, requested: ActionTarget, host: str) -> dict[str, Any]:
        """Name the selected folders of this host, or sessions by name, or neither: then all."""
        rows = [row for row in requested.rows if isinstance(row, Session)]
        sessions = [row.path for row in rows if row.host == host] if rows else list(requested.sessions) if requested.sessions else None
        more = {"older_than": requested.older_than, "protected": list(requested.protected), "ended": list(requested.ended)}
        return without_none(act="clean", sessions=sessions, **more)

    def combine_into_target(self, rows: Sequence[Session]) -> ActionTarget | str:
        return ActionTarget(rows=tuple(rows), hosts=tuple(dict.fromkeys(session.host for session in rows)))

    def hosts(self, requested: ActionTarget, context: ActionContext) -> tuple[str, ...]:
        """Return all hosts; only this one if paths are named, because a path means one file on one host."""
        return (context.monitor.pool.local,) if requested.protected else context.all_hosts

    def is_requested(self, refused: Target, plan: Plan) -> bool:
        """Live sessions are meant to stay, unless a session was named."""
        named = any(request.get("sessions") for request in plan.requests.values())
        return named or not (refused.what == "session" and refused.live)

    def impact(self, plan: Plan, snapshot: Snapshot, addresses: Mapping[str, str]) -> Impact:
        named = dict.fromkeys(path for request in plan.requests.values() for path in request.get("protected") or ())
        folders = [target.path for target in plan.targets if target.what == "session" and target.path]
        inside = [path for path in named if any(path.startswith(f"{folder}/") for folder in folders)]
        gone = tuple(f"{path} is deleted, though it looks like a checkpoint or a core dump" for path in inside)
        return Impact(gone, "delete" if gone else None)
