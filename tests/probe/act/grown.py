"""Made-up hosts by seed: what runs there, who of it ends, and which of the rest is left over, known from how it was made."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

RAY: Final = "/env/lib/python3.11/site-packages/ray"
SETSID, DOUBLE_FORK, STUBBORN, EXITS, REAPS, SUBREAPER, STOPS = 1, 2, 4, 8, 16, 32, 64
RECORD: Final = struct.Struct("7i16s768s512s256s256s")
USER: Final = 1000
LAUNCHER: Final = 0
"""Starts whatever hangs from init, and leaves."""


@dataclass
class Session:
    """A Ray session; `headless` is one whose gcs_server alone is left."""

    path: str
    life: str
    uid: int
    raylet: int = -1
    ended_jobs: set[str] = field(default_factory=set)
    told: bool = False

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class Node:
    """One process. `truth` is settled for those of Ray's own; for what came from a worker it follows from its signs and its family."""

    at: int
    argv: tuple[str, ...]
    parent: int = LAUNCHER
    comm: str = "python"
    env: Mapping[str, str] = field(default_factory=dict)
    out: str = "/dev/null"
    holds: str = ""
    uid: int = 0
    flags: int = 0
    dies: bool = False
    truth: str | None = None
    session: Session | None = None
    worker: int = -1
    job: str = ""
    known: bool = False
    """A probe has seen it below its worker."""

    @property
    def engine(self) -> bool:
        return self.argv[0].startswith(("VLLM::", "sglang::")) or "multiprocessing.spawn" in self.argv[-1]

    @property
    def signed(self) -> bool:
        return bool("RAY_RAYLET_PID" in self.env or "/logs/" in self.out or self.known)

    def packed(self) -> bytes:
        env = "".join(f"{name}={value}\0" for name, value in self.env.items())
        words = "".join(f"{word}\0" for word in self.argv)
        texts = (self.comm[:15], words, env, self.out, self.holds)
        return RECORD.pack(self.parent, self.flags, self.uid, 0, 0, 0, 0, *(text.encode() for text in texts))


class World:
    """All processes of one round."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[Node] = [Node(LAUNCHER, ("launcher",), -1, flags=EXITS, dies=True, truth="keep")]
        self.sessions = [self._session(number) for number in range(self.random.choice((1, 1, 2, 2, 3)))]
        for _ in range(self.random.randint(1, 4)):
            self._bystander()
        told = next((session for session in self.sessions if session.life == "live"), None)
        if told and self.random.random() < 0.7:
            told.told = True

    def add(self, *argv: str, **facts: object) -> Node:
        node = Node(len(self.nodes), argv, **facts)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def some(self, share: float) -> bool:
        return self.random.random() < share

    # Ray

    def _session(self, number: int) -> Session:
        life = self.random.choice(("live", "dead", "dead", "headless"))
        path = f"/tmp/ray/session_2026-11-2{number}_08-02-10_714202_{8100 + number}"
        session = Session(path, life, USER if self.some(0.3) else 0)
        lives = {"dies": life != "live", "uid": session.uid, "session": session}
        if life == "headless" or self.some(0.6):
            self.add(
                f"{RAY}/core/src/ray/gcs/gcs_server", f"--log_dir={path}/logs", "--gcs_server_port=6379", comm="gcs_server", truth="keep",
                **{**lives, "dies": life == "dead"},
            )  # fmt: skip
        raylet = self.add(
            f"{RAY}/core/src/ray/raylet/raylet", f"--raylet_socket_name={path}/sockets/raylet", f"--node_id={number:056x}",
            f"--session_dir={path}", f"--python_worker_command=python {RAY}/_private/workers/default_worker.py",
            comm="raylet", truth="keep", flags=REAPS if self.some(0.5) else 0, **lives,
        )  # fmt: skip
        session.raylet = raylet.at
        for script in ("_private/log_monitor.py", "dashboard/dashboard.py"):
            if self.some(0.5):
                truth = "left" if life == "dead" else "keep"
                dies = life == "dead" and self.some(0.5)
                self.add("python", "-u", f"{RAY}/{script}", f"--session-dir={path}", truth=truth, **{**lives, "dies": dies})
        if self.some(0.5):
            self.add("ray::DashboardAgent", parent=raylet.at, comm="ray::DashboardA", truth="keep", env={"RAY_NODE_ID": "1"}, **lives)
        self._drivers(session)
        self._workers(session)
        return session

    def _drivers(self, session: Session) -> None:
        for job in self.random.sample(("01000000", "02000000"), self.random.choice((0, 0, 1, 2))):
            at = len(self.nodes)
            log = f"{session.path}/logs/python-core-driver-{job}{'f' * 48}_@{at}@.log"
            self.add("python", "train.py", holds=log, truth="keep", uid=session.uid, session=session, job=job, dies=self.some(0.2))
            self._brood(self.nodes[at], 1)

    def _workers(self, session: Session) -> None:
        jobs = self.random.sample(("03000000", "04000000", "raysubmit_ppo"), 2)
        session.ended_jobs = {jobs[1]}
        for job in [self.random.choice(jobs) for _ in range(self.random.randint(1, 4))]:
            over = job == jobs[1]
            at = len(self.nodes)
            self.add(
                "ray::JobSupervisor" if job.startswith("ray") else self.random.choice(("ray::Trainer.step", "ray::IDLE", "ray::f")),
                parent=session.raylet,
                comm="ray::worker",
                env=self._worker_env(session, job),
                out=f"{session.path}/logs/worker-{'8ce8f3d9' * 7}-{'05000000' if job.startswith('ray') else job}-@{at}@.out",
                uid=session.uid,
                flags=REAPS if self.some(0.5) else 0,
                dies=over or self.some(0.1) if session.life == "live" else self.some(0.6),
                truth="keep" if session.life == "live" else "left",
                session=session,
                worker=at,
                job=job,
            )
            self._brood(self.nodes[at], 0)

    @staticmethod
    def _worker_env(session: Session, job: str) -> dict[str, str]:
        return {"RAY_RAYLET_PID": f"@{session.raylet}@", "RAY_JOB_ID": "05000000" if job.startswith("ray") else job, "PATH": "/bin"}

    # What they start

    def _brood(self, parent: Node, depth: int) -> None:
        for _ in range(self.random.choice((0, 1, 1, 2, 3)) if depth < 3 else 0):
            self._child(parent, depth)

    def _child(self, parent: Node, depth: int) -> None:
        child = self.add(
            *self._command(parent), parent=parent.at, uid=parent.uid, session=parent.session, worker=parent.worker, job=parent.job
        )
        child.comm = "pt_main_thread" if "spawn" in child.argv[-1] else child.argv[0][:15]
        child.env = dict(parent.env) if self.some(0.85) else {"PATH": "/bin"}
        child.out = self._output(parent)
        submission = json.dumps({"metadata": {"job_submission_id": parent.job}})
        if parent.argv[0] == "ray::JobSupervisor":
            child.env = {**child.env, "RAY_JOB_CONFIG_JSON_ENV_VAR": submission} if "RAY_RAYLET_PID" in child.env else child.env
            child.out = f"{parent.session.path}/logs/job-driver-{parent.job}.log" if parent.session and self.some(0.8) else "/dev/null"
        child.flags = self._ways(child)
        if child.flags & EXITS:
            return
        child.dies = self.some(0.15)
        child.known = child.worker >= 0 and not child.job.startswith("ray") and self.some(0.3)
        self._brood(child, depth + 1)

    def _command(self, parent: Node) -> Sequence[str]:
        spawned = ("python", "-c", "from multiprocessing.spawn import spawn_main")
        engines = () if parent.comm == "bash" else (("VLLM::EngineCore",), ("sglang::scheduler_TP0",), spawned)
        return self.random.choice((("python", "serve.py"), ("bash", "-c", "run"), *engines))

    def _output(self, parent: Node) -> str:
        inherited = "" if parent.out == "" else parent.out
        return inherited if self.some(0.7) else "/dev/null"

    def _ways(self, child: Node) -> int:
        flags = SETSID if self.some(0.4) else 0
        flags |= STUBBORN if self.some(0.06) else 0
        flags |= STOPS if self.some(0.03) else 0
        if self.some(0.1):
            return flags | EXITS
        flags |= DOUBLE_FORK if self.some(0.25) and (child.signed or not child.engine) else 0
        return flags | (REAPS if self.some(0.5) else 0)

    # What has nothing to do with Ray

    def _bystander(self) -> None:
        self.random.choice((self._training, self._served, self._shell, self._lookalike, self._abandoned_engine))()

    def _training(self) -> None:
        env = {"RAY_ADDRESS": "10.0.0.1:6379", "CUDA_VISIBLE_DEVICES": "3", "RAY_JOB_ID": "03000000"}
        self.add("python", "train.py", comm="pt_main_thread", env=env, flags=SETSID, truth="keep", uid=self.random.choice((0, USER)))

    def _served(self) -> None:
        server = self.add("vllm", "serve", "model", comm="vllm", truth="keep")
        engine = self.add("VLLM::EngineCore", parent=server.at, comm="VLLM::EngineCor", truth="keep")
        self.add("VLLM::Worker_TP0", parent=engine.at, comm="VLLM::Worker_TP", truth="keep")

    def _shell(self) -> None:
        shell = self.add("-bash", comm="bash", flags=SETSID | SUBREAPER, truth="keep", uid=self.random.choice((0, USER)))
        self.add("python", "notebook.py", parent=shell.at, truth="keep", uid=shell.uid)
        self.add("sh", parent=shell.at, comm="sh", flags=EXITS, truth="keep", uid=shell.uid)

    def _lookalike(self) -> None:
        words = (
            ("vim", f"{RAY}/core/src/ray/raylet/raylet", "--session_dir=/tmp/ray/x"),
            ("python", "gpu_monitor.py", f"{RAY}/dashboard/dashboard.py"),
            ("grep", "ray::IDLE", "default_worker.py"),
            ("ray::nothing",),
        )
        argv = self.random.choice(words)
        self.add(*argv, comm=argv[0][:15], truth="keep", flags=STOPS if self.some(0.2) else 0)

    def _abandoned_engine(self) -> None:
        server = self.add("vllm", "serve", "model", comm="vllm", dies=True, uid=self.random.choice((0, USER)))
        self.add("VLLM::EngineCore", parent=server.at, comm="VLLM::EngineCor", truth="left", uid=server.uid)

    # The truth

    def left(self) -> Iterator[Node]:
        """Whoever lives and is left over, whoever owns it."""
        return (node for node in self.living() if self.fate(node) == "left" or (self.fate(node) == "asked" and self._told(node)))

    def living(self) -> Iterator[Node]:
        return (node for node in self.nodes if not node.dies and not node.flags & EXITS)

    def _told(self, node: Node) -> bool:
        return bool(node.session and node.session.told and node.job in node.session.ended_jobs)

    def fate(self, node: Node) -> str:
        """`left`, `owned` by something that lives, `asked` (its raylet lives, its worker doesn't), `keep`: nothing speaks against it."""
        if node.truth:
            return self._own(node)
        above = self.parent_of(node)
        fate = self.fate(above) if above else "keep"
        if fate == "owned":
            return "owned"
        if fate == "left":
            return "keep" if self._spoken_for(node) else "left"
        if fate == "asked" and not node.signed:
            return "asked"
        return self._alone(node, above)

    @staticmethod
    def _own(node: Node) -> str:
        assert node.truth
        return "owned" if node.truth == "keep" and node.session and node.session.life == "live" else node.truth

    def _alone(self, node: Node, above: Node | None) -> str:
        if not node.signed:
            return "left" if node.engine and above is None else "keep"
        if not self._spoken_for(node):
            return "left"
        assert node.session
        at_work = any(other.job == node.job and other.session is node.session for other in self.living() if other.at == other.worker)
        return "owned" if at_work else "asked"

    @staticmethod
    def _spoken_for(node: Node) -> bool:
        return node.signed and node.session is not None and node.session.life == "live"

    def parent_of(self, node: Node) -> Node | None:
        """Its living one; `None` when init has adopted it."""
        parent = self.nodes[node.parent]
        return None if node.flags & DOUBLE_FORK or parent.dies or parent.flags & EXITS else parent
