"""Reads the user's settings from flags, `COCKPIT_*` variables, the config file, Slurm or KubeRay, and defaults, in this order."""

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
from cockpit.config.editor import EditorSchema
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
"""The system that Ray runs in."""
Layer = dict[str, tuple[Any, str]]
"""The given fields, each with its value and origin."""


class Config(Value, frozen=True):
    """The current settings. `origins` has the origin of each field that is not the default."""

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
    ask_nccl: bool = False
    """While a job is stuck, ask NCCL about it without anybody asking; never an NCCL whose report can harm its process."""
    record: bool = True
    """Record what cockpit sees; never with `readonly`."""
    recording: RecordingLimits = RecordingLimits()
    limits: Limits = Limits()
    notify: tuple[NotifyTarget, ...] = ()
    """Targets of notifications about findings; never used with `readonly`."""
    slurm: SlurmHosts | None = None
    """The Slurm job whose nodes are the hosts: the current job, or the named one."""
    slurm_nodes: tuple[NodeNames, ...] = ()
    """The names of that job's nodes."""
    kubernetes: KubernetesPlace | None = None
    """KubeRay's RayCluster whose pods are the hosts: the RayCluster of the current pod, or the named one."""
    origins: Mapping[str, str] = {}

    @property
    def readonly_reason(self) -> str:
        """Why actions are refused, with the flag, variable or line that sets it."""
        return f"cockpit is read-only ({self.origins.get('readonly', '--readonly')})"

    def names_of(self, host: str) -> tuple[str, ...]:
        """Return all names of a host, the given name first."""
        return slurm.names_of(host, self.slurm_nodes)

    @property
    def named_job(self) -> str | None:
        """The Slurm job that was named for this run."""
        return self.slurm.job if self.slurm is not None and self.origins.get("slurm") == slurm.FLAG else None

    @property
    def named_hosts(self) -> tuple[HostEntry, ...]:
        """The hosts that were named for this run, by a flag or a variable. Hosts in the config file are used only when they are needed."""
        return self.hosts if self.origins.get("hosts", "--hosts") in ("--hosts", "COCKPIT_HOSTS", slurm.FLAG) else ()


class ConfigFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The keys of cockpit's config file."""

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
    ask_nccl: Annotated[
        bool | UnsetType,
        Meta(description="While a job is stuck, ask NCCL 2.29.2 or later what its ranks do, once a minute; older ones only at the key N."),
    ] = UNSET
    record: Annotated[bool | UnsetType, Meta(description="Record what cockpit sees: on or off.")] = UNSET
    recording: Annotated[RecordingLimits | UnsetType, Meta(description="How long recordings are kept, and how large they grow.")] = UNSET
    limits: Annotated[Limits | UnsetType, Meta(description="Thresholds of findings.")] = msgspec.field(default=UNSET, name="findings")
    notify: Annotated[list[NotifyTarget] | UnsetType, Meta(description="Where to send a notification when a finding starts or clears.")] = (
        UNSET
    )


EDITOR_SCHEMA: Final = EditorSchema("config", ConfigFile, "cockpit config file")


def _metadata(of: type) -> dict[str, tuple[Meta, ...]]:
    """Return the annotations of each threshold: the first has its range, the last its description."""
    return {name: hint.__metadata__ for name, hint in get_type_hints(of, include_extras=True).items()}


_WORDS: Final = {
    "address": "an address such as http://head:8265",
    "hosts": "a list of hosts",
    **{f"hosts{place}": words for place, words in HOST_WORDS.items()},
    "reach": "a command",
    "interval": "a number of seconds from 0.5 to 3600",
    "probe_hosts": "auto, always or never",
    "theme": "the name of a theme",
    **dict.fromkeys(("readonly", "ascii", "quiet", "plain", "ask_nccl"), "true or false"),
    "record": "on or off",
    "recording": "limits, such as `days: 7`",
    "findings": "thresholds, such as `disk_full: 0.9`",
    **{f"notify{place}": words for place, words in NOTIFY_WORDS.items()},
}


@cache
def _words() -> Mapping[str, str]:
    """Return the value that each key expects, in words, also for thresholds. A start without a config file does not need it."""
    words = dict(_WORDS)
    for key, of in (("findings", Limits), ("recording", RecordingLimits)):
        for name, (bounds, *_) in _metadata(of).items():
            least = f"from {bounds.ge:.10g}" if bounds.ge is not None else f"above {bounds.gt or 0:.10g}"
            words[f"{key}.{name}"] = f"a number {least}" if bounds.le is None else f"a number {least} to {bounds.le:.10g}"
    return words


_FIELDS: Final = tuple(field for field in Config.__struct_fields__ if field not in ("origins", "slurm", "slurm_nodes", "kubernetes"))
"""Fields that the config file can set."""
_TYPED: Final = tuple(field for field in _FIELDS if field not in ("limits", "recording", "notify"))
"""Fields that a flag or a variable can set."""
_KEYS: Final = {field: "findings" if field == "limits" else field for field in _FIELDS}
"""The key of each field in the file."""
_SWITCH: Final = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def config_path() -> Path:
    """Return `$XDG_CONFIG_HOME/cockpit/config.yaml`; presets and themes are in the same folder."""
    return platformdirs.user_config_path("cockpit") / "config.yaml"


def load(
    flags: Mapping[str, object], env: Mapping[str, str] = os.environ, path: Path | None = None, orchestrators: Iterable[Orchestrator] = ()
) -> Config:
    """Return the settings. A flag with the value `None` was not given; `hosts` is the text that was typed. Raises `InputError`.

    `orchestrators`: the Slurm job or RayCluster that the user has named.
    """
    flagged = {f"--{name.replace('_', '-')}": (name, flags[name]) for name in _TYPED if flags.get(name) is not None}
    variables = {variable: (name, env[variable]) for name in _TYPED if env.get(variable := f"COCKPIT_{name.upper()}")}
    file = _read(path or config_path())
    current = (slurm.find_allocation(env), kubernetes.find_place(env))
    chosen: Layer = {}
    for orchestrator in current:
        chosen |= orchestrator.settings if orchestrator is not None else {}
    chosen |= file
    for orchestrator in orchestrators:
        chosen |= orchestrator.settings
    for origin, (name, value) in (variables | flagged).items():
        chosen[name] = (_parse_value(origin, name, value), origin)
    values: dict[str, Any] = {name: value for name, (value, _) in chosen.items()}
    if "hosts" in file:  # a bare name on the command line gets the details that the file has of that host
        details = {entry.name: entry for entry in file["hosts"][0]}
        values["hosts"] = tuple(details.get(entry.name, entry) if entry == HostEntry(entry.name) else entry for entry in values["hosts"])
    return Config(**values, origins={name: origin for name, (_, origin) in chosen.items()})


def _parse_value(origin: str, name: str, value: object) -> object:
    """Return the checked value of a flag or variable. Raises `InputError` with its name."""
    try:
        if name == "hosts":
            return parse_hosts(str(value))
        if name in ("readonly", "ascii", "quiet", "plain", "ask_nccl", "record"):
            value = _SWITCH.get(str(value).lower(), value)
        return _validate(name, getattr(msgspec.convert({name: value}, ConfigFile, strict=name != "interval"), name))
    except msgspec.ValidationError as error:
        raise InputError(f"{origin}: expected {_words()[name]}, got {value}") from error
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error


def _read(path: Path) -> Layer:
    """Read the config file; a missing one sets nothing. Raises `InputError`."""
    if (reason := why_not_ours(path)) is not None:
        if not os.path.lexists(path):
            return {}  # a file that appears now is not read either
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
    """Return the checked value of a key in the file. Raises `InputError` with its line."""
    if name == "hosts":
        return host_entries(value, document, "hosts")
    if name == "notify":
        return check_targets(value, document)
    try:
        return _validate(name, value)
    except InputError as error:
        raise document.mistake(name, str(error)) from error


def _validate(name: str, value: object) -> object:
    """Check the rules that no type expresses."""
    if name == "address":
        return dashboard_url(str(value))
    if name == "reach":
        reach_command(str(value), HostEntry("host", user="user"))
    return value


# The output of `cockpit config`


def _default_limits(of: type[Limits | RecordingLimits]) -> str:
    descriptions = {f"{name}: {getattr(of(), name):.10g}": marks[-1].description or "" for name, marks in _metadata(of).items()}
    return "".join(f"#   {value:<31}# {text.rstrip('.')}\n" for value, text in descriptions.items())


def default_file() -> str:
    """Return the text of a config file with every key and its default, commented out."""
    return f"""\
{EDITOR_SCHEMA.modeline("")}\
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
# ask_nccl: false                  # while a job is stuck, ask NCCL (2.29.2 or later) what its ranks do, once a minute
# record: on                       # keep what is seen, for `cockpit replay` and `cockpit report`; off, and with readonly: nothing
# recording:                       # what all recordings together may take; the oldest goes first
{_default_limits(RecordingLimits)}# notify:                          # who is notified of findings; try `cockpit notify --test`
#   - {{webhook: "${{FEISHU_HOOK}}", form: feishu, secret: "${{FEISHU_KEY}}"}}   # or dingtalk, wecom, slack, json
#   - {{command: [/opt/page, --critical], level: warning, codes: [gpu-lost]}}   # JSON on its stdin; default: all critical; both must match
# findings:                        # thresholds
{_default_limits(Limits)}"""


def init(path: Path) -> None:
    """Write the default file. Raises `InputError`, also if a file exists."""
    if (reason := why_not_ours(path)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason} (under sudo, use sudo -H)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(default_file())
        EDITOR_SCHEMA.write_if_possible(path.parent)
    except FileExistsError as error:
        raise InputError(f"{abbreviate_home(path)}: already exists; not overwritten") from error
    except PermissionError as error:
        raise InputError(f"{abbreviate_home(path)}: permission denied; set XDG_CONFIG_HOME to a folder that you may write") from error
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: {explain_os_error(error)}") from error


def config_text(config: Config) -> str:
    """Return the current settings as a config file, each line with its origin. What is not set is a comment."""
    lines = [EDITOR_SCHEMA.modeline("")]
    for name in _TYPED:
        value = msgspec.to_builtins(getattr(config, name))
        if name == "hosts":
            value = [{key: text for key, text in host.items() if text not in ("", "python3")} for host in value]
        line = f"{name}: {json.dumps(value, ensure_ascii=False)}  # {config.origins.get(name, 'default')}\n"
        lines.append(line if value is not None else f"# {line}")
    targets = json.dumps(shown_targets(config.notify), ensure_ascii=False)
    lines.append(f"notify: {targets}  # {config.origins.get('notify', 'default')}\n")
    for key, field in (("recording", "recording"), ("findings", "limits")):
        lines.append(f"{key}:  # {config.origins.get(field, 'default')}\n")
        lines += [f"  {name}: {value:.10g}\n" for name, value in msgspec.structs.asdict(getattr(config, field)).items()]
    return "".join(lines)
