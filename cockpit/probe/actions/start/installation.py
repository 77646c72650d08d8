"""Finds the `ray` command that starts Ray on this host: its path, its user, its environment, and the versions of Ray and Python."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from contextlib import suppress
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from ... import programs, trust
from ...sample.proc import user_name
from ...trust import Account, TrustError
from ..host_state import HostState, Request
from ..ray import NoWayError, find_cluster_python
from ..stop.parts import sessions

MISLEADING = frozenset(("RAY_ADDRESS", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR", "PYTHONINSPECT"))
"""Variables that may be inherited from another Ray, or that would prevent a program from ending."""
LOG_BYTES = 1 << 16
OUTPUT_TIMEOUT_S = 10
"""Seconds in which a Python or a login shell must write its line."""
_MONITOR = re.compile(r"using ray installation: (/\S+)/lib/python3\.\d+t?/(?:site|dist)-packages/ray/__init__\.py")
"""The first line in the log of the autoscaler monitor (2.9 to 2.60)."""
_VERSIONS = """\
import importlib.util, json, os, platform, re
spec = importlib.util.find_spec("ray")
text = open(os.path.join(os.path.dirname(spec.origin), "_version.py")).read() if spec and spec.origin else ""
found = re.search(r'^version = "([^"]{1,40})"', text, re.M)
print(json.dumps([found and found[1], platform.python_version()]))
"""
"""It does not import Ray, because that takes seconds."""


class Installation(NamedTuple):
    """A `ray` command, its user and its environment."""

    ray: str
    user: str
    """A name or a number."""
    ours: Mapping[str, str]
    """The environment without the variables of the preset."""
    given: Mapping[str, str]
    """The variables of the preset; they contain secrets."""
    why: str
    """How it was found."""

    @property
    def environ(self) -> Mapping[str, str]:
        """The whole environment for the command."""
        return {**self.ours, **self.given}

    @property
    def python(self) -> str:
        """The Python beside the command; empty if there is none."""
        beside = [f"{os.path.dirname(self.ray)}/{name}" for name in ("python", "python3")]
        return next(filter(os.path.exists, beside), "")

    @property
    def account(self) -> Account:
        """The account that runs it."""
        entry = _entry(self.user)
        if entry is None or entry.pw_uid == os.geteuid():
            return programs.our_account()
        return Account(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def install(request: Request, state: HostState) -> Installation:
    """Finds the `ray` to start: from the request, from a Ray that runs or ran here, on the PATH, or at the head's path, in this order.

    Raises `NoWayError`.
    """
    our_name = user_name(os.geteuid())
    found: Tuple[str, str, str] | None
    if request.get("ray"):  # it was found here before Ray was stopped
        found = str(request["ray"]), str(request.get("user") or our_name), str(request.get("how") or "as found before")
    elif request.get("python"):
        python = shutil.which(os.path.expanduser(str(request["python"]))) or str(request["python"])
        ray = os.path.join(os.path.dirname(python), "ray")
        found = ray, str(request.get("user") or our_name), "beside the preset's Python"
    else:
        found = _find_in_sessions(state) or _find_in_old_logs(state) or _find_on_path()
    if found is None:
        # Hosts of one cluster mostly have the same installation.
        likely = str(request.get("likely") or "")
        if not os.access(likely, os.X_OK):
            raise NoWayError("no `ray` command is on the PATH, nor on that of a login shell: set ray.python in the preset")
        found = likely, our_name, "at the same path as on the head"
    ray, user, why = found
    if not os.access(ray, os.X_OK):
        raise NoWayError(f"{ray} does not exist or can't be run")
    with suppress(OSError):  # a program that we may run may still be unreadable
        interpreter = trust.interpreter(ray)
        if not os.access(interpreter, os.X_OK):
            raise NoWayError(f"{ray} can't be run here: its interpreter {interpreter} is missing, or not accessible to {our_name}")
    if user not in (our_name, str(os.geteuid())) and (os.geteuid() != 0 or _entry(user) is None):
        raise NoWayError(f"Ray ran as {user} here; {our_name} can't start it as that user")
    given = {str(name): str(value) for name, value in (request.get("env") or {}).items()}
    installation = Installation(ray, user, environment(ray, user), given, why)
    reason = trust.why_not_run(ray, trust.ROOT) or trust.why_not_interpret(ray) if installation.account.uid == trust.ROOT else None
    if reason is not None:
        raise NoWayError(f"root does not run {ray} ({why}): {reason}")
    return installation


def _find_in_sessions(state: HostState) -> Tuple[str, str, str] | None:
    """The `ray` of a live session of root or of our user; sessions of other users do not count."""
    for session in sessions(state)[0]:
        with suppress(NoWayError):
            cluster = find_cluster_python(state, session)
            ray = os.path.join(os.path.dirname(cluster.python), "ray")
            if cluster.account.uid in trust.own_uids() and os.access(ray, os.X_OK):
                return ray, user_name(cluster.account.uid), f"that of {session}, which runs here"
    return None


def _find_in_old_logs(state: HostState) -> Tuple[str, str, str] | None:
    """The `ray` of the last dead session that had its head here; only logs of root and of our user count."""
    for folder in sorted(state.sessions.folders, key=lambda one: os.path.basename(one.path), reverse=True):
        with suppress(OSError):
            log = trust.read_begin(f"{folder.path}/logs/monitor.log", LOG_BYTES, trust.own_uids())
            found = _MONITOR.search(log.decode("utf-8", "replace"))
            ray = f"{found[1]}/bin/ray" if found else ""
            if folder.facts.uid in trust.own_uids() and os.access(ray, os.X_OK):
                return ray, user_name(os.geteuid()), f"that of {os.path.basename(folder.path)}, which ran here"
    return None


def _find_on_path() -> Tuple[str, str, str] | None:
    ray, our_name = shutil.which("ray"), user_name(os.geteuid())
    if ray:
        return ray, our_name, "on the PATH"
    entry = _entry(our_name)
    shell = entry.pw_shell if entry and entry.pw_shell else "/bin/sh"
    output = _read_output([shell, "-lc", "command -v ray"], programs.our_account(), programs.our_environment(), limited=False)
    ray = next((line for line in reversed(output.splitlines()) if line.startswith("/")), "")
    return (ray, our_name, "on the PATH of a login shell") if ray else None


def environment(ray: str, user: str) -> Dict[str, str]:
    """Our environment without the variables of another Ray. Another user gets only the kept variables, and no tokens."""
    entry = _entry(user)
    ours = {name: value for name, value in programs.our_environment().items() if name not in MISLEADING}
    if entry and entry.pw_uid != os.geteuid():
        user_variables = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
        kept = {**trust.kept_environment(ours, entry.pw_uid), **user_variables}
        ours = {name: value for name, value in kept.items() if "TOKEN" not in name}
    path = f"{os.path.dirname(ray)}:{ours.get('PATH') or os.defpath}"
    return {**ours, "PATH": path}


def versions(installation: Installation) -> Tuple[str | None, str | None]:
    """The versions of Ray and of its Python; `None` if unknown. The preset's environment is not used for this."""
    python = installation.python
    if not python:
        return None, None
    account = installation.account
    output = _read_output(
        [python, *programs.python_flags(account), "-c", _VERSIONS],
        account,
        trust.kept_environment(os.environ if account.is_ours else {}, account.uid),
    )
    try:
        ray, version = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return None, None
    return ray, version


def _read_output(words: list[str], account: Account, environ: Mapping[str, str], *, limited: bool = True) -> str:
    """The output of a short command; empty if it fails or hangs."""
    try:
        ended = programs.run(words, account, environ, limit_s=OUTPUT_TIMEOUT_S, limited=limited)
    except (TrustError, OSError):
        return ""
    return ended.out.decode("utf-8", "replace") if ended.code == 0 else ""


def _entry(user: str) -> Any:
    """The entry in the host's user database, or `None`."""
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except (KeyError, OSError):
        return None
