"""A Ray dashboard without a Ray: answers for a cluster of any size, made once as bytes, and counts how it is asked.

`python -m tests.fakes.dashboard --nodes 1000 --actors 10000` prints `address=…`; `/_counts` on it says who asked what how often.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes import records
from tests.fakes.shapes import Record, Shape, hex_id, logical, node

REFRESH = 5.0
"""Seconds between two samples of Ray's agents (REPORTER_UPDATE_INTERVAL_MS) and of its autoscaler monitor."""
NODES_PACE, STATE_PACE = 22e6, 3e6
"""Bytes a second that Ray 2.60 makes: 29 MB of nodes in 1.3 s, 5.4 MB of actors in 1.8 s."""
LARGEST = 10_000
AT_SOURCE = ("actor_id", "state", "job_id")
"""Filters that GCS applies itself, before the truncation (util/state/state_manager.py)."""
DEAR = ("/api/v0/actors/summarize", "/api/v0/tasks", "/api/v0/objects", "/logical/actors", "/api/v0/cluster_events")
"""Requests that take a real Ray seconds on a big cluster, or fail there."""

Answer = Callable[[web.Request], web.Response]


@dataclass
class Tally:
    """How often one endpoint was requested."""

    starts: list[float] = field(default_factory=list)
    now: int = 0
    most_at_once: int = 0
    failed: int = 0
    sent: int = 0
    """Bytes."""

    def summary(self) -> Record:
        gaps = [later - earlier for earlier, later in zip(self.starts, self.starts[1:], strict=False)]
        return {
            "requests": len(self.starts),
            "most_at_once": self.most_at_once,
            "shortest_gap": round(min(gaps), 3) if gaps else None,
            "mean_gap": round(sum(gaps) / len(gaps), 3) if gaps else None,
            "failed": self.failed,
            "bytes": self.sent,
        }


class Nodes:
    """The body of `/nodes?view=summary`: 29 MB for 1,000 nodes. Only the changing numbers are written again, in place."""

    def __init__(self, shape: Shape, clock: Callable[[], float] = time.time) -> None:
        self._shape, self._clock = shape, clock
        summary = b", ".join(json.dumps(node(shape, number)).encode() for number in range(shape.nodes))
        resources = json.dumps({shape.node_id(number): logical(shape) for number in range(shape.nodes)}).encode()
        start = b'{"result": true, "msg": "Node summary fetched.", "data": {"summary": ['
        self._body = bytearray(start + summary + b'], "nodeLogicalResources": ' + resources + b"}}")
        self._clocks = self._places(rb'"now": (\d{10}\.\d{3})')
        self._cpus = self._places(rb'"cpu": (\d\d\.\d)')
        self._utilizations = self._places(rb'"utilizationGpu": (\d\d)')
        self._memories = self._places(rb'"memoryUsed": (\d{5})')
        self._taken = 0.0
        self._answer = b""
        self._random = random.Random(1)

    def answer(self) -> bytes:
        """The newest sample: the same bytes until Ray would have sampled again."""
        now = self._clock()
        if now - self._taken >= REFRESH:
            self._taken = now
            self._write(self._clocks, [f"{now - self._random.random():.3f}".encode() for _ in self._clocks])
            self._write(self._cpus, self._numbers(300, 400, len(self._cpus), lambda value: f"{value / 10:.1f}"))
            self._write(self._utilizations, self._numbers(50, 100, len(self._utilizations), str))
            self._write(self._memories, self._numbers(70000, 79999, len(self._memories), str))
            self._answer = bytes(self._body)
        return self._answer

    def _places(self, pattern: bytes) -> list[slice]:
        return [slice(*match.span(1)) for match in re.finditer(pattern, self._body)]

    def _write(self, places: list[slice], values: list[bytes]) -> None:
        for place, value in zip(places, values, strict=True):
            self._body[place] = value

    def _numbers(self, low: int, high: int, count: int, spell: Callable[[int], str]) -> list[bytes]:
        return [spell(value).encode() for value in self._random.choices(range(low, high), k=count)]


class Dashboard:
    """Answers and counts; every list is made once."""

    def __init__(self, shape: Shape, clock: Callable[[], float] = time.time) -> None:
        self.shape, self._clock = shape, clock
        self.tallies: dict[str, Tally] = {}
        self.dear: Counter[str] = Counter()
        self.busy: defaultdict[str, float] = defaultdict(float)
        """Seconds that each part of a real Ray's dashboard would have worked."""
        self._parts: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._nodes = Nodes(shape, clock)
        self._actors = sorted(
            (records.actor(shape, number, detail=True) for number in range(shape.actors)), key=lambda record: str(record["actor_id"])
        )
        self._brief = tuple(records.actor(shape, 0, detail=False))
        self._answers: dict[tuple[Any, ...], tuple[int, bytes]] = {}
        self._status = records.cluster_status(shape, 0.0)
        self._status_body, self._status_taken = b"", 0.0

    def application(self) -> web.Application:
        """All routes behind the counting one."""
        app = web.Application(middlewares=[self._count])
        for path, answer in self._live_routes().items():
            app.router.add_get(path, _live(answer))
        for path, answer in self._kept_routes().items():
            app.router.add_get(path, self._kept(answer))
        return app

    def _live_routes(self) -> dict[str, Answer]:
        return {
            "/_counts": lambda _: web.json_response(self.counts()),
            "/api/gcs_healthz": lambda _: web.Response(text="success", content_type="application/text"),
            "/api/cluster_status": self._cluster_status,
            "/nodes": self._summary,
        }

    def _kept_routes(self) -> dict[str, Answer]:
        shape = self.shape
        routes: dict[str, Answer] = {
            "/api/version": lambda _: web.json_response(self._version()),
            "/api/v0/cluster_metadata": lambda _: _reply({"rayVersion": shape.version, "pythonVersion": "3.11.7", "rayInitCluster": False}),
            "/nodes/{id}": self._detail,
            "/logical/actors": self._logical_actors,
            "/events": _events,
            "/api/jobs/": lambda _: web.json_response(self._jobs()),
            "/api/v0/jobs": lambda request: self._list(request, self._jobs()),
            "/api/v0/nodes": lambda request: self._list(request, [records.node_record(shape, number) for number in range(shape.nodes)]),
            "/api/v0/workers": lambda request: self._list(request, self._workers()),
            "/api/v0/placement_groups": lambda request: self._list(request, self._groups()),
            "/api/v0/actors": self._actor_list,
        }
        if shape.release >= (2, 35):
            routes["/cluster_id"] = lambda _: _reply({"clusterId": hex_id("cluster", 0, 56)}, "Fetched cluster id")
        if shape.release >= (2, 52):
            routes["/api/authentication_mode"] = lambda _: web.json_response({"authentication_mode": "disabled"})
        return routes

    def counts(self) -> Record:
        """The counts so far."""
        return {
            "endpoints": {path: tally.summary() for path, tally in sorted(self.tallies.items())},
            "dear": dict(self.dear),
            "busy": dict(self.busy),
        }

    @web.middleware
    async def _count(self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        if request.path.startswith("/_"):
            return await handler(request)
        tally = self.tallies.setdefault(_endpoint(request), Tally())
        tally.starts.append(time.monotonic())
        tally.now += 1
        tally.most_at_once = max(tally.most_at_once, tally.now)
        if _is_dear(request):
            self.dear[request.path_qs] += 1
        try:
            response = await handler(request)
            tally.failed += response.status >= 400
            tally.sent += response.content_length or 0
            await self._work(request, response)
            # Written here, so that the request counts until its last byte is sent.
            with suppress(ConnectionResetError):  # the client is gone
                await response.prepare(request)
                await response.write_eof()
            return response
        except web.HTTPException:
            tally.failed += 1
            raise
        finally:
            tally.now -= 1

    async def _work(self, request: web.Request, response: web.StreamResponse) -> None:
        """Waits as long as a real Ray needs for such a long answer; each part makes one answer at a time."""
        part = "state" if request.path.startswith("/api/v0/") else "nodes" if request.path.startswith("/nodes") else "others"
        seconds = (response.content_length or 0) / (STATE_PACE if part == "state" else NODES_PACE)
        async with self._parts[part]:
            self.busy[part] += seconds
            await asyncio.sleep(seconds)

    def _version(self) -> Record:
        named = {"session_name": self.shape.session} if self.shape.release >= (2, 35) else {}
        return {"version": "4", "ray_version": self.shape.version, "ray_commit": "b7f4259e944bf6959f721b106adc366ddfa0c356"} | named

    def _cluster_status(self, request: web.Request) -> web.Response:
        if request.query.get("format") == "1":
            return _reply({"clusterStatus": "======== Autoscaler status ========"}, "Got formatted cluster status.")
        now = self._clock()
        if now - self._status_taken >= REFRESH:
            self._status_taken = self._status["clusterStatus"]["time"] = now
            self._status_body = json.dumps({"result": True, "msg": "Got cluster status.", "data": self._status}).encode()
        return _json(self._status_body)

    def _summary(self, request: web.Request) -> web.Response:
        view = request.query.get("view")
        if view == "summary":
            return _json(self._nodes.answer())
        if view == "hostNameList":
            return _reply({"hostNameList": [self.shape.host(number) for number in range(self.shape.nodes)]}, "Node hostname list fetched.")
        return web.json_response({"result": False, "msg": f"Unknown view {view}", "data": {}}, status=500)

    def _detail(self, request: web.Request) -> web.Response:
        wanted = request.match_info["id"]
        number = next((number for number in range(self.shape.nodes) if self.shape.node_id(number) == wanted), None)
        if number is None:
            return _reply(
                {
                    "detail": {
                        "raylet": {"objectStoreUsedMemory": 0, "objectStoreAvailableMemory": 0},
                        "tpus": [],
                        "actors": {},
                        "workers": [],
                    }
                }
            )
        return _reply({"detail": node(self.shape, number) | {"workers": [], "actors": {}}}, "Node details fetched.")

    def _logical_actors(self, request: web.Request) -> web.Response:
        wanted = set(filter(None, request.query.get("ids", "").split(",")))
        found = [record for record in self._actors if not wanted or record["actor_id"] in wanted]
        return _reply({"actors": {record["actor_id"]: self._logical_actor(record) for record in found}}, "All actors fetched.")

    def _logical_actor(self, record: Record) -> Record:
        started = self.shape.started_ms if record["state"] == "ALIVE" else 0
        address = {"nodeId": record["node_id"] or "f" * 56, "ipAddress": "", "port": 0, "workerId": "f" * 56}
        fields = {"actorId": "actor_id", "jobId": "job_id", "name": "name", "className": "class_name", "state": "state", "pid": "pid"}
        return {"address": address, "startTime": started, "endTime": 0} | {name: record[key] for name, key in fields.items()}

    def _jobs(self) -> list[Record]:
        return [records.job(self.shape, number) for number in range(self.shape.jobs)]

    def _groups(self) -> list[Record]:
        return [records.placement_group(self.shape, number) for number in range(self.shape.groups + (self.shape.pending > 0))]

    def _workers(self) -> list[Record]:
        return [records.worker_record(self.shape, number) for number in range(self.shape.nodes * self.shape.workers)]

    def _actor_list(self, request: web.Request) -> web.Response:
        if request.query.get("detail", "").lower() in ("1", "true"):
            return self._list(request, self._actors)
        return self._list(request, [{key: record[key] for key in self._brief} for record in self._actors])

    def _list(self, request: web.Request, rows: list[Record]) -> web.Response:
        """A State API answer: filtered, then truncated like Ray's."""
        limit = int(request.query.get("limit", "100"))
        if limit > LARGEST:
            text = f"Given limit {limit} exceeds the supported limit {LARGEST}. Use a lower limit."
            return web.json_response({"result": False, "msg": text, "data": {"result": None}}, status=400)
        matching, late = rows, []
        for key, predicate, value in _conditions(request):
            if predicate == "=" and key in AT_SOURCE:
                matching = [row for row in matching if str(row[key]) == value]
            else:
                late.append((key, predicate == "=", value))
        left = matching[:LARGEST]
        found = [row for row in left if all((str(row.get(key)) == value) == same for key, same, value in late)]
        totals = {"total": len(rows), "num_after_truncation": len(rows) - len(matching) + len(left), "num_filtered": len(found)}
        return _reply({"result": totals | {"result": found[:limit], "partial_failure_warning": "", "warnings": None}})

    def _kept(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
        """The same answer, made once for each question."""

        async def handler(request: web.Request) -> web.Response:
            asked = (request.path, *sorted((key, value) for key, value in request.query.items() if key not in ("_", "nocache", "timeout")))
            if asked not in self._answers:
                made = answer(request)
                self._answers[asked] = (made.status, made.body if isinstance(made.body, bytes) else b"")
            status, body = self._answers[asked]
            return web.Response(status=status, body=body, content_type="application/json")

        return handler


def _live(answer: Answer) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        return answer(request)

    return handler


def _events(request: web.Request) -> web.Response:
    """Events of one job, or of all; `global` are those without a job."""
    job = request.query.get("job_id")
    if job is None:
        return _reply({"events": {"global": []}}, "All events fetched.")
    return _reply({"jobId": job, "events": []}, "Job events fetched.")


def _reply(data: Record, msg: str = "") -> web.Response:
    return web.json_response({"result": True, "msg": msg, "data": data})


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _conditions(request: web.Request) -> list[tuple[str, str, str]]:
    query = request.query
    return list(zip(*(query.getall(f"filter_{part}", []) for part in ("keys", "predicates", "values")), strict=True))


def _endpoint(request: web.Request) -> str:
    """The path without ids, and the filter if there is one."""
    values = ",".join(request.query.getall("filter_values", []))
    path = "/nodes/ID" if request.path.startswith("/nodes/") else request.path
    return f"{path} {values}".strip()


def _is_dear(request: web.Request) -> bool:
    if request.path == "/api/v0/actors":
        return request.query.get("filter_predicates") != "="
    return request.path.startswith(DEAR) and "ids" not in request.query


async def _serve(dashboard: Dashboard, port: int) -> None:
    runner = web.AppRunner(dashboard.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(f"address=http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    for name in ("nodes", "gpus", "actors", "pending", "workers", "jobs"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Shape, name))
    parser.add_argument("--hostile", action="store_true", help="every name means harm")
    parser.add_argument("--version", default=Shape.version, help="the Ray it says it is: 2.60.0, 2.44.1 or 2.9.3")
    options = vars(parser.parse_args())
    port = options.pop("port")
    asyncio.run(_serve(Dashboard(Shape(**options)), port))


if __name__ == "__main__":
    main()
