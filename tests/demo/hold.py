"""`python -m tests.demo.hold`: the demo cluster without a screen, until Enter, the end of stdin or a signal."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress

from cockpit.demo.cluster import demo_cluster, ending_on_signals


def main() -> None:
    """Print `address=…`, and one `export` line for each variable."""
    with suppress(KeyboardInterrupt), ending_on_signals(), demo_cluster() as demo:
        lines = [f"address={demo.address}", *(f"export {name}={shlex.quote(value)}" for name, value in demo.env.items())]
        print("\n".join(lines), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
