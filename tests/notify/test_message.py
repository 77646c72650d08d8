from __future__ import annotations

from cockpit.model import Cluster
from cockpit.notify.message import cluster_name
from tests.notify.said import finding, message


def test_a_message_has_level_cluster_place_age_and_remedy():
    text = message(finding(text="GPU 3 of w1 is lost")).text(10_000)
    assert text.startswith("cockpit: 1 finding started. Cluster: http://head:8265\nCRITICAL GPU 3 of w1 is lost\n  where: w1 GPU 3; since ")
    assert text.endswith("(1m00s)\n  what to do: drain the node")
    assert len(message(finding(text="x" * 100_000)).text(1_000_000)) < 1_000


def test_started_and_cleared_findings_are_counted():
    text = message(finding("a"), finding("b"), ended=(finding("c"),)).text(10_000)
    assert "2 findings started, 1 finding cleared" in text
    assert "CLEARED (was critical): c is lost" in text
    text = message(ended=(finding("c"),), unread=("ray.nodes",)).text(10_000)
    assert "1 finding not seen any more" in text, "while a source fails it is not called cleared"
    assert "NOT SEEN ANY MORE (was critical): c is lost" in text
    assert "can't be read now: ray.nodes" in text


def test_control_characters_and_secrets_are_gone():
    told = message(finding(text="x\x1b[2J\u202e\n--api-key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", subject="w1\r\n\x07"))
    text = told.text(10_000)
    assert not {"\x1b", "\u202e", "\r", "\x07"} & set(text)
    assert "abcdefghijklmnop" not in text + str(told.document())


def test_a_loopback_address_gets_the_name_of_the_host(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "gpu7")
    assert cluster_name(Cluster("http://127.0.0.1:8265")) == "http://127.0.0.1:8265 on gpu7"
    assert cluster_name(Cluster("http://localhost4:8265")) == "http://localhost4:8265 on gpu7"
    assert cluster_name(Cluster("http://head:8265")) == "http://head:8265"
