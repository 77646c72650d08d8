"""What runs ON a host: the only code that touches NVML, /proc and a host's files.

It is a program of its own: standard library and pynvml only, Python 3.8 and later, nothing else of cockpit. It speaks JSON
lines on stdout. A line too many is harmless, an unknown field is ignored, a missing one is unknown.

The first line says who speaks::

    {"hello": 1, "host": "w1", "addresses": ["10.0.0.2"], "pid": 4711, "python": "3.11.7"}

Then one sample per interval, complete in itself (whoever reads may skip any of them). `look/sample.py` makes it; its fields are those
of `Sample` in `cockpit/sources/probes/decode.py`, in the words of `cockpit.model`, where it is said what each means.

Sizes are bytes, times POSIX seconds by the host's own clock, `null` is unknown: anything may be while its source has not answered yet.
`gpus` is `null` when NVML can't be asked (a fault says why, unless there simply is no NVIDIA driver). `user` is a number until the host's
user database has answered. Commands are raw: secrets are still in them. `written` are the latest 200 logs of submitted jobs of each session
that lives. `links` may be a minute old; what is said of `rays`, `temps`, `pointers` and logs 10 s. `ns_pid` is the pid that a process in
a container has there, `null` when it is the same, `inside` names that PID namespace, and `container` is what its engine calls it.

A process whose `undecided` is `"job"` is `unknown` only because this host can't tell whether its `job` (Ray's job id or a submission id)
still runs in any of the sessions that `asks` names: while it does it is a `child`, once all have said that it doesn't an `orphan`. Whoever
has asked Ray may say so in its place; `why` ends with that question. Whatever a descendant of such a process is follows from the same job.

`past` is what only a probe that has watched can know of a process: the worker that it was seen below, or in whose process group it is, and
when that worker was last seen alive. `act` takes it back as evidence.

The sources of faults are `nvml`, `processes`, `memory`, `shm`, `disks`, `sessions`, `rays`, `temps`, `logs`. A source that hangs keeps its
last facts.

`python -m cockpit.probe environ PID TICKS` answers once, `{"pid", "ticks", "environ": {…}}` or `{"error": "a sentence"}`, and leaves.
`python -m cockpit.probe stack PID TICKS` does so with `{"pid", "ticks", "threads": [{"frames": [{"name", "file", "line"}]}]}`, the
innermost call first; with 0 for TICKS it takes whatever has that pid now.
`python -m cockpit.probe port NUMBER` answers `{"port", "listeners": [{"pid", "ticks", "command", "user"}]}`.
The program ends with its reader: when stdin, being a pipe, ends (not with `--no-lifeline`), or when nobody reads stdout any more.
The folder may lie anywhere: put it on `sys.path` as `probe` and run `python -m probe`.
"""
