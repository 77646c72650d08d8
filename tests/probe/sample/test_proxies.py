"""The HTTP proxy of an environment."""

from __future__ import annotations

import pytest

from cockpit.probe.sample.proxies import MAX_CHARS, HttpProxy, find_http_proxy


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"http_proxy": "http://proxy:3128", "no_proxy": "a,b"}, HttpProxy("http_proxy", "proxy:3128", "a,b")),
        ({"HTTP_PROXY": "proxy:3128/", "NO_PROXY": "a"}, HttpProxy("HTTP_PROXY", "proxy:3128", "a")),
        ({"ALL_PROXY": "socks5://[fd00::1]:1080"}, HttpProxy("ALL_PROXY", "[fd00::1]:1080", "")),
        ({"http_proxy": "one", "HTTP_PROXY": "two", "all_proxy": "three"}, HttpProxy("http_proxy", "one", "")),
        ({"http_proxy": "", "HTTP_PROXY": "two"}, None),
        ({"http_proxy": "", "ALL_PROXY": "three"}, HttpProxy("ALL_PROXY", "three", "")),
        ({"https_proxy": "proxy:3128"}, None),
        ({"http_proxy": "one", "no_proxy": "", "NO_PROXY": "b"}, HttpProxy("http_proxy", "one", "b")),
        ({"http_proxy": "one", "no_proxy": "x" * (MAX_CHARS + 1)}, None),
        ({"http_proxy": "a b\x1b[2J"}, HttpProxy("http_proxy", None, "")),
        ({}, None),
    ],
)
def test_the_proxy_variable_is_reported_with_its_host_and_port(environ, found):
    assert find_http_proxy(environ) == found


@pytest.mark.parametrize("password", ["hunter2", "hun/ter2", "hun@ter2", "hun:ter2", "hunter2@x/", "hunter2?#", "//hunter2"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_password_never_leaves_the_host(scheme, password):
    found = find_http_proxy({"http_proxy": f"{scheme}ann:{password}@proxy:3128/"})
    assert found == HttpProxy("http_proxy", "proxy:3128", "")
