"""Finds the HTTP proxy in an environment, without its user and password."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from .proc import make_legible

VARIABLES = (("http_proxy", "HTTP_PROXY"), ("all_proxy", "ALL_PROXY"))
"""In the order of precedence for http:// (requests and urllib)."""
EXCEPTIONS = ("no_proxy", "NO_PROXY")
MAX_CHARS = 16384
"""Characters of no_proxy. If it is longer, no proxy is reported, because its exceptions are not all known."""
_PLACE = re.compile(r"[\w.:\[\]-]{1,200}", re.ASCII)


class HttpProxy(NamedTuple):
    """The proxy for http:// requests of programs with this environment."""

    variable: str
    """The name of the variable that names it."""
    proxy: str | None
    """Its host and port; `None` if the variable has no such value."""
    exceptions: str
    """The value of no_proxy."""


def find_http_proxy(environ: Mapping[str, str]) -> HttpProxy | None:
    """`None` if there is none. A lower-case variable overrides the upper-case one, even with an empty value, which means no proxy."""
    exceptions = next((environ[name] for name in EXCEPTIONS if environ.get(name)), "")
    for names in VARIABLES:
        variable = next((name for name in names if name in environ), None)
        if variable is not None and environ[variable] and len(exceptions) <= MAX_CHARS:
            # User and password are before the last `@`, and may contain any character.
            value = environ[variable]
            place = (value.partition("://")[2] or value).rpartition("@")[2].partition("/")[0]
            return HttpProxy(variable, place if _PLACE.fullmatch(place) else None, make_legible(exceptions))
    return None
