"""A job whose ranks answer as NCCL's RAS does: `python nccl_job.py FOLDER PORT VERSION`. Its rank 2 is one AllReduce behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import ray

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.nccl_reports import MISMATCH, MISMATCH_ROW, communicator, json_report, rank, text_report

FOLDER, PORT, VERSION = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
RANKS = 4


@ray.remote(num_cpus=0, runtime_env={"env_vars": {"NCCL_RAS_ADDR": f"localhost:{PORT}", "PYTHONPATH": str(Path(__file__).parents[2])}})
class WorkerDict:
    """A rank that holds a simulated GPU."""

    def __init__(self, number: int) -> None:
        from cockpit.demo import nvml
        from tests import nccl_server

        nvml.hold(Path(os.environ[nvml.STATE]), os.getpid(), [number], 40 << 30, busy=100)
        library = FOLDER / f"libnccl.so.{VERSION}"
        library.write_bytes(b"\x7fELF")
        mode = "json" if VERSION > "2.28.7" else "old"
        words = (mode, PORT, str(library), str(FOLDER / "report"))
        threading.Thread(target=nccl_server.main, args=words, daemon=True).start()

    def place(self) -> tuple[int, str]:
        """Its pid and address, as NCCL reports them."""
        return os.getpid(), ray.util.get_node_ip_address()

    def update_actor(self) -> None:
        """Hang, as in a collective."""
        time.sleep(3600)


ray.init()
actors = [WorkerDict.options(name=f"rank{number}").remote(number) for number in range(RANKS)]
places = ray.get([actor.place.remote() for actor in actors])
ranks = [rank(number, host, pid, AllReduce=411 if number == 2 else 412) for number, (pid, host) in enumerate(places)]
pid, host = places[2]
text = MISMATCH.replace("Rank 3", "Rank 2").replace("4003", str(pid)).replace("10.0.0.1", host)
(FOLDER / "report.json").write_text(json_report(communicator(*ranks), version=VERSION))
(FOLDER / "report.text").write_text(text_report(MISMATCH_ROW, warnings=text, version=VERSION, processes=RANKS))
hanging = [actor.update_actor.remote() for actor in actors]
(FOLDER / "ready").touch()
ray.get(hanging)
