"""Tests which files are known by their paths."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.known_files import KnownFiles, KnownSession, recognize

NAME = "session_2026-11-27_10-00-00_123456_789"
SESSION = f"/tmp/ray/{NAME}"
WORKER = "0" * 56
ALICE, BOB = 1001, 1002
SESSIONS = {SESSION: KnownSession(ALICE, is_trusted=True)}


@pytest.mark.parametrize(
    ("path", "files"),
    [
        (
            f"{SESSION}/logs/job-driver-train1.log",
            KnownFiles("driver_log", f"{SESSION}/logs/job-driver-train1.log", job="train1", session=NAME),
        ),
        (
            f"{SESSION}/logs/worker-{WORKER}-02000000-4711.out",
            KnownFiles("worker_log", f"{SESSION}/logs/worker-{WORKER}-02000000-4711.out", job="02000000", pid=4711, session=NAME),
        ),
        (f"{SESSION}/logs/raylet.out", KnownFiles("ray_log", f"{SESSION}/logs/raylet.out", session=NAME)),
        (f"{SESSION}/ray_spilled_objects_ab12/x-multi-1", KnownFiles("spilled", f"{SESSION}/ray_spilled_objects_ab12", session=NAME)),
        ("/data/spill/ray_spilled_objects_ab12/x", KnownFiles("spilled", "/data/spill/ray_spilled_objects_ab12")),
        (f"{SESSION}/runtime_resources/pip/ab/lib/x.so", KnownFiles("runtime_env", f"{SESSION}/runtime_resources", session=NAME)),
        (f"{SESSION}/sockets/x", KnownFiles("session", SESSION, session=NAME)),
        (
            "/home/train/.cache/huggingface/hub/models--Qwen--Q/blobs/ab",
            KnownFiles("cache", "/home/train/.cache/huggingface", "Hugging Face"),
        ),
        ("/data/hf/hub/models--Qwen--Q/blobs/ab", KnownFiles("cache", "/data/hf/hub", "Hugging Face")),
        ("/home/train/.cache/vllm/torch_compile_cache/ab/x.so", KnownFiles("cache", "/home/train/.cache/vllm", "vLLM")),
        ("/home/a/.triton/cache/x.cubin", KnownFiles("cache", "/home/a/.triton", "Triton")),
        ("/tmp/torchinductor_root/ab/x.so", KnownFiles("cache", "/tmp/torchinductor_root", "torch.compile")),
        ("/home/train/.cache/pip/http/x", KnownFiles("cache", "/home/train/.cache/pip", "pip")),
        ("/home/train/.cache/uv/archive/x", KnownFiles("cache", "/home/train/.cache/uv", "uv")),
        ("/data/ppo/run1/global_step_120/actor/optim.pt", KnownFiles("checkpoints", "/data/ppo/run1", "ppo/run1")),
        ("/data/ppo/run1/_actor/global_step20/x.pt", KnownFiles("checkpoints", "/data/ppo/run1/_actor", "run1/_actor")),
        ("/data/sft/run2/checkpoint-500/global_step500/x", KnownFiles("checkpoints", "/data/sft/run2", "sft/run2")),
        ("/data/sft/out/model-1-of-2.safetensors", KnownFiles("checkpoints", "/data/sft/out", "sft/out")),
        ("/home/a/x/wandb/run-20260101_1-ab/files/x", KnownFiles("wandb", "/home/a/x/wandb")),
        ("/home/a/core.4711", KnownFiles("core", "/home/a/core.4711")),
        ("/dev/shm/plasmaAb12Cd", KnownFiles("shm", "/dev/shm/plasma*", "Ray's object store")),
        ("/dev/shm/torch_12_34_5", KnownFiles("shm", "/dev/shm/torch_*", "a tensor of PyTorch")),
        ("/dev/shm/else", None),
        ("/opt/venv/lib/site-packages/pack/weights.pth", None),
        ("/home/a/data.bin", None),
        ("/home/a/steps.txt", None),
    ],
)
def test_a_file_is_known_by_its_path(path, files):
    assert recognize(path, ALICE, SESSIONS) == files


@pytest.mark.parametrize("above", ["/data", f"{SESSION}/work"])
@pytest.mark.parametrize("rest", ["logs/job-driver-train1.log", f"logs/worker-{WORKER}-02000000-4711.out", "logs/raylet.out", "sockets/x"])
def test_a_folder_with_only_a_session_s_name_is_no_session(above, rest):
    assert recognize(f"{above}/{NAME}/{rest}", ALICE, SESSIONS) is None


@pytest.mark.parametrize("rest", ["logs/job-driver-train1.log", "logs/raylet.out", "ray_spilled_objects_ab12/x", "sockets/x"])
def test_a_file_of_another_user_in_a_session_is_not_the_session_s(rest):
    found = recognize(f"{SESSION}/{rest}", BOB, SESSIONS)
    assert found is None or (found.kind, found.session) == ("spilled", "")


def test_logs_are_known_only_in_a_trusted_session():
    foreign = {SESSION: KnownSession(ALICE, is_trusted=False)}
    assert recognize(f"{SESSION}/logs/job-driver-train1.log", ALICE, foreign) == KnownFiles("session", SESSION, session=NAME)


def test_a_long_name_takes_no_time():
    assert recognize("/tmp/" + "/".join(["global_step_" + "1" * 240] * 24)) is not None
