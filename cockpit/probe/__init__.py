"""What runs ON a host: the only code that touches NVML, /proc and a host's files.

It is a program of its own: standard library and pynvml only, Python 3.8 and later, nothing else of cockpit. It speaks JSON
lines on stdout. A line too many is harmless, an unknown field is ignored, a missing one is unknown.

The first line says who speaks::

    {"hello": 1, "host": "w1", "addresses": ["10.0.0.2"], "pid": 4711, "user": "train", "python": "3.11.7", "boot": 1795000000.0}

Then one sample per interval, complete in itself (whoever reads may skip any number of them)::

    {"taken": 1795223833.8,
     "machine": "boot id of the kernel, and the PID namespace of the probe",
     "cpu": 39.4, "cpus": 192,
     "memory": {"used": 1, "total": 2, "host_total": null | 4, "shared": 1, "kill_at": 3},
     "shm": {"used": 1, "total": 2},
     "shm_users": null | [{"user", "size"}],
     "disks": [{"path": "/tmp/ray", "used": 1, "total": 2, "torchrun": null | 1}],
     "gpus": null | [{"index", "uuid", "name", "utilization", "memory_used", "memory_total", "power", "power_limit",
                      "power_default", "temperature", "ecc", "fault", "recovery", "remap", "clock", "clock_reasons",
                      "slowed": null | ["thermal", "power brake", "hardware"],
                      "links": null | {"pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max",
                                       "pcie_replays", "nvlinks", "nvlinks_active", "nvlink_errors"},
                      "xids": null | [{"code", "moment", "text"}]}],
     "driver": "version of the NVIDIA driver",
     "processes": [{"pid", "ns_pid", "inside", "worker", "ticks", "started", "parent", "user", "command", "name", "state",
                    "rss", "shared", "gpus": [{"index", "memory"}], "kind", "why": ["…"], "job", "session", "node", "undecided",
                    "sockets": null | {"nccl", "gloo", "there": ["eth0"], "default"},
                    "asks": ["name of a session"],
                    "container": null | {"engine", "name", "user"},
                    "past": null | [worker, ticks, raylet, ticks, session, job, until, uid]}],
     "memory_users": [{"pid", "rss", "shared", "user", "command"}],
     "sessions": null | [{"name", "path", "live", "owner", "size", "keeps": ["…"], "dashboard", "latest", "started",
                   "trusted"}],
     "nodes": ["ray node id of each live raylet here"],
     "rays": null | [{"role", "pid", "session", "node", "state", "apart", "ray", "python", "visible", "files", "files_limit",
                      "frameworks": null | {"openrlhf": "0.8.5"},
                      "tasks": null | [{"what": "user" | "cgroup" | "threads" | "pids", "used", "limit", "path"}]}],
     "temps": null | [{"path", "owner", "writable"}],
     "pointers": null | [{"path", "target", "alive"}],
     "oom_kills": null | [{"by", "moment", "pid", "name", "actor", "job", "session", "node", "held", "text"}],
     "written": {"session": {"submission id": 1795223831.2}},
     "faults": [{"source": "nvml", "text": "NVML has not answered for 12 s", "since": 1795223821.0}]}

Sizes are bytes, times POSIX seconds by the host's own clock, `null` is unknown: anything may be while its source has not answered yet.
`gpus` is `null` when NVML can't be asked (a fault says why, unless there simply is no NVIDIA driver) and `[]` when it says there is none.
The fields are those of `cockpit.model`. `ns_pid` is the pid that a process in a container has there, `null` when it is the same, and
`inside` names that PID namespace; `container` is what its engine calls it, and the user whose engine that is. `apart`: a raylet counts
another memory than the probe sees, and may have another /dev/shm. `worker`
is that of the Ray worker whose log its stdout is; `user` is a number until the host's user database has answered; `kill_at` is `null` when
the raylet counts another memory than the probe sees.

`torchrun` is what its logs in /tmp take of that disk. `shm_users` are whose files in /dev/shm take how much; what is deleted there and
still mapped is in none of them.

`slowed`, `recovery`, `links` and `xids` speak of a whole GPU, each MIG device of it says the same; `recovery` is `null` also when nothing
is to be done. `links` may be a minute old. `xids` are those of a day where the kernel's log may be read, else those that NVML has told
since the probe began. A pointer's `target` is empty where there is something else than Ray makes, and its `alive` is `null` where its Ray
may live on another host, or may just be starting. `oom_kills` are those of the last hour, `null` where neither a raylet's log nor the
kernel could be asked; `written` are the latest 200 logs of submitted jobs of each session that lives. What is said of `rays`, `temps`,
`pointers` and logs may be 10 s old.

A process whose `undecided` is `"job"` is `unknown` only because this host can't tell whether its `job` (Ray's job id or a submission id)
still runs in any of the sessions that `asks` names: while it does it is a `child`, once all have said that it doesn't an `orphan`. Whoever
has asked Ray may say so in its place; `why` ends with that question. Whatever a descendant of such a process is follows from the same
job. Commands are raw: secrets are still in them.

`past` is what only a probe that has watched can know of a process: the worker that it was seen below, or in whose process group it is, and
when that worker was last seen alive. `act` takes it back as evidence. `trusted` is a session of root's, or of the probe's own user.

The sources of faults are `nvml`, `processes`, `memory`, `shm`, `disks`, `sessions`, `rays`, `temps`, `logs`. A source that hangs keeps its
last facts.

`python -m cockpit.probe environ PID TICKS` answers once, `{"pid", "ticks", "environ": {…}}` or `{"error": "a sentence"}`, and leaves.
`python -m cockpit.probe stack PID TICKS` does so with `{"pid", "ticks", "command", "cut", "threads": [{"name", "id", "active", "frames":
[{"name", "file", "line"}]}]}`, the innermost call first; with 0 for TICKS it takes whatever has that pid now.
`python -m cockpit.probe port NUMBER` answers `{"port", "listeners": [{"pid", "ticks", "command", "user"}]}`.
The program ends with its reader: when stdin, being a pipe, ends (not with `--no-lifeline`), or when nobody reads stdout any more.
The folder may lie anywhere: put it on `sys.path` as `probe` and run `python -m probe`.
"""
