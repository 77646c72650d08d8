"""Where facts come from: Ray's dashboard, and a probe on each host. Both speak the model's words and raise `SourceError`."""

import sys

# httpx brings a command line of its own, and with it rich and pygments: 40 ms of every start, for nothing.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
