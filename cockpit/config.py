"""What the user asked for: one frozen value, from flags, then `COCKPIT_*` variables, then the config file, then defaults."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, get_type_hints

import msgspec
import platformdirs
from msgspec import UNSET, Meta, UnsetType

from cockpit.document import Document, InputError, shown
from cockpit.limits import Limits
from cockpit.model import Session, Value
from cockpit.reach import DEFAULT_REACH, HOST_WORDS, HostEntry, host_entries, parse_hosts, reach_command

DEFAULT_ADDRESS: Final = "http://127.0.0.1:8265"
ProbeHosts = Literal["auto", "never", "always"]


class Config(Value, frozen=True):
    """What holds now; `origins` says for each field that is not the default where it came from."""

    address: str | None = None
    hosts: tuple[HostEntry, ...] = ()
    reach: str = DEFAULT_REACH
    interval: float = 2.0
    """Seconds between two samples of a probe."""
    probe_hosts: ProbeHosts = "auto"
    """Other hosts: `auto` looks at those that matter now, `always` at each of `hosts` too, `never` at none."""
    readonly: bool = False
    theme: str | None = None
    ascii: bool = False
    quiet: bool = False
    """Neither bell nor notification when something critical begins."""
    limits: Limits = Limits()
    origins: Mapping[str, str] = {}


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What may stand in cockpit's config file."""

    address: Annotated[str | UnsetType, Meta(description="Ray's dashboard, such as http://head:8265.")] = UNSET
    hosts: Annotated[
        list[str | HostEntry] | UnsetType,
        Meta(description="Hosts beyond those that Ray tells of, and for when Ray is down."),
    ] = UNSET
    reach: Annotated[
        str | UnsetType,
        Meta(
            description="Any command that pipes into a Python over there; {name} {address} {user} {user@} {python} {control} are filled in."
        ),
    ] = UNSET
    interval: Annotated[float, Meta(ge=0.5, le=3600, description="Seconds between two looks at a host.")] | UnsetType = UNSET
    probe_hosts: Annotated[
        ProbeHosts | UnsetType,
        Meta(description="Look at other hosts through `reach`: auto (those that matter now), always (all of hosts too), never."),
    ] = UNSET
    readonly: Annotated[bool | UnsetType, Meta(description="Show everything, change nothing.")] = UNSET
    theme: Annotated[str | UnsetType, Meta(description="The name of a theme.")] = UNSET
    ascii: Annotated[bool | UnsetType, Meta(description="Draw with ASCII characters alone.")] = UNSET
    quiet: Annotated[bool | UnsetType, Meta(description="No bell and no notification when something critical begins.")] = UNSET
    limits: Annotated[Limits | UnsetType, Meta(description="From where on something is wrong.")] = msgspec.field(
        default=UNSET, name="findings"
    )


def _marks() -> dict[str, Meta]:
    """What is written beside each threshold."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(Limits, include_extras=True).items()}


def _range(mark: Meta) -> str:
    least = f"from {mark.ge:.10g}" if mark.ge is not None else f"above {mark.gt or 0:.10g}"
    return f"a number {least}" if mark.le is None else f"a number {least} to {mark.le:.10g}"


_WORDS: Final = {
    "address": "an address such as http://head:8265",
    "hosts": "a list of hosts",
    **{f"hosts{place}": words for place, words in HOST_WORDS.items()},
    "reach": "a command",
    "interval": "a number of seconds from 0.5 to 3600",
    "probe_hosts": "auto, always or never",
    "readonly": "true or false",
    "theme": "the name of a theme",
    "ascii": "true or false",
    "quiet": "true or false",
    "findings": "thresholds, such as `disk_full: 0.9`",
}


@cache
def _words() -> Mapping[str, str]:
    """What is expected where; a start without a config file needs none of it."""
    return {**_WORDS, **{f"findings.{name}": _range(mark) for name, mark in _marks().items()}}


_FIELDS: Final = tuple(field for field in Config.__struct_fields__ if field != "origins")
_TYPED: Final = tuple(field for field in _FIELDS if field != "limits")
"""Those that a flag or a variable may give."""
_KEYS: Final = {field: "findings" if field == "limits" else field for field in _FIELDS}
"""What each is called in the file."""
_SWITCH: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def config_path() -> Path:
    """`$XDG_CONFIG_HOME/cockpit/config.yaml`; presets and themes lie beside it."""
    return platformdirs.user_config_path("cockpit") / "config.yaml"


def load(flags: Mapping[str, object], env: Mapping[str, str] = os.environ, path: Path | None = None) -> Config:
    """Raises `InputError`. A flag that is `None` was not given; `hosts` comes as it was typed."""
    flagged = {f"--{name.replace('_', '-')}": (name, flags[name]) for name in _TYPED if flags.get(name) is not None}
    variables = {variable: (name, env[variable]) for name in _TYPED if env.get(variable := f"COCKPIT_{name.upper()}")}
    file = _read(path or config_path())
    chosen = {**file, **_typed(variables), **_typed(flagged)}
    values: dict[str, Any] = {name: value for name, (value, _) in chosen.items()}
    if "hosts" in file:  # a name on the command line keeps what the file says of that host
        values["hosts"] = _with_details(values["hosts"], file["hosts"][0])
    return Config(**values, origins={name: origin for name, (_, origin) in chosen.items()})


_Layer = dict[str, tuple[Any, str]]
"""For each field that is given: its value, and where it was given."""


def _typed(given: Mapping[str, tuple[str, object]]) -> _Layer:
    """What was typed, by the flag or variable it was typed for."""
    return {name: (_typed_value(origin, name, value), origin) for origin, (name, value) in given.items()}


def _typed_value(origin: str, name: str, value: object) -> object:
    try:
        return _sound(name, _of_text(name, value))
    except msgspec.ValidationError as error:
        raise InputError(f"{origin}: expected {_words()[name]}, got {value}") from error
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error


def _of_text(name: str, value: object) -> object:
    if name == "hosts":
        return parse_hosts(str(value))
    if name in ("readonly", "ascii", "quiet"):
        value = _SWITCH.get(str(value).lower(), value)
    return getattr(msgspec.convert({name: value}, ConfigFile, strict=name != "interval"), name)


def _read(path: Path) -> _Layer:
    try:
        document = Document.read(path)
    except FileNotFoundError:
        return {}
    if not isinstance(document.data, dict):
        raise document.mistake("", "expected keys with values, such as `interval: 2`")
    file = document.convert(ConfigFile, _words())
    layer: _Layer = {}
    for name in _FIELDS:
        if (value := getattr(file, name)) is UNSET:
            continue
        checked = host_entries(value, document, "hosts") if name == "hosts" else _sound_at(document, name, value)
        layer[name] = (checked, f"{document.name}:{document.line(_KEYS[name])}")
    return layer


def _sound_at(document: Document, name: str, value: object) -> object:
    try:
        return _sound(name, value)
    except InputError as error:
        raise document.mistake(name, str(error)) from error


def _sound(name: str, value: object) -> object:
    """Checks what its type can't say."""
    if name == "address":
        return dashboard_url(str(value))
    if name == "reach":
        reach_command(str(value), HostEntry("host", user="user"))
    return value


def _with_details(hosts: Iterable[HostEntry], known: Iterable[HostEntry]) -> tuple[HostEntry, ...]:
    details = {entry.name: entry for entry in known}
    return tuple(details.get(entry.name, entry) if entry == HostEntry(entry.name) else entry for entry in hosts)


class Address(NamedTuple):
    """Where a Ray dashboard is, and how that is known."""

    url: str
    origin: str


def resolve_address(config: Config, env: Mapping[str, str], sessions: Iterable[Session]) -> tuple[Address, ...]:
    """The dashboard to ask; more than one when this host has several live sessions, and then a person must choose.

    `sessions` are those that the probe found on this host. Raises `InputError` for a variable that holds nonsense.
    """
    if config.address:
        return (Address(config.address, config.origins.get("address", "--address")),)
    if server := env.get("RAY_API_SERVER_ADDRESS"):
        return (Address(_named_url("RAY_API_SERVER_ADDRESS", server), "RAY_API_SERVER_ADDRESS"),)
    if (ray := env.get("RAY_ADDRESS", "")).startswith(("http://", "https://")):
        return (Address(_named_url("RAY_ADDRESS", ray), "RAY_ADDRESS"),)
    live = {session.dashboard: session for session in sessions if session.live and session.dashboard}
    return tuple(Address(url, session.name) for url, session in live.items()) or (Address(DEFAULT_ADDRESS, "default"),)


def several(addresses: Iterable[Address]) -> str:
    """What whoever must choose one is told."""
    places = "".join(f"\n  {address.url}  {address.origin}" for address in addresses)
    return f"several live sessions on this host; choose one with --address:{places}"


def _named_url(name: str, text: str) -> str:
    try:
        return dashboard_url(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


_AUTHORITY = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5]))?", re.ASCII)


def dashboard_url(text: str) -> str:
    """`head:8265`, `http://head:8265/#/overview` → `http://head:8265`. Never repeats what may be a password."""
    text = text.strip()
    if "@" in text:  # wherever it is: a password may hold a slash
        raise InputError("an address must hold no user or password; a token goes into RAY_AUTH_TOKEN")
    scheme, mark, rest = text.partition("://")
    if not mark:
        scheme, rest = "http", text
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    if scheme == "ray":
        raise InputError(f"{text} is for Ray's client; give that of the dashboard, such as http://{authority.split(':')[0] or 'head'}:8265")
    if scheme not in ("http", "https") or not _AUTHORITY.fullmatch(authority) or not re.fullmatch(r"[\w./~%+-]*", path):
        raise InputError(f"{text!r} is not the address of a dashboard, such as http://head:8265")
    if not mark and not re.search(r":\d+$", authority):
        authority += ":8265"
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")


# What `cockpit config` and `cockpit schema config` print


def _default_limits() -> str:
    written = {f"{name}: {getattr(Limits(), name):.10g}": mark.description or "" for name, mark in _marks().items()}
    return "".join(f"#   {value:<31}# {what.rstrip('.')}\n" for value, what in written.items())


def default_file() -> str:
    """Every key with its default, commented out."""
    return f"""\
# cockpit's config. What is commented out is the default. Flags and COCKPIT_* variables win over this file.

# address: http://head:8265        # Ray's dashboard; unset: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, this host's live session
# hosts:                           # more than Ray tells us, or for when Ray is down; names, or names with details
#   - head
#   - {{name: w1, address: 10.0.0.2, user: train, python: /opt/conda/bin/python}}
# reach: "{DEFAULT_REACH}"
#                                  # any command that pipes into a Python over there: ssh, srun, kubectl exec, docker exec;
#                                  # {{control}} is where ssh may keep its connection. Or `ray`: acts go through Ray alone
# probe_hosts: auto                # look at other hosts: auto (those that matter now), always (all of hosts too), never
# interval: 2                      # seconds between two looks at a host
# readonly: false                  # show everything, change nothing
# theme: textual-dark
# ascii: false                     # draw with ASCII characters alone
# quiet: false                     # no bell and no notification of the terminal when something critical begins
# findings:                        # from where on something is wrong
{_default_limits()}"""


def init(path: Path) -> None:
    """Write the default file where there is none. Raises `InputError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(default_file())
    except FileExistsError as error:
        raise InputError(f"{shown(path)}: there is one already; it was left alone") from error
    except OSError as error:
        raise InputError(f"{shown(path)}: {(error.strerror or str(error)).lower()}") from error


def config_text(config: Config) -> str:
    """What holds now as YAML, each line with where it comes from."""
    lines = []
    for name in _TYPED:
        value = msgspec.to_builtins(getattr(config, name))
        if name == "hosts":
            value = [{key: text for key, text in host.items() if text not in ("", "python3")} for host in value]
        lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}  # {config.origins.get(name, 'default')}\n")
    lines.append(f"findings:  # {config.origins.get('limits', 'default')}\n")
    lines += [f"  {name}: {value:.10g}\n" for name, value in msgspec.structs.asdict(config.limits).items()]
    return "".join(lines)


def schema() -> dict[str, Any]:
    """The JSON Schema of the config file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(ConfigFile)}
