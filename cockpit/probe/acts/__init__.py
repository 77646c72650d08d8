"""The half of the probe that changes something on its host. It travels only when something is to be changed.

`python -m cockpit.probe act REQUEST` takes one request as JSON, says how far it is, answers once, and leaves. An act has two stages, which
are two programs: `plan` finds what would be hit and changes nothing; `do` is given what a person has agreed to, looks at the host again,
and proves of each target at the moment it acts that it is still the same thing. What can't be proven is refused, with the reason.

The request::

    {"act": "kill" | "stop" | "clean" | "ray" | "start", "stage": "plan" | "do",
     "targets": [TARGET, …],          # `do` alone: those of the plan that were agreed to; no other thing is ever touched
     "jobs": [{"session": "session_…", "running": ["…"], "ended": ["…"]}, …],      # the word of each Ray, for what only Ray knows
     "past": [[pid, ticks, [worker, ticks, raylet, ticks, session, job, until, uid]], …],
     …}                               # and what each act defines in its own module

`past` is what a probe that watches this host has seen before, as it has said it: evidence, weighed anew here. On the way::

    {"tell": "3 of 5 processes have ended", "done": 3, "of": 5}

The answer to `plan`, and that to `do`::

    {"targets": [TARGET, …], "refused": [TARGET + {"reason"}, …], "notes": ["…"]}
    {"done": [TARGET + {"outcome"}, …], "refused": [TARGET + {"reason"}, …], "failed": [TARGET + {"error"}, …],
     "freed": {"gpu": 0, "disk": 0, "shm": 0}, "notes": ["…"]}

or `{"error": "a sentence"}`; each with `machine`, which no other host says of itself. A TARGET says `what` it is (`process`, `session`,
`link`, `file`, `shm`, `actor`, `placement_group`, `node`, `host`) and holds its identity: `pid` and `ticks` of a process, `path`, `device`
and `inode` of a file, `id` of Ray's things. Sizes are bytes, times POSIX seconds by the host's clock. Commands are raw: secrets are still
in them. `freed` was measured after the act; a key that is missing or `null` was not measured.
"""
