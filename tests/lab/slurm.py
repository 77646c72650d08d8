"""A Slurm on hosts of a lab: munge, a controller on the first of them, slurmd on each, and an allocation of all of them."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.lab.cluster import eventually
from tests.lab.hosts import Host, Lab

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
CONF = "/run/lab/slurm.conf"
ENV: Mapping[str, str] = {"SLURM_CONF": CONF}
"""What a login on such a host needs."""
UNSHARE = 'exec unshare --cgroup "$@"'
NAMESPACE_NUMBER = "print(int.from_bytes(fcntl.ioctl(open('/proc/self/ns/mnt'), 0x8008B705, bytes(8)), sys.byteorder))"
"""NS_GET_MNTNS_ID (linux/nsfs.h)."""
HOLD = "#!/bin/bash\nenv | grep ^SLURM_ > /tmp/allocation\nsleep infinity\n"
"""An allocation in which nothing runs yet; what Slurm says of it is in /tmp/allocation of its first node."""


FREEZER = Path("/sys/fs/cgroup/freezer")
"""By which Slurm finds and ends whatever a step has started, as on real clusters; of cgroup version 1."""
MEMORY = Path("/sys/fs/cgroup/memory")
"""By which it limits what a job may use."""


def why_no_memory_limits() -> str | None:
    """What this machine lacks for a Slurm that limits memory, or `None`."""
    lacking = [str(folder) for folder in (FREEZER, MEMORY) if not folder.is_dir()]
    return f"needs {' and '.join(lacking)} (cgroup version 1)" if lacking else None


def why_no_slurm() -> str | None:
    """What this machine lacks for it, or `None`."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")]
    return f"needs {', '.join(missing)} (Debian: apt install slurm-wlm munge)" if missing else None


class Slurm:
    """Runs until its lab is closed."""

    def __init__(
        self, lab: Lab, nodes: Sequence[str], more: str = "", *, cgroups: bool = False, memory: int = 0, called: Sequence[str] = ()
    ) -> None:
        """Of a lab whose logins have `ENV`; its other hosts only know of it, as login nodes do. `more`: lines of its configuration.

        With `cgroups` nothing that a step has started outlives it: then call `close` once the lab is closed.
        `memory`: to how many MiB a job is limited on each node, by cgroups too.
        `called`: what Slurm calls the nodes, where that is not what they call themselves.
        """
        self.names = tuple(called or nodes)
        """What Slurm calls the hosts."""
        self.hosts, self._memory = [lab[name] for name in nodes], memory
        self._controllers = [FREEZER, MEMORY] if memory else [FREEZER] if cgroups else []
        self._cgroups = [controller / f"{lab.name}-{name}" for controller in self._controllers for name in nodes]
        for host in self.hosts if self._controllers else ():
            _give_cgroups(host, [folder for folder in self._cgroups if folder.name == f"{lab.name}-{host.name}"])
        key, conf = secrets.token_bytes(64), self._conf() + more
        for host in lab.hosts.values():
            _lay_out(host, key, conf)
        self.head.ssh("slurmctld")
        for name, host in zip(self.names, self.hosts, strict=True):
            host.ssh(f"{self.in_its_cgroups()} {_in_an_older_namespace()} slurmd -N {name}")
        eventually(lambda: self.head.ssh("sinfo -h -t idle -o %D").strip() == str(len(self.hosts)))

    @property
    def head(self) -> Host:
        """Where the controller runs."""
        return self.hosts[0]

    def close(self) -> None:
        """Remove what is not in its lab's folder."""
        for folder in self._cgroups:
            for path, *_ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # one that has a process yet
                    os.rmdir(path)

    def allocate(self) -> Mapping[str, str]:
        """An allocation of all hosts: the variables that a job finds in it."""
        (self.head.tmp / "hold.sh").write_text(HOLD)
        limit = f"--mem={self._memory}" if self._memory else ""
        self.head.ssh(f"cd /tmp && sbatch {limit} -N {len(self.hosts)} --ntasks-per-node=1 --overcommit -o /dev/null hold.sh")
        text: str = eventually(lambda: (self.head.tmp / "allocation").read_text())
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def steps(self) -> list[str]:
        """The steps that run now, by id."""
        return self.head.ssh("squeue -h -s -o %i").split()

    def requests(self) -> Counter[str]:
        """How many of each kind slurmctld has been sent up to now, by whomever (sdiag(1))."""
        kinds = self.head.ssh("sdiag").partition("by message type")[2].partition("by user")[0]
        return Counter({name: int(count) for name, count in re.findall(r"^\s+(\w+)\s+\( *\d+\) count:(\d+)", kinds, re.MULTILINE)})

    def in_its_cgroups(self) -> str:
        """Before a program on one of the hosts, such as slurmd: what it finds in /proc/self/cgroup then begins as on a real host."""
        joined = "".join(f"echo $$ >{controller}/cgroup.procs; " for controller in self._controllers)
        return f"sh -c {shlex.quote(joined + UNSHARE)} sh" if joined else ""

    def _conf(self) -> str:
        nodes = "".join(
            f"NodeName={name} NodeHostname={host.name} NodeAddr={host.address} CPUs=2 RealMemory={self._memory or 1000} State=UNKNOWN\n"
            for name, host in zip(self.names, self.hosts, strict=True)
        )
        return f"""ClusterName=lab
SlurmctldHost={self.head.name}({self.head.address})
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/{"cgroup" if self._cgroups else "linuxproc"}
TaskPlugin=task/{"cgroup" if self._memory else "none"}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core{"_Memory" if self._memory else ""}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdSpoolDir=/run/slurm/d
StateSaveLocation=/run/slurm/ctld
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdLogFile=/run/slurm/slurmd.log
SlurmctldLogFile=/run/slurm/slurmctld.log
{nodes}PartitionName=all Nodes=ALL Default=YES State=UP
"""


def _in_an_older_namespace() -> str:
    """Before a slurmd that gives jobs mounts of their own.

    A mount namespace is kept only by one with a lower number, and Linux 6.18 numbers those that each CPU makes by itself.
    """
    cpus = sorted(os.sched_getaffinity(0))
    oldest = min(cpus, key=_number_of_a_new_namespace)
    return f"taskset -c {oldest} unshare --mount --propagation unchanged taskset -c {','.join(map(str, cpus))}"


def _number_of_a_new_namespace(cpu: int) -> int:
    """0 also where the kernel does not tell it."""
    made = ["taskset", "-c", str(cpu), "unshare", "--mount", sys.executable, "-c", f"import fcntl, sys; {NAMESPACE_NUMBER}"]
    return int(subprocess.run(made, capture_output=True, text=True, check=False).stdout or 0)


def _lay_out(host: Host, key: bytes, conf: str) -> None:
    run = host.folder / "run"
    for name in ("munge", "slurm/d", "slurm/ctld"):
        (run / name).mkdir(parents=True, mode=0o755)
    (run / "lab" / "slurm.conf").write_text(conf)
    (run / "lab" / "munge.key").write_bytes(key)
    (run / "lab" / "munge.key").chmod(0o400)
    files = "--key-file=/run/lab/munge.key --seed-file=/run/munge/seed --log-file=/run/munge/log --pid-file=/run/munge/pid"
    host.ssh(f"munged --force {files}")


def _give_cgroups(host: Host, folders: Sequence[Path]) -> None:
    """Of its own, which it takes for all that there are."""
    for folder in folders:
        folder.mkdir()
        subprocess.run(["nsenter", "-t", str(host.init), "-m", "mount", "--bind", folder, folder.parent], check=True)
    limited = "ConstrainRAMSpace=yes\n" if any(folder.parent == MEMORY for folder in folders) else ""
    (host.folder / "run" / "lab" / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n{limited}")
