"""Where a Ray dashboard is, and which one is asked: the one that a person has named, else that of the session that lives here."""

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
    """Where a Ray dashboard is, and how that is known."""

    url: str
    origin: str
    given: bool = False
    """A person has named it. Else it was found on this host, and its session or whoever listens there is root's or ours."""
    owner: str | None = None
    """Whose it is, where it is not ours: another user's, or another Slurm job's of ours."""
    chosen: bool = False
    """A person has chosen the session `origin` on the screen: no other session takes its place, also when it has ended."""


class Resolved(msgspec.Struct, frozen=True):
    """The dashboard to ask; or those among which a person must choose."""

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
    """Without a word of a person's only a Ray of root's or of our own is followed; of several, or of others' alone, a person chooses.

    `sessions` are those that the probe found on this host; `strangers`: whose that is which listens on a port here, where it may be none of
    ours; `jobs`: in which Slurm job a session runs, where that is another than ours; `heads`: where the head of a session is that has only
    a worker here. Raises `InputError` for a variable that holds nonsense.
    """
    if given is not None:
        return Resolved(given)
    if server := env.get("RAY_API_SERVER_ADDRESS"):
        return Resolved(Address(_variable_url("RAY_API_SERVER_ADDRESS", server), "RAY_API_SERVER_ADDRESS", given=True))
    if (ray := env.get("RAY_ADDRESS", "")).startswith(("http://", "https://")):
        return Resolved(Address(_variable_url("RAY_ADDRESS", ray), "RAY_ADDRESS", given=True))
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
    """Of a dashboard there; an IPv6 address stands in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _owner_of(session: Session, job: str | None) -> str | None:
    if not session.trusted:
        return session.owner or "?"
    return job and f"Slurm job {job}"


def explain_choices(addresses: Collection[Address]) -> str:
    """The sentence that asks a person to choose one of these dashboards."""
    places = "".join(f"\n  {one.url}  {one.origin}{f' of {one.owner}' if one.owner else ''}" for one in addresses)
    if all(one.owner for one in addresses):
        return f"only Ray sessions of other users or of other Slurm jobs run on this host; name one with --address:{places}"
    return f"several Ray sessions run on this host; name one with --address:{places}"


def _variable_url(name: str, text: str) -> str:
    try:
        return dashboard_url(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


_AUTHORITY = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?", re.ASCII)


def dashboard_url(text: str) -> str:
    """`head:8265`, `http://head:8265/#/overview` → `http://head:8265`. Never repeats what may be a password."""
    text = text.strip()
    if "@" in text:  # wherever it is: a password may hold a slash
        raise InputError("an address must not contain a user or password; put a token in RAY_AUTH_TOKEN")
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "http", text
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if scheme == "ray":
        raise InputError(f"{text} is for Ray's client; give the dashboard address, such as http://{authority.split(':')[0] or 'head'}:8265")
    if scheme not in ("http", "https") or not _AUTHORITY.fullmatch(authority) or not re.fullmatch(r"[\w./~%+-]*", path):
        raise InputError(f"{text!r} is not a dashboard address such as http://head:8265")
    if not mark and not re.search(r":\d+$", authority):
        authority += ":8265"
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")
