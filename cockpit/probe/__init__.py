"""Runs on a host: the only code of cockpit that touches NVML, /proc and the files of a host.

It is a program of its own for Python 3.8 and later. It needs only the standard library and pynvml, and imports nothing else of cockpit.
It writes JSON lines to stdout. A reader ignores lines and fields that it does not know; a missing field is unknown.

The first line describes the probe::

    {"hello": 1, "host": "w1", "addresses": ["10.0.0.2"], "pid": 4711, "python": "3.11.7"}

Then one sample follows per interval. Each is complete, so a reader may skip any of them. `sample/host_sample.py` builds it. Its
fields are the fields of `Sample` in `cockpit/sources/probes/decode.py`, with the names of `cockpit.model`, where each is explained.

Sizes are bytes, times are POSIX seconds of the host's own clock, and `null` is unknown: a field is `null` until its source has answered.
`gpus` is `null` if NVML can't be asked (a fault gives the reason, unless there is simply no NVIDIA driver). `user` is a number until the
host's user database has answered. Commands are raw and may contain secrets. `written` has the latest 200 logs of submitted jobs of each
live session. `links` may be a minute old, `engines` half a minute, and `rays`, `temps`, `pointers` and facts from logs 10 s. `ns_pid` is
the pid of a process in its own container (`null` if it is the same), `inside` is that PID namespace, and `container` is its name in the
container engine.

A process with `undecided` = `"job"` is `unknown` only because this host does not know whether its `job` (Ray's job id or a submission id)
still runs in one of the sessions in `asks`. It is a `child` while the job runs, and an `orphan` once all these sessions report that it
does not. A program that has asked Ray may replace the kind; `why` ends with this question. Its descendants
depend on the same job.

`past` has facts that only a probe knows which has watched for a while: the worker above the process, or in whose process group it is, and
when that worker was last seen alive. An `act` request passes it on to the acting probe as evidence.

`titles` has the titles that a Ray worker got since the sample before, each with how many seconds before this sample it was seen first. It
is missing if the title has not changed. Titles of the first 64 workers are read every second.

The sources of faults are `nvml`, `processes`, `memory`, `shm`, `disks`, `sessions`, `rays`, `temps`, `logs`, `stuck`, `rdma`,
`titles`, `engines`. If a source hangs, its last facts stay.

`python -m cockpit.probe environ PID TICKS` writes one line, `{"pid", "ticks", "environ": {…}}` or `{"error": "a sentence"}`, and ends.
`python -m cockpit.probe stack PID TICKS` does the same with `{"pid", "ticks", "threads": [{"frames": [{"name", "file", "line"}]}]}`, the
innermost call first; with 0 for TICKS it reads any process that has the pid now.
`python -m cockpit.probe port NUMBER` writes `{"port", "listeners": [{"pid", "ticks", "command", "user"}]}`.
`python -m cockpit.probe nccl PID:TICKS…` asks NCCL's RAS in one of these processes and writes `{"pid", "version", "report"}`: the process
that has answered, and its report as it came. `report` is `null` if its NCCL is older than 2.29.2 or of unknown version; `--even-old` asks
that too.
The program ends with its reader: when its stdin is a pipe and ends (not with `--no-lifeline`), or when nobody reads its stdout any more.
The folder works at any place: put it on `sys.path` as `probe` and run `python -m probe`.
"""
