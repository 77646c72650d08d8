"""Made-up processes have made-up pids, which may be real ones here, even of another mount namespace: a container's."""

from __future__ import annotations

import pytest

from cockpit.probe.look import sessions


@pytest.fixture(autouse=True)
def one_mount_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are in the one that the tests run in; others are for tests of real namespaces."""
    monkeypatch.setattr(sessions, "_mounts_of", lambda _: "mnt:[4026531840]")
