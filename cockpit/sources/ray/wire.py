"""Declares the JSON of Ray 2.9 to 2.60 as types: only the fields that are read.

Decoding is lax, because protobuf writes 64-bit numbers as strings and leaves out zeros. So a missing field is `None`, which means unknown
unless the code that reads it knows that 0 was left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Generic, TypeVar

import msgspec

from cockpit.sources.lenient_json import NotRayError, decode

T = TypeVar("T")
Resources = Mapping[str, float]
NULL: Final = msgspec.Raw(b"null")
MAX_DECODED_ENTRIES: Final = 100_000
"""The longest list that is decoded: ten times what Ray itself lists. A list of a million entries would take gigabytes here."""


class Snake(msgspec.Struct, frozen=True, gc=False):
    """The base of the types of the state and job APIs, with names as in Python."""


class Camel(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of the types of `/nodes` and `/api/cluster_status`: JavaScript names, and mangled resource names (`resources.mangle`)."""


class Reply(Snake, Generic[T], frozen=True):
    """The envelope of all answers but the job API's. If `result` is false, `msg` has the reason."""

    result: bool = False
    msg: str | None = None
    data: T | None = None


class Version(Snake, frozen=True):
    """`/api/version`."""

    ray_version: str
    session_name: str | None = None


class AuthenticationMode(Snake, frozen=True):
    """`/api/authentication_mode`, since Ray 2.52."""

    authentication_mode: str


class ClusterId(Camel, frozen=True):
    """`/cluster_id`, since Ray 2.35."""

    cluster_id: str | None = None


class GpuProcess(Camel, frozen=True):
    """A process on a GPU. The memory is in MiB; it is 0 or missing if NVML does not know how much the process uses."""

    pid: float | None = None
    gpu_memory_usage: float | None = None


class Gpu(Camel, frozen=True):
    """A GPU. Memory is in MiB; figures are -1 if NVML failed."""

    index: float | None = None
    name: str | None = None
    uuid: str | None = None
    utilization_gpu: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    power_mw: float | None = None
    temperature_c: float | None = None
    processes_pids: tuple[GpuProcess, ...] | None = None


class CoreWorker(Camel, frozen=True):
    """A worker or driver in the figures of its raylet."""

    pid: float | None = None
    job_id: str | None = None
    actor_id: str | None = None
    worker_id: str | None = None
    worker_type: str | None = None


class DeathInfo(Camel, frozen=True):
    """The reason of a node's death, in case `stateMessage` has none."""

    reason_message: str | None = None


class Raylet(Camel, frozen=True):
    """The entry of a node in the GCS together with the figures of its raylet; nearly empty once the node is dead."""

    node_id: str | None = None
    state: str | None = None
    state_message: str | None = None
    death_info: DeathInfo | None = None
    node_manager_address: str | None = None
    node_manager_hostname: str | None = None
    node_name: str | None = None
    is_head_node: bool | None = None
    node_type_name: str | None = None
    metrics_export_port: float | None = None
    start_time_ms: float | None = None
    end_time_ms: float | None = None
    resources_total: Resources | None = None
    labels: Mapping[str, str] | None = None
    core_workers_stats: tuple[CoreWorker, ...] | None = None
    object_store_used_memory: float | None = None
    object_store_available_memory: float | None = None


class DiskUse(Camel, frozen=True):
    """The bytes of a disk; `free` is the space that users can still write to."""

    used: float | None = None
    total: float | None = None
    free: float | None = None


class Agent(Camel, frozen=True):
    """The dashboard agent of a node."""

    pid: float | None = None


class Summary(Camel, frozen=True):
    """One node of `/nodes?view=summary`."""

    raylet: Raylet = Raylet()
    now: float | None = None
    hostname: str | None = None
    ip: str | None = None
    cpu: float | None = None
    cpus: tuple[float | None, ...] | None = None
    mem: tuple[float | None, ...] | None = None
    """The memory in bytes: total, available, percent, used."""
    shm: float | None = None
    """The bytes of shared memory in use."""
    disk: Mapping[str, DiskUse] | None = None
    gpus: tuple[Gpu, ...] | None = None
    agent: Agent | None = None


class NodesData(Camel, frozen=True):
    """`/nodes?view=summary`."""

    summary: tuple[Summary, ...]
    node_logical_resources: Mapping[str, str] | None = None


class ProcessMemory(Camel, frozen=True):
    """The memory of a process in bytes."""

    rss: float | None = None


class ProcessInfo(Camel, frozen=True):
    """A process of Ray on a node. `cmdline` ends with hundreds of empty strings."""

    pid: int
    create_time: float | None = None
    cmdline: tuple[str, ...] | None = None
    memory_info: ProcessMemory | None = None
    core_worker_stats: tuple[CoreWorker, ...] = ()


class Detail(Summary, frozen=True):
    """One node of `/nodes/{id}`."""

    workers: tuple[ProcessInfo, ...] = ()


class DetailData(Camel, frozen=True):
    """`/nodes/{id}`. For an unknown id, all fields are empty."""

    detail: Detail


class GroupShape(Camel, frozen=True):
    """The shape of a placement group that waits: its bundles with their counts, and its strategy."""

    bundles: tuple[tuple[Resources, float], ...] = ()
    strategy: str | None = None


class LoadMetrics(Camel, frozen=True):
    """The figures of the autoscaler monitor. Resource names are mangled in `usageByNode` only."""

    usage_by_node: Mapping[str, Mapping[str, tuple[float, float]]] | None = None
    """For each node: the used and the total amount of each resource."""
    resource_demand: tuple[tuple[Resources, float], ...] = ()
    pg_demand: tuple[tuple[GroupShape, float], ...] = ()
    node_types: tuple[tuple[Resources, float], ...] = ()


class AutoscalerReport(Camel, frozen=True):
    """The report that the autoscaler monitor writes to the GCS every 5 s; `time` is by the clock of its host."""

    time: float | None = None
    load_metrics_report: LoadMetrics | None = None


class StatusData(Camel, frozen=True):
    """`/api/cluster_status`. The status is null with autoscaler v2."""

    cluster_status: AutoscalerReport | None = None
    autoscaling_error: str | None = None


class StatusText(Camel, frozen=True):
    """`/api/cluster_status?format=1`: the text of `ray status`."""

    cluster_status: str | None = None


class Listing(Snake, Generic[T], frozen=True):
    """A list of the state API. Of `total` entries in the GCS, the first `num_after_truncation` were filtered; the others were cut off."""

    result: Annotated[tuple[T, ...], msgspec.Meta(max_length=MAX_DECODED_ENTRIES)] = ()
    total: int | None = None
    num_after_truncation: int | None = None
    num_filtered: int | None = None

    @property
    def cut(self) -> bool:
        """Whether entries are missing in the list."""
        is_truncated = self.total is not None and self.num_after_truncation is not None and self.total > self.num_after_truncation
        return is_truncated or (self.num_filtered is not None and self.num_filtered > len(self.result))


class Listed(Snake, Generic[T], frozen=True):
    """The second envelope of the state API, within `Reply`."""

    result: Listing[T]


class NodeEntry(Snake, frozen=True):
    """A node of `/api/v0/nodes?detail=1`. Resource names are not mangled, and dead nodes keep their entries."""

    node_id: str
    node_ip: str | None = None
    node_name: str | None = None
    is_head_node: bool | None = None
    state: str | None = None
    state_message: str | None = None
    resources_total: Resources | None = None
    labels: Mapping[str, str] | None = None
    start_time_ms: float | None = None
    end_time_ms: float | None = None


class Message(Snake, frozen=True):
    """The message of a cause of death, or the exception of a constructor as text; its pickle is never read."""

    error_message: str | None = None
    reason: str | None = None
    formatted_exception_string: str | None = None


class DeathCause(Snake, frozen=True):
    """The cause of an actor's death. One of the five fields is set."""

    actor_died_error_context: Message | None = None
    creation_task_failure_context: Message | None = None
    runtime_env_failed_context: Message | None = None
    actor_unschedulable_context: Message | None = None
    oom_context: Message | None = None


class Actor(Snake, frozen=True):
    """An actor of `/api/v0/actors?detail=1`."""

    actor_id: str
    class_name: str | None = None
    state: str | None = None
    job_id: str | None = None
    name: str | None = None
    node_id: str | None = None
    pid: int | None = None
    ray_namespace: str | None = None
    required_resources: Resources | None = None
    label_selector: Mapping[str, str] | None = None
    fallback_strategy: msgspec.Raw = NULL
    death_cause: DeathCause | None = None
    is_detached: bool | None = None
    placement_group_id: str | None = None
    num_restarts: int | None = None


class GroupBundle(Snake, frozen=True):
    """One bundle; `node_id` is empty until it is placed."""

    unit_resources: Resources | None = None
    node_id: str | None = None
    label_selector: Mapping[str, str] | None = None


class GroupStats(Snake, frozen=True):
    """The state of the placement of a group."""

    creation_request_received_ns: int | None = None
    scheduling_state: str | None = None


class Group(Snake, frozen=True):
    """A placement group of `/api/v0/placement_groups?detail=1`."""

    placement_group_id: str
    name: str | None = None
    creator_job_id: str | None = None
    state: str | None = None
    bundles: tuple[GroupBundle, ...] | None = None
    is_detached: bool | None = None
    stats: GroupStats | None = None
    topology_strategy: Mapping[str, str] | None = None


class DriverInfo(Snake, frozen=True):
    """The driver of a job, once it has connected."""

    pid: int | None = None
    node_ip_address: str | None = None


PRESET = "cockpit_preset"
"""The key in a job's metadata for the name of the preset that it was launched from."""


class Job(Snake, frozen=True):
    """A submission or a driver of `/api/jobs/`. Times are in milliseconds; 0 or null: not yet."""

    type: str | None = None
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    status: str | None = None
    entrypoint: str | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: float | None = None
    end_time: float | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None
    runtime_env: msgspec.Raw = NULL
    metadata: Mapping[str, msgspec.Raw] | None = None

    def get_text(self, name: str) -> str | None:
        """One text of the metadata; `None` if it is missing or not a text: any user may have written it."""
        value = (self.metadata or {}).get(name, NULL)
        return text_of(value) if bytes(value).startswith(b'"') else None

    @property
    def texts(self) -> Mapping[str, str]:
        """All metadata as texts: Ray accepts only texts."""
        return {name: text_of(value) for name, value in (self.metadata or {}).items()}


class JobLogs(Snake, frozen=True):
    """`/api/jobs/{id}/logs`: the whole log."""

    logs: str = ""


def text_of(value: msgspec.Raw) -> str:
    """The text; for other values their JSON, since building the value may take a hundred times its bytes."""
    try:
        return decode(value, str)
    except NotRayError:
        return bytes(value).decode("utf-8", "replace")
