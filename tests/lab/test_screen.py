"""The program in a real terminal on a host: keys are pressed and its screen is read while the cluster breaks."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator

import psutil
import pytest

from cockpit.demo import nvml
from tests.lab.cluster import Cluster, eventually
from tests.lab.hosts import Lab
from tests.lab.observe import Screen, gone, once, screen, write_config

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

GIB = 1 << 30
WIDE, NARROW = (160, 50), (80, 24)


@pytest.fixture
def watched(cluster: Cluster) -> Iterator[Screen]:
    """Cockpit on the head of a healthy cluster, once everything is on the screen."""
    write_config(cluster.lab)
    with screen(cluster.head) as made:
        made.until("nodes 2/2", "GPUs 0/16 reserved", "actors 0 alive", "jobs 0 running")
        yield made


def test_a_healthy_cluster_in_a_wide_and_in_a_narrow_terminal(cluster: Cluster):
    write_config(cluster.lab)
    cluster.submit("rlhf", "python train_ppo_ray.py --actor.num_gpus_per_node 1 --critic.num_gpus_per_node 1 --reward.num_gpus_per_node 1")
    eventually(lambda: len([process for host in cluster.hosts for process in host.matching("VLLM::EngineCore")]) == 4, within=120)
    for size in (WIDE, NARROW):
        with screen(cluster.head, size=size) as shown:
            text = shown.until("2/2", "head", "w1", "/16")
            assert "Traceback" not in text
            assert max(map(len, text.splitlines())) <= size[0]
            shown.press("4")
            shown.until("VLLM::EngineCore", "LLMRayActor")
            shown.press("5")
            shown.until("rlhf", "RUNNING", "PHASE", *(["train_ppo"] if size == WIDE else []))
            shown.press("3")
            shown.until("PolicyModelActor", "RolloutBuffer")
            shown.press("2")
            shown.until("head", "w1")
            shown.press("Enter")
            shown.until("H100")
            shown.press("?")
            shown.until("(Esc: back")
            shown.press("Escape")  # a key right after it would count as Alt and that key
            shown.till(lambda text: "(Esc: back" not in text)
            shown.press("1")
            shown.press("/")
            shown.type("w1")
            shown.till(lambda text: not re.search(r"head\*", text))
            shown.press("Enter")
            quits(shown, f"{size[0]} columns wide")


def quits(shown: Screen, when: str) -> None:
    """No process of it is left. `make bench` measures the time."""
    print(f"figure: q when {when}: {shown.quit():.2f} s")


def test_q_quits_at_once_on_a_healthy_cluster(watched: Screen):
    quits(watched, "healthy")


def test_a_frozen_dashboard_is_one_sentence_and_delays_nothing(cluster: Cluster, watched: Screen):
    cluster.part("dashboard").freeze()
    watched.until("no dashboard", "did not answer", within=120)
    watched.press("4")
    watched.until("raylet", within=120)
    quits(watched, "the dashboard is frozen")


def test_a_frozen_gcs_is_one_sentence_and_delays_nothing(cluster: Cluster, watched: Screen):
    cluster.part("gcs").freeze()
    watched.until("GCS does not answer")
    quits(watched, "the GCS is frozen")


def test_a_hanging_nvml_is_one_sentence_and_delays_nothing(cluster: Cluster, watched: Screen):
    nvml.add(cluster.head.state, "hang forever nvmlDeviceGetMemoryInfo")
    watched.till(lambda text: "✖" in text and "nvml" in text.lower())
    quits(watched, "NVML hangs")
    nvml.remove(cluster.head.state, "hang")


def test_an_unreachable_host_is_one_sentence_and_delays_nothing(cluster: Cluster, watched: Screen):
    w1 = cluster.lab["w1"]
    stranger = w1.hold(5, 20 * GIB, title="python finetune.py")
    watched.press("4")
    watched.until("finetune.py")
    w1.set_network("down")
    try:
        watched.till(lambda text: re.search(r"✖ .*w1", text), within=120)
        quits(watched, "w1 can't be reached")
    finally:
        w1.set_network("up")
        stranger.kill()


def test_no_process_is_left_when_the_terminal_closes(watched: Screen):
    family = watched.family()
    assert len(family) > 1
    watched.close()
    gone(family)


def test_no_process_is_left_when_it_is_killed(watched: Screen):
    family = watched.family()
    watched.program.kill()
    gone(family)


def test_keys_work_while_the_terminal_changes_its_size(watched: Screen):
    watched.resize(20, 5)
    watched.until("cockpit needs")
    watched.resize(*NARROW)
    watched.until("2/2", "head")
    watched.resize(*WIDE)
    watched.until("nodes 2/2", "reserved", "w1")
    watched.press("4")
    watched.until("raylet")
    quits(watched, "resized")


def test_the_smallest_terminals_show_the_essentials(cluster: Cluster):
    with screen(cluster.head, size=(20, 5)) as shown:
        assert "Traceback" not in shown.until("cockpit needs")
        quits(shown, "small")


def test_without_colours_and_without_unicode(cluster: Cluster):
    with screen(cluster.head, "--ascii", env="NO_COLOR=1") as shown:
        text = shown.until("nodes 2/2", "head", "w1")
        assert not {char for char in text if not char.isascii()} - set("–…")  # unknown; a cut cell
        colours = {int(number) for number in re.findall(r"[34]8;5;(\d+)", shown.raw)}
        assert all(number in (0, 7, 8, 15, 16, 231) or number >= 232 for number in colours)  # greys
        assert not re.search(r"\x1b\[(?:\d+;)*[349][1-6](?:;\d+)*m", re.sub(r"[34]8;5;\d+", "0", shown.raw))
        quits(shown, "plain")


def test_two_rays_on_one_host_make_it_ask(cluster: Cluster):
    head = cluster.head
    before = {process.pid for process in head.processes()}
    ports = "--port=6479 --dashboard-port=8365 --dashboard-agent-listen-port=52399 --ray-client-server-port=20001"
    cluster.command(
        head,
        f"ray start --head --temp-dir=/tmp/second {ports} --dashboard-agent-grpc-port=52398 --num-gpus=0 --object-store-memory=100000000",
    )
    try:
        eventually(lambda: "8365" in head.ssh("ss -ltn"))
        code, facts, stderr = once(head)
        assert (code, facts) == (3, {})
        assert ":8265" in stderr
        assert ":8365" in stderr
        with screen(head) as shown:
            shown.until("Which of these Ray clusters", ":8265", ":8365")
            shown.press("Enter")
            shown.till(lambda text: "These Ray" not in text and "head" in text and re.search(r"Ray .*:8[23]65", text))
            quits(shown, "one of two was chosen")
    finally:
        for process in head.processes():
            if process.pid not in before:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        shutil.rmtree(head.tmp / "second")


def test_a_token_is_sent_and_never_shown(token_cluster: Cluster):
    head, token = token_cluster.head, str(token_cluster.token)
    with screen(head, env=f"RAY_AUTH_TOKEN={token}") as shown:
        shown.until("nodes 1/1", "GPUs 0/8")
        for page in "12345":
            shown.press(page)
            assert token not in shown.till(lambda text, page=page: f" {page} " in text)
    for env, words in (("", "requires a token, and none was found"), ("RAY_AUTH_TOKEN=" + "0" * 64, "rejects the token")):
        with screen(head, env=env) as shown:
            shown.until(words)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("", "nothing listens there"),
        ("python -m http.server 9999", "is not a Ray dashboard"),
        ("while true; do printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 100\\r\\n\\r\\n{' | nc -l -p 9999 -q 1; done", ""),
    ],
)
def test_a_wrong_address_is_one_sentence(lab: Lab, server: str, words: str):
    head = lab["head"]
    served = head.spawn("bash", "-c", server) if server else None
    try:
        with screen(head, "--address http://127.0.0.1:9999") as shown:
            text = shown.until("no dashboard", words)
            assert "Traceback" not in text
            assert sum("✖ " in line for line in text.splitlines()[1:6]) <= 2
            quits(shown, "the address is wrong")
    finally:
        if served:
            served.kill()
