"""The demo's actors print lines of their work, and the crashing server prints its reason."""

from __future__ import annotations

import importlib
import os
import re
import sys

import pytest

from cockpit.demo import nvml
from cockpit.demo.cluster import SCRIPTS

pytestmark = pytest.mark.process


@pytest.fixture
def models(monkeypatch):
    """As the demo's jobs import it: beside the simulated NVML."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setitem(sys.modules, "nvml", nvml)
    monkeypatch.delitem(sys.modules, "models", raising=False)
    yield importlib.import_module("models")
    sys.modules.pop("models")


def actor(models, name, step=1):
    made = object.__new__(getattr(models, name))
    made.step = step
    return made


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PolicyModelActor", r"policy_loss [+-]0\.\d{4}  entropy 0\.\d+  grad_norm \d\.\d+"),
        ("ReferenceModelActor", r"log-probabilities of 256 samples"),
        ("CriticModelActor", r"critic_loss 0\.\d+"),
        ("RewardModelActor", r"256 samples scored, reward -?\d\.\d+"),
        ("LLMRayActor", r"generation \d{4} tokens/s"),
        ("RemoteRewardServer", r"POST /score 200, 64 samples, mean reward 0\.\d+"),
    ],
)
def test_every_model_prints_its_steps(models, name, words):
    assert re.match(words, actor(models, name).progress_text())


def test_the_reward_server_dies_with_a_traceback(models, monkeypatch, capsys):
    def leave(code):
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        actor(models, "RemoteRewardServer", step=15).progress_text()
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):")
    assert "in progress_text\n" in told
    assert told.endswith("ZeroDivisionError: float division by zero\n")
