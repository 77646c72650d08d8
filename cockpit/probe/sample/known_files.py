"""Recognizes files of Ray, of training frameworks and of caches by their paths. Pure."""

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
"""The folders of checkpoints of veRL, OpenRLHF, Hugging Face and Megatron; the folder of the run is the one above."""
_WEIGHTS = re.compile(r".*\.(?:safetensors|distcp|ckpt|pth?|gguf)$|(?:pytorch|adapter)_model.*\.bin$", re.DOTALL)
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_RUNTIME_ENV = re.compile(r"(?P<folder>.*/runtime_resources)/", re.DOTALL)
_WANDB = re.compile(r"(?P<folder>.*/wandb)/(?:(?:offline-)?run-|latest-run)", re.DOTALL)
_CORE = re.compile(r"core(?:[.-].*\d)?$", re.DOTALL)


class KnownFiles(NamedTuple):
    """Files that belong together: one log, one cache, the checkpoints of one run."""

    kind: str
    """As `Filler.kind` in the model."""
    path: str
    """The file, or the folder that contains all of them; in /dev/shm a pattern."""
    name: str = ""
    """For a cache, the program that uses it; for checkpoints, the run; for shared memory, the meaning of each file."""
    job: str = ""
    """For a driver's log, the submission id; for a worker's log, the job id."""
    pid: int | None = None
    """For a worker's log, the worker's pid in its PID namespace; for a deleted file, a process that has it open."""
    session: str = ""
    """The name of the Ray session, if the file is in the session's folder and has the same owner."""


class KnownSession(NamedTuple):
    """The folder of a Ray session that was found on this host."""

    uid: int
    """The owner of the folder."""
    is_trusted: bool
    """The owner is root or the user of the probe."""


def recognize(path: str, uid: int | None = None, sessions: Mapping[str, KnownSession] = MappingProxyType({})) -> KnownFiles | None:
    """The known files that a file belongs to; `None`: its path is not known. `path` is absolute, `uid` is the owner of the file.

    Any user can name a folder like a session's, and write into a session's folder. So a file belongs to a session only if it is in a folder
    of `sessions` (by path) and has the same owner. Logs of Ray are known only in a trusted session.
    """
    if path.startswith(f"{SHM}/"):
        for pattern, name in SHM_NAMES:
            match = pattern.match(os.path.basename(path))
            if match is not None:
                return KnownFiles("shm", f"{SHM}/{match['start']}*", name)  # together, since there may be thousands
        return None
    match = _SESSION.match(path)
    session = sessions.get(match["folder"]) if match is not None else None
    if match is None or session is None or session.uid != uid:
        return _recognize_anywhere(path)
    rest, name = match["rest"], match["session"]
    if rest.startswith("logs/") and session.is_trusted:
        driver, worker = _DRIVER_LOG.match(rest), _WORKER_LOG.match(rest)
        if driver is not None:
            return KnownFiles("driver_log", path, job=driver["job"], session=name)
        if worker is not None:
            return KnownFiles("worker_log", path, job=worker["job"], pid=int(worker["pid"]), session=name)
        return KnownFiles("ray_log", path, session=name)
    found = _recognize_anywhere(path)
    return found._replace(session=name) if found is not None else KnownFiles("session", match["folder"], session=name)


def _recognize_anywhere(path: str) -> KnownFiles | None:
    """The known files that may be in any folder."""
    spilled = _SPILLED.match(path)
    if spilled is not None:
        return KnownFiles("spilled", spilled["folder"])
    for pattern, name in _CACHES:
        cache = pattern.match(path)
        if cache is not None:
            return KnownFiles("cache", cache["folder"], name)
    if not _INSTALLED.search(path):
        step = _STEP.match(path)
        run = step["folder"] if step else os.path.dirname(path) if _WEIGHTS.match(os.path.basename(path)) else ""
        if run.strip("/"):
            return KnownFiles("checkpoints", run, "/".join(run.strip("/").split("/")[-2:]))
    wandb, environment = _WANDB.match(path), _RUNTIME_ENV.match(path)
    if wandb is not None:
        return KnownFiles("wandb", wandb["folder"])
    if environment is not None:
        return KnownFiles("runtime_env", environment["folder"])
    return KnownFiles("core", path) if _CORE.match(os.path.basename(path)) else None
