"""`python -m cockpit.demo --hold`: the demo cluster without a screen, until Enter, the end of stdin or a signal."""

from __future__ import annotations

import shlex
import sys
import time
from contextlib import suppress

from cockpit import output
from cockpit.demo.cluster import DemoError, demo_cluster, ending_on_signals


def main(arguments: list[str]) -> int:
    """Print `address=…`, one `export` line for each variable, and `settled` once everything is as it is meant to be."""
    if arguments != ["--hold"]:
        output.say(f"usage: {__doc__}", err=True)
        return 2
    began = time.monotonic()
    try:
        with suppress(KeyboardInterrupt), ending_on_signals(), demo_cluster() as demo:
            lines = [f"address={demo.address}", *(f"export {name}={shlex.quote(value)}" for name, value in demo.env.items())]
            output.say("\n".join([*lines, f"# {demo.notice}"] if demo.notice else lines))
            output.flush()
            settled = demo.settle()
            output.say(f"{'settled' if settled else 'not settled'} after {time.monotonic() - began:.0f} s")
            output.flush()
            sys.stdin.readline()
    except DemoError as error:
        output.note(f"demo: {error}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
