from __future__ import annotations

import pytest

from cockpit.sources.ray.error_text import asked_for


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/nodes", "asked for nodes"),
        ("GET", "/nodes/abab", "asked for nodes"),
        ("GET", "/api/v0/placement_groups", "asked for placement groups"),
        ("GET", "/api/jobs/ppo", "asked for jobs"),
        ("GET", "/api/something/new", "asked for /api/something/new"),
        ("POST", "/api/jobs/", "asked to start a job"),
        ("POST", "/api/jobs/ppo/stop", "asked to stop a job"),
        ("DELETE", "/api/jobs/ppo", "asked to delete a job"),
        ("PUT", "/api/packages/gcs/_ray_pkg_1.zip", "asked to store a package"),
    ],
)
def test_a_request_is_named_by_what_it_wants(method: str, path: str, words: str):
    assert asked_for(method, path) == words
