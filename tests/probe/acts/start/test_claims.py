"""Whose word counts on which Ray runs here."""

from __future__ import annotations

import pytest

from cockpit.probe.acts.host_state import HostState
from cockpit.probe.acts.start import is_of_its_owner
from cockpit.probe.look.gpus import GpuReading
from cockpit.probe.look.sessions import Sessions
from tests.probe.forests import SESSION, USER, folder, forest, raylet


@pytest.mark.parametrize(("owner", "user", "counts"), [(USER, USER, True), (USER, 666, False), (666, USER, False), (USER, 0, True)])
def test_a_raylet_speaks_for_its_session_only_as_its_owner_or_root(owner, user, counts):
    one = raylet(uid=user)
    look = HostState(forest(one), {}, GpuReading(), Sessions(of={100: folder(SESSION, 100, uid=owner)}))
    assert is_of_its_owner(look, one) is counts
