from __future__ import annotations

import asyncio
import json
import re
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from cockpit.config.notify import NotifyTarget
from cockpit.notify import delivery
from cockpit.notify.delivery import deliver
from cockpit.notify.robots import ChatBotRefusedError
from cockpit.sources.http_client import open_client
from tests.fakes.transport import MockTransport, refuse_certificate
from tests.notify.said import finding, message, robot

KEY = "0a1b2c3d-4e5f-6789"
Answer = Callable[[asyncio.StreamWriter, str, bytes], Awaitable[None]]


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A robot's address on this host; `answer` gets the request and its body."""
    talks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            await answer(writer, head, await reader.readexactly(length))
        writer.close()

    server = await asyncio.start_server(lambda *streams: talks.add(asyncio.ensure_future(connected(*streams))), "127.0.0.1", 0, ssl=tls)
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook/{KEY}?access_token={KEY}"
    finally:
        server.close()
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


def saying(status: str, body: bytes = b"", *headers: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter, _: str, __: bytes) -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return answer


async def refusal(answer: Answer, form: str = "json") -> ChatBotRefusedError:
    async with serving(answer) as address:
        with pytest.raises(ChatBotRefusedError) as caught:
            await deliver(robot(form, address), message(finding()))
    assert KEY not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("feishu", b'{"code":0}'),
        ("feishu", b'{"StatusCode":0}'),
        ("dingtalk", b'{"errcode":0}'),
        ("wecom", b'{"errcode":0}'),
        ("slack", b"ok"),
        ("json", b""),
    ],
)
async def test_an_accepted_message_is_a_success(form, body):
    heard = []

    async def answer(writer, head, sent):
        heard.append((head, json.loads(sent)))
        await saying("200 OK", body)(writer, head, sent)

    secret = "SECx" if form == "dingtalk" else ""
    async with serving(answer) as address:
        await deliver(robot(form, address, secret=secret), message(finding()))
    [(head, sent)] = heard
    signature = r"&timestamp=\d+&sign=\S+" if secret else ""
    assert re.match(rf"POST /hook/{KEY}\?access_token={KEY}{signature} HTTP/1.1", head)
    assert "w1 GPU 3 is lost" in json.dumps(sent)


async def test_an_error_code_with_http_200_is_a_failure_and_shows_no_token():
    said = await refusal(saying("200 OK", f'{{"errcode":300001,"errmsg":"token {KEY} is not exist"}}'.encode()), "dingtalk")
    assert str(said) == "it answered code 300001: token ••• is not exist"


async def test_the_pause_of_a_retry_after_header_is_kept():
    assert (await refusal(saying("429 Too Many Requests", b"", "retry-after: 42"))).pause == 42
    assert (await refusal(saying("503 Busy", b"", "retry-after: Wed, 01 Jan 2020 00:00:00 GMT"))).pause == 0
    assert (await refusal(saying("429 Too Many Requests", b"", "retry-after: 99999999"))).pause == delivery.MAX_PAUSE_S
    for nonsense in ("soon", "Wed, 01 Jan 99999999999999999999 00:00:00 GMT", "-5", "²"):
        assert (await refusal(saying("429 Too Many Requests", b"", f"retry-after: {nonsense}"))).pause is None


async def test_a_redirect_is_not_followed():
    followed = []

    async def elsewhere(writer, head, _):
        followed.append(head)

    async with serving(elsewhere) as other:
        said = await refusal(saying("307 Temporary Redirect", b"", f"location: {other}"))
    assert str(said) == "it redirects elsewhere (HTTP 307), and redirects are not followed"
    assert not followed


async def test_a_hanging_target_times_out(monkeypatch):
    monkeypatch.setattr(delivery, "TIMEOUT_S", 0.05)

    async def hang(*_):
        await asyncio.Event().wait()

    assert "no answer within" in str(await refusal(hang))


async def test_an_error_text_of_a_server_is_cut_and_cleaned():
    said = str(await refusal(saying("500 Oops", b"\x1b[2J<html>\n" + b"x" * 9_000)))
    assert said.startswith("it answered HTTP 500: ")
    assert "\x1b" not in said
    assert len(said) <= delivery.MAX_REASON_CHARS


async def babble(writer, *_):
    writer.write(b"hello\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (saying("200 OK", b"x" * (delivery.MAX_ANSWER_BYTES + 1)), "its answer is longer than 64K"),
        (babble, "the connection was closed early, or it does not speak HTTP"),
    ],
    ids=["endless", "no HTTP"],
)
async def test_an_endless_answer_and_one_that_is_not_http_are_failures(answer, reason):
    assert str(await refusal(answer)) == reason


async def test_a_refused_connection_is_reported_without_the_address():
    async with serving(saying("200 OK")) as address:
        pass
    with pytest.raises(ChatBotRefusedError, match=r"^connection refused, nothing listens there$"):
        await deliver(robot("json", address), message(finding()))


@pytest.mark.parametrize("body", [b"[" * 60_000, b"\xff\xfe", b'{"errcode":' + b"9" * 9_000 + b"}", b'{"errcode":"0"}'])
async def test_a_meaningless_answer_is_a_failure(body):
    assert str(await refusal(saying("200 OK", body), "wecom")) == "its answer is not what a chat bot sends"


async def test_an_unusable_proxy_and_missing_certificates_are_reported(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    with pytest.raises(ChatBotRefusedError, match="the TLS certificates of this host can't be read"):
        await deliver(robot("json", "https://127.0.0.1:1/x"), message(finding()))
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    with pytest.raises(ChatBotRefusedError, match="or that of the proxy in the environment, can't be used"):
        await deliver(robot("json", "http://robot.example/x"), message(finding()))


async def test_an_untrusted_certificate_is_refused_and_nothing_is_sent():
    heard = []

    async def answer(_, head, __):
        heard.append(head)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("self_signed.pem"))
    async with serving(answer, context) as address:
        with pytest.raises(ChatBotRefusedError, match=r"^TLS failed \(CERTIFICATE_VERIFY_FAILED\)$"):
            await deliver(robot("json", address), message(finding()))
    assert not heard


async def test_a_server_that_demands_a_client_certificate_is_a_failure(monkeypatch):
    """With TLS 1.3 it says so only after the handshake, and httpx has no name for that error."""
    monkeypatch.setattr(delivery, "open_client", lambda *_, **__: open_client(None, transport=MockTransport(refuse_certificate)))
    with pytest.raises(ChatBotRefusedError, match="the connection was closed early"):
        await deliver(robot("json", "http://robot.example"), message(finding()))


async def test_variables_are_filled_in_and_missing_ones_named():
    async with serving(saying("200 OK")) as address:
        await deliver(robot("json", "${HOOK}"), message(finding()), {"HOOK": address})
    with pytest.raises(ChatBotRefusedError, match=r"^\$\{HOOK\} is not set in cockpit's environment$"):
        await deliver(robot("json", "${HOOK}"), message(finding()), {})
    with pytest.raises(ChatBotRefusedError, match="begins with neither"):
        await deliver(robot("json", "${HOOK}"), message(finding()), {"HOOK": "file:///etc/passwd"})


# To a program


@pytest.mark.process
async def test_a_command_gets_json_and_runs_without_a_shell(tmp_path):
    path = tmp_path / "heard"
    code = f"import sys; open({str(path)!r}, 'w').write(sys.stdin.read() + sys.argv[1])"
    await deliver(NotifyTarget(command=(sys.executable, "-c", code, "$(id); x")), message(finding()))
    sent, end = json.JSONDecoder().raw_decode(text := path.read_text())
    assert sent["begun"][0]["subject"] == "w1 GPU 3"
    assert text[end:] == "$(id); x"


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ((sys.executable, "-c", "import sys; sys.exit('no\\npager')"), "it ended with exit code 1: pager"),
        (("/no/such/program",), "it can't be started: no such file or directory"),
    ],
)
async def test_a_failed_or_missing_command_is_reported(command, reason):
    with pytest.raises(ChatBotRefusedError, match=f"^{reason}$"):
        await deliver(NotifyTarget(command=command), message(finding()))


@pytest.mark.process
async def test_a_hanging_command_is_killed_with_its_children(monkeypatch, tmp_path):
    monkeypatch.setattr(delivery, "TIMEOUT_S", 1.0)
    ended: list[int] = []
    monkeypatch.setattr(delivery.os, "killpg", lambda pid, number, kill=delivery.os.killpg: (ended.append(pid), kill(pid, number)))
    with pytest.raises(ChatBotRefusedError, match="did not exit within 1 s and was killed"):
        await deliver(NotifyTarget(command=("sh", "-c", "sleep 600 & sleep 600")), message(finding()))
    assert len(ended) == 1
