"""Knows errors of ports: Ray's worker ports used up, ports in use, addresses that a host does not have, and Ray that runs already."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

PORTS: tuple[KnownError, ...] = (
    # Ray's worker ports.
    KnownError(
        name="ray-worker-ports-used-up",
        marker="Please specify a wider port range",
        pattern=r"(?:No available ports|Failed to allocate a port for the worker)\. Please specify a wider port range",
        cause="The node's range of worker ports is used up: Ray has no port left for another worker process or driver there",
        remedy="Restart Ray on that node with the range that Ray takes by itself or a wider one: add `--min-worker-port=10002 --max-worker-port=19999` to its `ray start`; "
        "`--worker-port-list` must be left out; drivers and workers of old jobs hold ports too: end those",
        source="ray-project/ray issues 28071, 33749, 10154; ray 2.60 core/src/ray/raylet/raylet",
        matches=(
            "[2022-08-23 15:13:15,557 E 223585 223585] core_worker.cc:137: Failed to register worker a20a041a81c6dc5a5709d7e342bd95bec33fd5b2b181fcce5a4d9221 to Raylet. Invalid: "
            "Invalid: No available ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
            "core_worker_process.cc: Failed to register worker to Raylet: Invalid: Invalid: No available ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
            "F0817 16:07:46.085644 1024090 1024090 core_worker.cc:294]  Check failed: assigned_port != -1 Failed to allocate a port for the worker. Please specify a wider port range "
            "using the '--min-worker-port' and '--max-worker-port' arguments to 'ray start'.",
        ),
        differs=(
            "core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file",
            "click: --min-worker-port  the lowest port number that workers will bind on. If not set, random ports will be chosen.",
        ),
        look_up="worker-ports",
    ),
    KnownError(
        name="ray-ports-overlap",
        marker="is trying to use a port number",
        pattern=r"Ray component (?P<component>\w{1,40}) is trying to use a port number (?P<shared_port>\d{1,5}) that is used by other components",
        cause="Two parts of this Ray node were given the same port {shared_port} (one of them: {component})",
        remedy="Give that `ray start` other ports: the worker ports are 10002 to 19999 unless set, so that --port, --dashboard-port, --ray-client-server-port and the agents' ports must "
        "lie outside (`--port=6379`), or choose `--min-worker-port=20000 --max-worker-port=29999`",
        source="ray 2.60 _private/parameter.py; ray-project/ray issues 21664, 18308",
        matches=(
            "ValueError: Ray component worker_ports is trying to use a port number 12345 that is used by other components.\nPort information: {'gcs': [12345], 'object_manager': []}",
        ),
        differs=("ValueError: Ports in worker_port_list must be between 1024 and 65535. Got: 80",),
    ),
    KnownError(
        name="ray-worker-range-reversed",
        marker="max_worker_port must be higher than min_worker_port",
        pattern=r"max_worker_port must be higher than min_worker_port",
        cause="The range of worker ports given to `ray start` ends before it begins, or has one port only",
        remedy="Give a lower minimum than maximum: `--min-worker-port=10002 --max-worker-port=19999`",
        source="ray 2.60 _private/parameter.py",
        matches=("ValueError: max_worker_port must be higher than min_worker_port.",),
        differs=("ValueError: If max_worker_port is set, min_worker_port must also be set.",),
    ),
    # Ray runs already, or does not run here.
    # Ray's own ports.
    KnownError(
        name="ray-dashboard-port",
        marker="because it's already occupied. You can use `ray start --dashboard-port",
        pattern=r"Failed to bind to (?P<host>\S{1,80}):(?P<port>\d{1,5}) because it's already occupied",
        cause="Ray's dashboard could not start: its port {port} is in use on this host, often by another Ray head",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it; choose another one (`--dashboard-port=8266`), or end what is left over from an earlier cluster",
        source="ray 2.60 _private/services.py; intel/ipex-llm pull request 5752",
        matches=(
            "ValueError: Failed to bind to 0.0.0.0:8265 because it's already occupied. You can use `ray start --dashboard-port ...` or `ray.init(dashboard_port=...)` to select a different port.",
        ),
        differs=("WARNING Failed to bind to port 52365 (attempt 1/6). Retrying in 0.55s. Error: [Errno 98]",),
        look_up="port",
    ),
    KnownError(
        name="ray-dashboard-no-port",
        marker="Failed to find a valid port for dashboard after",
        pattern=r"Failed to find a valid port for dashboard after (?P<retries>\d{1,4}) retries: [^\n]{0,60}error while attempting to bind on address \('(?P<host>[^'\n]{1,80})', (?P<port>\d{1,5})",
        cause="Ray's dashboard could not start: its port {port} is in use on this host, often by another Ray head",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it; choose another one (`--dashboard-port=8266`), or end what is left over from an earlier cluster",
        source="ray 2.60 dashboard/http_server_head.py; facebookresearch/fairchem pull request 1787",
        matches=(
            "Exception: Failed to find a valid port for dashboard after 0 retries: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8265): address already in use",
        ),
        differs=("WARNING Try to use port 8266: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8265): address already in use",),
        look_up="port",
    ),
    KnownError(
        name="ray-agent-port",
        marker="Agent port #",
        pattern=r"Agent port #(?P<port>\d{1,5}) failed to bind after (?P<attempts>\d{1,4}) attempts",
        cause="The dashboard agent of this Ray node could not open its port {port}, which is in use; jobs cannot be submitted to this node",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it, often another Ray session of this host: end what is left over, or restart this node with `--dashboard-agent-listen-port=52366`",
        source="ray 2.60 dashboard/http_server_agent.py",
        matches=("Agent port #52365 failed to bind after 6 attempts.",),
        differs=("Failed to bind to port 52365 (attempt 1/6). Retrying in 0.55s. Error: [Errno 98] error while attempting to bind",),
        look_up="port",
    ),
    KnownError(
        name="ray-grpc-worker-port",
        marker="Failed to start the grpc server. The specified port is ",
        pattern=r"Failed to start the grpc server\. The specified port is (?P<port>1\d{4})\b",
        cause="A Ray process could not open port {port}, which Ray uses for its workers by default; in most cases another program or another Ray cluster of this host has it",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it; keep others out of Ray's range (another Ray cluster on this host, `sysctl net.ipv4.ip_local_port_range`), or start Ray with "
        "`--min-worker-port=0 --max-worker-port=0`, where the system picks free ports",
        source="ray-project/ray issue 19336; facebookresearch/fairchem pull request 1787; ray 2.60 core/src/ray/raylet/raylet",
        matches=(
            "[2021-10-13 00:02:42,664 C 77129 77998] grpc_server.cc:82:  Check failed: server_ Failed to start the grpc server. The specified port is 10058. This means that Ray's core "
            "components will not be able to function correctly. If the server startup error message is `Address already in use`, it indicates the server fails to start because the port is already used",
        ),
        differs=("Check failed: server_ Failed to start the grpc server. The specified port is 6379. This means that Ray's core components will not be able to function correctly.",),
        look_up="port",
    ),
    KnownError(
        name="ray-grpc-port",
        marker="Failed to start the grpc server. The specified port is ",
        pattern=r"Failed to start the grpc server\. The specified port is (?P<port>\d{1,5})\b",
        cause="A Ray process could not open its port {port}, in most cases since another process of this host has it",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end what is left over from an earlier cluster (`ray stop`), or give this `ray start` another port (--port, --node-manager-port, "
        "--object-manager-port)",
        source="ray 2.60 core/src/ray/raylet/raylet; ray-project/ray issue 19336",
        matches=(
            "grpc_server.cc:103:  Check failed: server_ Failed to start the grpc server. The specified port is 6379. This means that Ray's core components will not be able to function correctly.",
        ),
        differs=("grpc_server.cc:133: GcsServer server started, listening on port 6379.",),
        look_up="port",
    ),
    KnownError(
        name="grpc-listen",
        marker="No address added out of total 1 resolved for ",
        pattern=r"No address added out of total 1 resolved for '(?P<host>[^'\n]{1,80}):(?P<port>\d{1,5})'",
        cause="A gRPC server (in Ray: a worker, raylet or GCS) could not open port {port}, in most cases since another process of this host has it",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it; from 10002 to 19999 are Ray's worker ports: keep other programs and other Ray clusters out of them, or start Ray with "
        "`--min-worker-port=0 --max-worker-port=0`",
        source="facebookresearch/fairchem pull request 1787",
        matches=(
            "E0217 18:17:22.955681883  561428 chttp2_server.cc:1063]                UNKNOWN:No address added out of total 1 resolved for '0.0.0.0:10002'",
            "E0000 00:00:1760055120.075971   30000 add_port.cc:83] Failed to add port to server: No address added out of total 1 resolved for '0.0.0.0:50051'",
        ),
        differs=('server_chttp2.cc:48]        {"created":"@1646124344.685770642","description":"No address added out of total 1 resolved"}',),
        look_up="port",
    ),
    KnownError(
        name="grpc-listen-old",
        marker='"description":"No address added out of total 1 resolved"',
        pattern=r'"description":"No address added out of total 1 resolved"[^\n]{0,2500}Address already in u',
        cause="A gRPC server (in Ray: a worker, raylet or GCS) could not open its port, since another process of this host has it",
        remedy="`ss -ltnp` on that node shows who listens where: end what is left over from an earlier cluster (`ray stop`), and keep other programs out of 10002 to 19999, Ray's worker ports",
        source="ray-project/ray issues 23152, 12206",
        matches=(
            'server_chttp2.cc:48]        {"created":"@1646124344.685770642","description":"No address added out of total 1 resolved","file":"chttp2_server.cc","file_line":897,'
            '"referenced_errors":[{"created":"@1646124344.685748525","description":"Unable to configure socket","fd":30,"referenced_errors":[{"description":"Address already in use","errno":98}]}]}',
        ),
        differs=("UNKNOWN:No address added out of total 1 resolved for '0.0.0.0:10002'",),
    ),
    KnownError(
        name="grpc-bind",
        marker="; set GRPC_VERBOSITY=debug environment variable",
        pattern=r"Failed to bind to address (?P<host>\S{1,80}):(?P<port>\d{1,5}); set GRPC_VERBOSITY=debug",
        cause="A gRPC server could not open port {port} on {host}, in most cases since another process of this host has it",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end it, or choose another port (Ray's client server has 10001: `ray start --ray-client-server-port=10003`, outside of the worker ports)",
        source="grpcio grpc/_common.py (validate_port_binding_result)",
        matches=("RuntimeError: Failed to bind to address 0.0.0.0:10001; set GRPC_VERBOSITY=debug environment variable to see detailed error message.",),
        differs=("ValueError: Failed to bind to 0.0.0.0:8265 because it's already occupied.",),
        look_up="port",
    ),
    KnownError(
        name="ray-client-no-port",
        marker="Unable to succeed in selecting a random port",
        pattern=r"Unable to succeed in selecting a random port",
        cause="Ray Client's server found no free port among 23000 to 24000 for another client",
        remedy="End clients that are left over (each holds a server process on the head), or submit with `ray job submit` instead of a ray:// address",
        source="ray 2.60 util/client/server/proxier.py",
        matches=("RuntimeError: Unable to succeed in selecting a random port.",),
        differs=("RuntimeError: Could not find a free port in range [20000, 20010]",),
    ),
    # torch's store.
    KnownError(
        name="torch-port-of-ray",
        marker="The server socket has failed to ",
        pattern=r"The server socket has failed to (?:listen on any local network address\.[^\n]{0,40}\n?[^\n]{0,40}port: (?P<port>1\d{4}),[^\n]{0,80}EADDRINUSE)",
        cause="Port {port}, which torch's store needs, is in use; it lies where Ray takes the ports of its workers by default (10002 to 19999)",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it; a port that the framework picked changes with the next start, one that you set (MASTER_PORT) must lie elsewhere; if it comes back, reserve Ray's range: "
        "`sysctl -w net.ipv4.ip_local_reserved_ports=10002-19999`",
        source="OpenRLHF/OpenRLHF issue 674; verl-project/verl issue 5889",
        matches=(
            "RuntimeError: The server socket has failed to listen on any local network address. port: 10007, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 18071, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        ),
        differs=("RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",),
        look_up="port",
    ),
    KnownError(
        name="torch-port-in-use",
        marker="The server socket has failed to ",
        pattern=r"The server socket has failed to listen on any local network address\.[^\n]{0,40}\n?[^\n]{0,40}port: (?P<port>\d{1,5}),[^\n]{0,80}EADDRINUSE",
        cause="Port {port}, which torch's store (MASTER_PORT) needs, is in use on this host",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end what is left over from an earlier run, or give each job on this host its own port (MASTER_PORT, `torchrun --master-port=29511`); "
        "a port that the framework picked changes with the next start",
        source="om-ai-lab/VLM-R1 issue 289; verl-project/verl issue 3521; alibaba/ROLL issue 87; modelscope/ms-swift issue 3988",
        matches=(
            "RuntimeError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address.\nport: 2333, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            "RuntimeError: The server socket has failed to listen on any local network address. port: 40005, useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",
        ),
        differs=("RuntimeError: The server socket has failed to listen on any local network address. port: 80, useIpv6: 0, code: -13, name: EACCES, message: permission denied",),
        look_up="port",
    ),
    KnownError(
        name="torch-bind-in-use",
        marker="The server socket has failed to ",
        pattern=r"The server socket has failed to bind to \S{1,80}:(?P<port>\d{1,5}) \(errno: 98 - Address already in use\)",
        cause="Port {port}, which torch's store (MASTER_PORT) needs, is in use on this host",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end a process left over from an earlier run, or give each job on this host its own port (MASTER_PORT, `torchrun --master-port=29511`, "
        "`deepspeed --master_port 29511`)",
        source="OpenRLHF/OpenRLHF issue 618; showlab/Tune-A-Video issue 90; QwenLM/Qwen-VL issue 187",
        matches=(
            "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use). The server "
            "socket has failed to bind to ?UNKNOWN? (errno: 98 - Address already in use).",
            "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        ),
        differs=("[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:80 (errno: 13 - Permission denied).",),
        look_up="port",
    ),
    KnownError(
        name="torch-port-unknown",
        marker="The server socket has failed to listen on any local network address",
        pattern=r"The server socket has failed to listen on any local network address\.[^\n]{0,60}code: -98, name: EADDRINUSE",
        cause="The port that torch's store needs is in use on this host; the log does not say which",
        remedy="It is MASTER_PORT of that process (29500 unless set): `ss -ltnp` shows who listens; a child process that inherits MASTER_PORT and MASTER_ADDR from torchrun takes the same one: unset them for it",
        source="vllm-project/vllm issue 11617",
        matches=("RuntimeError: The server socket has failed to listen on any local network address. useIpv6: 0, code: -98, name: EADDRINUSE, message: address already in use",),
        differs=("RuntimeError: The server socket has failed to listen on any local network address. useIpv6: 0, code: -13, name: EACCES, message: permission denied",),
        is_general=True,
    ),
    # Servers.
    KnownError(
        name="sglang-port",
        marker=" is not available in ",
        pattern=r"(?<!\w)(?P<what>\w{2,40}) at (?P<port>\d{1,5}) is not available in (?P<seconds>\d{1,5}) seconds\.",
        cause="SGLang's {what} {port} was in use for {seconds} s",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end an engine that is left over from an earlier run, or give this one another port (`--port`, `--nccl-port`)",
        source="sgl-project/sglang python/sglang/srt/utils (wait_port_available)",
        matches=(
            "ValueError: nccl_port at 28000 is not available in 30 seconds. nccl_port is used by a process already. process.name()='python3' process.cmdline()=['python3'] process.status()='sleeping' pid=4711",
        ),
        differs=("port 28000 is in use. Waiting for 5 seconds for nccl_port to be available. nccl_port is used by a process already.",),
        look_up="port",
    ),
    KnownError(
        name="server-port-in-use",
        marker="error while attempting to bind on address",
        pattern=r"^(?![^\n]{0,200}Try to use port )[^\n]{0,300}?error while attempting to bind on address \('(?P<host>[^'\n]{0,80})', (?P<port>\d{1,5})[^)\n]{0,20}\): (?:\[[Ee]rrno 98\] )?address already in use",
        cause="A server could not open port {port}, which is in use on this host",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end a server that is left over from an earlier run, or choose another port for this one (`--port`)",
        source="Python 3.11 asyncio/base_events.py; facebookresearch/fairchem pull request 1787",
        matches=(
            "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",
            "OSError: [Errno 98] error while attempting to bind on address ('::1', 8265, 0, 0): address already in use",
        ),
        differs=(
            "OSError: [Errno 99] error while attempting to bind on address ('10.0.0.2', 8000): cannot assign requested address",
            "WARNING http_server_head.py:480 -- Try to use port 8266: [Errno 98] error while attempting to bind on address ('127.0.0.1', 8265): address already in use",
        ),
        look_up="port",
        is_general=True,
    ),
    KnownError(
        name="zmq-port-in-use",
        marker="in use (addr='tcp://",
        pattern=r"Address (?:already )?in use \(addr='tcp://(?P<host>[^'\n]{1,80}):(?P<port>\d{1,5})'\)",
        cause="A ZeroMQ socket (vLLM and SGLang talk over them) could not open port {port}, which is in use on this host",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end an engine that is left over from an earlier run; two engines started at the same moment may pick the same port: start again, or give each its own "
        "(a different VLLM_PORT)",
        source="vllm-project/vllm issues 7196, 20965, 24756; vllm-project/vllm-ascend issue 8938",
        matches=(
            "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:5570')",
            "zmq.error.ZMQError: Address in use (addr='tcp://127.0.0.1:45974')",
        ),
        differs=("zmq.error.ZMQError: Cannot assign requested address (addr='tcp://10.0.0.3:29500')",),
        look_up="port",
    ),
    KnownError(
        name="verl-no-free-port",
        marker="Could not find a free port in range",
        pattern=r"Could not find a free port in range (?P<range>\[\d{1,5}, \d{1,5}\])",
        cause="veRL found no free port for its process group in its range {range}",
        remedy="Widen or move the range that was configured (master_port_range), or end the processes that hold it: `ss -ltnp` on that node shows them",
        source="verl-project/verl verl/single_controller/ray/base.py v0.7.1, 0.10.0.dev",
        matches=("RuntimeError: Could not find a free port in range [20000, 20010]",),
        differs=("INFO Port 20003 is already in use, trying port 20004",),
    ),
    # Addresses that a host does not have; ports for outgoing connections.
    KnownError(
        name="zmq-address-of-other-host",
        marker="Cannot assign requested address (addr='tcp://",
        pattern=r"Cannot assign requested address \(addr='tcp://(?P<host>[^'\n]{1,80}):(?P<peer_port>\d{1,5})'\)",
        cause="A ZeroMQ socket should listen at {host}, which is not an address of this host",
        remedy="Find which setting holds {host}: VLLM_HOST_IP, VLLM_NIXL_SIDE_CHANNEL_HOST, --data-parallel-address or --dist-init-addr must be an address of the node that listens (`ip -br addr`); vLLM before its pull request 35429 does this by itself with data "
        "parallel over nodes",
        source="ai-dynamo/dynamo issue 2706; vllm-project/vllm issue 31884 and pull request 35429; sgl-project/sglang issue 4877",
        matches=("zmq.error.ZMQError: Cannot assign requested address (addr='tcp://172.17.0.5:34762')", "(APIServer pid=396) zmq.error.ZMQError: Cannot assign requested address (addr='tcp://10.0.0.3:13345')"),
        differs=("zmq.error.ZMQError: Address already in use (addr='tcp://10.0.0.3:29500')",),
    ),
    KnownError(
        name="server-address-of-other-host",
        marker="error while attempting to bind on address",
        pattern=r"error while attempting to bind on address \('(?P<host>[^'\n]{1,80})', (?P<peer_port>\d{1,5})[^)\n]{0,20}\): (?:\[[Ee]rrno 99\] )?cannot assign requested address",
        cause="A server should listen at {host}, which is not an address of this host",
        remedy="Give it an address of this host (`ip -br addr`) or `--host 0.0.0.0`; a value taken from another node's environment causes this",
        source="Python 3.11 asyncio/base_events.py",
        matches=("OSError: [Errno 99] error while attempting to bind on address ('10.0.0.3', 8000): cannot assign requested address",),
        differs=("ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use",),
    ),
    KnownError(
        name="no-local-port-left",
        marker="Cannot assign requested address",
        pattern=r"(?:Failed to establish a new connection: \[Errno 99\]|Cannot connect to host (?P<host>\S{1,200}) [^\n]{0,60}\[(?:Errno 99\] )?)[^\n]{0,4}Cannot assign requested address",
        cause="This host could not open a connection: it has no local port left, or the name localhost led to an IPv6 address that it does not have",
        remedy="`ss -tan state time-wait | wc -l`: tens of thousands mean too many short connections: reuse sessions, limit parallel requests, `sysctl -w net.ipv4.ip_local_port_range='15000 64000'`; few: write 127.0.0.1 instead of localhost",
        source="casper-network/casper-node issue 3252; AI-Hypercomputer/inference-benchmark issue 26; TechEmpower/FrameworkBenchmarks issue 4092",
        matches=(
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=8000): Max retries exceeded with url: /generate (Caused by NewConnectionError('<urllib3.connection.HTTPConnection "
            "object at 0x7f>: Failed to establish a new connection: [Errno 99] Cannot assign requested address'))",
            "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host localhost:8000 ssl:default [Cannot assign requested address]",
        ),
        differs=(
            "Failed to establish a new connection: [Errno 111] Connection refused",
            "OSError: [Errno 99] error while attempting to bind on address ('10.0.0.3', 8000): cannot assign requested address",
        ),
    ),
    KnownError(
        name="bind-address-of-other-host",
        marker="[Errno 99] Cannot assign requested address",
        pattern=r"OSError: \[Errno 99\] Cannot assign requested address",
        cause="A program should use an address that this host does not have, or this host has no local port left",
        remedy="Compare the address in its settings (VLLM_HOST_IP, MASTER_ADDR, --host, --node-ip-address) with `ip -br addr` on this node; if they fit, `ss -s` shows whether tens of thousands of connections hold all local ports",
        source="Python's OSError 99 (EADDRNOTAVAIL); mozilla/sumo issue 2179",
        matches=("OSError: [Errno 99] Cannot assign requested address",),
        differs=("Failed to establish a new connection: [Errno 99] Cannot assign requested address'))",),
        is_general=True,
    ),
    # Tunnels.
    # What remains.
    KnownError(
        name="address-with-port-in-use",
        marker="ddress already in use",
        pattern=r"(?:\[[0-9A-Fa-f.:]{0,45}\]|\b(?:\d{1,3}\.){3}\d{1,3}|\*|localhost):(?P<port>[1-9]\d{1,4})\b[^\n]{0,80}[Aa]ddress already in use",
        cause="Port {port} is in use on this host",
        remedy="`ss -ltnp 'sport = :{port}'` shows who has it: end a process that is left over from an earlier run, or choose another port",
        source="Linux EADDRINUSE, errno 98",
        matches=(
            "bind [127.0.0.1]:8265: Address already in use",
            "listen tcp 0.0.0.0:9090: bind: address already in use",
        ),
        differs=("OSError: [Errno 98] Address already in use", "INFO Port 20003 is already in use, trying port 20004"),
        look_up="port",
        is_general=True,
    ),
    KnownError(
        name="address-in-use",
        marker="ddress already in use",
        pattern=r"(?:OSError: \[Errno 98\] |bind: |EADDRINUSE[^\n]{0,60})[Aa]ddress already in use",
        cause="A program could not open a port that is in use on this host; the log does not say which port",
        remedy="The lines above name the program and its port; `ss -ltnp` on that node shows who listens where: end what is left over from an earlier run, or choose another port (vLLM and SGLang: `--port`; torch: MASTER_PORT)",
        source="vllm-project/vllm issue 11617; ray-project/ray issue 10154",
        matches=(
            "OSError: [Errno 98] Address already in use",
            "terminate called after throwing an instance of 'boost::wrapexcept<boost::system::system_error>'\n  what():  bind: Address already in use",
            "RuntimeError: code: -98, name: EADDRINUSE, message: address already in use",
        ),
        differs=("WARNING Address already in use, will try the next port", "OSError: [Errno 99] Cannot assign requested address"),
        is_general=True,
    ),
    KnownError(
        name="network-unreachable",
        marker="[Errno ",
        pattern=r"OSError: \[Errno (?:101|113)\] (?P<why>Network is unreachable|No route to host)",
        cause="A connection was not possible: {why}",
        remedy="`ip route` on that node, and the address that it wanted (in the traceback): use an address of a network that both nodes are in, open the firewall (No route to host is also its answer), or set a proxy for the Internet",
        source="Linux errno",
        matches=(
            "OSError: [Errno 101] Network is unreachable",
            "OSError: [Errno 113] No route to host",
        ),
        differs=("ConnectionRefusedError: [Errno 111] Connection refused",),
        is_general=True,
    ),
    KnownError(
        name="host-name-unknown",
        marker="socket.gaierror: ",
        pattern=r"socket\.gaierror: \[Errno -\d{1,2}\] (?P<why>Name or service not known|Temporary failure in name resolution|No address associated with hostname)",
        cause="A host name could not be resolved ({why})",
        remedy="The traceback shows the name: `getent hosts NAME` on that node; correct it, use the address, add it to /etc/hosts or DNS; without Internet set the offline options of what asked for it",
        source="CPython socket",
        matches=(
            "socket.gaierror: [Errno -2] Name or service not known",
            "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        ),
        differs=("socket.timeout: timed out",),
        is_general=True,
    ),
    KnownError(
        name="proxy-not-reachable",
        marker="roxy",
        pattern=r"ProxyError\('(?:Unable to|Cannot) connect to proxy\.?'",
        cause="The proxy that the environment names could not be reached",
        remedy="`env | grep -i proxy` in the job: correct http_proxy and https_proxy or `unset http_proxy https_proxy`; addresses of the cluster belong into no_proxy (10.0.0.0/8, localhost, the nodes' names)",
        source="urllib3 exceptions.py",
        matches=(
            "requests.exceptions.ProxyError: HTTPSConnectionPool(host='x.y', port=443): Max retries exceeded with url: / (Caused by ProxyError('Unable to connect to proxy', NewConnectionError('refused')))",
            "(Caused by ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed')))",
        ),
        differs=("Starting proxy at 0.0.0.0:8000",),
    ),
)  # fmt: skip
