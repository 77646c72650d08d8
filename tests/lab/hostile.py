"""Programs that another user of a lab's host runs: `python3 hostile.py NAME WORD…`. Standard library only."""

from __future__ import annotations

import ctypes
import http.server
import json
import os
import signal
import socket
import struct
import sys
import time

LIBC = ctypes.CDLL(None)


def stay(*_: str) -> None:
    """Sleeps, under whatever name it was started."""
    signal.pause()


def dashboard(port: str, path: str) -> None:
    """Asks for a token, claims to be any Ray, and writes down every request."""

    class Listening(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            with open(path, "a") as file:
                file.write(f"{self.command} {self.path} {dict(self.headers)} {self.rfile.read(size)!r}\n")
            body = json.dumps(
                {"authentication_mode": "token", "session_name": "session_2026-11-22_08-06-31_428681_1", "ray_version": "2.60.0"}
            )
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 as the library calls them

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Listening).serve_forever()


def listen(path: str) -> None:
    """Listens on a raylet's socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        signal.pause()


def abstract(name: str) -> None:
    """Listens on an abstract socket."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        signal.pause()


def endless(*_: str) -> None:
    """Claims 100 GiB of untouched memory as its environment (PR_SET_MM_MAP)."""
    LIBC.mmap.restype = LIBC.sbrk.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    code, end, stack, data, data_end, heap, words, words_end = (int(fields[n - 3]) for n in (26, 27, 28, 45, 46, 47, 48, 49))
    size = 100 << 30
    begin = LIBC.mmap(None, size, 3, 0x4022, -1, 0)
    layout = struct.pack("=12QIi", code, end, data, data_end, heap, LIBC.sbrk(0), stack, words, words_end, begin, begin + size, 0, 0, -1)
    LIBC.prctl(35, 14, ctypes.create_string_buffer(layout, len(layout)), len(layout), 0)
    signal.pause()


def long(mark: str, count: str) -> None:
    """Calls itself a raylet and has `count` words of 100 KiB in its command line."""
    words = [mark * 100_000 for _ in range(int(count))]
    os.execv(sys.executable, ["raylet", __file__, "stay", "--raylet_socket_name=x", *words])


def renames(*_: str) -> None:
    """Changes its name 200 times a second between raylet, gcs_server and worker."""
    while True:
        for name in (b"raylet", b"gcs_server", b"ray::IDLE", b"VLLM::Engine"):
            LIBC.prctl(15, name, 0, 0, 0)
            time.sleep(0.005)


def wordless(*_: str) -> None:
    """A raylet without a command line."""
    LIBC.prctl(15, b"raylet", 0, 0, 0)
    LIBC.mmap.restype = LIBC.sbrk.restype = ctypes.c_void_p
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    code, end, stack, data, data_end, heap, words = (int(fields[n - 3]) for n in (26, 27, 28, 45, 46, 47, 48))
    layout = struct.pack("=12QIi", code, end, data, data_end, heap, LIBC.sbrk(0), stack, words, words, words, words, 0, 0, -1)
    LIBC.prctl(35, 14, ctypes.create_string_buffer(layout, len(layout)), len(layout), 0)
    signal.pause()


def memory(*words: str) -> None:
    """Runs a program without a file, named by the first word."""
    program = os.memfd_create("raylet")
    with open(os.path.realpath(sys.executable), "rb") as file:
        os.write(program, file.read())
    os.execve(program, [words[0], __file__, "stay", *words[1:]], {"LD_PRELOAD": "/tmp/evil/evil.so", "PYTHONPATH": "/tmp/evil"})


def deleted(*words: str) -> None:
    """Runs a program whose file was deleted."""
    path = f"/tmp/evil/gone-{os.getpid()}"
    with open(os.path.realpath(sys.executable), "rb") as file, open(path, "wb") as copy:
        copy.write(file.read())
    os.chmod(path, 0o755)
    if os.fork():
        os.execv(path, [words[0], __file__, "stay", *words[1:]])
    time.sleep(0.5)
    os.unlink(path)


def floods(folder: str, name: str, count: str) -> None:
    """Makes very many files."""
    for number in range(int(count)):
        with open(f"{folder}/{name}{number:07x}", "w") as file:
            file.write("x")


def digs(folder: str, depth: str) -> None:
    """Makes a very deep folder."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for _ in range(int(depth)):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)


def many(count: str) -> None:
    """Makes temp dirs with sessions in which it listens, and one process that names each of them."""
    for number in range(int(count)):
        path = f"/tmp/evil/many{number}/ray/session_2099-01-01_00-00-00_000000_{number}"
        for part in ("logs", "sockets"):
            os.makedirs(f"{path}/{part}")
        if os.fork() == 0:
            os.execve(
                sys.executable, [sys.executable, __file__, "listen", f"{path}/sockets/raylet"], {"RAY_TMPDIR": f"/tmp/evil/many{number}"}
            )
    signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
