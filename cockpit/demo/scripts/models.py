"""Defines actors in the shape of an RLHF run: they hold simulated GPU memory, and keep GPUs busy by turns."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import nvml

GIB = 1 << 30
TURN_S = 20.0
"""Seconds of rollout, then seconds of training."""


def hold(pid: int, devices: list[str], gigabytes: float, training: int, generating: int) -> None:
    """Hold memory for good, busy as the turn demands. Without simulated GPUs there is nothing to hold."""
    state = os.environ.get(nvml.STATE)
    while state:
        rollout = int(time.time() / TURN_S) % 2 == 0
        nvml.hold(Path(state), pid, devices, int(gigabytes * GIB), busy=generating if rollout else training)
        time.sleep(TURN_S - time.time() % TURN_S)


def wait_until(moment: float) -> None:
    """Work until this POSIX time. GPUs are busy by turns anyway."""
    time.sleep(max(0.0, moment - time.time()))


class Model:
    """One rank of one model, on the GPU that Ray gave it."""

    gigabytes, training, generating = 0.0, 0, 0
    interval = TURN_S
    """Seconds between two lines of its log."""

    def __init__(self) -> None:
        self.step = 0
        self.devices = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device.isdigit()]
        work = (os.getpid(), self.devices, self.gigabytes, self.training, self.generating)
        threading.Thread(target=hold, args=work, daemon=True).start()
        threading.Thread(target=self._print_lines, daemon=True).start()

    def ready(self) -> list[str]:
        return self.devices

    # Methods of OpenRLHF. Ray writes the running one into the title of the process, so cockpit sees the phase of the job.

    def generate(self, until: float) -> None:
        wait_until(until)

    def execute_batch(self, until: float) -> None:
        wait_until(until)

    def fit(self, until: float) -> None:
        wait_until(until)

    def broadcast_to_vllm(self, until: float) -> None:
        wait_until(until)

    def _print_lines(self) -> None:
        print(f"{type(self).__name__}: {self.gigabytes} GiB loaded", flush=True)
        while True:
            time.sleep(self.interval)
            self.step += 1
            print(f"{time.strftime('%H:%M:%S')} step {self.step}  {self.progress_text()}", flush=True)

    def progress_text(self) -> str:
        """The line that it prints after a step."""
        raise NotImplementedError


class PolicyModelActor(Model):
    gigabytes, training, generating = 38.5, 72, 2

    def progress_text(self) -> str:
        loss, entropy, norm = random.gauss(0, 0.05), random.uniform(0.3, 0.5), random.uniform(0.4, 1.2)
        return f"policy_loss {loss:+.4f}  entropy {entropy:.3f}  grad_norm {norm:.2f}  lr 9.8e-07"


class ReferenceModelActor(Model):
    gigabytes, training, generating = 15.2, 9, 0

    def progress_text(self) -> str:
        return f"log-probabilities of 256 samples in {random.uniform(2.1, 2.9):.1f} s  kl {random.uniform(0.01, 0.04):.4f}"


class CriticModelActor(Model):
    gigabytes, training, generating = 41.0, 88, 3

    def progress_text(self) -> str:
        return f"critic_loss {random.uniform(0.05, 0.2):.4f}  values {random.gauss(0.4, 0.05):.3f}"


class RewardModelActor(Model):
    gigabytes, training, generating = 15.4, 11, 24

    def progress_text(self) -> str:
        return f"256 samples scored, reward {random.gauss(0.5, 0.1):.3f} in {random.uniform(3.0, 4.5):.1f} s"


class LLMRayActor(Model):
    """Its engine is a process of its own, in a session of its own, as vLLM's can be."""

    gigabytes, training, generating = 0.6, 0, 1

    def __init__(self, engine_gigabytes: float = 56.2) -> None:
        super().__init__()
        engine = [sys.executable, str(Path(__file__).with_name("engine.py")), ",".join(self.devices), str(engine_gigabytes)]
        self.engine = subprocess.Popen(engine, start_new_session=True)

    def progress_text(self) -> str:
        speed, waiting, filled = random.randint(2300, 2900), random.randint(0, 40), random.randint(60, 92)
        return f"generation {speed} tokens/s, 64 requests running, {waiting} waiting, KV cache {filled} % full"

    def crash(self) -> None:
        """End as under the kernel's OOM killer: at once, and the engine stays."""
        os.kill(os.getpid(), 9)


class RemoteRewardServer(Model):
    """A reward server with a fault: it crashes about every minute, and Ray restarts it."""

    gigabytes, training, generating = 16.1, 3, 35
    interval = 5.0

    def progress_text(self) -> str:
        """One request kills it: this server catches no error."""
        try:
            rewards = list(scores([0.0 if self.step == 15 else 1.0] * 64))
        except ZeroDivisionError:
            traceback.print_exc()
            os._exit(1)
        return f"POST /score 200, {len(rewards)} samples, mean reward {sum(rewards) / len(rewards):.3f}"


def scores(lengths: list[float]) -> Iterator[float]:
    """The reward of each answer, by its length: an empty answer has none."""
    return (random.uniform(0.2, 0.9) / length for length in lengths)


class RolloutBuffer:
    """Grows by a megabyte a second up to a limit, and begins again."""

    def __init__(self) -> None:
        self.samples: list[bytes] = []
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        while True:
            self.samples = [] if len(self.samples) > 120 else [*self.samples, os.urandom(1 << 20)]
            if len(self.samples) % 20 == 0:
                print(f"{time.strftime('%H:%M:%S')} {len(self.samples)} batches of rollouts kept", flush=True)
            time.sleep(1)

    def ready(self) -> int:
        return len(self.samples)
