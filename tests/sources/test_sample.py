"""What a probe says reaches the model whole."""

from __future__ import annotations

from cockpit.model import Process, Session
from cockpit.sources import sample


def test_every_fact_of_a_process_and_of_a_session_is_read():
    for known, read in ((Process, sample._Process), (Session, sample._Session)):
        assert set(known.__struct_fields__) - {"host"} == set(read.__struct_fields__)
