"""Finds the line of /etc/hosts that gives a host's own name an address of loopback. glibc reads /etc/hosts before it asks any server."""

from __future__ import annotations

MOST_BYTES = 1 << 20
"""Bytes of /etc/hosts that are read: 10,000 hosts take 400 KB."""
MAX_LINE_CHARS = 200
"""Characters of the line that are returned."""


def find_loopback_line(hosts: str, name: str) -> str | None:
    """The first line of the text of /etc/hosts that gives `name` an address of loopback, with single blanks; `None`: there is none.

    Other lines with that name don't help: getaddrinfo returns the addresses of loopback first (RFC 6724, rule 8), and Gloo takes the first
    address that it can bind to (createDefaultDevice in PyTorch's ProcessGroupGloo.cpp).
    """
    wanted = name.lower()
    for line in hosts.splitlines():
        words = line.partition("#")[0].split()
        if wanted in (word.lower() for word in words[1:]) and words[0].startswith(("127.", "::1")):
            return " ".join(words)[:MAX_LINE_CHARS]
    return None
