from __future__ import annotations

import json

import pytest

from cockpit.notify.robots import CHAT_BOTS, ChatBotRefusedError, sign_dingtalk, sign_feishu
from tests.notify.said import NOW, finding, message

FEISHU = "UNvK0aHeWrPUMl0ySOUpIoYdvBDU1mnjgkbX5JtMxkk="
DINGTALK = "tGWkA5eQOQNCNPDgphtxIoNLO+/gD8Lcb705KQoRzeY="
HOSTILE = '<at user_id="all">x</at> <!channel> <@U1> @all [a](http://b) &lt;'


def body(form, told, secret=""):
    return json.loads(CHAT_BOTS[form].post(told, secret, NOW).body)


def text_of(form, told):
    sent = body(form, told)
    return sent["content"]["text"] if form == "feishu" else sent["text"] if form == "slack" else sent["text"]["content"]


def test_signatures_equal_those_of_openssl():
    """As in `printf '' | openssl dgst -sha256 -mac HMAC -macopt hexkey:$(printf $KEY | xxd -p) -binary | base64`."""
    assert sign_feishu(1599360473, "SECdemo") == FEISHU
    assert sign_dingtalk(1599360473000, "SECdemo") == DINGTALK


def test_each_bot_gets_its_signature_in_the_right_place():
    signed = body("feishu", message(finding()), "key")
    assert (signed["timestamp"], signed["sign"]) == ("1800000000", sign_feishu(1800000000, "key"))
    post = CHAT_BOTS["dingtalk"].post(message(finding()), "key", NOW)
    assert post.params == {"timestamp": "1800000000000", "sign": sign_dingtalk(1800000000000, "key")}
    assert "sign" not in body("feishu", message(finding()))


@pytest.mark.parametrize("form", ["feishu", "dingtalk", "wecom"])
def test_text_of_the_cluster_mentions_nobody(form):
    text = text_of(form, message(finding(text=HOSTILE)))
    assert not set("<>@") & set(text)
    assert "user_id" in text, "it stays readable"


def test_slack_has_its_own_escapes():
    text = text_of("slack", message(finding(text=HOSTILE)))
    assert "&lt;!channel&gt; &lt;＠U1&gt; ＠all [a](http://b) &amp;lt;" in text
    assert body("slack", message(finding()))["mrkdwn"] is False


@pytest.mark.parametrize(
    ("form", "most", "measure"),
    [
        ("feishu", 20_000, lambda post, text: len(post.body)),
        ("dingtalk", 20_000, lambda post, text: len(post.body)),
        ("wecom", 2_048, lambda post, text: len(text.encode())),
        ("slack", 40_000, lambda post, text: len(text)),
    ],
)
def test_many_findings_are_one_message_within_the_limit_of_the_bot(form, most, measure):
    told = message(*(finding(f"w{n} GPU <{n}> 显卡 @", text=f"GPU {n} is <lost> 显卡 " * 9) for n in range(2_000)))
    post, text = CHAT_BOTS[form].post(told, "secret", NOW), text_of(form, told)
    assert most * 0.75 < measure(post, text) <= most
    assert text.startswith("cockpit: 2000 findings started.")
    shown = text.count("CRITICAL")
    assert f"… and {2000 - shown} more: run `cockpit status`" in text


@pytest.mark.parametrize(
    ("form", "answer", "reason", "pause"),
    [
        ("feishu", {"code": 19021, "msg": "sign match fail"}, "it answered code 19021: sign match fail", None),
        ("feishu", {"code": 11232, "msg": "limited"}, "it answered code 11232: limited", 60),
        ("dingtalk", {"errcode": 310000, "errmsg": "keywords not in content"}, "code 310000: keywords not in content", None),
        ("dingtalk", {"errcode": 130101, "errmsg": "send too fast"}, "code 130101", 600),
        ("wecom", {"errcode": 45009}, "code 45009: no reason given", 60),
        ("wecom", {}, "its answer is not what a chat bot sends", None),
        ("dingtalk", "ok", "its answer is not what a chat bot sends", None),
        ("feishu", None, "its answer is not what a chat bot sends", None),
    ],
)
def test_an_answer_with_http_200_may_be_a_refusal(form, answer, reason, pause):
    with pytest.raises(ChatBotRefusedError, match=reason) as caught:
        CHAT_BOTS[form].read(answer)
    assert caught.value.pause == pause


def test_a_program_gets_all_findings():
    sent = body("json", message(finding(), ended=(finding("w2"),)))
    assert [one["subject"] for one in sent["begun"] + sent["ended"]] == ["w1 GPU 3", "w2"]
    assert sent["begun"][0]["remedy"] == "drain the node"
    assert "w2 is lost" in sent["text"]
