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
"""Variables that a login on such a host needs."""
UNSHARE = 'exec unshare --cgroup "$@"'
NAMESPACE_NUMBER = "print(int.from_bytes(fcntl.ioctl(open('/proc/self/ns/mnt'), 0x8008B705, bytes(8)), sys.byteorder))"
"""NS_GET_MNTNS_ID (linux/nsfs.h)."""
HOLD = "#!/bin/bash\nenv | grep ^SLURM_ > /tmp/allocation\nsleep infinity\n"
"""The script of an empty allocation. It writes Slurm's variables to /tmp/allocation of its first node."""


FREEZER = Path("/sys/fs/cgroup/freezer")
"""Slurm uses it to find and end all processes of a step, as on real clusters; cgroup version 1."""
MEMORY = Path("/sys/fs/cgroup/memory")
"""Slurm uses it to limit a job's memory."""


def why_no_memory_limits() -> str | None:
    """What this machine lacks for a Slurm that limits memory, or `None`."""
    lacking = [str(folder) for folder in (FREEZER, MEMORY) if not folder.is_dir()]
    return f"needs {' and '.join(lacking)} (cgroup version 1)" if lacking else None


def why_no_slurm() -> str | None:
    """What this machine lacks for Slurm, or `None`."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")]
    return f"needs {', '.join(missing)} (Debian: apt install slurm-wlm munge)" if missing else None


class Slurm:
    """Runs until its lab is closed."""

    def __init__(
        self, lab: Lab, nodes: Sequence[str], more: str = "", *, cgroups: bool = False, memory: int = 0, called: Sequence[str] = ()
    ) -> None:
        """The logins of the lab's hosts must have `ENV`. Hosts that are not among `nodes` only use Slurm, as login nodes do.

        `more`: lines of its configuration.
        `cgroups`: no process of a step outlives it. Then call `close` after the lab is closed.
        `memory`: MiB to which a job is limited on each node, by cgroups.
        `called`: Slurm's names of the nodes, if they differ from the hosts' own names.
        """
        self.names = tuple(called or nodes)
        """Slurm's names of the hosts."""
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
        """The host of the controller."""
        return self.hosts[0]

    def close(self) -> None:
        """Removes what lies outside its lab's folder."""
        for folder in self._cgroups:
            for path, *_ in os.walk(folder, topdown=False):
                with contextlib.suppress(OSError):  # a process is still in it
                    os.rmdir(path)

    def allocate(self) -> Mapping[str, str]:
        """Makes an allocation of all hosts; returns the variables that a job finds in it."""
        (self.head.tmp / "hold.sh").write_text(HOLD)
        limit = f"--mem={self._memory}" if self._memory else ""
        self.head.ssh(f"cd /tmp && sbatch {limit} -N {len(self.hosts)} --ntasks-per-node=1 --overcommit -o /dev/null hold.sh")
        text: str = eventually(lambda: (self.head.tmp / "allocation").read_text())
        return dict(line.partition("=")[::2] for line in text.splitlines())

    def steps(self) -> list[str]:
        """The ids of the running steps."""
        return self.head.ssh("squeue -h -s -o %i").split()

    def requests(self) -> Counter[str]:
        """How many requests of each kind slurmctld has received so far (sdiag(1))."""
        kinds = self.head.ssh("sdiag").partition("by message type")[2].partition("by user")[0]
        return Counter({name: int(count) for name, count in re.findall(r"^\s+(\w+)\s+\( *\d+\) count:(\d+)", kinds, re.MULTILINE)})

    def in_its_cgroups(self) -> str:
        """Prefix for a program such as slurmd: its /proc/self/cgroup then begins as on a real host."""
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
    """Prefix for a slurmd that gives jobs their own mounts.

    Only a mount namespace with a lower number can keep another one. Linux 6.18 numbers the namespaces of each CPU separately.
    """
    cpus = sorted(os.sched_getaffinity(0))
    oldest = min(cpus, key=_number_of_a_new_namespace)
    return f"taskset -c {oldest} unshare --mount --propagation unchanged taskset -c {','.join(map(str, cpus))}"


def _number_of_a_new_namespace(cpu: int) -> int:
    """Also 0 if the kernel does not report it."""
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
    """Gives the host its own cgroups, which it takes for all cgroups."""
    for folder in folders:
        folder.mkdir()
        subprocess.run(["nsenter", "-t", str(host.init), "-m", "mount", "--bind", folder, folder.parent], check=True)
    limited = "ConstrainRAMSpace=yes\n" if any(folder.parent == MEMORY for folder in folders) else ""
    (host.folder / "run" / "lab" / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n{limited}")
