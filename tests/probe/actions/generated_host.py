"""Generates hosts from a seed: their processes, which of them end, other users' forgeries, and the real leftovers."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

RAY: Final = "/env/lib/python3.11/site-packages/ray"
SETSID, DOUBLE_FORK, STUBBORN, EXITS, REAPS, SUBREAPER, STOPS, TERMINAL, FIRST = (1 << bit for bit in range(9))
RECORD: Final = struct.Struct("7i16s768s512s256s256s")
USER, EVIL = 1000, 2000
"""A user who may have a Ray, and one who wants to have other users' processes ended or kept."""
LAUNCHER: Final = 0
"""The process that starts others below init, and then ends."""
TEMP: Final = "/tmp/ray"
WAYS: Final = {"": TEMP, "link": "/tmp/link", "mount": "/tmp/bound"}
"""The path of the temp dir in a raylet's command; the kernel shows the real paths of logs."""
FORGERIES: Final = ("raylet", "listener", "sockets removed", "renamed", "logs moved", "record", "pid of the raylet")


@dataclass
class Session:
    """A Ray session; `headless`: only its gcs_server is left."""

    number: int
    life: str
    uid: int
    way: str = ""
    container: int = -1
    """The record of the first process in its PID namespace; -1: it runs in ours."""
    raylet: int = -1
    ended_jobs: set[str] = field(default_factory=set)
    reports_jobs: bool = False
    forgeries: set[str] = field(default_factory=set)
    """Actions of the other user before the plan."""

    @property
    def name(self) -> str:
        return f"session_2026-11-2{self.number}_08-02-10_714202_{8100 + self.number}"

    @property
    def path(self) -> str:
        """The path of its folder."""
        return f"{TEMP}/{self.name}"

    @property
    def named_path(self) -> str:
        """The path in the commands of its processes."""
        return f"{WAYS[self.way]}/{self.name}"

    @property
    def running_jobs(self) -> set[str]:
        """The states of its jobs as its dashboard reports them."""
        return {"01000000", "02000000", "03000000", "04000000", "raysubmit_ppo"} - self.ended_jobs

    @property
    def has_logs(self) -> bool:
        """Whether files of its owner on disk still name its raylet."""
        return not self.forgeries & {"record", "renamed"}


@dataclass
class Node:
    """One process. `truth` is fixed for Ray's own parts; for children of workers it follows from their signs and their family."""

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
    """An earlier scan of a probe saw it below its worker."""

    @property
    def engine(self) -> bool:
        return self.argv[0].startswith(("VLLM::", "sglang::")) or "multiprocessing.spawn" in self.argv[-1]

    @property
    def has_variables(self) -> bool:
        return "RAY_RAYLET_PID" in self.env or "RAY_JOB_CONFIG_JSON_ENV_VAR" in self.env

    @property
    def logs(self) -> bool:
        return "/logs/" in self.out

    def packed(self) -> bytes:
        env = "".join(f"{name}={value}\0" for name, value in self.env.items())
        words = "".join(f"{word}\0" for word in self.argv)
        texts = (self.comm[:15], words, env, self.out, self.holds)
        return RECORD.pack(self.parent, self.flags, self.uid, 0, 0, 0, 0, *(text.encode() for text in texts))


class GeneratedHost:
    """The processes of one round."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.nodes: list[Node] = [Node(LAUNCHER, ("launcher",), -1, flags=EXITS, dies=True, truth="keep")]
        self.sessions = [self._session(number) for number in range(self.random.choice((1, 1, 2, 2, 3)))]
        for _ in range(self.random.randint(1, 4)):
            self._bystander()
        for session in self.sessions:
            self._forge(session)
        for session in self.sessions:
            session.reports_jobs = session.life == "live" and self.some(0.6)
        self.has_silent_ray = False
        """Whether a real Ray runs too, whose job states are unknown."""

    def add(self, *argv: str, **facts: object) -> Node:
        node = Node(len(self.nodes), argv, **facts)  # type: ignore[arg-type]
        self.nodes.append(node)
        return node

    def some(self, share: float) -> bool:
        return self.random.random() < share

    # Ray

    def _session(self, number: int) -> Session:
        life = self.random.choice(("live", "dead", "dead", "headless"))
        session = Session(number, life, USER if self.some(0.3) else 0, self.random.choice(("", "", "link", "mount")))
        if self.some(0.15) and session.uid == 0:
            session.container = self.add("tini", "--", "run", comm="tini", flags=FIRST | REAPS, truth="keep").at
        above = max(session.container, LAUNCHER)
        lives = {"dies": life != "live", "uid": session.uid, "session": session, "parent": above}
        path = session.named_path
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
            agent = {**lives, "parent": raylet.at}
            self.add("ray::DashboardAgent", comm="ray::DashboardA", truth="keep", env={"RAY_NODE_ID": f"{number:056x}"}, **agent)
        self._drivers(session, above)
        self._workers(session)
        return session

    def _drivers(self, session: Session, above: int) -> None:
        for job in self.random.sample(("01000000", "02000000"), self.random.choice((0, 0, 1, 2))):
            at = len(self.nodes)
            log = f"{session.path}/logs/python-core-driver-{job}{'f' * 48}_@{at}@.log"
            driver = {"parent": above, "uid": session.uid, "session": session, "job": job, "dies": self.some(0.2)}
            self.add("python", "train.py", holds=log, truth="keep", **driver)
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

    # Their children

    def _brood(self, parent: Node, depth: int) -> None:
        for _ in range(self.random.choice((0, 1, 1, 2, 3)) if depth < 3 else 0):
            self._child(parent, depth)

    def _child(self, parent: Node, depth: int) -> None:
        child = self.add(
            *self._command(parent), parent=parent.at, uid=parent.uid, session=parent.session, worker=parent.worker, job=parent.job
        )
        child.comm = "pt_main_thread" if "spawn" in child.argv[-1] else child.argv[0][:15]
        child.env = dict(parent.env) if self.some(0.85) else {"PATH": "/bin"}
        child.out = parent.out if self.some(0.7) else "/dev/null"
        if parent.argv[0] == "ray::JobSupervisor":  # like Ray, it removes its own variables
            submission = json.dumps({"metadata": {"job_submission_id": parent.job}})
            child.env = {"PATH": "/bin", **({"RAY_JOB_CONFIG_JSON_ENV_VAR": submission} if self.some(0.9) else {})}
            child.out = f"{parent.session.path}/logs/job-driver-{parent.job}.log" if parent.session and self.some(0.8) else "/dev/null"
        child.flags = self._ways(child)
        if child.flags & EXITS:
            return
        child.dies = self.some(0.15)
        child.known = child.worker >= 0 and not child.job.startswith("ray") and self.some(0.3) and not self._is_apart(child)
        self._brood(child, depth + 1)

    def _command(self, parent: Node) -> Sequence[str]:
        spawned = ("python", "-c", "from multiprocessing.spawn import spawn_main")
        engines = () if parent.comm == "bash" else (("VLLM::EngineCore",), ("sglang::scheduler_TP0",), spawned)
        return self.random.choice((("python", "serve.py"), ("bash", "-c", "run"), *engines))

    def _ways(self, child: Node) -> int:
        flags = SETSID if self.some(0.4) else 0
        flags |= STUBBORN if self.some(0.06) else 0
        flags |= STOPS if self.some(0.03) else 0
        if self.some(0.1):
            return flags | EXITS
        flags |= DOUBLE_FORK if self.some(0.25) else 0
        return flags | (REAPS if self.some(0.5) else 0)

    # Processes that do not belong to Ray, or only look like it

    def _bystander(self) -> None:
        made = (
            self._training, self._served, self._shell, self._lookalike, self._abandoned_engine, self._tmux, self._rank, self._launched,
            self._log_of_somebody,
        )  # fmt: skip
        self.random.choice(made)()

    def _training(self) -> None:
        env = {"RAY_ADDRESS": "10.0.0.1:6379", "CUDA_VISIBLE_DEVICES": "3", "RAY_JOB_ID": "03000000"}
        self.add("python", "train.py", comm="pt_main_thread", env=env, flags=SETSID, truth="keep", uid=self.random.choice((0, USER)))

    def _served(self) -> None:
        server = self.add("vllm", "serve", "model", comm="vllm", truth="keep")
        engine = self.add("VLLM::EngineCore", parent=server.at, comm="VLLM::EngineCor", truth="keep")
        self.add("VLLM::Worker_TP0", parent=engine.at, comm="VLLM::Worker_TP", truth="keep")

    def _shell(self) -> None:
        shell = self.add("-bash", comm="bash", flags=TERMINAL | SUBREAPER, truth="keep", uid=self.random.choice((0, USER)))
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
        """Its server has ended; there is no sign that it belonged to Ray."""
        server = self.add("vllm", "serve", "model", comm="vllm", dies=True, uid=self.random.choice((0, USER)))
        self.add("VLLM::EngineCore", parent=server.at, comm="VLLM::EngineCor", truth="keep", uid=server.uid)

    def _inherited(self) -> dict[str, object]:
        """The variables that a process inherited from a worker of one of these sessions."""
        session = self.random.choice(self.sessions)
        return {"env": self._worker_env(session, "03000000"), "uid": session.uid}

    def _tmux(self) -> None:
        """A person started it in a job and still works in it; its server is a child of init."""
        inherited = self._inherited()
        tmux = self.add("tmux", comm="tmux: server", flags=SETSID, truth="keep", **inherited)
        shell = self.add("-bash", parent=tmux.at, comm="bash", flags=TERMINAL, truth="keep", **inherited)
        self.add("python", "serve.py", parent=shell.at, truth="keep", **inherited)
        self.add("python", "serve.py", parent=shell.at, flags=DOUBLE_FORK, truth="keep", **inherited)

    def _rank(self) -> None:
        """Srun passed the environment of a job on another host to it."""
        env = {"RAY_RAYLET_PID": "31337", "RAY_JOB_ID": "03000000", "PATH": "/bin"}
        step = self.add("slurmstepd: [7.0]", comm="slurmstepd", flags=SETSID | SUBREAPER, truth="keep", dies=self.some(0.3))
        self.add("python", "rank.py", parent=step.at, env=env, truth="keep", uid=self.random.choice((0, USER)))

    def _launched(self) -> None:
        """Started by a live launcher that inherited variables of a job."""
        inherited = self._inherited()
        launcher = self.add("orted", comm="orted", flags=SETSID | SUBREAPER, truth="keep", uid=inherited["uid"])
        self.add("python", "rank.py", parent=launcher.at, truth="keep", flags=DOUBLE_FORK if self.some(0.5) else 0, **inherited)

    def _log_of_somebody(self) -> None:
        """It writes into a folder of the other user, who gave the folder and the log names like Ray's."""
        session = self.random.choice(self.sessions)
        out = f"/tmp/evil/{session.name}/logs/worker-{'ab' * 28}-03000000-{self.random.randint(2, 99)}.out"
        self.add("python", "daemon.py", comm="python", flags=SETSID, truth="keep", out=out)

    # Actions of the other user

    def _forge(self, session: Session) -> None:
        if not self.some(0.5):
            return
        session.forgeries = set(self.random.sample(FORGERIES, self.random.choice((1, 1, 2))))
        if "raylet" in session.forgeries:
            path = session.named_path if self.some(0.5) else f"/tmp/evil/{session.name}"
            self.add(
                f"{RAY}/core/src/ray/raylet/raylet", f"--raylet_socket_name={path}/sockets/raylet", f"--node_id={'e' * 56}",
                f"--session_dir={path}", comm="raylet", truth="keep", uid=EVIL,
            )  # fmt: skip

    # Expected results

    def living(self) -> Iterator[Node]:
        return (node for node in self.nodes if not node.dies and not node.flags & EXITS)

    def may_end(self, node: Node) -> bool:
        """Whether it is really left over, visibly or not."""
        return self.fate(node) in ("left", "hidden")

    def must_end(self, node: Node) -> bool:
        """Whether it is left over, and has signs of it."""
        return self.fate(node) == "left"

    def fate(self, node: Node) -> str:
        """`left`: left over, with signs; `hidden`: left over, without signs; `keep`: all others."""
        session = node.session
        if node.truth is not None:  # a part of Ray, or a process that does not belong to Ray
            return "keep" if node.truth != "left" else "left" if session is not None and self._shows(node, session) else "hidden"
        parent = self.nodes[node.parent]
        if not (node.flags & DOUBLE_FORK or parent.dies or parent.flags & EXITS):
            # A child of a live process has its kind, unless its own signs show another one.
            fate = self.fate(parent)
            return fate if fate != "left" or not node.logs or (session and self._log_is_plain(session)) else "hidden"
        # Init has adopted it.
        if session is None or node.worker < 0:
            return "keep"  # a program of a person has started it
        if session.life == "live":
            over = session.reports_jobs and node.job in session.ended_jobs and not self._is_at_work_by_moved_logs(node.job, session)
            return "left" if over and self._shows(node, session) else "hidden" if node.job in session.ended_jobs else "keep"
        return "left" if self._shows(node, session) else "hidden"

    def _shows(self, node: Node, session: Session) -> bool:
        """Whether its signs are proof: a variable that its session confirms, or an earlier scan."""
        if not session.has_logs and not node.known:
            return False
        if node.job.startswith("ray") and not node.argv[0].startswith("ray::"):
            plain = node.logs and "RAY_JOB_CONFIG_JSON_ENV_VAR" in node.env and self._log_is_plain(session)
            return plain and not self._is_live_elder(session)
        if node.logs and not self._log_is_plain(session):
            return False
        if not node.logs and not node.known and self._has_twin(session):
            return False
        return node.truth == "left" or node.known or "RAY_RAYLET_PID" in node.env

    def _has_twin(self, session: Session) -> bool:
        """Whether another session's raylet may have the same pid, because each container has its own pids."""
        others = [other for other in self.sessions if other is not session and other.uid == session.uid]
        return session.container >= 0 and any(other.container >= 0 for other in others)

    def _is_live_elder(self, session: Session) -> bool:
        """Whether it may belong to a live Ray: all of them started at the same moment, and some run a job with this id."""
        others = [other for other in self.sessions if other is not session and other.life == "live" and other.uid in (0, session.uid)]
        return self.has_silent_ray or any(not other.reports_jobs or "raysubmit_ppo" in other.running_jobs for other in others)

    def _is_at_work_by_moved_logs(self, job: str, session: Session) -> bool:
        """Whether a left-over process of another session writes to a log for a job with this id in this session."""
        moved = [other for other in self.sessions if other is not session and "logs moved" in other.forgeries]
        return any(node.session in moved and node.logs and node.job == job for node in self.living())

    def _log_is_plain(self, session: Session) -> bool:
        return not session.forgeries & {"renamed", "logs moved"}

    def _is_apart(self, node: Node) -> bool:
        return node.session is not None and node.session.container >= 0
