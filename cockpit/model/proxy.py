"""Defines the HTTP proxy in an environment."""

from __future__ import annotations

from cockpit.model.value import Value


class HttpProxy(Value, frozen=True):
    """The proxy through which programs with this environment send http:// requests."""

    variable: str
    """http_proxy, HTTP_PROXY, all_proxy or ALL_PROXY."""
    proxy: str | None = None
    """Its host and port, without user and password; `None`: the variable contains no address."""
    exceptions: str = ""
    """The value of no_proxy."""
