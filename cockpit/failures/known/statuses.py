"""Explains the statuses of HTTP and gRPC in the words of any client: `503 Server Error`, `Error code: 503`, `StatusCode.UNAVAILABLE`."""

from __future__ import annotations

from typing import Final

from cockpit.failures.known.error import KnownError

_NO_PROXY: Final = "For an address of your own cluster, a proxy may have answered instead: `env | grep -i _proxy`, then `export no_proxy=localhost,127.0.0.1,HOST`"
_SERVER_LOG: Final = "The server's own log has the reason at that time"


def _http(status: int, phrase: str, cause: str, remedy: str) -> KnownError:
    """A row for one status of HTTP."""
    return KnownError(
        name=f"http-{status}",
        marker=str(status),
        pattern=rf"^(?:[A-Za-z_]\w{{0,60}}\.){{0,8}}\w{{0,60}}(?:Error|Exception|Forbidden|NotFound|Unavailable|Timeout|Requests)\b[^\n]{{0,300}}?"
        rf"(?:\b{status} (?:Client|Server) Error|(?:Client|Server) error '{status} |: {status}, message=|HTTP Error {status}: "
        rf"|Error code: {status}\b|(?<=ProxyError): {status} |connection failed: {status} |too many {status} error"
        rf"|HTTP(?:/\d\.\d)?:? {status}\b|status(?:[_ ]code)?(?: is)?[ :=(']{{1,4}}{status}\b)",
        cause=f"A server answered {status} ({phrase}): {cause}",
        remedy=remedy,
        source="RFC 9110; texts of requests, httpx, aiohttp, urllib, openai, google-api-core",
        matches=(
            f"openai.APIStatusError: Error code: {status} - {{'detail': 'x'}}",
            f"urllib.error.HTTPError: HTTP Error {status}: {phrase}",
            f"httpx.ProxyError: {status} {phrase}",
            f"OSError: Tunnel connection failed: {status} {phrase}",
            f"RuntimeError: Request failed with status code {status}: {phrase}",
            f"RuntimeError: Failed to generate: status={status}, body=x",
            f"requests.exceptions.RetryError: Max retries exceeded with url: /x (Caused by ResponseError('too many {status} error responses'))",
        ),
        differs=(f'INFO 10.0.0.2 - "POST /generate HTTP/1.1" {status}', f"ValueError: expected {status} tokens"),
        is_general=True,
        explains_only_kind=True,
    )


def _grpc(code: int, status: str, cause: str, remedy: str) -> KnownError:
    """A row for one status of gRPC."""
    return KnownError(
        name=f"grpc-{status.lower().replace('_', '-')}",
        marker="of RPC that terminated with",
        pattern=rf"of RPC that terminated with:?\n?[^\n]{{0,40}}\bStatusCode\.{status}\b",
        cause=f"A call of gRPC failed with status {status} ({code}): {cause}",
        remedy=remedy,
        source="grpc doc/statuscodes.md; grpcio _channel.py",
        matches=(
            f'grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{status}\n\tdetails = "x"',
        ),
        differs=(f"INFO retry on StatusCode.{status}",),
        is_consequence=True,
    )


STATUSES: tuple[KnownError, ...] = (
    _http(
        400,
        "Bad Request",
        "it can't read the request",
        "The answer's text or the server's log says which field: compare model name, parameters and lengths with the server's version",
    ),
    _http(
        401,
        "Unauthorized",
        "the key or token is missing or wrong",
        "Set the token in the environment of the job (its env_vars), not only in your shell; `hf auth whoami` tests that of Hugging Face",
    ),
    _http(402, "Payment Required", "the account's credit is used up", "Look at the account's billing page, or use another provider or key"),
    _http(
        403,
        "Forbidden",
        "it or a proxy on the way does not allow this",
        f"Rights of the token, a licence that was not accepted, a region or firewall. {_NO_PROXY}",
    ),
    _http(
        404,
        "Not Found",
        "it does not know this path, model or file",
        "Compare the URL with the server's routes (`/v1` once, not twice), and the model's name with the one that is served; the server's version may lack this route",
    ),
    _http(
        405,
        "Method Not Allowed",
        "the path exists, but not for this method",
        "Mostly a wrong URL or another version of the server: compare it with the server's routes",
    ),
    _http(
        407,
        "Proxy Authentication Required",
        "the proxy wants a user and password",
        "Put them into https_proxy, or leave the proxy out for this host: `export no_proxy=localhost,127.0.0.1,HOST`",
    ),
    _http(408, "Request Timeout", "the request did not arrive in time", "Smaller requests or fewer at a time; try again"),
    _http(
        409,
        "Conflict",
        "it already exists, or is changed by another process at the same time",
        "One rank should make or upload it; use another name, or the option that accepts an existing one",
    ),
    _http(410, "Gone", "it was removed for good", "Use the new address or name of its documentation"),
    _http(
        413,
        "Request Entity Too Large",
        "the request is larger than the server or a proxy allows",
        "Send less at once, or raise the limit of the server or its proxy (nginx: client_max_body_size)",
    ),
    _http(
        416,
        "Requested Range Not Satisfiable",
        "a partly downloaded file is longer than the original",
        "Delete the incomplete file in the cache (`*.incomplete`), and download again",
    ),
    _http(
        422,
        "Unprocessable Entity",
        "a field of the request has a wrong type or is missing",
        "The answer's `detail` names the field: client and server have different versions, or a value is None",
    ),
    _http(
        429,
        "Too Many Requests",
        "the limit of requests or the quota is reached",
        "Fewer requests at a time, longer pauses, a token with a higher limit; one download for all ranks, then the cache with `export HF_HUB_OFFLINE=1`",
    ),
    _http(451, "Unavailable For Legal Reasons", "it is blocked for this region", "Use another source or mirror that you may use"),
    _http(500, "Internal Server Error", "an error was raised in the server", f"{_SERVER_LOG}: look for its traceback first"),
    _http(501, "Not Implemented", "it does not offer this", "Compare the server's version with the client's"),
    _http(
        502,
        "Bad Gateway",
        "a proxy or router could not reach the server behind it",
        f"{_SERVER_LOG}: it has died or has not started. {_NO_PROXY}",
    ),
    _http(503, "Service Unavailable", "the server is not ready or overloaded, or a proxy can't reach it", f"{_SERVER_LOG}. {_NO_PROXY}"),
    _http(
        504,
        "Gateway Timeout",
        "a proxy or router waited too long for the server behind it",
        f"Longer timeouts, fewer requests at a time. {_NO_PROXY}",
    ),
    _http(507, "Insufficient Storage", "its disk or quota is full", "Free space there, or ask for more quota"),
    _http(529, "Overloaded", "the provider is overloaded", "Try again with longer pauses, and fewer requests at a time"),
    KnownError(
        name="http-status-google",
        marker="google.",
        pattern=r"^google\.[\w.]{1,80}: (?P<status>[45]\d\d) (?P<what>[^\n]{1,200})",
        cause="A service of Google Cloud answered {status}: {what}",
        remedy="401 and 403: credentials or rights (`gcloud auth list`; the service account of the node). 404: name or bucket. 429: quota, fewer requests. 5xx: try again, and look whether this node reaches it",
        source="google-api-core exceptions.py",
        matches=("google.api_core.exceptions.ServiceUnavailable: 503 failed to connect to all addresses",),
        differs=("google.auth.exceptions.RefreshError: 1",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="curl-failed",
        marker="curl: (",
        pattern=r"^curl: \((?P<code>\d{1,2})\) (?P<what>[^\n]{1,200})",
        cause="curl could not load something: {what}",
        remedy="Run the same command on that node with `curl -v URL`: 5, 6 and 7: proxy, name or port not reachable; 22: the server's status; 28: no answer in time; 35 and 60: TLS (certificate of a proxy, clock); 23: the disk",
        source="curl include/curl/curl.h",
        matches=(
            "curl: (7) Failed to connect to 10.0.0.2 port 8000: Connection refused",
            "curl: (56) Received HTTP code 403 from proxy after CONNECT",
        ),
        differs=("INFO curl: (7) was retried",),
        is_general=True,
    ),
    KnownError(
        name="tls-failed",
        marker="_ssl.c:",
        pattern=r"\bSSL\w{0,30}Error\b[^\n]{0,300}?(?P<what>\[(?:SSL|X509|ASN1|PEM)[^\]\n]{0,80}\][^\n]{0,150}?|TLS/SSL connection has been closed \(EOF\) )\(_ssl\.c:\d{1,5}\)|(?P<timed>_ssl\.c:\d{1,5}: The handshake operation timed out)",
        cause="Two programs could not agree on a TLS connection",
        remedy="`curl -v URL` from that node shows the handshake. WRONG_VERSION_NUMBER: the other side (often a proxy) speaks plain http. Certificate or PEM: the file's path and form. EOF, bad record or timed out: a proxy or firewall cut it; after a fork, open connections again",
        source="CPython Modules/_ssl.c; OpenSSL reason codes",
        matches=(
            "ssl.SSLError: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1007)",
            "ssl.SSLError: [SSL] PEM lib (_ssl.c:3862)",
            "ssl.SSLZeroReturnError: TLS/SSL connection has been closed (EOF) (_ssl.c:1007)",
            "TimeoutError: _ssl.c:989: The handshake operation timed out",
        ),
        differs=("INFO retry: [SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1007)",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="name-not-resolved",
        marker="[Errno ",
        pattern=r"(?:gaierror: |herror: |URLError: <urlopen error )\[Errno (?:-\d{1,2}|[18])\] (?P<what>[^\n>]{1,100})",
        cause="The system could not turn a host name or service into an address: {what}",
        remedy="`getent hosts NAME` and `cat /etc/resolv.conf` on that node (in the container), with the name that the traceback shows: a wrong name, no DNS, or no Internet; use an IP address inside the cluster",
        source="glibc gai_strerror; CPython Modules/socketmodule.c",
        matches=(
            "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
            "socket.gaierror: [Errno -4] Non-recoverable failure in name resolution",
            "socket.gaierror: [Errno -8] Servname not supported for ai_socktype",
        ),
        differs=("OSError: [Errno 8] Exec format error",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="url-malformed",
        marker="URL",
        pattern=r"^(?:[\w.]{1,60}\.)?(?P<what>(?:MissingSchema|InvalidURL|UnsupportedProtocol): [^\n]{0,200})",
        cause="An address is no complete URL: {what}",
        remedy="Write it with http:// or https:// and the port; an empty host, None or a missing variable in it means that an option or environment variable is not set in that process",
        source="requests, httpx and aiohttp exceptions",
        matches=(
            "requests.exceptions.MissingSchema: Invalid URL 'localhost:8000/x': No scheme supplied. Perhaps you meant https://localhost:8000/x?",
            "httpx.UnsupportedProtocol: Request URL is missing an 'http://' or 'https://' protocol.",
            "aiohttp.client_exceptions.InvalidURL: localhost:8000/generate",
        ),
        differs=("INFO InvalidURL: x",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="grpc-code-of-ray",
        marker="rpc_code: ",
        pattern=r"RpcError: [^\n]{0,600}\brpc_code: (?P<code>\d{1,2})\b",
        cause="A call to another process of Ray failed with gRPC's status {code} (4: no answer in time, 8: too large, 14: not reachable)",
        remedy="`ray status` on the head: is the head alive, and that node? Its gcs_server.out and raylet.out (`ls /tmp/ray/session_latest/logs`) say why not; also a proxy: `env | grep -i _proxy`",
        source="ray exceptions.py: RpcError; grpc doc/statuscodes.md",
        matches=("ray._raylet.RpcError: RPC Error message: failed to connect to all addresses; RPC Error details: x; rpc_code: 14",),
        differs=("INFO rpc_code: 4",),
        is_general=True,
        explains_only_kind=True,
    ),
    _grpc(1, "CANCELLED", "the caller gave up", "Look above for the timeout or error that ended the caller"),
    _grpc(2, "UNKNOWN", "an error was raised in the server", f"The details name it; {_SERVER_LOG.lower()}"),
    _grpc(3, "INVALID_ARGUMENT", "the server refused a value", "The details name it: client and server may have different versions"),
    _grpc(
        4,
        "DEADLINE_EXCEEDED",
        "no answer came in time",
        f"The server is overloaded, stopped, or not reachable: `nc -zv HOST PORT` from this node. {_NO_PROXY}",
    ),
    _grpc(5, "NOT_FOUND", "the server does not know this name", "The details name it"),
    _grpc(6, "ALREADY_EXISTS", "the name is taken", "The details name it: use another name, or end what has it"),
    _grpc(7, "PERMISSION_DENIED", "the caller has no right to it, or a proxy refused", f"Compare the token or rights. {_NO_PROXY}"),
    _grpc(
        8,
        "RESOURCE_EXHAUSTED",
        "a message is too large, or a quota or memory is used up",
        "The details say which: smaller messages (large objects with ray.put), or a higher limit",
    ),
    _grpc(9, "FAILED_PRECONDITION", "the server's state does not allow it", "The details say why"),
    _grpc(
        12,
        "UNIMPLEMENTED",
        "the server does not have this method",
        "Client and server have different versions, or another program listens on that port: compare `ray --version` on all nodes, and the port",
    ),
    _grpc(13, "INTERNAL", "the server or the connection broke", f"{_SERVER_LOG}; compare the versions of grpcio on all nodes"),
    _grpc(16, "UNAUTHENTICATED", "the token or certificate is missing or wrong", "Set the same token or certificates on both sides"),
)
