"""Defines each kind of chat bot: request body, signature, size limit, and the answers that mean a refusal."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from cockpit.config.notify import Form
from cockpit.notify.message import Message

BLOCKED_S: Final = 600.0
"""Seconds for which DingTalk blocks a robot that sent more than 20 messages in a minute."""
MINUTE_S: Final = 60.0


class ChatBotRefusedError(Exception):
    """A target that has refused a message; the text is half a sentence, and names no address."""

    def __init__(self, text: str, pause: float | None = None) -> None:
        super().__init__(text)
        self.pause = pause
        """Seconds that it asks to wait."""


class Post(msgspec.Struct, frozen=True):
    """The body and the query parameters of a request."""

    body: bytes
    params: Mapping[str, str] = {}


class ChatBot(msgspec.Struct, frozen=True):
    """One kind of chat bot: how to post to it, and which answers mean a refusal."""

    post: Callable[[Message, str, float], Post]
    """Makes the request from a message, the secret to sign with, and the time."""
    code_fields: tuple[str, ...] = ()
    """Fields of the answer that may have the code, 0 for success; none: every HTTP success is one."""
    reason_field: str = ""
    pauses: Mapping[int, float] = {}
    """By code: seconds to wait before the next message."""

    def read(self, answer: object) -> None:
        """Raise `ChatBotRefusedError` if the answer means a refusal."""
        if not self.code_fields:
            return
        fields = answer if isinstance(answer, Mapping) else {}
        code = next((fields[name] for name in self.code_fields if name in fields), None)
        if not isinstance(code, int):
            raise ChatBotRefusedError("its answer is not what a chat bot sends")
        if code != 0:
            raise ChatBotRefusedError(f"it answered code {code}: {fields.get(self.reason_field, 'no reason given')}", self.pauses.get(code))


def _escape(text: str) -> str:
    """The text with full-width signs instead of the signs of mentions and tags: these robots have no escape for them."""
    return text.replace("<", "＜").replace(">", "＞").replace("@", "＠")


def _escape_for_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "＠")


def _bytes_of(text: str) -> int:
    return len(msgspec.json.encode(_escape(text)))


def _feishu(message: Message, secret: str, now: float) -> Post:
    signed = {"timestamp": str(int(now)), "sign": sign_feishu(int(now), secret)} if secret else {}
    text = _escape(message.text(FEISHU_BYTES, _bytes_of))
    return Post(msgspec.json.encode({**signed, "msg_type": "text", "content": {"text": text}}))


def sign_feishu(timestamp: int, secret: str) -> str:
    """Base64 of the HMAC-SHA256 of an empty message, with the time in seconds, a newline and the secret as its key."""
    return base64.b64encode(hmac.new(f"{timestamp}\n{secret}".encode(), b"", hashlib.sha256).digest()).decode()


def _dingtalk(message: Message, secret: str, now: float) -> Post:
    stamp = int(now * 1000)
    signed = {"timestamp": str(stamp), "sign": sign_dingtalk(stamp, secret)} if secret else {}
    text = _escape(message.text(DINGTALK_BYTES, _bytes_of))
    return Post(msgspec.json.encode({"msgtype": "text", "text": {"content": text}, "at": {"isAtAll": False}}), signed)


def sign_dingtalk(timestamp: int, secret: str) -> str:
    """Base64 of the HMAC-SHA256 of the time in milliseconds, a newline and the secret, with the secret as its key."""
    return base64.b64encode(hmac.new(secret.encode(), f"{timestamp}\n{secret}".encode(), hashlib.sha256).digest()).decode()


def _wecom(message: Message, _: str, __: float) -> Post:
    text = _escape(message.text(WECOM_BYTES, lambda text: len(_escape(text).encode())))
    return Post(msgspec.json.encode({"msgtype": "text", "text": {"content": text}}))


def _slack(message: Message, _: str, __: float) -> Post:
    text = _escape_for_slack(message.text(SLACK_CHARACTERS, lambda text: len(_escape_for_slack(text))))
    return Post(msgspec.json.encode({"text": text, "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}))


FEISHU_BYTES: Final = 19_000
"""Bytes of the text; a whole request may have 20 kB."""
DINGTALK_BYTES: Final = 19_000
WECOM_BYTES: Final = 2_048
SLACK_CHARACTERS: Final = 39_000
"""Slack cuts a text at 40,000 characters."""
_ERRCODE_PAUSES: Final = {130101: BLOCKED_S, 45009: MINUTE_S}
"""Of DingTalk, and of WeCom."""
CHAT_BOTS: Final[Mapping[Form, ChatBot]] = {
    "feishu": ChatBot(_feishu, ("code", "StatusCode"), "msg", {9499: MINUTE_S, 11232: MINUTE_S}),
    "dingtalk": ChatBot(_dingtalk, ("errcode",), "errmsg", _ERRCODE_PAUSES),
    "wecom": ChatBot(_wecom, ("errcode",), "errmsg", _ERRCODE_PAUSES),
    "slack": ChatBot(_slack),
    "json": ChatBot(lambda message, _, __: Post(msgspec.json.encode(message.document()))),
}
