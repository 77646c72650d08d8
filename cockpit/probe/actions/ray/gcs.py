"""Runs in the cluster's own Python: asks its GCS for the state of actors, placement groups or nodes, and ends or drains them.

It calls the GCS as Ray's dashboard does, by the gRPC stubs of the Ray that is installed there. So it is no driver, and creates no job in
the cluster. Its text goes into `python -` with a call of `main` at its end. Seen on Ray 2.9.3, 2.44.1 and 2.60.0.
"""

from __future__ import annotations

import importlib
import json
import signal
import time
from typing import Any, Callable, Dict, Mapping

ANSWER = 5.0
"""Seconds for one answer of the GCS."""
OVER = 10.0
"""Seconds in which the GCS must report that an ended thing is over."""
NO_DRAIN = "this Ray version can't drain a node, or does not report it"
_INTERNAL = "_ray_internal_"
_SUPERVISORS = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
Facts = Dict[str, Any]


class NoServiceError(Exception):
    """The cluster's version of Ray can't do it; the text is one sentence."""


class Gcs:
    """The GCS of one Ray. Ray's modules are imported by name, because only the cluster has them, in its own version."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.tables = importlib.import_module("ray.core.generated.gcs_pb2")
        self._messages = importlib.import_module("ray.core.generated.gcs_service_pb2")
        self._stubs = importlib.import_module("ray.core.generated.gcs_service_pb2_grpc")
        try:
            utils = importlib.import_module("ray._private.grpc_utils")
        except ImportError:  # before 2.52
            utils = importlib.import_module("ray._private.utils")
        # This function of Ray uses the cluster's own token and certificates.
        self._channel = utils.init_grpc_channel(address, options=[("grpc.enable_http_proxy", 0)])
        self._ended_jobs: dict[str, bool | None] = {}

    def ask(self, service: str, method: str, **fields: Any) -> Any:
        """The reply to one request. Fields that this version of Ray doesn't know are left out."""
        shape = getattr(self._messages, f"{method}Request")
        known = {name: value for name, value in fields.items() if name in shape.DESCRIPTOR.fields_by_name}
        stub = getattr(self._stubs, f"{service}GcsServiceStub")(self._channel)
        return getattr(stub, method)(shape(**known), timeout=ANSWER)

    def ask_autoscaler(self, method: str, **fields: Any) -> Any:
        """The reply of the service for autoscalers. Raises `NoServiceError` if this Ray has no such service or method."""
        shape = self._of_autoscaler("autoscaler_pb2", f"{method}Request")
        stub = self._of_autoscaler("autoscaler_pb2_grpc", "AutoscalerStateServiceStub")(self._channel)
        if not hasattr(stub, method):
            raise NoServiceError(NO_DRAIN)
        return getattr(stub, method)(shape(**fields), timeout=ANSWER)

    def autoscaler_number(self, enum: str, name: str) -> int:
        """The number of a name in an enum of that service. Raises `NoServiceError` if this Ray doesn't know it."""
        numbers: Dict[str, int] = dict(self._of_autoscaler("autoscaler_pb2", enum).items())
        if name not in numbers:
            raise NoServiceError(NO_DRAIN)
        return numbers[name]

    @staticmethod
    def _of_autoscaler(module: str, name: str) -> Any:
        try:
            return getattr(importlib.import_module(f"ray.core.generated.{module}"), name)
        except (ImportError, AttributeError):
            raise NoServiceError(NO_DRAIN) from None

    def session(self) -> str:
        """The name of the session that this GCS serves."""
        value: bytes = self.ask("InternalKV", "InternalKVGet", namespace=b"session", key=b"session_name").value
        return value.decode("utf-8", "replace")

    def has_job_ended(self, job: str) -> bool | None:
        """`None` if the GCS doesn't know the job. It is asked once per job: targets share jobs, and the GCS may know thousands of them."""
        if job not in self._ended_jobs:
            asked = {"job_or_submission_id": job, "skip_submission_job_info_field": True, "skip_is_running_tasks_field": True}
            jobs = {entry.job_id.hex(): entry.is_dead for entry in self.ask("JobInfo", "GetAllJobInfo", **asked).job_info_list}
            self._ended_jobs[job] = jobs.get(job)
        return self._ended_jobs[job]


def read_actor(gcs: Gcs, name: str) -> Facts | None:
    """The state of this actor now; `None` if the GCS knows no such actor."""
    reply = gcs.ask("ActorInfo", "GetActorInfo", actor_id=bytes.fromhex(name))
    if not reply.HasField("actor_table_data"):
        return None
    data = reply.actor_table_data
    job = data.job_id.hex()
    facts = {
        "what": "actor", "id": name, "name": data.name, "class": data.class_name, "namespace": data.ray_namespace,
        "state": gcs.tables.ActorTableData.ActorState.Name(data.state), "job": job, "detached": data.is_detached,
        "node": _id(data.node_id), "pid": data.pid or None,
    }  # fmt: skip
    return {**facts, **_describe_leak(facts, gcs.has_job_ended(job))}


def read_group(gcs: Gcs, name: str) -> Facts | None:
    """The state of this placement group now; `None` if the GCS knows no such group."""
    reply = gcs.ask("PlacementGroupInfo", "GetPlacementGroup", placement_group_id=bytes.fromhex(name))
    if not reply.HasField("placement_group_table_data"):
        return None
    data = reply.placement_group_table_data
    job = data.creator_job_id.hex()
    is_over = gcs.has_job_ended(job)
    actor = None if data.creator_actor_dead else _id(data.creator_actor_id)
    nodes = {_id(bundle.node_id) for bundle in data.bundles}
    facts = {
        "what": "placement_group", "id": name, "name": data.name, "class": None, "namespace": data.ray_namespace,
        "state": gcs.tables.PlacementGroupTableData.PlacementGroupState.Name(data.state), "job": job, "detached": data.is_detached,
        "node": nodes.pop() if len(nodes) == 1 else None, "pid": None,
    }  # fmt: skip
    if is_over and actor:
        return {**facts, "leaked": False, "why": [f"its job {job} has ended, but the actor {actor} that made it is alive"]}
    return {**facts, **_describe_leak(facts, is_over)}


def read_node(gcs: Gcs, name: str) -> Facts | None:
    """The state of this node now, which may be `DRAINING`; `None` if the GCS knows no such node."""
    raw = bytes.fromhex(name)
    data = next((node for node in gcs.ask("NodeInfo", "GetAllNodeInfo").node_info_list if node.node_id == raw), None)
    if data is None:
        return None
    state = gcs.tables.GcsNodeInfo.GcsNodeState.Name(data.state)
    nodes = gcs.ask_autoscaler("GetClusterResourceState").cluster_resource_state.node_states
    status = gcs.autoscaler_number("NodeStatus", "DRAINING")
    draining = any(node.node_id == raw and node.status == status for node in nodes)
    return {
        "what": "node", "id": name, "name": data.node_name or data.node_manager_hostname, "class": None,
        "namespace": data.node_manager_address, "state": "DRAINING" if draining and state == "ALIVE" else state, "job": None,
        "detached": None, "node": name, "pid": None, "part": "head" if data.is_head_node else None, "leaked": None, "why": [],
    }  # fmt: skip


def _id(raw: bytes) -> str | None:
    """An id in hex; `None` for Ray's nil, which is all ones, or for no bytes."""
    return raw.hex() if raw.strip(b"\xff") else None


def _describe_leak(facts: Facts, is_over: bool | None) -> Facts:
    """Whether it still exists although its job is over (`is_over`; `None`: unknown), and the reason."""
    if facts["state"] in ENDED:
        return {"leaked": False, "why": []}
    job = f"its job {facts['job']}"
    if is_over is None:
        return {"leaked": None, "why": [f"Ray does not report whether {job} has ended"]}
    kept = " and it is detached: nothing else ends it" if facts["detached"] else ""
    return {"leaked": is_over, "why": [f"{job} has ended{kept}" if is_over else f"{job} still runs"]}


def kill_actor(gcs: Gcs, name: str) -> str | None:
    """Like ray.kill(actor, no_restart=True), but for an actor of any job. Returns Ray's reason if it refuses."""
    return _why_refused(gcs.ask("ActorInfo", "KillActorViaGcs", actor_id=bytes.fromhex(name), force_kill=True, no_restart=True))


def remove_group(gcs: Gcs, name: str) -> str | None:
    """Like ray.util.remove_placement_group. Returns Ray's reason if it refuses."""
    return _why_refused(gcs.ask("PlacementGroupInfo", "RemovePlacementGroup", placement_group_id=bytes.fromhex(name)))


def _why_refused(reply: Any) -> str | None:
    return str(reply.status.message or reply.status.code) if reply.status.code else None


def drain_node(gcs: Gcs, name: str) -> str | None:
    """Like `ray drain-node`. The reason PREEMPTION drains also a busy node, without a deadline. Returns Ray's reason if it refuses."""
    reason = gcs.autoscaler_number("DrainNodeReason", "DRAIN_NODE_REASON_PREEMPTION")
    more = {"reason": reason, "reason_message": "drained by an operator with cockpit"}
    reply = gcs.ask_autoscaler("DrainNode", node_id=bytes.fromhex(name), **more)
    return None if reply.is_accepted else str(getattr(reply, "rejection_reason_message", "") or "it gives no reason")


ENDED = ("DEAD", "REMOVED", "DRAINING")
READERS: Mapping[str, Callable[[Gcs, str], Any]] = {"actor": read_actor, "placement_group": read_group, "node": read_node}
ACTIONS: Mapping[str, Callable[[Gcs, str], str | None]] = {"actor": kill_actor, "placement_group": remove_group, "node": drain_node}


def why_refused(what: str, now: Facts | None) -> str | None:
    """The reason for not ending this target, or `None`."""
    if now is None:
        return f"this Ray session has no {what.replace('_', ' ')} with that id"
    if now["state"] == "DRAINING":
        return "it is being drained already"
    if now["state"] in ENDED:
        return f"it has ended: Ray reports {now['state']}"
    if now.get("part") == "head":
        return "it is the head node, which the cluster needs"
    if now["namespace"] == _SUPERVISORS or now["namespace"].startswith(_INTERNAL) or now["name"].startswith(_INTERNAL):
        return "it is Ray's own: a job's supervisor ends when the job is stopped"
    return None


def plan(gcs: Gcs, targets: list[Facts]) -> Facts:
    """The targets with their state now."""
    answer: Facts = {"targets": [], "refused": [], "notes": []}
    for target in targets:
        now = READERS[target["what"]](gcs, target["id"])
        why_not = why_refused(target["what"], now)
        known = {**target, **(now or {})}
        (answer["refused"] if why_not else answer["targets"]).append({**known, "reason": why_not} if why_not else known)
    return answer


def do(gcs: Gcs, targets: list[Facts]) -> Facts:
    """Ends the targets that have not changed since the plan."""
    answer: Facts = {"done": [], "refused": [], "failed": [], "notes": []}
    accepted: list[Facts] = []
    for target in targets:
        now = READERS[target["what"]](gcs, target["id"])
        why_not = why_refused(target["what"], now)
        changed = [key for key in ("class", "name", "namespace", "job") if target.get(key) != now[key]] if not why_not else []
        if changed:
            why_not = f"its {changed[0]} has changed since the plan was made"
        if why_not:
            answer["refused"].append({**target, "reason": why_not})
            continue
        refused = ACTIONS[target["what"]](gcs, target["id"])
        if refused is not None:
            answer["failed"].append({**target, **now, "error": f"Ray refused: {refused}"})
        else:
            accepted.append({**target, **now})

    # Waits until the GCS reports the end of the targets.
    began = time.monotonic()
    while accepted:
        waiting = []
        for target in accepted:
            now = READERS[target["what"]](gcs, target["id"])
            took = time.monotonic() - began
            if now is None or now["state"] in ENDED:
                state = now["state"] if now else "it as gone"
                answer["done"].append({**target, "outcome": f"Ray reported {state} {took:.1f} s after the request"})
            elif took > OVER:
                verb = {"node": "drain", "actor": "kill"}.get(target["what"], "remove")
                answer["failed"].append(
                    {**target, "error": f"Ray still reports {now['state']} {took:.0f} s after the request to {verb} it"}
                )
            else:
                waiting.append(target)
        accepted = waiting
        time.sleep(0.1 if accepted else 0)
    return answer


def main(question: Mapping[str, Any]) -> None:
    """Writes one line of JSON to stdout. The alarm ends this program even if its parent has ended."""
    signal.alarm(int(question["limit"]))
    gcs = Gcs(question["address"])
    try:
        session = gcs.session()
        if session != question["session"]:
            answer = {"error": f"the GCS at {gcs.address} serves session {session or 'of no name'}, not {question['session']}"}
        else:
            answer = {"plan": plan, "do": do}[question["stage"]](gcs, question["targets"])
    except NoServiceError as error:
        answer = {"error": str(error)}
    except importlib.import_module("grpc").RpcError as error:
        doubt = ": whether anything has ended is unknown" if question["stage"] == "do" else ""
        answer = {"error": f"the GCS at {gcs.address} does not answer ({error.code().name}: {error.details()}){doubt}"}
    print(json.dumps(answer), flush=True)
