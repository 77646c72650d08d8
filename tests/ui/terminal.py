"""The program that tests start in a terminal of their own."""

from __future__ import annotations

import sys

PROGRAM = [sys.executable, "-c", "from cockpit.cli.main import main; main()", "--address", "http://127.0.0.1:9", "--quiet"]
