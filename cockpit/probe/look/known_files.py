"""What files of Ray, of training frameworks and of caches are, by their paths. Pure."""

from __future__ import annotations

import os
import re
from types import MappingProxyType
from typing import Mapping, NamedTuple

SHM_NAMES = (
    (re.compile(r"(?P<start>plasma)(?:[A-Za-z0-9]{6}|[-_].+)$"), "Ray's object store"),
    (re.compile(r"(?P<start>psm_)[0-9a-f]{4,16}$"), "Python's shared memory"),
    (re.compile(r"(?P<start>sem\.mp-)[a-z0-9_]{8}$"), "a semaphore of multiprocessing"),
    (re.compile(r"(?P<start>torch_)(?P<pid>\d+)_\d+(_\d+)?$"), "a tensor of PyTorch"),
    (re.compile(r"(?P<start>nccl-)(?:[A-Za-z0-9]{6}|shm-.+)$"), "a buffer of NCCL"),
    (re.compile(r"(?P<start>(?i:vllm)[-_]).+$"), "a buffer of vLLM"),
)
"""Names of files in /dev/shm, and what each file is."""
SHM = "/dev/shm"  # noqa: S108 a fixed place
_SESSION = re.compile(r"(?P<folder>.*/(?P<session>session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d+_\d+))/(?P<rest>.+)$", re.DOTALL)
_DRIVER_LOG = re.compile(r"logs/job-driver-(?P<job>.+)\.log$", re.DOTALL)
_WORKER_LOG = re.compile(r"logs/worker-[0-9a-f]{56}-(?P<job>[0-9a-f]{8}|)-(?P<pid>\d{1,10})\.(?:out|err)(?:\.\d{1,3})?$")
_SPILLED = re.compile(r"(?P<folder>.*/ray_spilled_objects[^/]*)/", re.DOTALL)
_CACHES = (
    (re.compile(r"(?P<folder>.*/\.cache/huggingface)/", re.DOTALL), "Hugging Face"),
    (re.compile(r"(?P<folder>.*/hub)/(?:models|datasets|spaces)--[^/]+/", re.DOTALL), "Hugging Face"),
    (re.compile(r"(?P<folder>.*/\.cache/modelscope)/", re.DOTALL), "ModelScope"),
    (re.compile(r"(?P<folder>.*/\.cache/vllm)/", re.DOTALL), "vLLM"),
    (re.compile(r"(?P<folder>.*/\.cache/flashinfer)/", re.DOTALL), "FlashInfer"),
    (re.compile(r"(?P<folder>.*/(?:\.triton|triton_cache))/", re.DOTALL), "Triton"),
    (re.compile(r"(?P<folder>.*/(?:torchinductor_[^/]+|inductor_cache))/", re.DOTALL), "torch.compile"),
    (re.compile(r"(?P<folder>.*/\.cache/pip)/", re.DOTALL), "pip"),
    (re.compile(r"(?P<folder>.*/\.cache/uv)/", re.DOTALL), "uv"),
)
_STEP = re.compile(r"(?P<folder>.*?)/(?:global_?step_?\d+[^/]*|checkpoint-\d+|iter_\d+|step_\d+|epoch_\d+)/", re.DOTALL)
"""A checkpoint's folder as veRL, OpenRLHF, Hugging Face and Megatron call it; that of the run lies above it."""
_WEIGHTS = re.compile(r".*\.(?:safetensors|distcp|ckpt|pth?|gguf)$|(?:pytorch|adapter)_model.*\.bin$", re.DOTALL)
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_RUNTIME_ENV = re.compile(r"(?P<folder>.*/runtime_resources)/", re.DOTALL)
_WANDB = re.compile(r"(?P<folder>.*/wandb)/(?:(?:offline-)?run-|latest-run)", re.DOTALL)
_CORE = re.compile(r"core(?:[.-].*\d)?$", re.DOTALL)
_HINT = re.compile(
    r"/session_\d|/ray_spilled|/\.cache/|/hub/|triton|inductor|step|checkpoint-|/iter_|/epoch_|/wandb/|/runtime_resources/|/core[^/]*$"
    r"|\.(?:safetensors|distcp|ckpt|pth?|gguf|bin)$"
)
"""What is in the path of everything that is known here: most paths need no more than one search."""


class KnownFiles(NamedTuple):
    """Files that belong together: one log, one cache, the checkpoints of one run."""

    kind: str
    """As of `Filler.kind` in the model."""
    path: str
    """The file, or the folder in which all of them lie; in /dev/shm a pattern."""
    name: str = ""
    """Of a cache the program that uses it, of checkpoints the run, of shared memory what each file is."""
    job: str = ""
    """Of a driver's log the submission id, of a worker's log the job id."""
    pid: int | None = None
    """Of a worker's log, as that worker's PID namespace counts; of a deleted file a process that has it open."""
    session: str = ""
    """The name of the Ray session in whose folder it lies, and whose owner owns it."""


class KnownSession(NamedTuple):
    """The folder of a Ray session that was found on this host."""

    uid: int
    """Who owns it."""
    is_trusted: bool
    """The owner is root, or the user that the probe runs as."""


def recognize(path: str, uid: int | None = None, sessions: Mapping[str, KnownSession] = MappingProxyType({})) -> KnownFiles | None:
    """What a file is a part of; `None`: its path does not tell. `path` is absolute, `uid` owns the file.

    Anybody can make a folder that is called like a session's, and write into a session's folder. So a file counts as a session's only in
    a folder of `sessions` (by path), and only if it has the same owner. Logs of Ray are known only in a session that is trusted.
    """
    if path.startswith(f"{SHM}/"):
        return _recognize_shared_memory(path)
    if _HINT.search(path) is None:
        return None
    match = _SESSION.match(path)
    session = sessions.get(match["folder"]) if match is not None else None
    if match is None or session is None or session.uid != uid:
        return _recognize_other(path)
    name = match["session"]
    if match["rest"].startswith("logs/") and session.is_trusted:
        return _recognize_log(path, match["rest"], name)
    found = _recognize_other(path)
    return found._replace(session=name) if found is not None else KnownFiles("session", match["folder"], session=name)


def _recognize_other(path: str) -> KnownFiles | None:
    """What may lie anywhere."""
    spilled = _SPILLED.match(path)
    if spilled is not None:
        return KnownFiles("spilled", spilled["folder"])
    return _recognize_cache(path) or _recognize_checkpoint(path) or _recognize_rest(path)


def _recognize_shared_memory(path: str) -> KnownFiles | None:
    """All files of one kind together: there may be thousands of them."""
    for pattern, what in SHM_NAMES:
        match = pattern.match(os.path.basename(path))
        if match is not None:
            return KnownFiles("shm", f"{SHM}/{match['start']}*", what)
    return None


def _recognize_log(path: str, rest: str, session: str) -> KnownFiles:
    driver, worker = _DRIVER_LOG.match(rest), _WORKER_LOG.match(rest)
    if driver is not None:
        return KnownFiles("driver_log", path, job=driver["job"], session=session)
    if worker is not None:
        return KnownFiles("worker_log", path, job=worker["job"], pid=int(worker["pid"]), session=session)
    return KnownFiles("ray_log", path, session=session)


def _recognize_cache(path: str) -> KnownFiles | None:
    for pattern, name in _CACHES:
        match = pattern.match(path)
        if match is not None:
            return KnownFiles("cache", match["folder"], name)
    return None


def _recognize_checkpoint(path: str) -> KnownFiles | None:
    if _INSTALLED.search(path):
        return None
    step = _STEP.match(path)
    folder = step["folder"] if step else os.path.dirname(path) if _WEIGHTS.match(os.path.basename(path)) else ""
    return KnownFiles("checkpoints", folder, "/".join(folder.strip("/").split("/")[-2:])) if folder.strip("/") else None


def _recognize_rest(path: str) -> KnownFiles | None:
    wandb, environment = _WANDB.match(path), _RUNTIME_ENV.match(path)
    if wandb is not None:
        return KnownFiles("wandb", wandb["folder"])
    if environment is not None:
        return KnownFiles("runtime_env", environment["folder"])
    return KnownFiles("core", path) if _CORE.match(os.path.basename(path)) else None
