from __future__ import annotations

import httpcore
import httpx
import pytest

from cockpit.sources.connections import Connections
from tests.fakes.transport import MockTransport


async def asked(address, *args, **more):
    """The request as it goes out."""
    seen = []

    def answer(request):
        seen.append(request)
        return httpx.Response(200, text="well")

    async with Connections(address, MockTransport(answer)).ask(*args, **more) as told:
        assert [told.status, b"".join([piece async for piece in told.body])] == [200, b"well"]
    return seen[0]


@pytest.mark.parametrize(
    ("address", "path", "params", "url"),
    [
        ("http://head:8265", "/nodes", {"view": "summary", "_": 1}, "http://head:8265/nodes?view=summary&_=1"),
        ("http://gate/ray", "/api/jobs/a%2Fb", {}, "http://gate/ray/api/jobs/a%2Fb"),
        ("http://[::1]:8265", "/nodes", {"glob": "a b*"}, "http://[::1]:8265/nodes?glob=a%20b%2A"),
        ("https://api:443", "/apis/x?limit=5", {}, "https://api/apis/x?limit=5"),
        ("http://head:8265", "/api/jobs/\u6f22\r\n x", {}, "http://head:8265/api/jobs/%E6%BC%A2%0D%0A%20x"),
    ],
)
async def test_what_is_asked_for(address, path, params, url):
    assert str((await asked(address, "GET", path, params, {})).url) == url


async def test_headers_are_those_of_the_address_and_of_whoever_asks():
    request = await asked("http://me:s%40me@head:8265", "GET", "/nodes", {}, {})
    assert request.headers["host"] == "head:8265"
    assert request.headers["accept-encoding"] == "identity"
    assert "authorization" not in request.headers
    request = await asked("http://head:8265", "GET", "/nodes", {}, {"Authorization": "Bearer t"})
    assert request.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("method", "content", "length"), [("GET", b"", None), ("DELETE", b"", None), ("POST", b"", "0"), ("POST", b"{}", "2")]
)
async def test_the_length_of_a_body_is_told(method, content, length):
    request = await asked("http://head:8265", method, "/api/jobs/", {}, {}, content)
    assert request.headers.get("content-length") == length
    assert request.read() == content


@pytest.mark.parametrize("address", ["head:8265", "ftp://head", "http://", "http://head:port", "http://\ud800"])
async def test_what_is_no_address_is_refused(address):
    with pytest.raises(ValueError, match=r".+"):
        await asked(address, "GET", "/nodes", {}, {})


async def test_an_answer_that_is_not_wanted_to_its_end_is_let_go_of():
    closed = []

    class Broken(MockTransport):
        async def handle_async_request(self, request):
            answer = await super().handle_async_request(request)
            closed.append(answer)
            return answer

    with pytest.raises(ZeroDivisionError):
        async with Connections("http://head", Broken(lambda _: httpx.Response(204))).ask("GET", "/", {}, {}):
            raise ZeroDivisionError
    assert isinstance(closed[0], httpcore.Response)
