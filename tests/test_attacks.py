"""What another user of this host tries, so that root's cockpit tells him a secret, waits for him, or writes where he wants: real uids."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.actions.audit import Audit
from cockpit.actions.plan import Plan
from cockpit.config import settings
from cockpit.config.document import InputError
from cockpit.config.settings import config_path, init, load
from cockpit.files.status_line import lines_path
from cockpit.monitor.cluster_choice import jobs_by_session
from cockpit.presets.folder import find_preset, write_preset
from cockpit.recording.folder import make_folder
from cockpit.sources.probes.ssh_control import SshControlSockets
from cockpit.sources.ray.client import RayClient
from cockpit.sources.ray.http import Dashboard
from cockpit.sources.source import SourceError
from cockpit.trust import Peer, find_token, why_not_ours
from cockpit.trust.sockets import Connection, Server, find_server, listening_users

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")

MALLORY = 12345
TOKEN = "s3cret-of-the-operator"
DASHBOARD = """
import socket, sys
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind((next((word for word in sys.argv if word.startswith("127.")), "127.0.0.1"), int(sys.argv[1])))
listening.listen()
print("ready", flush=True)
while True:
    talking, _ = listening.accept()
    if "hides" in sys.argv:
        listening.close()
    said = b""
    while b"\\r\\n\\r\\n" not in said:
        more = talking.recv(4096)
        if not more:
            break
        said += more
    print(said.replace(b"\\r\\n", b"|").decode(), flush=True)
    body = b'{"authentication_mode": "token"}'
    talking.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    talking.close()
"""
"""Asks for a token, and prints all that it is told."""
LIAR = """
import socket, sys
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind((sys.argv[2], int(sys.argv[1])))
listening.listen()
print("ready", flush=True)
left = {"/api/authentication_mode": 9, "/api/version": 2, "/api/jobs/": 9}
bodies = {"/api/authentication_mode": b'{"authentication_mode": "disabled"}', "/api/jobs/": b"[]"}
talking, _ = listening.accept()
if "leaves" in sys.argv:
    listening.close()
while True:
    said = b""
    while b"\\r\\n\\r\\n" not in said:
        said += talking.recv(4096) or sys.exit()
    path = said.split()[1].decode().partition("?")[0]
    left[path] -= 1
    body = bodies.get(path, b'{"ray_version": "2.60.0", "session_name": "session_of_the_dead"}')
    length = b"Content-Length: %d\\r\\n" % len(body) if left[path] else b"Connection: close\\r\\n"
    talking.sendall(b"HTTP/1.1 200 OK\\r\\n%s\\r\\n%s" % (length, body))
    print("lied about", path, flush=True)
    if not left[path]:
        talking.close()
        talking, _ = listening.accept()
"""
"""Says that no job runs, to one who asks over one connection, and has closed it when the last answer is read."""
HASTY = """
import socket, struct, sys
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listening.bind((sys.argv[2], int(sys.argv[1])))
listening.listen()
print("ready", flush=True)
talking, _ = listening.accept()
listening.close()
body = b'{"ray_version": "2.60.0", "session_name": "session_of_the_dead"}'
talking.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
sys.stdin.readline()
if "resets" in sys.argv:
    talking.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
talking.close()
print("gone", flush=True)
sys.stdin.read()
"""
"""Answers before it is asked, and is gone once it is told to."""


class Taker:
    """Another user's dashboard, from when it is started on."""

    def __init__(self, port: int, *words: str, program: str = DASHBOARD) -> None:
        self._process = subprocess.Popen(
            ["/usr/bin/python3", "-c", program, str(port), *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            user=MALLORY, group=MALLORY, extra_groups=[], cwd="/",
        )  # fmt: skip
        assert self._process.stdout
        assert self._process.stdout.readline() == "ready\n"

    def go(self) -> str:
        """Tells it to go, and waits for what it prints then."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def heard(self) -> str:
        """All of it."""
        self._process.kill()
        return self._process.communicate()[0]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that everybody can reach."""
    path = Path(f"/tmp/attack-{os.getpid()}")
    path.mkdir(mode=0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def home(common: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another user's, which `sudo` has left in HOME."""
    path = common / "home"
    path.mkdir()
    os.chown(path, MALLORY, MALLORY)
    monkeypatch.setenv("HOME", str(path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    return path


def his(path: Path) -> Path:
    """It, and all above it that is in his home."""
    while path.name != "home":
        os.chown(path, MALLORY, MALLORY, follow_symlinks=False)
        path = path.parent
    return path


async def ask_with_token(url: str, peer: Peer) -> None:
    """A question to the dashboard at this address, which wants a token."""
    dashboard = Dashboard(url, token=lambda: TOKEN, transport=None, peer=peer)
    dashboard.auth = "token"
    try:
        await dashboard.get("/api/version", timeout=5)
    finally:
        await dashboard.close()


@pytest.mark.parametrize("words", [(), ("hides",)])
async def test_the_token_goes_to_nobody_who_binds_the_port_between_the_question_and_the_connection(words: tuple[str, ...]):
    """Ray has ended, and the address was given. Asked who listens, the kernel says nobody; a moment later another user does."""
    port = free_port()
    peer = Peer(f"http://127.0.0.1:{port}", given=True)
    with socket.socket() as ours:  # our own Ray has been asked before
        ours.bind(("127.0.0.1", port))
        ours.listen()
        assert peer.why_not_trusted() is None
    assert peer.why_not_trusted() is None
    taker = Taker(port, *words)
    with pytest.raises(SourceError, match=f"cockpit sends none: what listens on port {port} of this host belongs to user {MALLORY}"):
        await ask_with_token(f"http://127.0.0.1:{port}", peer)
    assert not taker.heard().strip()


async def test_the_token_goes_to_nobody_who_holds_the_connection_though_we_listen_on_his_port_by_now():
    """He accepts the connection and frees the port; then our Ray starts, before anybody looks at who listens."""
    port = free_port()
    taker, listening = Taker(port, "hides"), []

    def find(asked: int, addresses: frozenset[str], connections: frozenset[Connection]) -> Server:
        while not listening:
            with suppress(OSError):  # he still listens
                listening.append(socket.create_server(("127.0.0.1", port)))
        assert listening_users(port) == {0}
        return find_server(asked, addresses, connections)

    peer = Peer(f"http://127.0.0.1:{port}", given=False, find=find)
    with pytest.raises(SourceError, match=f"cockpit sends none: what listens on port {port} of this host belongs to user {MALLORY}"):
        await ask_with_token(f"http://127.0.0.1:{port}", peer)
    listening[0].close()
    assert not taker.heard().strip()


@pytest.mark.parametrize("name", ["0.0.0.0", "localhost.", "2130706433", "[::ffff:127.0.0.1]", socket.gethostname()])
async def test_whatever_this_host_is_called_the_token_goes_to_nobody_who_takes_the_port_when_ray_has_ended(name: str):
    """It is where the connection leads that counts."""
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", 0))
        ours.listen()
        port = ours.getsockname()[1]
        peer = Peer(f"http://{name}:{port}", given=True)
        try:
            leading = socket.create_connection((name.strip("[]"), port))
        except OSError:
            pytest.skip(f"{name} does not lead to the loopback here")
        with leading:
            assert peer.meet(leading) is None
        assert peer.why_not_trusted() is None
    taker = Taker(port)
    with pytest.raises(SourceError, match=f"what listens on port {port} of this host belongs to user {MALLORY}"):
        await ask_with_token(f"http://{name}:{port}", peer)
    assert TOKEN not in taker.heard()


def test_who_listens_at_another_loopback_address_is_neither_believed_nor_in_the_way():
    """Else he would be one of those who were met first, or keep the token from where it belongs."""
    port = free_port()
    beside = Taker(port, "127.0.0.2")
    given, found = (Peer(f"http://127.0.0.1:{port}", given=given) for given in (True, False))
    with socket.socket() as ours:
        ours.bind(("127.0.0.1", port))
        ours.listen()
        assert given.why_not_trusted() is found.why_not_trusted() is None
    beside.heard()
    taker = Taker(port)
    assert given.why_not_trusted() == f"what listens on port {port} of this host belongs to user {MALLORY}"
    taker.heard()


async def test_a_jobs_secrets_go_to_nobody_who_binds_the_port_in_that_moment():
    port = free_port()
    taker = Taker(port)
    peer = Peer(f"http://127.0.0.1:{port}", given=False)
    dashboard = Dashboard(f"http://127.0.0.1:{port}", token=lambda: None, transport=None, peer=peer)
    dashboard.auth = "disabled"
    with pytest.raises(SourceError, match="is sent no secret"):
        await dashboard.write("POST", "/api/jobs/", dict, timeout=5, content=TOKEN.encode(), hide=str)
    await dashboard.close()
    assert TOKEN not in taker.heard()


@pytest.mark.parametrize("words", [(), ("leaves",)])
async def test_nothing_that_is_said_by_who_took_the_port_and_has_left_ends_a_process(words: tuple[str, ...]):
    """The address was given, and Ray has ended. He binds the port after it was asked who listens; asked again, the kernel says nobody."""
    port = free_port()
    peer = Peer(f"http://127.0.0.1:{port}", given=True)
    with socket.create_server(("127.0.0.1", port)):  # our own Ray has been asked before
        assert peer.why_not_trusted() is None
    assert peer.why_not_trusted() is None
    liar = Taker(port, "127.0.0.1", *words, program=LIAR)
    client = RayClient(f"http://127.0.0.1:{port}", token=lambda: None, peer=peer)
    client._dashboard.auth = "disabled"
    with pytest.raises(SourceError, match=f"what listens on port {port} of this host belongs to user {MALLORY}"):
        await jobs_by_session(client, (), lambda: None, client._clock, lambda _: peer.why_not_trusted())
    await client.close()
    liar.heard()


def resolve_head_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """What `head` is called, in this order."""
    find = socket.getaddrinfo

    def find_addresses(host: str | bytes, *rest: object, **more: object) -> list[object]:
        names = addresses if host in ("head", b"head") else (host,)
        return [found for name in names for found in find(name, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", find_addresses)


async def test_who_listens_at_another_address_of_a_name_is_noticed_though_he_has_closed_the_connection(monkeypatch: pytest.MonkeyPatch):
    """The connections of a name need not lead to one address: Ray holds one, and another user has bound its port at another."""
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        peer = Peer(f"http://head:{port}", given=True)
        with socket.create_connection(("127.0.0.1", port)) as first:
            peer.remember(first)
            assert peer.why_not_trusted() is None
            liar = Taker(port, "127.0.0.2", program=LIAR)
            resolve_head_to(monkeypatch, "127.0.0.2", "127.0.0.1")
            client = RayClient(f"http://head:{port}", token=lambda: None, peer=peer)
            assert [await client.session() for _ in range(2)] == ["session_of_the_dead"] * 2
            assert peer.why_not_trusted() == f"what listens on port {port} of this host belongs to user {MALLORY}"
            await client.close()
            liar.heard()


@pytest.mark.parametrize("words", [(), ("leaves",)])
async def test_who_holds_another_address_of_a_name_ends_no_process(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]):
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        peer = Peer(f"http://head:{port}", given=True)
        with socket.create_connection(("127.0.0.1", port)) as first:
            peer.remember(first)
        liar = Taker(port, "127.0.0.2", *words, program=LIAR)
        resolve_head_to(monkeypatch, "127.0.0.2", "127.0.0.1")
        client = RayClient(f"http://head:{port}", token=lambda: None, peer=peer)
        client._dashboard.auth = "disabled"
        with pytest.raises(SourceError, match=f"what listens on port {port} of this host belongs to user {MALLORY}"):
            await jobs_by_session(client, (), lambda: None, client._clock, lambda _: peer.why_not_trusted())
        await client.close()
        liar.heard()


@pytest.mark.parametrize("words", [(), ("resets",)])
async def test_an_answer_that_came_before_anybody_was_asked_is_nobodys_word(monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]):
    """It is read though the connection is over; he who sent it is gone, and Ray listens at the other address of the name."""
    gone: list[str] = []

    class SlowPeer(Peer):
        def meet(self, client: socket.socket) -> str | None:
            gone.append(hasty.go())
            return super().meet(client)

    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        peer = SlowPeer(f"http://head:{port}", given=True)
        with socket.create_connection(("127.0.0.1", port)) as first:
            peer.remember(first)
        hasty = Taker(port, "127.0.0.2", *words, program=HASTY)
        resolve_head_to(monkeypatch, "127.0.0.2", "127.0.0.1")
        client = RayClient(f"http://head:{port}", token=lambda: None, peer=peer)
        client._dashboard.auth = "disabled"
        with pytest.raises(SourceError, match="closed the connection" if words else "is not believed: no process that can be seen"):
            await client.session(decides=True)
        await client.close()
        hasty.heard()
    assert gone == ["gone\n"]


def test_a_pipe_in_place_of_a_token_is_not_waited_for(common: Path):
    pipe = common / "token"
    os.mkfifo(pipe)
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(find_token({"RAY_AUTH_TOKEN_PATH": str(pipe)})), daemon=True)
    thread.start()
    thread.join(60)
    assert found == [None]


@pytest.mark.parametrize("how", ["link", "file", "folder", "ours"])
def test_a_token_is_found_in_our_own_home_and_not_taken_from_another_users(home: Path, common: Path, how: str):
    secret = common / "secret"
    secret.write_text("root's alone\n")
    secret.chmod(0o600)
    (home / ".ray").mkdir()
    place = home / ".ray" / "auth_token"
    if how == "link":
        place.symlink_to(secret)
    else:
        place.write_text("its\n")
    if how == "folder":
        os.chown(home / ".ray", MALLORY, MALLORY)
    elif how == "ours":
        os.chown(home, 0, 0)
    else:
        his(place)
    assert find_token({}) == ("its" if how == "ours" else None)


@pytest.mark.parametrize("how", ["link", "pipe", "folder", "other name"])
def test_the_log_of_actions_is_written_nowhere_else_and_no_pipe_stops_an_action(home: Path, common: Path, how: str):
    state, elsewhere = home / ".local" / "state", common / "elsewhere"
    state.mkdir(parents=True)
    elsewhere.mkdir()
    path = state / "cockpit" / "acts.jsonl"
    if how == "folder":
        path.parent.symlink_to(elsewhere)
        his(path.parent)
    else:
        path.parent.mkdir()
    if how == "link":
        path.symlink_to(elsewhere / "made")
    if how == "pipe":
        os.mkfifo(path)
    if how == "other name":
        (elsewhere / "notes").write_text("root's")
        os.link(elsewhere / "notes", path)
    with pytest.raises(OSError, match=r"user|plain|symbolic"):
        Audit(path, lambda: 0.0).begin(Plan("clean", "Clean", (), (), (), (), (), (), {}))
    assert [one.read_text() for one in elsewhere.iterdir()] == (["root's"] if how == "other name" else [])


@pytest.mark.parametrize("how", ["his", "writable", "behind his link"])
def test_no_connection_is_kept_where_another_user_could_put_his_own(home: Path, common: Path, monkeypatch: pytest.MonkeyPatch, how: str):
    """He would hear all that goes through it, and answer in that host's name."""
    runtime = common / "run"
    runtime.mkdir(mode=0o755)
    if how == "his":
        os.chown(runtime, MALLORY, MALLORY)
    if how == "writable":
        runtime.chmod(0o777)
    named = runtime
    if how == "behind his link":
        named = home / "run"
        named.symlink_to(runtime)
        his(named)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(named))
    assert not SshControlSockets().control.startswith(str(named))
    assert not list(runtime.iterdir())


@pytest.mark.parametrize("put", [lambda: init(config_path()), lambda: write_preset("", "train"), lambda: make_folder(lines_path())])
def test_nothing_is_made_in_another_users_home_which_he_may_lead_elsewhere(home: Path, common: Path, put: Callable[[], None]):
    with pytest.raises((InputError, OSError), match=f"belongs to another user .user {MALLORY}."):
        put()
    assert not list(home.iterdir())


def test_settings_that_are_put_there_after_the_look_are_not_read(home: Path, monkeypatch: pytest.MonkeyPatch):
    """Whoever owns a folder on the way may swap it at any moment."""
    looked: list[Path] = []

    def look(path: Path) -> str | None:
        looked.append(path)
        reason = why_not_ours(path)
        path.parent.mkdir(parents=True)
        path.write_text("interval: 7\n")
        his(path)
        return reason

    monkeypatch.setattr(settings, "why_not_ours", look)
    with pytest.raises(InputError, match="another user"):
        load({})
    assert looked


@pytest.mark.parametrize("how", ["pipe", "his", "link"])
def test_settings_and_presets_in_another_users_home_are_neither_obeyed_nor_waited_for(home: Path, common: Path, how: str):
    folder = home / ".config" / "cockpit"
    (folder / "presets").mkdir(parents=True)
    for path in (folder / "config.yaml", folder / "presets" / "train.yaml"):
        if how == "pipe":
            os.mkfifo(path)
        elif how == "link":
            (common / "mine.yaml").write_text("reach: evil\n")
            path.symlink_to(common / "mine.yaml")
        else:
            path.write_text("reach: evil\n")
        his(path)
    for read in (lambda: load({}), lambda: find_preset("train")):
        with pytest.raises(InputError, match="another user"):
            read()


def test_a_link_may_have_any_mode(home: Path, common: Path):
    """Its own says nothing."""
    os.chown(home, 0, 0)
    folder = home / ".config" / "cockpit"
    folder.mkdir(parents=True)
    (common / "config.yaml").write_text("interval: 7\n")
    (folder / "config.yaml").symlink_to(common / "config.yaml")
    assert stat.S_IMODE((folder / "config.yaml").lstat().st_mode) == 0o777
    assert load({}).interval == 7
