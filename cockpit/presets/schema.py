"""Defines the keys of a preset's file, for reading it and for its JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from cockpit.config.editor import EditorSchema
from cockpit.placement import Strategy
from cockpit.presets.ray_flags import flags_schema

_TEXTS: Final[dict[str, Any]] = {"additionalProperties": {"type": ["string", "number", "boolean"]}}
_AMOUNTS: Final[dict[str, Any]] = {"additionalProperties": {"type": "number", "minimum": 0}}
_FLAGS: Final[dict[str, Any]] = {"type": "object", "properties": flags_schema(), "additionalProperties": False}
_PLACE: Final = {
    "host": {"type": "string", "description": "The host's name in cockpit's config or in ssh."},
    "address": {"type": "string", "description": "The host's address, if its name does not resolve to it."},
}
_HEAD: Final[dict[str, Any]] = {**_FLAGS, "properties": {**_PLACE, **_FLAGS["properties"]}, "dependentRequired": {"address": ["host"]}}
_NODE: Final[dict[str, Any]] = {**_HEAD, "required": ["host"]}
_HOSTS_OR_NONE: Final[dict[str, Any]] = {
    "if": {"properties": {"head": {"type": "object", "not": {"required": ["host"]}}}},
    "then": {"properties": {"workers": {"type": "object"}}},
    "else": {"properties": {"workers": {"type": "array"}}},
}

Texts = Annotated[dict[str, Any], Meta(extra_json_schema=_TEXTS)]
Amounts = Annotated[dict[str, Any], Meta(extra_json_schema=_AMOUNTS)]
Bytes = str | int | float
NodeFile = Annotated[dict[str, Any], Meta(extra_json_schema=_NODE)]
HeadFile = Annotated[dict[str, Any], Meta(extra_json_schema=_HEAD)]
FlagsFile = Annotated[dict[str, Any], Meta(extra_json_schema=_FLAGS)]


class RayFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How `cockpit recover` starts the cluster."""

    head: Annotated[
        str | HeadFile,
        Meta(
            description="The head's host, with flags of `ray start` spelled with _ or -. Flags without a host: Ray is started on the nodes "
            "of the Slurm job, with the head on the first."
        ),
    ]
    workers: Annotated[
        list[str | NodeFile] | FlagsFile | UnsetType,
        Meta(description="The other hosts, each with flags of `ray start`; where the head has no host, the flags of all other nodes."),
    ] = UNSET
    env: Annotated[Texts, Meta(description="Variables of Ray's processes and of every worker; ${NAME} comes from your environment.")] = {}
    python: Annotated[str | None, Meta(description="The Python whose Ray is started; default: the one on that host's PATH.")] = None


class JobFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The job that is submitted to Ray's job API."""

    entrypoint: Annotated[
        str, Meta(min_length=1, description="The command. ${NAME} is filled in at launch; $${NAME} and $NAME by the cluster's shell.")
    ]
    working_dir: Annotated[str | None, Meta(description="A folder to pack and upload, or the URI of a package.")] = None
    env: Annotated[Texts, Meta(description="Variables of the job; ${NAME} comes from your environment at launch and is never shown.")] = {}
    runtime_env: Annotated[dict[str, Any], Meta(description="The rest of Ray's runtime_env: pip, conda, excludes, …")] = {}
    submission_id: Annotated[str | None, Meta(description="The id of the submission; {time} and {name} are filled in.")] = None
    entrypoint_num_gpus: Annotated[float | None, Meta(description="GPUs for the command itself, in addition to its actors'.")] = None
    entrypoint_num_cpus: Annotated[float | None, Meta(description="CPUs for the command itself, in addition to its actors'.")] = None
    entrypoint_memory: Annotated[Bytes | None, Meta(description="Memory for the command itself, such as 8GB.")] = None
    entrypoint_resources: Annotated[Amounts, Meta(description="Custom resources for the command itself.")] = {}
    metadata: Annotated[Texts, Meta(description="Metadata that Ray stores and shows with the job.")] = {}


class NeedsFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Requirements for a launch, beyond the command's own."""

    gpus: Annotated[float | None, Meta(description="Total GPUs, if cockpit can't read them from the command.")] = None
    cpus: Annotated[float | None, Meta(description="Total CPUs, if cockpit can't read them from the command.")] = None
    bundles: Annotated[list[Amounts], Meta(description="What is placed together: {GPU: 1, CPU: 1, count: 8} is eight bundles.")] = []
    strategy: Annotated[Strategy, Meta(description="How the bundles are placed.")] = "PACK"
    gpu_memory_free: Annotated[Bytes | None, Meta(description="Free memory required on each GPU, such as 70GB.")] = None
    host_memory_free: Annotated[Bytes | None, Meta(description="Free memory required on each host, such as 200GB.")] = None
    shm_free: Annotated[Bytes | None, Meta(description="Free /dev/shm required on each host, such as 10GB.")] = None
    disk_free: Annotated[Bytes | None, Meta(description="Free disk required under the temp dir: 50GB.")] = None
    open_files: Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description="Lowest acceptable limit of open files: 65536.")] = None
    ray_version: Annotated[str | int | float | None, Meta(description="A version such as 2.44, or a range: '>=2.40,<2.50'.")] = None
    python_version: Annotated[str | int | float | None, Meta(description="A version such as 3.10, or a range.")] = None


class PresetFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A preset of cockpit: a job, the cluster it runs on, or both."""

    about: Annotated[str, Meta(description="One line that describes the preset.")] = ""
    ray: Annotated[RayFile | None, Meta(extra_json_schema=_HOSTS_OR_NONE)] = None
    job: JobFile | None = None
    needs: NeedsFile = NeedsFile()


EDITOR_SCHEMA: Final = EditorSchema("preset", PresetFile, "cockpit preset")

WORDS: Final = {
    "about": "one line of text",
    "ray": "keys with values, `head` among them",
    "ray.head": "a host, or {host: …, num_gpus: …, …}",
    "ray.workers": "a list of hosts, each a name or {host: …, …}; or {num_gpus: …, …} without hosts",
    "ray.workers[]": "a host, or {host: …, num_gpus: …, …}",
    "ray.env": "variables with their values",
    "ray.python": "the path of a Python",
    "job": "keys with values, `entrypoint` among them",
    "job.entrypoint": "a command",
    "job.working_dir": "a folder",
    "job.env": "variables with their values",
    "job.runtime_env": "keys with values, such as `pip: [wandb]`",
    "job.submission_id": "text such as ppo-{time}",
    "job.entrypoint_num_gpus": "a number from 0",
    "job.entrypoint_num_cpus": "a number from 0",
    "job.entrypoint_memory": "an amount such as 8GB",
    "job.entrypoint_resources": "resources with their amounts",
    "job.metadata": "keys with text",
    "needs": "keys with values, such as `gpu_memory_free: 70GB`",
    "needs.gpus": "a number from 0",
    "needs.cpus": "a number from 0",
    "needs.bundles": "a list such as [{GPU: 1, CPU: 1, count: 8}]",
    "needs.bundles[]": "resources with their amounts",
    "needs.strategy": "PACK, SPREAD, STRICT_PACK or STRICT_SPREAD",
    "needs.gpu_memory_free": "an amount such as 70GB",
    "needs.host_memory_free": "an amount such as 200GB",
    "needs.shm_free": "an amount such as 10GB",
    "needs.disk_free": "an amount such as 50GB",
    "needs.open_files": "a whole number from 1",
    "needs.ray_version": "a version such as 2.44, or a range such as '>=2.40,<2.50'",
    "needs.python_version": "a version such as 3.10, or a range such as '>=3.9,<3.13'",
}
"""The value that each key expects, in words, for `Document.convert`."""
