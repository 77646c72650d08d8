"""Speaks the protocol of NCCL's RAS as one process of a job does: `python nccl_server.py MODE PORT LIBRARY REPORT`.

Written from the protocol's description; it copies no code of NCCL. It maps LIBRARY into its memory, as a process with NCCL does, and
prints a line when it listens, then every line that it receives.
"""

from __future__ import annotations

import mmap
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path


def main(mode: str, port: str, library: str, report: str) -> None:
    if library:
        handle = os.open(library, os.O_RDONLY)
        mapped = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
        assert mapped[:1]
    host = os.environ.get("RAS_HOST", "127.0.0.1")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as all ranks of a host do
        server.bind((host, int(port)))
        server.listen()
        print("listens", flush=True)
        while True:
            if mode == "hang":  # the kernel still accepts
                sys.stdin.read()
                return
            client, _ = server.accept()
            with client, client.makefile("rwb") as stream, suppress(OSError):
                answer(mode, stream, report)


def answer(mode: str, stream, report: str) -> None:
    form = "text"
    for line in stream:
        words = line.decode().strip().upper()
        print(words, flush=True)
        if mode == "other":
            stream.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        elif words.startswith("CLIENT PROTOCOL"):
            stream.write(b"SERVER PROTOCOL 2\n")
        elif words.startswith("TIMEOUT "):
            stream.write(b"OK\n")
        elif words.startswith("SET FORMAT ") and mode != "old":
            form = words.rpartition(" ")[2].lower()
            stream.write(b"OK\n")
        elif words in ("STATUS", "VERBOSE STATUS"):
            if mode == "mute":
                stream.flush()
                continue
            while mode == "endless":
                stream.write(b" " * (1 << 16))
            stream.write(Path(f"{report}.{form}").read_bytes())
            stream.flush()
            return
        else:
            stream.write(f"ERROR: Unknown command {words}\n".encode())
        stream.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
