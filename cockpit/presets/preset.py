"""Reads a preset's file: a job, and the cluster that it runs on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from cockpit.config.document import Document, InputError, abbreviate_home, read_text
from cockpit.config.reach import HostEntry, check_host
from cockpit.model import Value
from cockpit.placement import Strategy
from cockpit.presets.amounts import byte_count, is_number, version_matches
from cockpit.presets.ray_flags import HEAD_ONLY, HOST_SPECIFIC, FlagValue, flag_arguments, flag_name, flag_value, flag_words
from cockpit.presets.schema import WORDS, JobFile, NeedsFile, PresetFile, RayFile
from cockpit.presets.script import explain_script, is_script
from cockpit.secrets import redact

T = TypeVar("T")


class RayNode(Value, frozen=True):
    """One host, and the flags of its `ray start`."""

    host: str
    address: str | None = None
    """The host's address, if its name does not resolve to it."""
    flags: Mapping[str, FlagValue] = {}
    """The keys have `_`; sizes are in bytes, maps are JSON."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The flags as words of a command line."""
        return flag_arguments(self.flags)


class RayStart(Value, frozen=True):
    """The hosts and flags with which a cluster is started."""

    head: RayNode
    workers: tuple[RayNode, ...] = ()
    env: Mapping[str, str] = {}
    """It may contain `${NAME}`."""
    python: str | None = None
    """The Python whose `ray` is started; `None`: the one on the host's PATH."""
    slurm: str | None = None
    """The Slurm job that has these nodes; `None`: the preset names them."""

    @property
    def nodes(self) -> tuple[RayNode, ...]:
        """The head, then the workers."""
        return (self.head, *self.workers)


class SlurmStart(Value, frozen=True):
    """The flags with which a cluster is started on the nodes of any Slurm job. The first node is the head, all others are workers."""

    head: Mapping[str, FlagValue] = {}
    workers: Mapping[str, FlagValue] = {}
    """The flags of every worker."""
    env: Mapping[str, str] = {}
    python: str | None = None

    def on(self, job: str, hosts: Sequence[HostEntry]) -> RayStart:
        """Return the start on the nodes of this job, in Slurm's order."""
        head, *workers = hosts
        return RayStart(
            RayNode(head.name, head.address or None, self.head),
            tuple(RayNode(host.name, host.address or None, self.workers) for host in workers),
            self.env,
            self.python,
            job,
        )


class JobSpec(Value, frozen=True):
    """The job that is submitted. Texts may contain `${NAME}`."""

    entrypoint: str
    working_dir: str | None = None
    env: Mapping[str, str] = {}
    runtime_env: Mapping[str, Any] = {}
    """The rest of Ray's runtime_env."""
    submission_id: str | None = None
    """It may contain `{time}` and `{name}`."""
    entrypoint_num_gpus: float | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: Mapping[str, float] = {}
    metadata: Mapping[str, str] = {}

    def with_texts(self, text: Callable[[str], str], variable: Callable[[str, str], str], nested: Callable[[Any], Any]) -> JobSpec:
        """Return the job with all its texts changed, except its id.

        `variable` gets the name and value of variables and metadata, `nested` gets the whole runtime_env, `text` gets all others.
        """
        return replace(
            self,
            entrypoint=text(self.entrypoint),
            working_dir=self.working_dir and text(self.working_dir),
            env={name: variable(name, value) for name, value in self.env.items()},
            runtime_env=nested(self.runtime_env),
            metadata={name: variable(name, value) for name, value in self.metadata.items()},
        )


class Needs(Value, frozen=True):
    """The preset's requirements beyond the command's own. Sizes are bytes; `None`: no requirement."""

    gpus: float | None = None
    cpus: float | None = None
    bundles: tuple[tuple[Mapping[str, float], int], ...] = ()
    """Each shape of a bundle with its number."""
    strategy: Strategy = "PACK"
    gpu_memory_free: int | None = None
    host_memory_free: int | None = None
    shm_free: int | None = None
    disk_free: int | None = None
    open_files: int | None = None
    ray_version: str | None = None
    python_version: str | None = None

    def amount(self, resource: str) -> float | None:
        """Return the total of GPU or CPU that the preset gives, or `None`."""
        given = {"GPU": self.gpus, "CPU": self.cpus}.get(resource)
        if given is not None or not self.bundles:
            return given
        return sum(shape.get(resource, 0.0) * number for shape, number in self.bundles)


class Preset(Value, frozen=True):
    """A preset file, read and checked."""

    name: str
    path: Path
    about: str = ""
    ray: RayStart | SlurmStart | None = None
    job: JobSpec | None = None
    needs: Needs = Needs()

    @property
    def nodes(self) -> tuple[RayNode, ...]:
        """The nodes that the preset starts, the head first; empty while its hosts are unknown."""
        return self.ray.nodes if isinstance(self.ray, RayStart) else ()


_ON_HEAD: Final = dict.fromkeys(HEAD_ONLY, "only allowed for the head")
_VARIABLE: Final = r"[A-Za-z_][A-Za-z0-9_]*"
_RUNTIME_ENV: Final = (
    "py_modules", "py_executable", "pip", "uv", "conda", "excludes", "container", "image_uri", "nsight", "rocprof-sys", "mpi", "config",
    "java_jars", "worker_process_setup_hook", "eager_install",
)  # fmt: skip
_ELSEWHERE: Final = {"env_vars": "put it in job.env", "working_dir": "put it in job.working_dir"}
_WITH_PORT: Final = r"[^:]*:\d+"
_LITERAL: Final = r"(?<!\$)\$\{(?![A-Za-z_][A-Za-z0-9_]*\})[^}]*\}?"
_PLACE: Final = r"\$?\{([^{}]*)\}"
_PLACES: Final = ("time", "name")
ENDINGS: Final = (".yaml", ".yml")
"""Endings of a preset's file name."""
SUBMISSION: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"


def read_preset(path: Path) -> Preset:
    """Read a preset. Raises `InputError` with file, line and key of the first mistake."""
    try:
        text = read_text(path)
    except FileNotFoundError as error:
        raise InputError(f"{abbreviate_home(path)}: no such file") from error
    if is_script(text) and path.suffix not in ENDINGS:
        raise InputError(explain_script(str(path), text))
    return _Reader(Document(text, abbreviate_home(path))).preset(path)


class _Reader:
    """Turns a document into a preset. Every mistake is reported with its place in the document."""

    def __init__(self, document: Document) -> None:
        self._document = document

    def preset(self, path: Path) -> Preset:
        """Return the preset. Raises `InputError`."""
        if not isinstance(self._document.data, dict):
            raise self._document.mistake("", "expected keys with values, such as `job: {entrypoint: …}`")
        file = self._document.convert(PresetFile, WORDS)
        if file.ray is None and file.job is None:
            raise self._document.mistake("", "contains neither `job` nor `ray`: nothing to launch or start")
        ray: RayStart | SlurmStart | None = None
        if file.ray is not None:
            if file.ray.python is not None:
                self._at("ray.python", partial(check_host, HostEntry("any", python=file.ray.python)))
            head = file.ray.head
            ray = self._on_slurm(file.ray, head) if isinstance(head, dict) and "host" not in head else self._on_hosts(file.ray)
        return Preset(
            name=path.name.removesuffix(".yaml").removesuffix(".yml"),
            path=path,
            about=file.about.strip(),
            ray=ray,
            job=None if file.job is None else self._job(file.job),
            needs=self._needs(file.needs),
        )

    def _on_hosts(self, file: RayFile) -> RayStart:
        if isinstance(file.workers, dict):
            raise self._document.type_mistake("ray.workers", "a list of hosts, because ray.head names one")
        head = self._node("ray.head", file.head)
        workers = tuple(self._node(f"ray.workers[{index}]", node, head) for index, node in enumerate(file.workers or ()))
        seen = {head.host: "the head"}
        for index, node in enumerate(workers):
            if node.host in seen:
                raise self._document.mistake(f"ray.workers[{index}]", f"{node.host} is already {seen[node.host]}")
            seen[node.host] = "a worker"
        return RayStart(head, workers, self._variables("ray.env", file.env), file.python)

    def _on_slurm(self, file: RayFile, head: Mapping[str, Any]) -> SlurmStart:
        workers = {} if file.workers is UNSET else file.workers
        if isinstance(workers, list):
            raise self._document.mistake("ray.head", "host is missing: ray.workers lists hosts, so the head needs one too")
        if "address" in head:
            raise self._document.mistake("ray.head.address", "needs `host` beside it")
        for name in ("host", "address"):
            if name in workers:
                raise self._document.mistake(f"ray.workers.{name}", "hosts belong in a list of workers, and then ray.head needs a host too")
        apart = dict.fromkeys(HOST_SPECIFIC, "belongs to one host, but ray.head names none")
        flags = self._flags("ray.head", head, apart), self._flags("ray.workers", workers, {**_ON_HEAD, **apart})
        return SlurmStart(*flags, self._variables("ray.env", file.env), file.python)

    def _node(self, where: str, given: str | Mapping[str, Any], head: RayNode | None = None) -> RayNode:
        fields = {"host": given} if isinstance(given, str) else dict(given)
        host, address = fields.pop("host", None), fields.pop("address", None)
        if host is None:
            raise self._document.mistake(where, "host is missing")
        for name, value in (("host", host), ("address", address)):
            if value is not None and not isinstance(value, str):
                raise self._document.type_mistake(f"{where}.{name}", "the name or address of a host")
        if address is not None and re.fullmatch(_WITH_PORT, address):
            raise self._document.mistake(f"{where}.address", "give the host's address without a port; Ray's port is the head's `port`")
        self._at(where, partial(check_host, HostEntry(host, address or "")))
        return RayNode(host, address, self._flags(where, fields, _ON_HEAD if head else {}))

    def _flags(self, where: str, fields: Mapping[str, Any], refused: Mapping[str, str]) -> dict[str, FlagValue]:
        """`refused` has flags that can't be set here, with the reason."""
        flags: dict[str, FlagValue] = {}
        for written, value in fields.items():
            place = f"{where}.{written}"
            name = self._at(place, partial(flag_name, written))
            if name in flags:
                raise self._document.mistake(place, "given twice, with _ and with -")
            if name in refused:
                raise self._document.mistake(place, refused[name])
            if (valid := flag_value(name, value)) is None:
                raise self._document.type_mistake(place, flag_words(name))
            flags[name] = valid
        return flags

    def _job(self, file: JobFile) -> JobSpec:
        if not file.entrypoint.strip():
            raise self._document.type_mistake("job.entrypoint", WORDS["job.entrypoint"])
        for match in re.finditer(_PLACE, file.submission_id or ""):
            if not match[0].startswith("$") and match[1] not in _PLACES:
                raise self._document.mistake("job.submission_id", f"unknown placeholder {match[0]}; known ones: {{time}} {{name}}")
        if file.submission_id is not None and not re.fullmatch(SUBMISSION, re.sub(_PLACE, "x", file.submission_id)):
            raise self._document.mistake(
                "job.submission_id", "expected at most 100 letters, digits and . _ -, because Ray uses it in a URL and a file name"
            )
        self._check_runtime_env(file.runtime_env)
        return JobSpec(
            entrypoint=file.entrypoint.strip(),
            working_dir=file.working_dir,
            env=self._variables("job.env", file.env),
            runtime_env=file.runtime_env,
            submission_id=file.submission_id,
            entrypoint_num_gpus=self._amount("job.entrypoint_num_gpus", file.entrypoint_num_gpus),
            entrypoint_num_cpus=self._amount("job.entrypoint_num_cpus", file.entrypoint_num_cpus),
            entrypoint_memory=self._bytes("job.entrypoint_memory", file.entrypoint_memory),
            entrypoint_resources=self._amounts("job.entrypoint_resources", file.entrypoint_resources),
            metadata=self._texts("job.metadata", file.metadata),
        )

    def _check_runtime_env(self, given: Mapping[str, Any]) -> None:
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self._document.mistake("job.runtime_env", "contains a value that is neither text nor a number, such as a date") from error
        for key in given:
            place = f"job.runtime_env.{key}"
            if key in _ELSEWHERE:
                raise self._document.mistake(place, _ELSEWHERE[key])
            near = get_close_matches(str(key), (*_RUNTIME_ENV, *_ELSEWHERE), 1, 0.8)
            if key not in _RUNTIME_ENV and near:  # other unknown keys are allowed: they may belong to a plugin of Ray
                raise self._document.mistake(place, f"no such key; perhaps {near[0]}")

    def _needs(self, file: NeedsFile) -> Needs:
        return Needs(
            gpus=self._amount("needs.gpus", file.gpus),
            cpus=self._amount("needs.cpus", file.cpus),
            bundles=tuple(self._bundle(f"needs.bundles[{index}]", given) for index, given in enumerate(file.bundles)),
            strategy=file.strategy,
            gpu_memory_free=self._bytes("needs.gpu_memory_free", file.gpu_memory_free),
            host_memory_free=self._bytes("needs.host_memory_free", file.host_memory_free),
            shm_free=self._bytes("needs.shm_free", file.shm_free),
            disk_free=self._bytes("needs.disk_free", file.disk_free),
            open_files=file.open_files,
            ray_version=self._version("needs.ray_version", file.ray_version),
            python_version=self._version("needs.python_version", file.python_version),
        )

    def _bundle(self, where: str, given: Mapping[str, Any]) -> tuple[Mapping[str, float], int]:
        count = given.get("count", 1)
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise self._document.type_mistake(f"{where}.count", "a whole number from 1")
        shape = self._amounts(where, {name: amount for name, amount in given.items() if name != "count"})
        if not any(shape.values()):
            raise self._document.mistake(where, "a bundle must ask for something, such as GPU: 1")
        return shape, count

    def _variables(self, where: str, given: Mapping[str, Any]) -> dict[str, str]:
        for name in given:
            if not re.fullmatch(_VARIABLE, str(name)):
                raise self._document.mistake(where, f"{str(name)!r} is not a valid variable name")
        texts = self._texts(where, given)
        for name, text in texts.items():
            if "\0" in text:
                raise self._document.mistake(f"{where}.{name}", "a variable can't contain a null byte")
            if odd := re.search(_LITERAL, text):
                way_out = f"only ${{NAME}} can; write ${odd[0]} to pass it on unchanged"
                raise self._document.mistake(f"{where}.{name}", f"{redact(odd[0])} can't be filled in, {way_out}")
        return texts

    def _texts(self, where: str, given: Mapping[str, Any]) -> dict[str, str]:
        return {str(name): self._text(f"{where}.{name}", value) for name, value in given.items()}

    def _text(self, where: str, value: Any) -> str:
        """Return the text as it was typed: `1.10` is not 1.1, and `True` is not true."""
        if value is None:
            raise self._document.mistake(where, 'expected text, got nothing; an empty text is ""')
        if isinstance(value, (list, dict)):
            raise self._document.type_mistake(where, "text")
        written = None if isinstance(value, str) else self._document.read_scalar(where)
        return str(value) if written is None else written

    def _amounts(self, where: str, given: Mapping[str, Any]) -> dict[str, float]:
        return {str(name): self._amount(f"{where}.{name}", value) or 0.0 for name, value in given.items()}

    def _amount(self, where: str, value: Any) -> float | None:
        if value is None:
            return None
        if not is_number(value) or value < 0:
            raise self._document.type_mistake(where, "a number from 0")
        return float(value)

    def _bytes(self, where: str, value: Any) -> int | None:
        if value is not None and (amount := byte_count(value)) is None:
            raise self._document.type_mistake(where, WORDS[where])
        return None if value is None else amount

    def _version(self, where: str, value: Any) -> str | None:
        written = None if value is None else self._text(where, value)
        if written is not None and version_matches(written, "0") is None:
            raise self._document.type_mistake(where, WORDS[where])
        return written

    def _at(self, where: str, check: Callable[[], T]) -> T:
        try:
            return check()
        except InputError as error:
            raise self._document.mistake(where, str(error)) from error
