"""Chooses the Ray dashboard to follow: the one that the user has named, or else the dashboard of the live session on this host."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from cockpit.config.document import InputError
from cockpit.model import Session

DEFAULT_PORT: Final = 8265
DEFAULT_ADDRESS: Final = f"http://127.0.0.1:{DEFAULT_PORT}"


class Address(msgspec.Struct, frozen=True):
    """The address of a Ray dashboard, and its origin."""

    url: str
    origin: str
    given: bool = False
    """The user has named it. Otherwise it was found on this host, and its session or its listening process belongs to root or to us."""
    owner: str | None = None
    """The other user, or our other Slurm job, that it belongs to; `None`: it is ours."""
    chosen: bool = False
    """The user has chosen the session `origin` on the screen: no other session replaces it, even when it has ended."""


class Resolved(msgspec.Struct, frozen=True):
    """The dashboard to follow, or several among which the user must choose."""

    address: Address | None
    choices: tuple[Address, ...] = ()


def resolve_address(
    given: Address | None,
    env: Mapping[str, str],
    sessions: Collection[Session],
    strangers: Callable[[int], str | None] = lambda _: None,
    jobs: Mapping[str, str] = MappingProxyType({}),
    heads: Mapping[str, str] = MappingProxyType({}),
) -> Resolved:
    """Choose the dashboard. Unless one is named, only a Ray that belongs to root or to us is followed.

    If there are several, or only Rays of other users, the user must choose.
    `sessions`: the Ray sessions that the probe found on this host.
    `strangers`: returns the owner of the process that listens on a port here, if it may be another user's.
    `jobs`: the Slurm job of each session that runs in another job than ours.
    `heads`: the head's address of each session that has only a worker here.
    Raises `InputError` for a variable with an invalid address.
    """
    if given is not None:
        return Resolved(given)
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"):
        # RAY_ADDRESS is often the address of a GCS; only a URL is a dashboard's.
        value = env.get(name, "")
        if value and (name != "RAY_ADDRESS" or value.startswith(("http://", "https://"))):
            try:
                return Resolved(Address(dashboard_url(value), name, given=True))
            except InputError as error:
                raise InputError(f"{name}: {error}") from error

    live = {session.dashboard: session for session in sessions if session.live and session.dashboard}
    owners = {url: _owner_of(session, jobs.get(session.name)) for url, session in live.items()}
    ours = [Address(url, session.name) for url, session in live.items() if owners[url] is None]
    theirs = [Address(url, session.name, owner=owners[url]) for url, session in live.items() if owners[url] is not None]
    if len(ours) == 1:
        return Resolved(ours[0])
    if not ours and not theirs and (owner := strangers(DEFAULT_PORT)):
        theirs = [Address(DEFAULT_ADDRESS, "an unknown program", owner=owner)]
    if not ours and not theirs:
        return Resolved(Address(DEFAULT_ADDRESS, "default"))
    workers = [one for one in sessions if one.live and one.name in heads and _owner_of(one, jobs.get(one.name)) is None]
    return Resolved(None, (*(ours or [Address(url_at(heads[one.name]), one.name) for one in workers]), *theirs))


def url_at(host: str, port: int = DEFAULT_PORT) -> str:
    """Return the URL of a dashboard on a host; an IPv6 address is put in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _owner_of(session: Session, job: str | None) -> str | None:
    """Return the other user or the other Slurm job that the session belongs to, or `None` if it is ours."""
    if not session.trusted:
        return session.owner or "?"
    return job and f"Slurm job {job}"


def explain_choices(addresses: Collection[Address]) -> str:
    """Return the sentence that asks the user to choose one of these dashboards."""
    places = "".join(f"\n  {one.url}  {one.origin}{f' of {one.owner}' if one.owner else ''}" for one in addresses)
    if all(one.owner for one in addresses):
        return f"only Ray sessions of other users or of other Slurm jobs run on this host; name one with --address:{places}"
    return f"several Ray sessions run on this host; name one with --address:{places}"


_AUTHORITY: Final = r"(?a)(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::([1-9]\d{0,4}))?"
MAX_PORT: Final = 65535


def dashboard_url(text: str) -> str:
    """Return the URL of a dashboard: `head:8265` and `http://head:8265/#/overview` give `http://head:8265`. Raises `InputError`.

    The error never repeats a password.
    """
    text = text.strip()
    if "@" in text:  # anywhere in the text, because a password may contain a slash
        raise InputError("an address must not contain a user or password; put a token in RAY_AUTH_TOKEN")
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "http", text
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if scheme == "ray":
        raise InputError(f"{text} is for Ray's client; give the dashboard address, such as http://{authority.split(':')[0] or 'head'}:8265")
    host = re.fullmatch(_AUTHORITY, authority)
    has_port = host is not None and host[1] is not None
    is_valid = host is not None and int(host[1] or 80) <= MAX_PORT and re.fullmatch(r"[\w./~%+-]*", path)
    if scheme not in ("http", "https") or not is_valid:
        raise InputError(f"{text!r} is not a dashboard address such as http://head:8265")
    if not mark and not has_port:
        authority += ":8265"
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")
