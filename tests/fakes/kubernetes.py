"""An API server of Kubernetes without a Kubernetes: serves objects, checks token and rights, compares uids, runs `exec` over a WebSocket.

`python -m tests.fakes.kubernetes FOLDER --reach 'ssh {name}'` serves FOLDER/{pods,rayclusters,rayjobs}.json as they are at each question,
on port 6443 over TLS with FOLDER/tls.crt; rights and token are in FOLDER/rights and FOLDER/token; what was asked goes to FOLDER/asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

Record = dict[str, Any]
EVERYTHING = ("list pods", "get pods", "delete pods", "get pods/exec", "get rayclusters", "get rayjobs", "list rayjobs")
"""Rights as `verb resource`."""
GROUPS = {"pods": "", "pods/exec": "", "rayclusters": "ray.io", "rayjobs": "ray.io"}
KINDS = {"pods": "Pod", "rayclusters": "RayCluster", "rayjobs": "RayJob"}
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""The older one has no channel `CLOSE`."""
STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
"""Channels of these protocols (k8s.io/apimachinery/pkg/util/remotecommand)."""
RECREATED = "The object might have been deleted and then recreated"
REQUIREMENT = re.compile(r"([^=!\s]+)==?([^=!\s]*)")
"""A term of a `labelSelector`. Anything but equality is refused."""
PORT = 6443


def make_certificate(folder: Path, *addresses: str) -> None:
    """`tls.crt`, signed by itself, and `tls.key`, for these addresses."""
    names = ",".join(f"IP:{address}" for address in addresses)
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=kubernetes"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*made, "-addext", f"subjectAltName={names}", *files], check=True, capture_output=True)


def lay_out(folder: Path, *addresses: str, token: str = "of-the-service-account", rights: tuple[str, ...] = EVERYTHING) -> None:
    """Writes everything but the objects."""
    make_certificate(folder, *addresses)
    (folder / "token").write_text(token)
    (folder / "rights").write_text("\n".join(rights))
    for kind in KINDS:
        write(folder, kind, [])


def write(folder: Path, kind: str, objects: list[Record]) -> None:
    """Replaces all objects of that kind; the file is complete at each moment."""
    fresh = folder / f"{kind}.new"
    fresh.write_text(json.dumps(objects))
    fresh.rename(folder / f"{kind}.json")


def read(folder: Path, kind: str) -> list[Record]:
    """All objects of that kind."""
    objects: list[Record] = json.loads((folder / f"{kind}.json").read_text())
    return objects


def write_kubeconfig(folder: Path, address: str, token: str, port: int = PORT) -> Path:
    """A user's kubeconfig."""
    cluster = {"server": f"https://{address}:{port}", "certificate-authority": str(folder / "tls.crt")}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "lab", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


class ApiServer:
    """Serves until it is closed."""

    def __init__(self, folder: Path, reach: str = "") -> None:
        """`reach`: the command that runs another on the host of a pod; `{name}` is its name."""
        self.folder, self._reach = folder, reach
        app = web.Application(middlewares=[self._guard])
        for path in DISCOVERY:
            app.router.add_get(path, _discover)
        for base in ("/api/v1", "/apis/ray.io/v1"):
            app.router.add_get(base + "/namespaces/{namespace}/{kind}", self._list)
            app.router.add_get(base + "/namespaces/{namespace}/{kind}/{name}", self._get)
        app.router.add_delete("/api/v1/namespaces/{namespace}/pods/{name}", self._delete)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/exec", self._exec)
        app.router.add_post("/api/v1/namespaces/{namespace}/pods/{name}/exec", self._exec_by_spdy)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def start(self, address: str, port: int) -> int:
        """Starts serving; returns the port. 0 takes a free one."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self.folder / "tls.crt", self.folder / "tls.key")
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port, ssl_context=tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stops serving."""
        await self._runner.cleanup()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        with (self.folder / "asked").open("a") as asked:
            asked.write(f"{request.method} {request.path_qs}\n")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if (scheme.lower(), token) != ("bearer", (self.folder / "token").read_text().strip()):
            return failure(401, "Unauthorized", "Unauthorized")
        try:
            found: web.StreamResponse = await handler(request)
        except web.HTTPNotFound:
            return failure(404, "NotFound", "the server could not find the requested resource")
        return found

    def _denied(self, request: web.Request, verb: str, kind: str) -> web.Response | None:
        held = GROUPS.get(kind) == _group(request) and f"{verb} {kind}" in (self.folder / "rights").read_text().splitlines()
        if held:
            return None
        name = f' "{request.match_info["name"]}"' if "name" in request.match_info else ""
        where = f'in API group "{_group(request)}" in the namespace "{request.match_info["namespace"]}"'
        user = "system:serviceaccount:default:default"
        what = f'{_full(request, kind)}{name} is forbidden: User "{user}" cannot {verb} resource "{kind}" {where}'
        return failure(403, "Forbidden", what, _details(request, kind))

    def _named(self, request: web.Request, kind: str) -> Record | None:
        name = request.match_info["name"]
        return next((one for one in self._all(request, kind) if one["metadata"]["name"] == name), None)

    def _all(self, request: web.Request, kind: str) -> list[Record]:
        """All objects in the requested namespace."""
        return [one for one in read(self.folder, kind) if one["metadata"]["namespace"] == request.match_info["namespace"]]

    async def _list(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        if (denied := self._denied(request, "list", kind)) is not None:
            return denied
        selector = request.query.get("labelSelector", "")
        found = [REQUIREMENT.fullmatch(part) for part in selector.split(",") if part]
        if None in found:
            return failure(400, "BadRequest", f"unable to parse requirement: {selector}")
        wanted = {one[1]: one[2] for one in found if one is not None}
        items = [one for one in self._all(request, kind) if wanted.items() <= one["metadata"].get("labels", {}).items()]
        group = "ray.io/v1" if GROUPS[kind] else "v1"
        return answer({"kind": f"{KINDS[kind]}List", "apiVersion": group, "metadata": {"resourceVersion": "48390"}, "items": items})

    async def _get(self, request: web.Request) -> web.Response:
        kind = request.match_info["kind"]
        if (denied := self._denied(request, "get", kind)) is not None:
            return denied
        found = self._named(request, kind)
        return _missing(request, kind) if found is None else answer({"apiVersion": "v1", "kind": KINDS[kind], **found})

    async def _delete(self, request: web.Request) -> web.Response:
        if (denied := self._denied(request, "delete", "pods")) is not None:
            return denied
        body = await request.read()
        pod = self._named(request, "pods")
        if pod is None:
            return _missing(request, "pods")
        wanted = (json.loads(body) if body else {}).get("preconditions", {}).get("uid")
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if wanted not in (None, uid):
            why = f"the UID in the precondition ({wanted}) does not match the UID in record ({uid}). {RECREATED}"
            what = f'Operation cannot be fulfilled on Pod "{name}": {why}'
            return failure(409, "Conflict", what, _details(request, "Pod"))
        write(self.folder, "pods", [one for one in read(self.folder, "pods") if one["metadata"]["uid"] != uid])
        return answer({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {**pod["metadata"], **_ending_soon(pod)}})

    async def _exec_by_spdy(self, request: web.Request) -> web.Response:
        """Kubectl's second way if the first is refused: it needs another right, and this server does not have its protocol."""
        denied = self._denied(request, "create", "pods/exec")
        return failure(400, "BadRequest", "Upgrade request required") if denied is None else denied

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        if (denied := self._denied(request, "get", "pods/exec")) is not None:
            return denied
        pod = self._named(request, "pods")
        if pod is None:
            return _missing(request, "pods")
        socket = web.WebSocketResponse(protocols=EXEC_PROTOCOLS)
        await socket.prepare(request)
        words = shlex.split(self._reach.format(name=pod["metadata"]["name"]))
        pipe = asyncio.subprocess.PIPE
        command = [*words, shlex.join(request.query.getall("command"))] if words else request.query.getall("command")
        child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert child.stdin is not None
        writing = asyncio.create_task(_feed(socket, child.stdin))
        await asyncio.gather(_send(socket, STDOUT, child.stdout), _send(socket, STDERR, child.stderr))
        code = await child.wait()
        await _say(socket, ERROR, json.dumps(_ending(code)).encode())
        await socket.close()
        writing.cancel()
        return socket


async def _feed(socket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
    """If the client goes away, the program in the pod gets the end of its input and is not killed."""
    async for message in socket:
        if message.type != WSMsgType.BINARY or not message.data:
            continue
        if message.data[0] == CLOSE:
            break
        if message.data[0] == STDIN:
            stdin.write(message.data[1:])
            await stdin.drain()
    stdin.close()


async def _send(socket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader | None) -> None:
    assert stream is not None
    while data := await stream.read(1 << 15):
        await _say(socket, channel, data)


async def _say(socket: web.WebSocketResponse, channel: int, data: bytes) -> None:
    if not socket.closed:
        await socket.send_bytes(bytes([channel]) + data)


def _ending(code: int) -> Record:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": {"causes": causes}}


def answer(body: Record, status: int = 200) -> web.Response:
    """Go ends its JSON with a line feed."""
    return web.Response(body=json.dumps(body).encode() + b"\n", status=status, content_type="application/json")


def failure(code: int, reason: str, message: str, details: Record | None = None) -> web.Response:
    """A `Status`."""
    head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason}
    return answer({**head, **({"details": details} if details else {}), "code": code}, code)


def _details(request: web.Request, kind: str) -> Record:
    """The subject of a `Status`; empty fields and the core group are left out."""
    about = {"name": request.match_info.get("name"), "group": _group(request), "kind": kind.partition("/")[0]}
    return {key: value for key, value in about.items() if value}


def _group(request: web.Request) -> str:
    return request.path.split("/")[2] if request.path.startswith("/apis/") else ""


def _full(request: web.Request, kind: str) -> str:
    return ".".join(filter(None, (kind.partition("/")[0], _group(request))))


def _missing(request: web.Request, kind: str) -> web.Response:
    what = f'{_full(request, kind)} "{request.match_info["name"]}" not found'
    return failure(404, "NotFound", what, _details(request, kind))


def _ending_soon(pod: Record) -> Record:
    """The latest time of its end, which a deletion adds to a pod."""
    seconds = pod["spec"]["terminationGracePeriodSeconds"]
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    return {"deletionTimestamp": at, "deletionGracePeriodSeconds": seconds}


async def _discover(request: web.Request) -> web.Response:
    return answer(DISCOVERY[request.path])


def _resources(version: str, *kinds: str) -> Record:
    verbs = ["delete", "get", "list"]
    found = [{"name": kind, "singularName": "", "namespaced": True, "kind": KINDS[kind], "verbs": verbs} for kind in kinds]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found}


RAY_VERSION = {"groupVersion": "ray.io/v1", "version": "v1"}
RAY_GROUP = {"name": "ray.io", "versions": [RAY_VERSION], "preferredVersion": RAY_VERSION}
DISCOVERY: dict[str, Record] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [RAY_GROUP]},
    "/api/v1": _resources("v1", "pods"),
    "/apis/ray.io/v1": _resources("ray.io/v1", "rayclusters", "rayjobs"),
}
"""kubectl asks for these before any action on a pod."""


async def _serve(folder: Path, address: str, reach: str) -> None:
    server = ApiServer(folder, reach)
    await server.start(address, PORT)
    await asyncio.Event().wait()


def main() -> None:
    """Runs until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--reach", default="")
    given = parser.parse_args()
    asyncio.run(_serve(given.folder, given.address, given.reach))


if __name__ == "__main__":
    main()
