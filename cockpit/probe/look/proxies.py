"""The HTTP proxy that an environment names, without its user and password."""

from __future__ import annotations

import os
import re
from typing import Mapping, NamedTuple

from .proc import make_legible

VARIABLES = (("http_proxy", "HTTP_PROXY"), ("all_proxy", "ALL_PROXY"))
"""In the order in which they count for http:// (requests and urllib)."""
EXCEPTIONS = ("no_proxy", "NO_PROXY")
MOST_CHARS = 16384
"""Of no_proxy. What a longer one leaves out isn't known, so nothing is told then."""
_PLACE = re.compile(r"[\w.:\[\]-]{1,200}", re.ASCII)


class HttpProxy(NamedTuple):
    """Through which proxy the programs with this environment send http:// requests."""

    variable: str
    """The name of the variable that counts."""
    proxy: str | None
    """Its host and port; `None`: it is no such thing."""
    exceptions: str
    """What its no_proxy says."""


def find_http_proxy(environ: Mapping[str, str]) -> HttpProxy | None:
    """`None`: it names none. A lower-case name counts before the same in upper case, also with an empty value: that is no proxy."""
    exceptions = next((environ[name] for name in EXCEPTIONS if environ.get(name)), "")
    for names in VARIABLES:
        variable = next((name for name in names if name in environ), None)
        if variable is not None and environ[variable] and len(exceptions) <= MOST_CHARS:
            return HttpProxy(variable, _host_and_port(environ[variable]), make_legible(exceptions))
    return None


def own_proxy() -> HttpProxy | None:
    """The one of the shell that this program was started from."""
    return find_http_proxy(os.environ)


def _host_and_port(value: str) -> str | None:
    """Whatever stands before the last `@` is user and password, which may hold any character."""
    found = (value.partition("://")[2] or value).rpartition("@")[2].partition("/")[0]
    return found if _PLACE.fullmatch(found) else None
