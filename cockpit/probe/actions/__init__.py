"""Carries out actions on this host: the half of the probe that changes something, and that is sent only for an action.

`python -m cockpit.probe act REQUEST` takes one request as JSON, reports its progress, answers once, and ends. An action has two stages,
each a program run of its own: `plan` finds the targets and changes nothing. `do` gets the targets that a person has agreed to, reads the
host again, and proves at the moment of acting that each target is still the same thing. A target without this proof is refused, with the
reason.

The request::

    {"act": "kill" | "stop" | "clean" | "ray" | "start", "stage": "plan" | "do",
     "targets": [TARGET, …],          # only for `do`: the targets of the plan that were agreed to; nothing else is ever touched
     "jobs": [{"session": "session_…", "running": ["…"], "ended": ["…"]}, …],      # the states of jobs as each Ray reports them
     "past": [[pid, ticks, [worker, ticks, raylet, ticks, session, job, until, uid]], …],
     …}                               # and the fields that the module of each action defines

`past` is the evidence that a watching probe has written in its samples; it is weighed again here. Progress lines::

    {"tell": "3 of 5 processes have ended", "done": 3, "of": 5}

The answer to `plan`, and the answer to `do`::

    {"targets": [TARGET, …], "refused": [TARGET + {"reason"}, …], "notes": ["…"]}
    {"done": [TARGET + {"outcome"}, …], "refused": [TARGET + {"reason"}, …], "failed": [TARGET + {"error"}, …],
     "freed": {"gpu": 0, "disk": 0, "shm": 0}, "notes": ["…"]}

or `{"error": "a sentence"}`; each has `machine`, an id that no other host has. A TARGET has its type in `what` (`process`, `session`,
`link`, `file`, `shm`, `actor`, `placement_group`, `node`, `host`) and its identity: `pid` and `ticks` of a process, `path`, `device`
and `inode` of a file, `id` of a thing of Ray. Sizes are bytes, times are POSIX seconds of the host's clock. Commands are raw and may have
secrets in them. `freed` is measured after the action; a key that is missing or `null` was not measured.
"""
