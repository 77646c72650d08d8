"""The HTTP proxy that an environment names."""

from __future__ import annotations

from cockpit.model.value import Value


class HttpProxy(Value, frozen=True):
    """Through which proxy the programs with this environment send http:// requests."""

    variable: str
    """The variable that names it: http_proxy, HTTP_PROXY, all_proxy or ALL_PROXY."""
    proxy: str | None = None
    """Its host and port, without user and password; `None`: the variable holds no such thing."""
    exceptions: str = ""
    """The value of no_proxy."""
