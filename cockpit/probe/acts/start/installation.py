"""Which `ray` a host is to be started with: where it lies, as whom and in what environment it runs, which Ray and Python it is."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
from contextlib import suppress
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from ... import programs, trust
from ...look.proc import user_name
from ...trust import Account, TrustError
from ..host_state import HostState, Request
from ..ray import NoWayError, find_cluster_python
from ..stop.parts import sessions

MISLEADING = frozenset(("RAY_ADDRESS", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_NODE_ID", "RAY_JOB_CONFIG_JSON_ENV_VAR", "PYTHONINSPECT"))
"""Variables that we may have inherited from another Ray, or that would keep a program from ending."""
LOG_BYTES = 1 << 16
OUTPUT_TIMEOUT_S = 10
"""Seconds that a Python, or a login shell, gets to say one line."""
_MONITOR = re.compile(r"using ray installation: (/\S+)/lib/python3\.\d+t?/(?:site|dist)-packages/ray/__init__\.py")
"""What the autoscaler monitor writes first into its log (2.9 to 2.60)."""
_VERSIONS = """\
import importlib.util, json, os, platform, re
spec = importlib.util.find_spec("ray")
text = open(os.path.join(os.path.dirname(spec.origin), "_version.py")).read() if spec and spec.origin else ""
found = re.search(r'^version = "([^"]{1,40})"', text, re.M)
print(json.dumps([found and found[1], platform.python_version()]))
"""
"""Nothing of Ray is imported: that would take seconds."""


class Installation(NamedTuple):
    """A `ray`, and who it is run as."""

    ray: str
    user: str
    """A name, or a number."""
    ours: Mapping[str, str]
    """The environment without what the preset says of it."""
    given: Mapping[str, str]
    """What the preset says of it; secrets are in it."""
    why: str
    """How it was found."""

    @property
    def environ(self) -> Mapping[str, str]:
        """In which it runs."""
        return {**self.ours, **self.given}

    @property
    def python(self) -> str:
        """The Python beside it."""
        beside = [f"{os.path.dirname(self.ray)}/{name}" for name in ("python", "python3")]
        return next(filter(os.path.exists, beside), "")

    @property
    def account(self) -> Account:
        """As whom it is run. Raises `NoWayError`."""
        entry = _entry(self.user)
        if entry is None or entry.pw_uid == os.geteuid():
            return programs.our_account()
        return Account(entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def install(request: Request, look: HostState) -> Installation:
    """What the request names, else that of the Ray that runs or ran here, else of a login, else the head's path. Raises `NoWayError`."""
    ray, user, why = _find_named(request) or _find_in_sessions(look) or _find_recorded(look) or _of_login() or _likely(request)
    if not os.access(ray, os.X_OK):
        raise NoWayError(f"{ray} does not exist or can't be run")
    with suppress(OSError):  # who may run it need not be able to read it
        interpreter = trust.interpreter(ray)
        if not os.access(interpreter, os.X_OK):
            raise NoWayError(
                f"{ray} can't be run here: its interpreter {interpreter} is missing, or not accessible to {user_name(os.geteuid())}"
            )
    mine = user_name(os.geteuid())
    if user not in (mine, str(os.geteuid())) and (os.geteuid() != 0 or _entry(user) is None):
        raise NoWayError(f"Ray ran as {user} here; {mine} can't start it as that user")
    given = {str(name): str(value) for name, value in (request.get("env") or {}).items()}
    installation = Installation(ray, user, environment(ray, user), given, why)
    reason = trust.why_not_run(ray, trust.ROOT) or trust.why_not_interpret(ray) if installation.account.uid == trust.ROOT else None
    if reason is not None:
        raise NoWayError(f"root does not run {ray} ({why}): {reason}")
    return installation


def _find_named(request: Request) -> Tuple[str, str, str] | None:
    """A Python of the preset's, or what was found here before Ray was stopped."""
    mine = user_name(os.geteuid())
    if request.get("ray"):
        return str(request["ray"]), str(request.get("user") or mine), str(request.get("how") or "as found before")
    if request.get("python"):
        python = shutil.which(os.path.expanduser(str(request["python"]))) or str(request["python"])
        return os.path.join(os.path.dirname(python), "ray"), str(request.get("user") or mine), "beside the preset's Python"
    return None


def _find_in_sessions(look: HostState) -> Tuple[str, str, str] | None:
    """Of a session of root's or ours; whoever else runs a Ray here has nothing to say in this."""
    for session in sessions(look)[0]:
        with suppress(NoWayError):
            cluster = find_cluster_python(look, session)
            ray = os.path.join(os.path.dirname(cluster.python), "ray")
            if cluster.account.uid in trust.own_uids() and os.access(ray, os.X_OK):
                return ray, user_name(cluster.account.uid), f"that of {session}, which runs here"
    return None


def _find_recorded(look: HostState) -> Tuple[str, str, str] | None:
    """Of the last dead session whose head was here; what others may have written there names no program for us."""
    for folder in sorted(look.sessions.folders, key=lambda one: os.path.basename(one.path), reverse=True):
        with suppress(OSError):
            log = trust.read_begin(f"{folder.path}/logs/monitor.log", LOG_BYTES, trust.own_uids())
            found = _MONITOR.search(log.decode("utf-8", "replace"))
            ray = f"{found[1]}/bin/ray" if found else ""
            if folder.facts.uid in trust.own_uids() and os.access(ray, os.X_OK):
                return ray, user_name(os.geteuid()), f"that of {os.path.basename(folder.path)}, which ran here"
    return None


def _of_login() -> Tuple[str, str, str] | None:
    ray, mine = shutil.which("ray"), user_name(os.geteuid())
    if ray:
        return ray, mine, "on the PATH"
    entry = _entry(mine)
    shell = entry.pw_shell if entry and entry.pw_shell else "/bin/sh"
    said = _read_output([shell, "-lc", "command -v ray"], programs.our_account(), programs.our_environment())
    ray = next((line for line in reversed(said.splitlines()) if line.startswith("/")), "")
    return (ray, mine, "on the PATH of a login shell") if ray else None


def _likely(request: Request) -> Tuple[str, str, str]:
    """Hosts of one cluster are mostly installed alike."""
    ray = str(request.get("likely") or "")
    if not os.access(ray, os.X_OK):
        raise NoWayError("no `ray` command is on the PATH, nor on that of a login shell: set ray.python in the preset")
    return ray, user_name(os.geteuid()), "at the same path as on the head"


def environment(ray: str, user: str) -> Dict[str, str]:
    """Ours, as an operator finds it who logs in, without anything of another Ray. Another user gets little of it."""
    entry = _entry(user)
    ours = {name: value for name, value in programs.our_environment().items() if name not in MISLEADING}
    if entry and entry.pw_uid != os.geteuid():
        whose = {"HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name}
        ours = {name: value for name, value in {**trust.kept_environment(ours, entry.pw_uid), **whose}.items() if "TOKEN" not in name}
    path = f"{os.path.dirname(ray)}:{ours.get('PATH') or os.defpath}"
    return {**ours, "PATH": path}


def versions(installation: Installation) -> Tuple[str | None, str | None]:
    """Of Ray and of its Python; `None` where they can't be told. The preset's environment is not needed for that."""
    python = installation.python
    if not python:
        return None, None
    account = installation.account
    said = _read_output(
        [python, *programs.python_flags(account), "-c", _VERSIONS],
        account,
        trust.kept_environment(os.environ if account.is_ours else {}, account.uid),
    )
    try:
        ray, version = json.loads(said.splitlines()[-1])
    except (ValueError, IndexError):
        return None, None
    return ray, version


def _read_output(words: list[str], account: Account, environ: Mapping[str, str]) -> str:
    """What a short command prints; nothing when it fails or hangs."""
    try:
        ended = programs.run(words, account, environ, limit_s=OUTPUT_TIMEOUT_S)
    except (TrustError, OSError):
        return ""
    return ended.out.decode("utf-8", "replace") if ended.code == 0 else ""


def _entry(user: str) -> Any:
    """Of the host's database of users."""
    try:
        return pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
    except (KeyError, OSError):
        return None
