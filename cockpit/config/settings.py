"""What the user asked for: one frozen value, from flags, then `COCKPIT_*` variables, the config file, Slurm or KubeRay, then defaults."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import msgspec
import platformdirs
from msgspec import UNSET, Meta, UnsetType

from cockpit.config import kubernetes, slurm
from cockpit.config.address import dashboard_url
from cockpit.config.document import Document, InputError, abbreviate_home
from cockpit.config.kubernetes import KubernetesPlace
from cockpit.config.notify import NOTIFY_WORDS, NotifyTarget, check_targets, shown_targets
from cockpit.config.reach import DEFAULT_REACH, HOST_WORDS, HostEntry, host_entries, parse_hosts, reach_command
from cockpit.config.slurm import NodeNames, SlurmHosts
from cockpit.config.thresholds import Limits, RecordingLimits
from cockpit.model import Value
from cockpit.text import explain_os_error
from cockpit.trust import why_not_ours

ProbeHosts = Literal["auto", "never", "always"]
Orchestrator = SlurmHosts | KubernetesPlace
"""What Ray runs in."""
Layer = dict[str, tuple[Any, str]]
"""For each field that is given: its value, and where it was given."""


class Config(Value, frozen=True):
    """What holds now; `origins` says for each field that is not the default where it came from."""

    address: str | None = None
    hosts: tuple[HostEntry, ...] = ()
    reach: str = DEFAULT_REACH
    interval: float = 2.0
    """Seconds between two samples of a probe."""
    probe_hosts: ProbeHosts = "auto"
    """Other hosts to probe: `auto` those where Ray is down or a GPU process has no known owner, `always` also each of `hosts`."""
    readonly: bool = False
    theme: str | None = None
    ascii: bool = False
    quiet: bool = False
    """Neither bell nor notification when a critical finding starts."""
    plain: bool = False
    record: bool = True
    """Keep what is seen, for later; never with `readonly`."""
    recording: RecordingLimits = RecordingLimits()
    limits: Limits = Limits()
    notify: tuple[NotifyTarget, ...] = ()
    """Who is told when findings begin and end; never with `readonly`."""
    slurm: SlurmHosts | None = None
    """The Slurm job whose nodes are the hosts: the one that cockpit runs in, or that was named."""
    slurm_nodes: tuple[NodeNames, ...] = ()
    """What the nodes of that job are called."""
    kubernetes: KubernetesPlace | None = None
    """The RayCluster of KubeRay's whose pods are the hosts: that of the pod that cockpit runs in, or the one that was named."""
    origins: Mapping[str, str] = {}

    @property
    def readonly_reason(self) -> str:
        """Why an act is refused, with the flag, variable or line that says so."""
        return f"cockpit is read-only ({self.origins.get('readonly', '--readonly')})"

    def names_of(self, host: str) -> tuple[str, ...]:
        """All that the host is called that somebody calls so, this name first."""
        return slurm.names_of(host, self.slurm_nodes)

    @property
    def named_job(self) -> str | None:
        """The Slurm job, where it was named for this run."""
        return self.slurm.job if self.slurm is not None and self.origins.get("slurm") == slurm.FLAG else None

    @property
    def named_hosts(self) -> tuple[HostEntry, ...]:
        """Those that were named for this run, by flag or variable: the file lists them for when they matter."""
        return self.hosts if self.origins.get("hosts", "--hosts") in ("--hosts", "COCKPIT_HOSTS", slurm.FLAG) else ()


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What may stand in cockpit's config file."""

    address: Annotated[str | UnsetType, Meta(description="Ray's dashboard, such as http://head:8265.")] = UNSET
    hosts: Annotated[
        list[str | HostEntry] | UnsetType,
        Meta(description="Hosts beyond those that Ray reports, and for when Ray is down."),
    ] = UNSET
    reach: Annotated[
        str | UnsetType,
        Meta(
            description="A command that pipes into a Python on that host; placeholders: {name} {address} {user} {user@} {python} {control}."
        ),
    ] = UNSET
    interval: Annotated[float, Meta(ge=0.5, le=3600, description="Seconds between two samples of a host.")] | UnsetType = UNSET
    probe_hosts: Annotated[
        ProbeHosts | UnsetType,
        Meta(description="Probe other hosts: auto (Ray is down, or a GPU process has no known owner), always (also each of hosts), never."),
    ] = UNSET
    readonly: Annotated[bool | UnsetType, Meta(description="Show everything, change nothing.")] = UNSET
    theme: Annotated[str | UnsetType, Meta(description="The name of a theme.")] = UNSET
    ascii: Annotated[bool | UnsetType, Meta(description="Draw with ASCII characters only.")] = UNSET
    quiet: Annotated[bool | UnsetType, Meta(description="No bell and no terminal notification when a critical finding starts.")] = UNSET
    plain: Annotated[bool | UnsetType, Meta(description="The screen as lines of text, for a screen reader.")] = UNSET
    record: Annotated[bool | UnsetType, Meta(description="Record what cockpit sees: on or off.")] = UNSET
    recording: Annotated[RecordingLimits | UnsetType, Meta(description="How long recordings are kept, and how large they grow.")] = UNSET
    limits: Annotated[Limits | UnsetType, Meta(description="Thresholds of findings.")] = msgspec.field(default=UNSET, name="findings")
    notify: Annotated[list[NotifyTarget] | UnsetType, Meta(description="Where to send a notification when a finding starts or clears.")] = (
        UNSET
    )


def _marks(of: type) -> dict[str, tuple[Meta, ...]]:
    """What is written beside each threshold: its range first, and last what it is."""
    return {name: hint.__metadata__ for name, hint in get_type_hints(of, include_extras=True).items()}


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
    "theme": "the name of a theme",
    **dict.fromkeys(("readonly", "ascii", "quiet", "plain"), "true or false"),
    "record": "on or off",
    "recording": "limits, such as `days: 7`",
    "findings": "thresholds, such as `disk_full: 0.9`",
    **{f"notify{place}": words for place, words in NOTIFY_WORDS.items()},
}


@cache
def _words() -> Mapping[str, str]:
    """What is expected where; a start without a config file needs none of it."""
    groups = {"findings": Limits, "recording": RecordingLimits}
    return {**_WORDS, **{f"{key}.{name}": _range(marks[0]) for key, of in groups.items() for name, marks in _marks(of).items()}}


_FIELDS: Final = tuple(field for field in Config.__struct_fields__ if field not in ("origins", "slurm", "slurm_nodes", "kubernetes"))
"""Those that the file may give."""
_TYPED: Final = tuple(field for field in _FIELDS if field not in ("limits", "recording", "notify"))
"""Those that a flag or a variable may give."""
_KEYS: Final = {field: "findings" if field == "limits" else field for field in _FIELDS}
"""What each is called in the file."""
_SWITCH: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def config_path() -> Path:
    """`$XDG_CONFIG_HOME/cockpit/config.yaml`; presets and themes lie beside it."""
    return platformdirs.user_config_path("cockpit") / "config.yaml"


def load(
    flags: Mapping[str, object], env: Mapping[str, str] = os.environ, path: Path | None = None, orchestrators: Iterable[Orchestrator] = ()
) -> Config:
    """Raises `InputError`. A flag that is `None` was not given; `hosts` comes as it was typed. `orchestrators`: that a person has named."""
    flagged = {f"--{name.replace('_', '-')}": (name, flags[name]) for name in _TYPED if flags.get(name) is not None}
    variables = {variable: (name, env[variable]) for name in _TYPED if env.get(variable := f"COCKPIT_{name.upper()}")}
    file = _read(path or config_path())
    around = (slurm.find_allocation(env), kubernetes.find_place(env))
    chosen = {**_settings_of(around), **file, **_settings_of(orchestrators), **_parse_all(variables), **_parse_all(flagged)}
    values: dict[str, Any] = {name: value for name, (value, _) in chosen.items()}
    if "hosts" in file:  # a name on the command line keeps what the file says of that host
        values["hosts"] = _with_details(values["hosts"], file["hosts"][0])
    return Config(**values, origins={name: origin for name, (_, origin) in chosen.items()})


def _settings_of(orchestrators: Iterable[Orchestrator | None]) -> Layer:
    """Their hosts, and the way to them: ssh seldom may."""
    return {name: given for one in orchestrators if one is not None for name, given in one.settings.items()}


def _parse_all(given: Mapping[str, tuple[str, object]]) -> Layer:
    """What was typed, by the flag or variable it was typed for."""
    return {name: (_parse_value(origin, name, value), origin) for origin, (name, value) in given.items()}


def _parse_value(origin: str, name: str, value: object) -> object:
    try:
        return _validate(name, _parse_text(name, value))
    except msgspec.ValidationError as error:
        raise InputError(f"{origin}: expected {_words()[name]}, got {value}") from error
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error


def _parse_text(name: str, value: object) -> object:
    if name == "hosts":
        return parse_hosts(str(value))
    if name in ("readonly", "ascii", "quiet", "plain", "record"):
        value = _SWITCH.get(str(value).lower(), value)
    return getattr(msgspec.convert({name: value}, ConfigFile, strict=name != "interval"), name)


def _read(path: Path) -> Layer:
    if (reason := why_not_ours(path)) is not None:
        if not os.path.lexists(path):
            return {}  # and what lies there a moment later is not read either
        raise InputError(f"{abbreviate_home(path)}: {reason}, and cockpit runs commands from this file (under sudo, use sudo -H)")
    try:
        document = Document.read(path)
    except FileNotFoundError:
        return {}
    if not isinstance(document.data, dict):
        raise document.mistake("", "expected keys with values, such as `interval: 2`")
    file = document.convert(ConfigFile, _words(), hidden="notify")
    layer: Layer = {}
    for name in _FIELDS:
        if (value := getattr(file, name)) is UNSET:
            continue
        layer[name] = (_check(document, name, value), f"{document.name}:{document.line(_KEYS[name])}")
    return layer


def _check(document: Document, name: str, value: Any) -> object:
    if name == "hosts":
        return host_entries(value, document, "hosts")
    if name == "notify":
        return check_targets(value, document)
    try:
        return _validate(name, value)
    except InputError as error:
        raise document.mistake(name, str(error)) from error


def _validate(name: str, value: object) -> object:
    """Checks what its type can't say."""
    if name == "address":
        return dashboard_url(str(value))
    if name == "reach":
        reach_command(str(value), HostEntry("host", user="user"))
    return value


def _with_details(hosts: Iterable[HostEntry], known: Iterable[HostEntry]) -> tuple[HostEntry, ...]:
    details = {entry.name: entry for entry in known}
    return tuple(details.get(entry.name, entry) if entry == HostEntry(entry.name) else entry for entry in hosts)


# What `cockpit config` prints


def _default_limits(of: type[Limits | RecordingLimits]) -> str:
    written = {f"{name}: {getattr(of(), name):.10g}": marks[-1].description or "" for name, marks in _marks(of).items()}
    return "".join(f"#   {value:<31}# {what.rstrip('.')}\n" for value, what in written.items())


def default_file() -> str:
    """Every key with its default, commented out."""
    return f"""\
# cockpit's config file. Lines that are commented out show the defaults. Flags and COCKPIT_* variables override this file.

# address: http://head:8265        # Ray's dashboard; default: RAY_API_SERVER_ADDRESS, RAY_ADDRESS, this host's live session
# hosts:                           # hosts beyond those that Ray reports, and for when Ray is down: names, or names with details
#   - head
#   - {{name: w1, address: 10.0.0.2, user: train, python: /opt/conda/bin/python}}
# reach: "{DEFAULT_REACH}"
#                                  # any command that pipes into a Python on that host: ssh, srun, kubectl exec, docker exec;
#                                  # {{control}} is where ssh may keep its connection. Or `ray`: no probes, actions go through Ray only
# probe_hosts: auto                # probe other hosts: auto (where Ray is down, or a GPU process has no known owner),
#                                  # always (also each of `hosts`), never
# interval: 2                      # seconds between two samples of a host
# readonly: false                  # show everything, change nothing
# theme: midnight
# ascii: false                     # draw with ASCII characters only
# quiet: false                     # no bell and no terminal notification when a critical finding starts
# plain: false                     # the screen as lines of text, for a screen reader
# record: on                       # keep what is seen, for `cockpit replay` and `cockpit report`; off, and with readonly: nothing
# recording:                       # what all recordings together may take; the oldest goes first
{_default_limits(RecordingLimits)}# notify:                          # who is notified of findings; try `cockpit notify --test`
#   - {{webhook: "${{FEISHU_HOOK}}", form: feishu, secret: "${{FEISHU_KEY}}"}}   # or dingtalk, wecom, slack, json
#   - {{command: [/opt/page, --critical], level: warning, codes: [gpu-lost]}}   # JSON on its stdin; default: all critical; both must match
# findings:                        # thresholds
{_default_limits(Limits)}"""


def init(path: Path) -> None:
    """Write the default file where there is none. Raises `InputError`."""
    if (reason := why_not_ours(path)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason} (under sudo, use sudo -H)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(default_file())
    except FileExistsError as error:
        raise InputError(f"{abbreviate_home(path)}: already exists; not overwritten") from error
    except PermissionError as error:
        raise InputError(f"{abbreviate_home(path)}: permission denied; set XDG_CONFIG_HOME to a folder that you may write") from error
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: {explain_os_error(error)}") from error


def config_text(config: Config) -> str:
    """What holds now as YAML, each line with where it comes from."""
    lines = []
    for name in _TYPED:
        value = msgspec.to_builtins(getattr(config, name))
        if name == "hosts":
            value = [{key: text for key, text in host.items() if text not in ("", "python3")} for host in value]
        lines.append(f"{name}: {json.dumps(value, ensure_ascii=False)}  # {config.origins.get(name, 'default')}\n")
    told = json.dumps(shown_targets(config.notify), ensure_ascii=False)
    lines.append(f"notify: {told}  # {config.origins.get('notify', 'default')}\n")
    for key, field in (("recording", "recording"), ("findings", "limits")):
        lines.append(f"{key}:  # {config.origins.get(field, 'default')}\n")
        lines += [f"  {name}: {value:.10g}\n" for name, value in msgspec.structs.asdict(getattr(config, field)).items()]
    return "".join(lines)
