"""Reads the targets of notifications: a chat bot behind a webhook, or a command. Addresses and secrets are never shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from cockpit.config.document import Document
from cockpit.model import Level, Value
from cockpit.secrets import HIDDEN

Form = Literal["feishu", "dingtalk", "wecom", "slack", "json"]
NOTIFY_WORDS: Final = {
    "": "a list of targets, each with a webhook and its form, or a command",
    "[]": "{webhook: …, form: …} or {command: […]}",
    "[].webhook": "an address such as https://… or ${NAME}",
    "[].form": "feishu, dingtalk, wecom, slack or json",
    "[].secret": "text, such as ${NAME}",
    "[].command": "a list of arguments, such as [/opt/page, --critical]",
    "[].command[]": "text",
    "[].level": "critical, warning or info",
    "[].codes": "a list of codes of findings, such as [gpu-lost]",
    "[].codes[]": "text",
}
"""The value that each key expects, in words, for `Document.convert`."""


class NotifyTarget(Value, frozen=True, forbid_unknown_fields=True):
    """A target of notifications; `${NAME}` is filled in only when something is sent."""

    webhook: Annotated[str, Meta(description="The address of a chat bot or another receiver; ${NAME} is taken from the environment.")] = ""
    form: Annotated[Form | None, Meta(description="The kind of receiver: feishu, dingtalk, wecom, slack or json.")] = None
    secret: Annotated[str, Meta(description="The signing secret of a feishu or dingtalk bot; ${NAME} is taken from the environment.")] = ""
    command: Annotated[tuple[str, ...], Meta(description="A program and its arguments; it reads JSON from its stdin.")] = ()
    level: Annotated[Level, Meta(description="The lowest level that is sent: critical, warning or info.")] = "critical"
    codes: Annotated[tuple[str, ...], Meta(description="Only findings with these codes.")] = ()

    @property
    def kind(self) -> str:
        """The kind of target, in one word."""
        return self.form or "command"

    def __repr__(self) -> str:
        return f"NotifyTarget({self.kind!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("kind", self.kind)]


def check_targets(targets: Sequence[NotifyTarget], document: Document) -> tuple[NotifyTarget, ...]:
    """Check the rules that no type expresses. Raises `InputError`, which never repeats an address."""
    for place, target in enumerate(targets):
        if (mistake := _find_mistake(target)) is not None:
            raise document.mistake(f"notify[{place}]", mistake)
    return tuple(targets)


def _find_mistake(target: NotifyTarget) -> str | None:
    if bool(target.webhook) == bool(target.command):
        return "expected either webhook or command"
    if target.webhook and target.form is None:
        return "form is missing: feishu, dingtalk, wecom, slack or json"
    if target.command and (target.form or target.secret):
        return "form and secret belong to a webhook"
    if target.secret and target.form not in ("feishu", "dingtalk"):
        return "only feishu and dingtalk sign with a secret"
    if target.webhook and not target.webhook.startswith(("https://", "http://", "${")):
        return "webhook: expected an address such as https://… or ${NAME}"
    if target.command and "/" in target.command[0] and not target.command[0].startswith(("/", "~/")):
        return "command: give the program's full path, as cockpit may be started in any directory"
    if any("${" in word for word in target.command):
        return "command: every user of this host can read its arguments; have the program read its environment instead"
    return None


def shown_targets(targets: Sequence[NotifyTarget]) -> list[dict[str, Any]]:
    """Return the targets to be shown, without addresses, secrets and the arguments of commands."""
    shown: list[dict[str, Any]] = []
    for target in targets:
        if target.command:
            way: dict[str, Any] = {"command": [target.command[0], *([HIDDEN] if target.command[1:] else [])]}
        else:
            way = {"webhook": HIDDEN, "form": target.form, **({"secret": HIDDEN} if target.secret else {})}
        shown.append({**way, "level": target.level, "codes": list(target.codes)})
    return shown
