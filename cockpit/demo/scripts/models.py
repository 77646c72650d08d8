"""Actors in the shape of an RLHF run: they hold simulated GPU memory, and keep GPUs busy by turns."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import nvml

GIB = 1 << 30
TURN = 20.0
"""Seconds of rollout, then seconds of training."""


def hold(pid: int, devices: list[str], gigabytes: float, training: int, generating: int) -> None:
    """Hold memory for good, busy as the turn demands. Without simulated GPUs there is nothing to hold."""
    state = os.environ.get(nvml.STATE)
    while state:
        rollout = int(time.time() / TURN) % 2 == 0
        nvml.hold(Path(state), pid, devices, int(gigabytes * GIB), busy=generating if rollout else training)
        time.sleep(TURN - time.time() % TURN)


class Model:
    """One rank of one model, on the GPU that Ray gave it."""

    gigabytes, training, generating = 0.0, 0, 0

    def __init__(self) -> None:
        self.devices = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device.isdigit()]
        work = (os.getpid(), self.devices, self.gigabytes, self.training, self.generating)
        threading.Thread(target=hold, args=work, daemon=True).start()

    def ready(self) -> list[str]:
        return self.devices


class PolicyModelActor(Model):
    gigabytes, training, generating = 38.5, 72, 2


class ReferenceModelActor(Model):
    gigabytes, training, generating = 15.2, 9, 0


class CriticModelActor(Model):
    gigabytes, training, generating = 41.0, 88, 3


class RewardModelActor(Model):
    gigabytes, training, generating = 15.4, 11, 24


class LLMRayActor(Model):
    """Its engine is a process of its own, in a session of its own, as vLLM's can be."""

    gigabytes, training, generating = 0.6, 0, 1

    def __init__(self, engine_gigabytes: float = 56.2) -> None:
        super().__init__()
        engine = [sys.executable, str(Path(__file__).with_name("engine.py")), ",".join(self.devices), str(engine_gigabytes)]
        self.engine = subprocess.Popen(engine, start_new_session=True)

    def crash(self) -> None:
        """End as under the kernel's OOM killer: at once, and the engine stays."""
        os.kill(os.getpid(), 9)


class RemoteRewardServer(Model):
    """A reward server with a fault: it crashes every minute or so, and Ray starts it again."""

    gigabytes, training, generating = 16.1, 3, 35

    def __init__(self) -> None:
        super().__init__()
        threading.Timer(75, os._exit, (1,)).start()


class RolloutBuffer:
    """Grows by a megabyte a second up to a limit, and begins again."""

    def __init__(self) -> None:
        self.samples: list[bytes] = []
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        while True:
            self.samples = [] if len(self.samples) > 120 else [*self.samples, os.urandom(1 << 20)]
            time.sleep(1)

    def ready(self) -> int:
        return len(self.samples)
