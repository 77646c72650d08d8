"""Sends requests from a host of the lab, as cockpit does there: one JSON object in, one JSON object out.

echo '{"reach": "ray", "hosts": ["w1"], "places": {"w1": ["session_…", "…"]}}' | python -m tests.lab.send_requests
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from msgspec.structs import asdict

from cockpit.config.reach import DEFAULT_REACH, HostEntry
from cockpit.config.settings import Config
from cockpit.sources.probes.ray_tunnel import RayPlace
from cockpit.sources.probes.requests import ProbeRequests, Progress
from cockpit.sources.probes.ssh_control import SshControlSockets


async def run(wish: dict[str, Any]) -> dict[str, Any]:
    control_sockets = SshControlSockets()
    entries = {name: HostEntry(name) for name in wish["hosts"]}
    places = {name: RayPlace(*place) for name, place in wish.get("places", {}).items()}
    errands = ProbeRequests(Config(reach=wish.get("reach", DEFAULT_REACH)), "here", entries, places, control_sockets)
    began, heard, took = time.monotonic(), [], {}

    def hear(host: str, progress: Progress) -> None:
        heard.append((host, progress.text))

    async def one(name: str) -> Any:
        request = wish.get("request", {"act": "kill", "stage": "plan"})
        answer = (await errands.send({name: request}, hear, wish.get("patience", 30), allows_ray=request["act"] != "stop"))[name]
        took[name] = time.monotonic() - began
        return asdict(answer)

    try:
        answers = await asyncio.gather(*map(one, wish["hosts"]))
    finally:
        errands.close()
        control_sockets.close()
    return {"answers": dict(zip(wish["hosts"], answers, strict=True)), "heard": heard, "took": took}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(json.load(sys.stdin)))))
