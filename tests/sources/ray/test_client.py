from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from cockpit.sources.ray.client import GCS_PROOF_S, RayClient
from cockpit.sources.ray.http import Dashboard
from cockpit.sources.source import SourceError
from cockpit.trust import find_token
from tests.fakes.transport import MockTransport
from tests.sources.ray.recorded_ray import Clock, RecordedRay, listing, recorded

SECRET = "5ec4e7" * 10


async def test_a_cluster_reports_its_identity():
    found = await RecordedRay().ray().identify()
    assert (found.address, found.ray_version, found.auth, found.reachable) == ("http://head:8265", "2.60.0", "disabled", True)
    assert found.session == "session_2026-11-21_01-17-58_164160_11638"
    assert found.cluster_id == "58908cde40a28e65414addd5499a2fb8638695872daafe96f34aaf93"


@pytest.mark.parametrize(("version", "session"), [("2.44.1", True), ("2.9.3", False)])
async def test_old_rays_have_no_authentication_and_no_cluster_id(version, session):
    found = await RecordedRay(version).ray().identify()
    assert (found.ray_version, found.auth, found.cluster_id) == (version, "disabled", None)
    assert (found.session is not None) is session


async def test_everything_is_forgotten_only_if_another_cluster_answers():
    ray, clock = RecordedRay(), Clock()
    it = ray.ray(clock)
    await it.identify()
    await it.read_nodes()
    await it.identify()
    other = recorded("nodes_groups")
    ray.paths["/nodes"] = other
    clock.now += 5.0
    with pytest.raises(SourceError, match="checks again first"):
        await it.read_nodes()
    ray.paths["/api/version"] = {**recorded("version"), "session_name": "session_2026-11-22"}
    await it.identify()
    assert [node.id for node in (await it.read_nodes()).nodes] == [other["data"]["summary"][0]["raylet"]["nodeId"]]


async def test_another_session_at_the_address_is_reported_with_the_previous_one():
    ray, clock = RecordedRay(), Clock()
    it = ray.ray(clock)
    first = await it.identify()
    assert (first.before, first.replaced) == (None, None)
    ray.paths["/api/version"] = {**recorded("version"), "session_name": "session_2026-11-22"}
    clock.now += 5.0
    for _ in range(2):
        second = await it.identify()
        assert (second.session, second.before, second.replaced) == ("session_2026-11-22", first.session, clock.now)


async def test_if_one_session_is_meant_another_one_is_refused():
    ray = RecordedRay()
    meant = recorded("version")["session_name"]
    why_not_meant = lambda name: None if name == meant else f"{name} answers there now"  # noqa: E731
    it = RayClient("http://head:8265", token=lambda: None, transport=MockTransport(ray), why_not_meant=why_not_meant)
    await it.identify()
    nodes = next(source for source in it.sources if source.name == "ray.nodes")
    await nodes.read()
    ray.paths["/api/version"] = {**recorded("version"), "session_name": "session_2"}
    for ask in (it.identify, nodes.read, it.log_files):
        with pytest.raises(SourceError, match="http://head:8265: session_2 answers there now") as caught:
            await ask()
        assert caught.value.cause == "other session"


def with_token() -> RecordedRay:
    ray = RecordedRay()
    open_paths = {"/api/authentication_mode": recorded("authentication_mode_token"), "/api/gcs_healthz": (200, "success")}
    closed = {path: answer for path, answer in ray.paths.items() if path not in open_paths}

    def guarded(path):
        def answer(request):
            header = request.headers.get("authorization")
            if header is None:
                return 401, "Unauthorized: Missing authentication token"
            if header != f"Bearer {SECRET}":
                return 403, "Forbidden: Invalid authentication token"
            found = closed[path]
            return found(request) if callable(found) else found

        return answer

    ray.paths = {**{path: guarded(path) for path in closed}, **open_paths}
    return ray


async def test_a_token_is_sent_only_where_it_is_required():
    ray = with_token()
    found = await ray.ray(token=SECRET).identify()
    assert (found.auth, found.ray_version) == ("token", "2.60.0")
    assert "authorization" not in ray.asked[0].headers, "the first question, whether a token is required, has none"
    ray = RecordedRay()
    it = ray.ray(token=SECRET)
    await it.identify()
    await it.read_nodes()
    assert not any("authorization" in request.headers for request in ray.asked)
    assert (await with_token().ray(token=SECRET).read_nodes()).nodes


async def test_a_missing_token_names_the_places_searched_and_a_wrong_token_is_not_shown():
    missing = r"requires a token, and none was found \(looked in RAY_AUTH_TOKEN, .*RAY_AUTH_TOKEN_PATH, ~/.ray/auth_token\)"
    with pytest.raises(SourceError, match=missing) as caught:
        await with_token().ray().identify()
    assert caught.value.cause == "no token"
    with pytest.raises(SourceError, match="rejects the token that was found") as caught:
        await with_token().ray(token="wrong" + SECRET).identify()
    assert SECRET not in str(caught.value)
    assert caught.value.cause == "wrong token"


@pytest.mark.parametrize("token", [f"{SECRET}\nX-Evil: 1", "tökän"])
async def test_an_invalid_token_is_neither_sent_nor_shown(token):
    ray = with_token()
    with pytest.raises(SourceError, match="the one found is not valid") as caught:
        await ray.ray(token=token).identify()
    assert token not in str(caught.value)
    assert not any("authorization" in request.headers for request in ray.asked)


async def test_a_head_that_returns_with_a_token_is_asked_again_for_its_mode():
    ray = RecordedRay()
    it = ray.ray(token=SECRET)
    await it.read_nodes()
    ray.paths = with_token().paths
    with pytest.raises(SourceError):
        await it.read_nodes()
    assert (await it.read_nodes()).nodes


def test_a_token_is_found_where_ray_finds_it_and_invalid_text_is_none(tmp_path: Path):
    home, named = tmp_path / "home", tmp_path / "named"
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text("at-home\n")
    named.write_text("named\n")
    assert find_token({}, home) == "at-home"
    assert find_token({"RAY_AUTH_TOKEN_PATH": str(named)}, home) == "named"
    assert find_token({"RAY_AUTH_TOKEN": "direct", "RAY_AUTH_TOKEN_PATH": str(named)}, home) == "direct"
    assert find_token({}, tmp_path) is None
    assert find_token({"RAY_AUTH_TOKEN_PATH": str(tmp_path / "gone")}, home) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_bytes(b"\xff\xfe\x00")
    assert find_token({}, tmp_path) is None


def test_without_a_home_there_is_no_token(monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert find_token({}) is None
    assert find_token({"RAY_AUTH_TOKEN_PATH": "~no-such-user-here/token"}) is None


async def test_the_identity_is_asked_again_after_a_new_session_or_without_answers():
    ray = RecordedRay()
    it = ray.ray()
    await it.identify()
    version = ray.paths["/api/version"]
    ray.paths["/cluster_id"] = {"result": True, "msg": "", "data": {"clusterId": "b" * 56}}
    ray.paths["/api/version"] = {**version, "session_name": "session_2026-11-22"}
    assert (await it.identify()).cluster_id == "b" * 56
    ray.paths["/api/version"] = (500, "it is going down")
    with pytest.raises(SourceError):
        await it.identify()
    ray.paths["/api/version"] = {**version, "session_name": "session_2026-11-22"}
    ray.paths["/cluster_id"] = {"result": True, "msg": "", "data": {"clusterId": "c" * 56}}
    assert (await it.identify()).cluster_id == "c" * 56


async def test_two_missing_answers_of_the_gcs_make_everything_old():
    ray = RecordedRay()
    silent = (503, "503: Health check failed: RPC error: Deadline Exceeded")
    answers = iter([silent, (200, "success"), silent, silent])
    ray.paths["/api/gcs_healthz"] = lambda _: next(answers)
    it = ray.ray(clock := Clock())
    await it.check_gcs()
    clock.now += GCS_PROOF_S
    with pytest.raises(SourceError, match="Ray's GCS does not answer; the dashboard's data may be old") as caught:
        await it.check_gcs()
    assert caught.value.cause == "gcs"


async def test_when_the_gcs_is_back_everything_is_asked_again():
    ray = RecordedRay()
    it = ray.ray()
    ray.paths["/api/gcs_healthz"] = (503, "503: Health check failed")
    it._dashboard._rests["/nodes"] = (it._dashboard._clock() + 30.0, 30.0)
    with pytest.raises(SourceError):
        await it.check_gcs()
    with pytest.raises(SourceError, match="next try in"):
        await it.read_nodes()
    ray.paths["/api/gcs_healthz"] = (200, "success")
    await it.check_gcs()
    assert (await it.read_nodes()).nodes


async def test_a_gcs_that_answered_quickly_is_not_asked_for_its_health():
    ray, clock = RecordedRay(), Clock()
    it = ray.ray(clock)
    await it.read_placement_groups()
    clock.now += GCS_PROOF_S - 0.5
    await it.check_gcs()
    assert ray.times_asked("/api/gcs_healthz") == 0
    clock.now += 0.5
    await it.check_gcs()
    assert ray.times_asked("/api/gcs_healthz") == 1
    ray, clock = RecordedRay(), Clock()
    listed = ray.paths["/api/v0/placement_groups"]

    def slow(_: httpx.Request) -> object:
        clock.now += 0.2
        return listed

    ray.paths["/api/v0/placement_groups"] = slow
    it = ray.ray(clock)
    await it.read_placement_groups()
    await it.check_gcs()
    assert ray.times_asked("/api/gcs_healthz") == 1


async def test_a_lost_gcs_must_report_its_own_health():
    ray = RecordedRay()
    it = ray.ray()
    ray.paths["/api/gcs_healthz"] = (503, "503: Health check failed")
    for _ in range(2):
        with pytest.raises(SourceError, match="GCS does not answer"):
            await it.check_gcs()
        await it.read_placement_groups()


async def test_rays_own_error_text_is_passed_on():
    ray = RecordedRay()
    body = '{"result": false, "msg": "Failed to query data from GCS. It is due to (1) GCS is unexpectedly failed.", "data": null}'
    ray.paths["/api/v0/placement_groups"] = (500, body)
    with pytest.raises(SourceError, match=r"answered HTTP 500 \(asked for placement groups\): Failed to query data from GCS"):
        await ray.ray().read_placement_groups()
    ray = RecordedRay()
    ray.paths["/nodes"] = {"result": False, "msg": "Unknown view None", "data": None}
    with pytest.raises(SourceError, match=r"sent no data \(asked for nodes\): Unknown view None"):
        await ray.ray().read_nodes()


async def test_another_server_on_the_port_is_not_a_ray():
    ray = RecordedRay()
    ray.paths = {"/api/version": (200, "<!doctype html><p>hello")}
    with pytest.raises(SourceError, match="http://head:8265 is not a Ray dashboard: it sent an HTML page"):
        await ray.ray().identify()
    ray.paths = {}
    with pytest.raises(SourceError, match="is not a Ray dashboard: it reports no Ray version"):
        await ray.ray().identify()
    ray.paths = {"/api/version": {"hello": "world"}}
    with pytest.raises(SourceError, match="unexpected JSON") as caught:
        await ray.ray().identify()
    assert caught.value.cause == "not ray"


async def test_ids_are_quoted_completely():
    ray = RecordedRay()
    with pytest.raises(SourceError):
        await ray.ray().node_processes("../../x?y=1&\udc80")
    assert ray.asked[-1].url.raw_path.startswith(b"/nodes/..%2F..%2Fx%3Fy%3D1%26%3F?")


@pytest.mark.parametrize("address", ["http://head:8265", "http://he\udc80d:8265"])
async def test_an_address_that_is_no_url_is_reported(address):
    dashboard = Dashboard(address, token=lambda: None, transport=MockTransport(RecordedRay()))
    with pytest.raises(SourceError, match="can't be asked"):
        await dashboard.get("/api/version", timeout=5.0, params={"filename": "job-driver-\ud800.log"})
    await dashboard.close()


async def test_the_loss_of_all_groups_is_accepted_only_if_it_lasts():
    ray, clock = RecordedRay(), Clock()
    it = ray.ray(clock)
    some = ray.paths["/api/v0/placement_groups"]
    await it.read_placement_groups()
    for round_ in range(4):  # each loss must be confirmed again
        ray.paths["/api/v0/placement_groups"] = listing()
        for _ in range(2):
            clock.now += 10.0
            with pytest.raises(SourceError, match="checks again first"):
                await it.read_placement_groups()
        if round_ < 3:
            ray.paths["/api/v0/placement_groups"] = some
            assert (await it.read_placement_groups()).groups
    assert (await it.read_placement_groups()).groups == ()


@pytest.mark.parametrize("asked", ["nodes", "actors"])
async def test_an_answer_of_the_previous_ray_is_not_reported_for_the_next(asked):
    ray = RecordedRay()
    it = ray.ray()
    path = {"nodes": "/api/v0/nodes", "actors": "/api/v0/actors"}[asked]
    recorded_answer = ray.paths[path]

    def meanwhile(request: httpx.Request) -> object:
        it.forget()
        return recorded_answer(request) if callable(recorded_answer) else recorded_answer

    ray.paths[path] = meanwhile
    with pytest.raises(SourceError, match="another Ray"):
        await (it.read_nodes() if asked == "nodes" else it.read_actors())
    ray.paths[path] = recorded_answer
    assert (await it.read_nodes()).nodes
    assert (await it.read_actors()).actors


@pytest.mark.parametrize(
    ("name", "path", "took", "pause"),
    [
        ("ray.nodes", "/nodes", 0.01, 5.0),
        ("ray.nodes", "/nodes", 1.3, 13.0),
        ("ray.nodes", "/nodes", 2.4, 16.8),  # 24 s would make all nodes old in each round
        ("ray.nodes", "/nodes", 4.0, 28.0),
        ("ray.nodes", "/nodes", 8.0, 30.0),
        ("ray.placement_groups", "/api/v0/placement_groups", 0.01, 5.0),
        ("ray.placement_groups", "/api/v0/placement_groups", 0.7, 14.0),
        ("ray.placement_groups", "/api/v0/placement_groups", 4.0, 30.0),
    ],
)
async def test_expensive_requests_pause_longer_if_the_dashboard_is_slow(name: str, path: str, took: float, pause: float):
    ray, moment = RecordedRay(), 0.0
    recorded_answer = ray.paths[path]

    def answer(_: httpx.Request) -> object:
        nonlocal moment
        moment += took
        return recorded_answer

    ray.paths[path] = answer
    it = ray.ray()
    it._dashboard._clock = lambda: moment
    source = next(source for source in it.sources if source.name == name)
    await source.read()
    assert source.pause() == pause


def test_an_address_is_shown_without_its_password():
    assert RayClient("http://user:hunter22@head:8265/").address == "http://head:8265"
    assert RayClient("head:8265").address == "http://head:8265"


async def test_waiting_groups_have_their_strategies_at_the_first_read_even_if_the_status_is_slow():
    it = RecordedRay().ray()
    ask = it._dashboard.data

    async def slow(path, *rest, **more):
        if path == "/api/cluster_status":
            await asyncio.sleep(0.3)
        return await ask(path, *rest, **more)

    it._dashboard.data = slow
    _, facts = await asyncio.gather(it.read_status(), it.read_placement_groups())
    waiting = [group for group in facts.groups if group.pending]
    assert waiting
    assert all(group.strategy for group in waiting)
