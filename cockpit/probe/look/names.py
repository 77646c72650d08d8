"""Whether a host's own name leads to loopback by /etc/hosts, which glibc reads before it asks any server."""

from __future__ import annotations

MOST_BYTES = 1 << 20
"""Of /etc/hosts: 10,000 hosts take 400 KB."""
MOST_CHARS = 200
"""Of the line that is passed on."""


def find_loopback_line(hosts: str, name: str) -> str | None:
    """The first line of /etc/hosts by which `name` is an address of loopback, blanks made alike; `None`: there is none.

    Other lines with that name don't help: getaddrinfo returns the addresses of loopback first (RFC 6724, rule 8), and Gloo takes the first
    address that it can bind to (createDefaultDevice in PyTorch's ProcessGroupGloo.cpp).
    """
    wanted = name.lower()
    for line in hosts.splitlines():
        words = line.partition("#")[0].split()
        if wanted in (word.lower() for word in words[1:]) and words[0].startswith(("127.", "::1")):
            return " ".join(words)[:MOST_CHARS]
    return None
