"""Knows errors of NCCL, Gloo and torch.distributed: interfaces, RDMA, shared memory, peers that are gone, stores and weight groups."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

COLLECTIVES: tuple[KnownError, ...] = (
    # Two ranks on one GPU.
    KnownError(
        name="nccl-duplicate-gpu",
        marker="Duplicate GPU detected",
        pattern=r"Duplicate GPU detected : rank (?P<one>\d{1,6}) and rank (?P<other>\d{1,6}) both on CUDA device (?P<bus>[0-9a-f]{1,12})",
        cause="NCCL refused to start, since ranks {one} and {other} use the same GPU of one host (PCI bus id {bus})",
        remedy="Give each rank its own GPU: check CUDA_VISIBLE_DEVICES and the local rank of both (`torch.cuda.set_device` before the first collective); "
        "if the two ranks are a whole node apart, two Ray nodes or containers share that host's GPUs: start one per host",
        source="verl-project/verl issues 161, 1096; NVIDIA/nccl src/init.cc v2.12 to v2.28",
        matches=(
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, invalid usage (run with "
            "NCCL_DEBUG=WARN for details), NCCL version 2.20.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 10",
            "w1:3456:3999 [1] init.cc:943 NCCL WARN Duplicate GPU detected : rank 9 and rank 1 both on CUDA device 34000",
        ),
        differs=(
            "w1:3456:3999 [1] init.cc:795 NCCL WARN Mismatched NCCL version detected : rank 9 version 22105 rank 1 version 22304",
            "ERROR: Duplicate GPU detected in the inventory of host w1",
        ),
    ),
    KnownError(
        name="nccl-same-gpu-or-partition",
        marker="Multiple Ranks are using the same GPU/Partition",
        pattern=r"Multiple Ranks are using the same GPU/Partition",
        cause="NCCL refused to start, since two ranks use the same GPU of one host",
        remedy="Give each rank its own GPU: check CUDA_VISIBLE_DEVICES and the local rank (`torch.cuda.set_device` before the first collective), and that "
        "only one Ray node or container uses each host's GPUs; `NCCL_MULTI_RANK_GPU_ENABLE=1` only if sharing is intended",
        source="NVIDIA/nccl src/init.cc v2.30.7",
        matches=(
            "Last error:\nMultiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.",
            "w1:77:99 [0] init.cc:1057 NCCL WARN Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to enable this configuration.",
        ),
        differs=("NCCL INFO NCCL_MULTI_RANK_GPU_ENABLE set by environment to 1.",),
    ),
    # Locked memory and other limits of RDMA.
    KnownError(
        name="nccl-locked-memory",
        marker="Call to ibv_reg_mr",
        pattern=r"Call to ibv_reg_mr(?:_iova2)? failed with error Cannot allocate memory",
        cause="The network card could not register memory for RDMA, usually since the limit on locked memory is too low",
        remedy="`ulimit -l` must say unlimited where Ray starts: run `ulimit -l unlimited` before `ray start` (container: `--ulimit memlock=-1`; systemd: "
        "LimitMEMLOCK=infinity; Slurm: PropagateResourceLimitsExcept=MEMLOCK), then restart Ray on that node",
        source="NVIDIA/nccl-tests issue 206; NVIDIA/nccl src/misc/ibvwrap.cc v2.30.7",
        matches=(
            "w1:4016:4653 [7] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\n"
            "Call to ibv_reg_mr failed with error Cannot allocate memory",
        ),
        differs=(
            "w1:1:1 [0] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory",
            "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address",
        ),
    ),
    KnownError(
        name="nccl-rdma-objects",
        marker="failed with error Cannot allocate memory",
        pattern=r"Call to ibv_create_(?P<what>qp|cq) failed with error Cannot allocate memory",
        cause="The network card could not create another RDMA {what}: the limit on locked memory is too low, or the card has no more of them",
        remedy="Check `ulimit -l` where Ray starts; if it is not unlimited, run `ulimit -l unlimited` before `ray start` (container: `--ulimit memlock=-1`); "
        "if it is, `rdma resource show` counts what exists: use fewer connections (smaller groups, `NCCL_IB_QPS_PER_CONNECTION=1`)",
        source="NVIDIA/nccl issue 1191; deepseek-ai/DeepEP issue 143",
        matches=(
            "w1:4016:4653 [7] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory",
            "Last error:\nCall to ibv_create_qp failed with error Cannot allocate memory",
        ),
        differs=("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "OSError: [Errno 12] Cannot allocate memory"),
    ),
    # Interfaces.
    KnownError(
        name="nccl-no-interface",
        marker="interface found",
        pattern=r"Bootstrap : no socket interface found|NET/Socket : (?:no interface|No usable listening interface) found|NET/IB : No IP interface found",
        cause="NCCL found no network interface that it may use on this node",
        remedy="Compare `ip -br addr` on that node with its NCCL_SOCKET_IFNAME: the variable must be unset or name an interface that is up and has an "
        "address (`=eth0` is exact, `^docker,lo` excludes); set it per node before `ray start`, or in the job's runtime_env",
        source="EasonXiao-888/MambaTree issue 14; marin-community/marin issue 6940; NVIDIA/nccl src/bootstrap.cc v2.12 to v2.30",
        matches=(
            "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1201, internal error, NCCL version 2.14.3\n"
            "ncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found",
            "w1:12:12 [0] transport/net_socket.cc:46 NCCL WARN NET/Socket : no interface found",
            "w1:12:12 [0] bootstrap.cc:41 NCCL WARN NET/Socket : No usable listening interface found",
        ),
        differs=("gpu2:46654:46654 [0] NCCL INFO NET/Socket : 1 interfaces found", "w1:46:46 [0] NCCL INFO NET/IB : No device found."),
    ),
    KnownError(
        name="nccl-broken-address",
        marker="is neither AF_INET(2) nor AF_INET6(10)",
        pattern=r"connecting to address [^\n]{0,100}with family (?P<family>\d{1,6}) is neither AF_INET\(2\) nor AF_INET6\(10\)",
        cause="NCCL was given something that is not an IP address (family {family}), as happens if NCCL_SOCKET_IFNAME names an interface that a node does not have",
        remedy="Compare NCCL_SOCKET_IFNAME with `ip -br addr` on every node (rank 0's first), or unset it; if it is "
        "right, use the same NCCL on all ranks (`python3 -c 'import torch; print(torch.cuda.nccl.version())'`)",
        source="NVIDIA/nccl issues 1837, 1267",
        matches=(
            "ncclInternalError: Internal check failed.\nLast error:\nncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)",
            "misc/socket.cc:396 NCCL WARN Net : connecting to address  with family 0 is neither AF_INET(2) nor AF_INET6(10)",
        ),
        differs=("include/socket.h:344 WARN Socket creation failed : Address family not supported by protocol",),
    ),
    KnownError(
        name="gloo-no-such-interface",
        marker="Unable to find address for: ",
        pattern=r"ifa != nullptr\. Unable to find address for: (?P<interface>\S{1,60})",
        cause="Gloo found no interface {interface} with an address on this node",
        remedy="Set GLOO_SOCKET_IFNAME to the exact name of an interface of that node (`ip -br addr`); unlike NCCL, Gloo knows no `^` and no prefixes; where "
        "the nodes' names differ, set it per node before `ray start`",
        source="aws-samples/aws-do-eks pull request 51; horovod/horovod issue 1341; pytorch/gloo gloo/transport/tcp/device.cc",
        matches=(
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: ^lo",
            "  what():  [enforce fail at third_party/gloo/gloo/transport/tcp/device.cc:88] ifa != nullptr. Unable to find address for: eth0",
        ),
        differs=(
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:212] ifa != nullptr. Unable to find interface for: [0.0.0.189]",
        ),
    ),
    KnownError(
        name="gloo-address-of-no-interface",
        marker="Unable to find interface for: ",
        pattern=r"ifa != nullptr\. Unable to find interface for: \[(?P<address>[0-9A-Fa-f.:]{1,45})\]",
        cause="Gloo resolved this host's name to {address}, and no interface of the host has that address",
        remedy="Set `GLOO_SOCKET_IFNAME` on that node to the interface of its real address (`ip -br addr`), or correct the name in /etc/hosts; a host name "
        "of digits only is read as an address: give the host another name",
        source="gpustack/gpustack issue 4128; pytorch/gloo gloo/transport/tcp/device.cc",
        matches=(
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:212] ifa != nullptr. Unable to find interface for: [0.0.0.189]",
        ),
        differs=("RuntimeError: [enforce fail at gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find address for: eth0",),
    ),
    KnownError(
        name="vllm-node-addresses-not-unique",
        marker="Every node should have a unique IP address",
        pattern=r"Every node should have a unique IP address\. Got (?P<nodes>\d{1,6})\s{1,2}nodes with node ids [^\n]{1,1500}? and (?P<addresses>\d{1,6}) unique IP",
        cause="vLLM sees {nodes} nodes but {addresses} different IP addresses",
        remedy="VLLM_HOST_IP must be each node's own address, the one that `ray status -v` and `ray list nodes` show: unset it, or set it per node before "
        "`ray start --node-ip-address`; one value for all nodes (such as from a shared .bashrc) causes this",
        source="vllm-project/vllm vllm/executor/ray_gpu_executor.py (text of several versions)",
        matches=(
            "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['0a1b', '2c3d'] and 1 unique IP addresses {'10.0.0.2'}. "
            "Please check your network configuration. If you set `VLLM_HOST_IP` environment variable, make sure it is unique for each node.",
            "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids ['0a1b', '2c3d'] and 3 unique IP addresses "
            "{'10.0.0.2', '10.0.0.3', '192.168.1.4'}. Please check your network configuration.",
        ),
        differs=("INFO: make sure the IP addresses used by ray cluster are the same as VLLM_HOST_IP environment variable specified in each node",),
    ),
    KnownError(
        name="gloo-loopback",
        marker="connectFullMesh failed with ",
        pattern=r"connectFullMesh failed with \[(?:(?!remote=\[|connect \[)[\s\S]){1,400}(?:remote=\[|connect \[)(?:::ffff:)?127\.",
        cause="Gloo tried to reach another rank at the loopback address 127.0.0.1, so it reached its own host",
        remedy="Set `GLOO_SOCKET_IFNAME` on every node, before `ray start`, to the interface of the node's address (`ip -br addr`), or take the host's name "
        "off the 127.0.0.1 and 127.0.1.1 lines of /etc/hosts; if all ranks run on one host, a rank died: see its log",
        source="aws-samples/aws-do-eks pull requests 50, 69",
        matches=(
            "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: "
            "Connection refused, remote=[127.0.0.1]:29791 (rank=8, size=16, local=[127.0.0.1])",
            "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152]\n  timed out connecting: SO_ERROR: "
            "Connection refused, remote=[127.0.0.1]:14215\n  (rank=8, size=16, local=[127.0.0.1])",
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:10248: Connection refused",
        ),
        differs=(
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
            "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: "
            "Connection refused, remote=[10.0.0.3]:29791 (rank=8, size=16, local=[10.0.0.2])",
        ),
    ),
    KnownError(
        name="gloo-connect-loopback",
        marker="gloo/transport/tcp/pair.cc:",
        pattern=r"gloo/transport/tcp/pair\.cc:\d{1,5}\] connect \[(?:::ffff:)?(?P<peer>127\.[\d.]{5,11})\]:\d{1,5}: ",
        cause="Gloo tried to reach another rank at the loopback address {peer}, so it reached its own host",
        remedy="If ranks run on several hosts: set `GLOO_SOCKET_IFNAME` on every node, before `ray start`, to the interface of the node's address (`ip -br addr`), or take the host's name off the "
        "127.0.0.1 and 127.0.1.1 lines of /etc/hosts. All ranks on one host: a rank ended, see its first error",
        source="pytorch/pytorch issue 15592; hpcaitech/ColossalAI issue 2407; Megvii-BaseDetection/YOLOX issue 1167",
        matches=(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:29591: Connection refused",
            "terminate called after throwing an instance of 'gloo::IoException'\n  what():  [/opt/third_party/gloo/gloo/transport/tcp/pair.cc:724] connect [127.0.1.1]:3210: Connection refused",
        ),
        differs=("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [172.31.71.170]:13195: Connection refused",),
    ),
    KnownError(
        name="gloo-connect-failed",
        marker="gloo/transport/tcp/pair.cc:",
        pattern=r"gloo/transport/tcp/pair\.cc:\d{1,5}\] connect \[(?P<peer>[0-9A-Fa-f.:]{2,45})\]:(?P<peer_port>\d{1,5}): (?P<why>[A-Z][\w ]{3,60})",
        cause="A rank could not connect to another one at {peer}, port {peer_port}, for a group of Gloo: {why}",
        remedy="Refused: the rank there ended (its first error is the reason), or the address is of another host or interface: set `GLOO_SOCKET_IFNAME` on every node (`ip -br addr`). Timed out, no route: "
        "a firewall: open all TCP ports between the nodes. Many ranks: `ulimit -n 65535`",
        source="pytorch/pytorch issue 108732; ray-project/ray issue 37461; meta-pytorch/data issue 1142",
        matches=(
            "RuntimeError: [/opt/conda/conda-bld/pytorch_1682343967769/work/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [172.31.71.170]:13195: Connection refused",
        ),
        differs=("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.3]:8594",),
        is_consequence=True,
    ),
    KnownError(
        name="gloo-port",
        marker="gloo/transport/tcp/pair.cc:",
        pattern=r"gloo/transport/tcp/pair\.cc:\d{1,5}\] bind: (?P<why>Address already in use|Cannot assign requested address)",
        cause="Gloo could not open a port on its own host for a connection to another rank: {why}",
        remedy="In use: the host has hardly a free port left: `ss -s`, `sysctl net.ipv4.ip_local_port_range`; end leftovers of earlier runs, and start again. Cannot assign: the address of the host's name is of no "
        "interface here: `GLOO_SOCKET_IFNAME` (`ip -br addr`), /etc/hosts",
        source="ray-project/ray issue 35907; pytorch/gloo gloo/transport/tcp/pair.cc",
        matches=("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:176] bind: Address already in use",),
        differs=("RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.3]:8594",),
    ),
    KnownError(
        name="gloo-mesh",
        marker="connectFullMesh failed with ",
        pattern=r"connectFullMesh failed with ",
        cause="Gloo could not connect all ranks of a process group with each other",
        remedy="If a rank ended, the first error in its log is the cause; else set `GLOO_SOCKET_IFNAME` and `NCCL_SOCKET_IFNAME` on every node, before "
        "`ray start`, to the interface of the cluster's network (`ip -br addr`), and open all TCP ports between the nodes",
        source="vllm-project/vllm issues 5094, 7074; sgl-project/sglang issue 3226; gpustack/gpustack issue 2125",
        matches=(
            "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
            "[rank8]:[E ProcessGroupGloo.cpp:144] Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no error",
        ),
        differs=("frame #12: gloo::rendezvous::Context::connectFullMesh(std::shared_ptr<gloo::rendezvous::Store>) + 0x5c",),
        is_general=True,
    ),
    KnownError(
        name="gloo-loopback-fallback",
        marker="Unable to resolve hostname to a (local) address",
        pattern=r"Unable to resolve hostname to a \(local\) address\. Using the loopback address as fallback",
        cause="Gloo could not resolve this host's own name and uses loopback, so that only ranks of the same host can reach it",
        remedy="On one host this is harmless; on several, set `GLOO_SOCKET_IFNAME` on every node, before `ray start`, to the interface of the node's "
        "address (`ip -br addr`), or put the host's name with that address into /etc/hosts",
        source="vllm-project/vllm issue 7074; aws-samples/aws-do-eks pull request 50",
        matches=(
            "[rank9]:[W ProcessGroupGloo.cpp:721] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. "
            "Manually set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())",
        ),
        differs=("[W socket.cpp:755] [c10d] The hostname of the client socket cannot be retrieved. err=-3",),
        is_warning=True,
    ),
    KnownError(
        name="c10d-name-unknown",
        marker="The IPv4 network addresses of (",
        pattern=r"The IPv4 network addresses of \((?P<host>[^,\s]{1,200}), (?P<peer_port>\d{1,5})\) cannot be retrieved \(gai error: -?\d{1,5} - (?P<why>[^)\n]{1,100})\)",
        cause="This node cannot resolve the name {host} of the rendezvous ({why})",
        remedy="Set MASTER_ADDR (torchrun: --rdzv-endpoint) to the IP address of rank 0's node, or add {host} to /etc/hosts or DNS on every node; "
        "`getent hosts {host}` must print its address",
        source="pytorch/pytorch torch/csrc/distributed/c10d/socket.cpp; pytorch/pytorch issue 74824",
        matches=(
            "[W socket.cpp:601] [c10d] The IPv4 network addresses of (w1, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
            "[rank3]:[W610 12:00:01 socket.cpp:755] [c10d] The IPv4 network addresses of (w1.local, 44685) cannot be retrieved (gai error: -3 - Temporary failure in name resolution).",
        ),
        differs=("[W socket.cpp:601] [c10d] The IPv6 network addresses of (w1, 44685) cannot be retrieved (gai error: -2 - Name or service not known).",),
    ),
    # NCCL connects.
    KnownError(
        name="nccl-link-local",
        marker="onnect to 169.254.",
        pattern=r"[Cc]onnect to (?P<peer>169\.254\.\d{1,3}\.\d{1,3})<\d{1,5}> (?:failed|returned)",
        cause="A rank offers the link-local address {peer}, such as of a management card, which other nodes cannot reach",
        remedy="Set `NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME` on all nodes to the interface of the cluster's network (`ip -br addr` shows which one has "
        "169.254), before `ray start` or in the job's runtime_env",
        source="verl-project/verl issue 726",
        matches=(
            "Last error:\nsocketStartConnect: Connect to 169.254.0.1<40815> failed : Software caused connection abort",
            "NCCL WARN socketPollConnect: Connect to 169.254.3.1<40815> returned 113(No route to host) errno 115(Operation now in progress)",
        ),
        differs=("NCCL WARN socketStartConnect: Connect to 10.0.0.4<40815> failed : Software caused connection abort",),
    ),
    KnownError(
        name="nccl-link-local-ipv6",
        marker="onnect to fe80:",
        pattern=r"[Cc]onnect to (?P<peer>fe80:[0-9a-f:]{2,40})(?:%(?P<interface>[\w.-]{1,40}))?<\d{1,5}> (?:failed|returned)",
        cause="A rank offers the link-local IPv6 address {peer}, which other nodes mostly cannot reach",
        remedy="On all nodes set `NCCL_SOCKET_FAMILY=AF_INET` and `NCCL_SOCKET_IFNAME` to the interface that has the cluster's IPv4 address (`ip -br addr`), before `ray start` or in the job's runtime_env",
        source="NVIDIA/nccl issue 975",
        matches=(
            "Last error:\nsocketStartConnect: Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : Software caused connection abort",
        ),
        differs=("NCCL WARN socketStartConnect: Connect to 10.0.0.4<40815> failed : Software caused connection abort",),
    ),
    KnownError(
        name="nccl-no-route",
        marker="No route to host",
        pattern=r"[Cc]onnect to (?P<peer>\S{1,120})<\d{1,5}> (?:failed : |returned (?:113\()?)No route to host(?!, retrying)",
        cause="This node cannot reach {peer}, the address that another rank's NCCL offers",
        remedy="Set `NCCL_SOCKET_IFNAME` on all nodes to the interface of the cluster's network (`ip -br addr`), and let the firewall accept all TCP ports "
        "between the nodes (a firewall that rejects gives this error although ping works: `firewall-cmd --state`, `iptables -S`)",
        source="sgl-project/sglang issue 3820; NVIDIA/nccl issue 1105; hiyouga/LlamaFactory issue 8045",
        matches=(
            "w5:240:240 [6] misc/socket.cc:533 NCCL WARN socketPollConnect: Connect to 10.0.0.4<56849> returned 113(No route to host) errno 115(Operation now in progress)",
            "w8:795:822 [0] include/socket.h:409 NCCL WARN Net : Connect to 192.168.1.9<54263> failed : No route to host",
            "NCCL WARN socketPollConnect: connect to 10.0.0.4<56849> returned No route to host, exceeded error retry count after 35 attempts",
        ),
        differs=(
            "w1:11:12 [0] NCCL INFO socketPollConnect: connect to 10.0.0.4<56849> returned No route to host, retrying (3/34) after sleep for 300 msec",
            "requests.exceptions.ConnectionError: [Errno 113] No route to host",
        ),
    ),
    KnownError(
        name="nccl-connect-timed-out",
        marker="exceeded",
        pattern=r"socket(?:Start|Poll)Connect: exceeded timeouts \(\d{1,6}\)|returned Connection timed out, exceeded error retry count",
        cause="NCCL got no answer from another rank's address: packets between two nodes are dropped, or the other node is down",
        remedy="Set `NCCL_SOCKET_IFNAME` on all nodes to the interface of the cluster's network (`ip -br addr`), and let firewalls or network policies accept "
        "all TCP ports between the nodes; `NCCL_DEBUG=INFO` prints the interface and address that each rank chose",
        source="NVIDIA/nccl src/misc/socket.cc v2.18.3, v2.21.5, v2.28.3",
        matches=(
            "Last error:\nsocketPollConnect: exceeded timeouts (3)",
            "NCCL WARN socketPollConnect: connect to 10.0.0.4<56849> returned Connection timed out, exceeded error retry count after 35 attempts",
        ),
        differs=("NCCL INFO socketPollConnect: connect to 10.0.0.4<56849> returned Connection timed out, retrying (3/34) after sleep for 300 msec",),
    ),
    KnownError(
        name="nccl-connect-refused",
        marker="exceeded",
        pattern=r"socket(?:Start|Poll)Connect: exceeded retries \(\d{1,6}\)|returned Connection refused, exceeded error retry count",
        cause="Nobody listens at the address that another rank's NCCL gave: that process ended, or the address leads to another host",
        remedy="Read the first error of the ranks that ended; if none ended, set `NCCL_SOCKET_IFNAME` on all nodes to the interface of the cluster's network: "
        "an address that each host has (docker0, loopback) leads a rank to its own host",
        source="NVIDIA/nccl src/misc/socket.cc v2.18.3, v2.21.5, v2.28.3",
        matches=(
            "socketStartConnect: exceeded retries (20000)",
            "NCCL WARN socketPollConnect: connect to 10.0.0.4<56849> returned Connection refused, exceeded error retry count after 35 attempts",
        ),
        differs=("NCCL INFO socketPollConnect: connect to 10.0.0.4<56849> returned Connection refused, retrying (3/34) after sleep for 300 msec",),
        is_consequence=True,
    ),
    # Versions and arguments that differ among ranks.
    KnownError(
        name="nccl-versions-differ",
        marker="Mismatched NCCL version detected",
        pattern=r"Mismatched NCCL version detected : rank (?P<one>\d{1,6}) version (?P<first>\d{1,9}) rank (?P<other>\d{1,6}) version (?P<second>\d{1,9})",
        cause="Rank {one} runs NCCL {first} and rank {other} runs NCCL {second}; one group needs one version",
        remedy="Install the same torch and nvidia-nccl on all nodes and in both environments (trainer and vLLM or SGLang): compare "
        "`python3 -c 'import torch; print(torch.cuda.nccl.version())'`, and LD_LIBRARY_PATH, LD_PRELOAD and VLLM_NCCL_SO_PATH",
        source="NVIDIA/nccl src/init.cc v2.26.2 to v2.30.7",
        matches=(
            "Last error:\nMismatched NCCL version detected : rank 1 version 22703 rank 0 version 22602",
            "w1:3456:3999 [1] init.cc:729 NCCL WARN Mismatched NCCL version detected : rank 8 version 22105 rank 0 version 22304",
        ),
        differs=("UserWarning: Found NCCL version 22105, but this torch was built with 22304",),
    ),
    KnownError(
        name="nccl-start-messages-differ",
        marker="Message truncated : received",
        pattern=r"Message truncated : received (?P<got>\d{1,12}) bytes instead of (?P<expected>\d{1,12})",
        cause="The ranks exchanged start-up messages of different sizes ({got} and {expected} bytes): most often they run different NCCL versions or settings",
        remedy="Compare `python3 -c 'import torch; print(torch.cuda.nccl.version())'` and `env | grep NCCL_` on every node and make them the same; if they "
        "are, upgrade NCCL: 2.20.5 fails so for some subgroups of ranks",
        source="NVIDIA/nccl issues 1176, 1273; NVIDIA/nccl src/bootstrap.cc v2.12 to v2.30",
        matches=(
            "Last error:\nMessage truncated : received 1024 bytes instead of 256",
            "w1:3456:3999 [1] bootstrap.cc:77 NCCL WARN Message truncated : received 256 bytes instead of 4",
        ),
        differs=("NCCL WARN NET/Socket : peer 10.0.0.2<59210> message truncated : receiving 1048576 bytes instead of 65536",),
    ),
    KnownError(
        name="nccl-collectives-differ",
        marker="message truncated : receiving",
        pattern=r"message truncated : receiving (?P<got>\d{1,12}) bytes instead of (?P<expected>\d{1,12})",
        cause="Two ranks did not call the same collective, or not with the same size ({got} and {expected} bytes)",
        remedy="The code takes different paths on different ranks (a condition, an uneven batch, another model or dtype), or NCCL_ variables differ: "
        "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names the collective of each rank; `NCCL_PROTO=Simple` working means that settings differ",
        source="NVIDIA/nccl issues 626, 268; NVIDIA/nccl pull request 605",
        matches=(
            "transport/net_socket.cc:424 NCCL WARN NET/Socket : peer 10.0.0.2<59210> message truncated : receiving 1048576 bytes instead of 65536. "
            "If you believe your socket network is in healthy state, there may be a mismatch in collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) between ranks",
            "net_socket.cc:200 NCCL WARN NET/Socket : message truncated : receiving 696320 bytes instead of 32768",
        ),
        differs=("NCCL WARN Message truncated : received 1024 bytes instead of 256",),
    ),
    KnownError(
        name="nccl-ib-collectives-differ",
        marker="collective mismatch error, local size",
        pattern=r"collective mismatch error, local size (?P<got>\d{1,12}) remote size (?P<expected>\d{1,12})",
        cause="Two ranks did not call the same collective, or not with the same size ({got} and {expected} bytes)",
        remedy="The code takes different paths on different ranks (a condition, an uneven batch, another model or dtype), or NCCL_ variables differ: "
        "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names the collective of each rank",
        source="NVIDIA/nccl src/transport/net_ib.cc v2.12.12, v2.18.3; NVIDIA/nccl pull request 605",
        matches=("NCCL WARN NET/IB : req 0/1 tag 2 peer 10.0.0.2<59210> collective mismatch error, local size 2097152 remote size 1048576",),
        differs=("NCCL WARN NET/IB : req 0/1 tag 2 peer 10.0.0.2<59210> posted incorrect receive info: size 1048576 addr 7f00 rkey 1a",),
    ),
    KnownError(
        name="torch-collectives-differ",
        marker="Detected mismatch between collectives on ranks",
        pattern=r"Detected mismatch between collectives on ranks\. Rank (?P<one>\d{1,6}) is running [\s\S]{1,1500}?but Rank (?P<other>\d{1,6}) is running",
        cause="Ranks {one} and {other} called different collectives, or the same one with other sizes, at the same time",
        remedy="The line shows both collectives: make all ranks take the same path (conditions on the rank, uneven batches, an early exit, an exception that "
        "one rank swallows)",
        source="pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp",
        matches=(
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLGATHER, TensorShape=[4], "
            "TensorDtypes=Float), but Rank 1 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[1853171]).",
        ),
        differs=("RuntimeError: Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?",),
    ),
    KnownError(
        name="gloo-collectives-differ",
        marker="Is there a distributed collective mismatch in your code",
        pattern=r"Received data size doesn't match expected size\. Is there a distributed collective mismatch in your code",
        cause="Two ranks called different Gloo collectives, or the same one with other sizes, at the same time",
        remedy="Make all ranks take the same path (conditions on the rank, uneven batches, an early exit, an exception that one rank swallows); "
        "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names the collective of each rank",
        source="pytorch/gloo gloo/transport/tcp/pair.cc",
        matches=(
            "RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4. Received data "
            "size doesn't match expected size. Is there a distributed collective mismatch in your code?",
        ),
        differs=("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: X",),
    ),
    # Shared memory.
    KnownError(
        name="nccl-shm-permission",
        marker="shared memory segment",
        pattern=r"Error while creating shared memory segment \S{1,120} \(size \d{1,15}\), error: Permission denied",
        cause="NCCL may not create files in /dev/shm on this node",
        remedy="`ls -ld /dev/shm` must show drwxrwxrwt: as root, run `chmod 1777 /dev/shm`; then start the job again",
        source="NVIDIA/nccl issue 328; NVIDIA/nccl src/os/linux.cc v2.30.7",
        matches=("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-zTYolS (size 5967872), error: Permission denied (13)",),
        differs=("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-zTYolS (size 5967872), error: No space left on device (28)",),
    ),
    KnownError(
        name="nccl-shm-open-permission",
        marker="Call to shm_open failed : Permission denied",
        pattern=r"Call to shm_open failed : Permission denied",
        cause="NCCL may not create files in /dev/shm on this node",
        remedy="`ls -ld /dev/shm` must show drwxrwxrwt: as root, run `chmod 1777 /dev/shm`; then start the job again",
        source="NVIDIA/nccl issue 328",
        matches=("w8:27106:27302 [0] include/shm.h:27 NCCL WARN Call to shm_open failed : Permission denied",),
        differs=("NCCL WARN Call to shm_open failed : Too many open files",),
    ),
    KnownError(
        name="nccl-shm-full",
        marker="shared memory segment",
        pattern=r"Error while creating shared memory segment \S{1,160} \(size (?P<asked>\d{1,15})\)",
        cause="NCCL could not create a segment of {asked} bytes in /dev/shm, in most cases since it is full or too small on this node or in this container",
        remedy="`df -h /dev/shm` there shows it: start the container with more (`--shm-size=16g` or `--ipc=host`; Kubernetes: an emptyDir of medium Memory at "
        "/dev/shm), and remove /dev/shm/nccl-* that no running job owns",
        source="vllm-project/vllm issue 14537; NVIDIA/nccl issues 1683, 328; WangRongsheng/XrayGLM issue 83",
        matches=(
            "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \nLast error:\n"
            "Error while creating shared memory segment /dev/shm/nccl-CsYXMW (size 9637888)",
            "w1:9621:9685 [0] misc/shmutils.cc:128 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-EoOvZr (size 7340384), error: No space left on device (28)",
        ),
        differs=(
            "misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory (2)",
        ),
        look_up="shm",
    ),
    KnownError(
        name="nccl-shm-fallocate",
        marker="Call to posix_fallocate failed",
        pattern=r"NCCL WARN Call to posix_fallocate failed : No space left on device",
        cause="NCCL could not get memory in /dev/shm: it is full or too small on this node or in this container (a container has 64 MB unless told otherwise); no disk is full",
        remedy="`df -h /dev/shm` there shows it: start the container with more (`--shm-size=16g` or `--ipc=host`; Kubernetes: an emptyDir of medium Memory at "
        "/dev/shm), and remove /dev/shm/nccl-* that no running job owns; `NCCL_SHM_DISABLE=1` does without it, more slowly",
        source="NVIDIA/nccl issue 525; NVIDIA/nccl src/include/shm.h before v2.12",
        matches=(
            "[3] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n[3] NCCL INFO include/shm.h:41 -> 2",
            "w1:3456:3999 [1] include/shm.h:26 NCCL WARN Call to posix_fallocate failed : No space left on device",
        ),
        differs=("NCCL WARN Call to posix_fallocate failed : Interrupted system call",),
        look_up="shm",
    ),
    KnownError(
        name="nccl-shm-extend",
        marker="failed to extend /dev/shm/nccl-",
        pattern=r"failed to extend /dev/shm/nccl-\w{1,12} to (?P<asked>\d{1,15}) bytes",
        cause="NCCL could not get {asked} bytes in /dev/shm: it is full or too small on this node or in this container",
        remedy="`df -h /dev/shm` there shows it: start the container with more (`--shm-size=16g` or `--ipc=host`; Kubernetes: an emptyDir of medium Memory at "
        "/dev/shm), and remove /dev/shm/nccl-* that no running job owns",
        source="NVIDIA/nccl src/misc/shmutils.cc v2.18.3 to v2.28.3",
        matches=(
            "NCCL WARN Error: failed to extend /dev/shm/nccl-CsYXMW to 9637892 bytes",
            "NCCL WARN Error: failed to extend /dev/shm/nccl-CsYXMW to 33030532 bytes, error: No space left on device (28)",
        ),
        differs=("NCCL INFO fallocate: Failed to extend /dev/shm/nccl-CsYXMW to 9637892 bytes, error: Interrupted system call (4) - retrying",),
        look_up="shm",
    ),
    KnownError(
        name="nccl-shm-attach",
        marker="Error while attaching to shared memory segment",
        pattern=r"Error while attaching to shared memory segment (?P<path>\S{1,120}) \(size \d{1,15}\)",
        cause="A rank could not open {path}, which another rank of its host made: the two do not share /dev/shm, or the other rank ended",
        remedy="If the other rank ended, its first error is the cause; containers of one host must share /dev/shm (`--ipc=host`), or get different "
        "NCCL_HOSTID values so that NCCL takes the network between them",
        source="vllm-project/vllm issue 18831; NVIDIA/nccl issues 1589, 2190",
        matches=(
            "g148:14937:69361 [0] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-glnlGK (size 14156128), error: No such file or directory (2)",
            "Last error:\nError while attaching to shared memory segment /dev/shm/nccl- (size 192814336), error: No such file or directory (2)",
        ),
        differs=("NCCL WARN Error while creating shared memory segment /dev/shm/nccl-zTYolS (size 5967872)",),
    ),
    # NVLink SHARP, peer access, memory and other CUDA failures inside NCCL.
    KnownError(
        name="nccl-nvls-bind",
        marker="Failed to bind NVLink SHARP (NVLS) Multicast memory",
        pattern=r"Failed to bind NVLink SHARP \(NVLS\) Multicast memory of size \d{1,15} : CUDA error (?P<code>\d{1,5}) '(?P<why>[^'\n]{1,120})'",
        cause="NVLink SHARP (NVLS) does not work on this node: binding multicast memory failed with CUDA error {code}, {why}",
        remedy="Set `NCCL_NVLS_ENABLE=0` for the job (before `ray start`, or in its runtime_env); to get NVLS back, check `systemctl status nvidia-fabricmanager` "
        "(its version must be the driver's) and reboot that node",
        source="NVIDIA/nccl src/transport/nvls.cc v2.28.3, v2.30.7; aarora79/agentic-coding-harness-benchmarks pull request 173",
        matches=(
            "w1:1:1 [0] transport/nvls.cc:287 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401 'the operation "
            "cannot be performed in the present state'.\nThis is usually caused by a system or configuration error in the Fabric Manager or NVSwitches.",
        ),
        differs=("w1:1:1 [5] NCCL INFO NVLS multicast support is not available on dev 5",),
    ),
    KnownError(
        name="nccl-nvls",
        marker="transport/nvls.cc:",
        pattern=r"transport/nvls\.cc:\d{1,5} NCCL WARN Cuda failure (?:\d{1,5} )?'(?!out of memory)(?P<why>[^'\n]{1,120})'",
        cause="NVLink SHARP (NVLS) does not work on this node: a CUDA call for it failed ({why})",
        remedy="Set `NCCL_NVLS_ENABLE=0` for the job (before `ray start`, or in its runtime_env); to get NVLS back, check `systemctl status nvidia-fabricmanager` "
        "(its version must be the driver's), then reset the GPUs or reboot that node",
        source="NVIDIA/nccl issues 1788, 1672; vllm-project/vllm issues 6732, 9369",
        matches=(
            "w4:27907:27907 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'",
            "w4:3485254:3487188 [0] transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'",
            "w4:4280:5850 [5] transport/nvls.cc:245 NCCL WARN Cuda failure 'initialization error'",
        ),
        differs=("w4:4280:5850 [5] NCCL INFO transport/nvls.cc:409 -> 1", "w1:1:1 [0] transport/nvls.cc:254 NCCL WARN Cuda failure 2 'out of memory'"),
    ),
    KnownError(
        name="nccl-no-peer-access",
        marker="peer access is not supported between these two devices",
        pattern=r"(?:Cuda failure (?:217 )?'|failed to open CUDA IPC handle : 217 )peer access is not supported between these two devices",
        cause="NCCL asked for direct access between two GPUs that cannot have it (no NVLink or PCIe peer-to-peer)",
        remedy="Set `NCCL_CUMEM_HOST_ENABLE=0` (NCCL 2.24 and newer) and `NCCL_P2P_DISABLE=1`, in runtime_env env_vars or before `ray start` so that Ray's "
        "workers get them; if it stays, also `NCCL_SHM_DISABLE=1`",
        source="NVIDIA/nccl issue 1838; ray-project/ray pull request 64109; NovaSky-AI/SkyRL pull request 108; NVIDIA-NeMo/RL issue 1683; hiyouga/EasyR1 issue 579",
        matches=(
            "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3699, unhandled cuda error (run with "
            "NCCL_DEBUG=INFO for details), NCCL version 2.27.3\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
            "Cuda failure 217 'peer access is not supported between these two devices'",
            "w1:774:854 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'",
            "transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two devices",
        ),
        differs=(
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:307 'peer access is not supported between these two devices'",
            "NCCL INFO P2P is disabled between connected GPUs 2 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.",
        ),
    ),
    KnownError(
        name="custom-all-reduce",
        marker="custom_all_reduce.cuh:",
        pattern=r"custom_all_reduce\.cuh:\d{1,5} '(?!an illegal|out of memory|unspecified launch)(?P<why>[^'\n]{1,120})'",
        cause="The custom all-reduce kernel of vLLM or SGLang does not work on these GPUs ({why})",
        remedy="Turn it off, NCCL then does the work: `--disable-custom-all-reduce` for a server, `disable_custom_all_reduce=True` in vLLM's LLM() or engine arguments",
        source="vllm-project/vllm issues 5613, 9046; sgl-project/sglang issue 1509; benchflow-ai/posttrainarena pull request 46",
        matches=(
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'",
            "Failed: Cuda error /workspace/vllm/csrc/custom_all_reduce.cuh:307 'peer access is not supported between these two devices'",
        ),
        differs=(
            "WARNING custom_all_reduce.py:130] Custom allreduce is disabled because your platform lacks GPU P2P capability",
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:368 'an illegal memory access was encountered'",
        ),
    ),
    KnownError(
        name="nccl-driver-too-old",
        marker="Cuda failure",
        pattern=r"Cuda failure (?:\d{1,5} )?'(?P<why>CUDA driver version is insufficient for CUDA runtime version|API call is not supported in the installed CUDA driver)'",
        cause="The NVIDIA driver of this node is too old for the CUDA that the loaded NCCL was built for ({why}); torch itself may work there",
        remedy="Compare NCCL's version in the log (NCCL_DEBUG=VERSION) with `python -c 'import torch; print(torch.cuda.nccl.version())'`: another libnccl comes from LD_LIBRARY_PATH, VLLM_NCCL_SO_PATH or the package nvidia-nccl-cu12; use torch's. "
        "If they agree: a newer driver, or a torch for the CUDA in `nvidia-smi`",
        source="NVIDIA/nccl src/include/checks.h v2.30.7 (the text is CUDA's name of the error)",
        matches=(
            "Last error:\nCuda failure 'CUDA driver version is insufficient for CUDA runtime version'",
            "w1:1:1 [0] init.cc:1 NCCL WARN Cuda failure 36 'API call is not supported in the installed CUDA driver'",
        ),
        differs=("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).",),
        look_up="driver",
    ),
    KnownError(
        name="nccl-cumem-differs",
        marker="Cuda failure",
        pattern=r"Cuda failure (?:1 )?'invalid argument'",
        cause="A CUDA call of NCCL was refused as invalid; between a trainer and its vLLM engine, usually the two set up NCCL's memory differently",
        remedy="Set `NCCL_CUMEM_ENABLE=0` for all processes of the group (older vLLM sets it for itself only), in runtime_env or before `ray start`; if it stays, "
        "`NCCL_NVLS_ENABLE=0`, or a newer NCCL than 2.18; `NCCL_DEBUG=WARN` prints the place (nvls.cc, p2p.cc, shm.cc)",
        source="NovaSky-AI/SkyRL pull request 143; areal-project/AReaL pull request 177; NVIDIA/nccl issue 1672; vllm-project/vllm issue 3688",
        matches=(
            "[2025-07-15 02:18:13] Failed to initialize custom process group: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled "
            "cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
            "Cuda failure 1 'invalid argument'.",
            "w1:4167:5269 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 'invalid argument'",
        ),
        differs=("Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:455 'invalid argument'", "RuntimeError: CUDA error: invalid argument"),
    ),
    KnownError(
        name="nccl-cuda-failure",
        marker="Cuda failure",
        pattern=r"Cuda failure (?:\d{1,5} )?'(?P<why>[^'\n]{1,160})'",
        cause="A CUDA call inside NCCL failed: {why}",
        remedy="Look for an earlier CUDA error of the same rank (NCCL is often the first to notice it) and for a fault of the GPU: `dmesg -T | grep -i xid` on its "
        "node; `NCCL_DEBUG=WARN` prints which call failed",
        source="THUDM/slime issue 1305; NVIDIA/nccl src/include/checks.h v2.30.7",
        matches=(
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 999 'unknown error'",
            "w1:1:1 [0] enqueue.cc:1 NCCL WARN Cuda failure 'unspecified launch failure'",
        ),
        differs=("RuntimeError: CUDA error: unknown error",),
        is_consequence=True,
        is_general=True,
    ),
    # RDMA at run time.
    KnownError(
        name="nccl-rdma-unanswered",
        marker="Got completion",
        pattern=r"Got completion (?:from peer \S{1,120} )?with (?:error |status=)(?:[A-Za-z_ ]{1,60}\()?12\b",
        cause="RDMA sends to another node got no answer until all retries were used (error 12): the network cards cannot reach each other, or the peer ended",
        remedy="At the start: for RoCE set NCCL_IB_GID_INDEX to the IPv4 RoCE v2 GID (`show_gids`, often 3), NCCL_IB_HCA to the right cards; `NCCL_IB_DISABLE=1` proves that it "
        "is RDMA; later on: the peer's log, then the links (`ibstat`) and `NCCL_IB_TIMEOUT=22`",
        source="NVIDIA/nccl issues 426, 902, 1664, 1814; pytorch/pytorch issue 81628",
        matches=(
            "w1:946:988 [0] transport/net_ib.cc:839 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
            "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<38560> with error 12, opcode 0, len 0, vendor err 129",
            "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<44206> with status=12 opcode=1 len=0 vendor err 129 (Send) localGid ::ffff:10.0.0.2 remoteGids::ffff:10.0.0.7",
        ),
        differs=("NCCL WARN NET/IB : Got completion from peer 10.0.0.7<44206> with status=5 opcode=32656 len=32659 vendor err 249 (Recv)",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-rdma-flushed",
        marker="Got completion",
        pattern=r"Got completion (?:from peer \S{1,120} )?with (?:error |status=)(?:[A-Za-z_ ]{1,60}\()?5\b",
        cause="An RDMA connection was already broken, so what was left in it was thrown away (error 5)",
        remedy="The cause is the first error before it: another completion error of the same card (12 means that the peer does not answer), or the error of the "
        "rank that ended",
        source="NVIDIA/nccl issue 1814",
        matches=("ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<44206> with status=5 opcode=32656 len=32659 vendor err 249 (Recv)",),
        differs=("NCCL WARN NET/IB : Got completion from peer 10.0.0.7<44206> with status=12 opcode=1 len=0 vendor err 129 (Send)",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-rdma-no-path",
        marker="Call to ibv_modify_qp failed with",
        pattern=r"(?<!NCCL INFO )Call to ibv_modify_qp failed with (?:error )?(?:\d{1,3} )?(?P<why>Connection timed out|Network is unreachable|No route to host)",
        cause="Two RDMA cards found no path to each other ({why})",
        remedy="On a network of separate rails set `NCCL_CROSS_NIC=0`; choose only cards of the cluster's network (NCCL_IB_HCA, `ibdev2netdev`) and for RoCE the "
        "right GID (`show_gids`; `NCCL_IB_GID_INDEX=-1` chooses by itself); `NCCL_IB_DISABLE=1` goes round RDMA",
        source="NVIDIA/nccl issue 2013; NVIDIA/nccl-tests issues 185, 227; NVIDIA/nccl src/misc/ibvwrap.cc v2.30.7",
        matches=(
            "NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
            "ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.0.0.2, remote GID ::ffff:10.0.1.2",
            "misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable",
        ),
        differs=("NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_2:1, retrying 1/3 after 100 msec of sleep",),
    ),
    KnownError(
        name="nccl-rdma-gid",
        marker="Call to ibv_modify_qp failed with",
        pattern=r"(?<!NCCL INFO )Call to ibv_modify_qp failed with (?:error )?(?:\d{1,3} )?(?P<why>Invalid argument|No such device)",
        cause="The settings of an RDMA connection do not fit the network card ({why}); in many cases it is the GID index",
        remedy="Unset `NCCL_IB_GID_INDEX` or set it to -1, so that NCCL chooses; if it must be set, it must name an IPv4 RoCE v2 GID on every card (`show_gids`); "
        "NCCL_IB_HCA must leave out cards that are down or of another network (`ibstat`)",
        source="NVIDIA/nccl src/misc/ibvwrap.cc v2.30.7 (its hint for EINVAL); NVIDIA/nccl issue 925",
        matches=(
            "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22",
            "NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_0:1, curr state INIT, next state RTR",
            "misc/ibvwrap.cc:160 NCCL WARN Call to ibv_modify_qp failed with error No such device",
        ),
        differs=("NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",),
    ),
    KnownError(
        name="ofi-request-failed",
        marker="NET/OFI Request",
        pattern=r"NET/OFI Request [^\n]{0,60}completed with error\. RC: (?P<code>\d{1,5})",
        cause="A transfer over EFA (libfabric) failed with code {code}: the peer ended, or the network between two nodes does not carry EFA",
        remedy="Read the first error of the other ranks; if none ended: the security group must allow all traffic to and from itself, `fi_info -p efa` must list the "
        "cards on every node, and all nodes need the same EFA installer and aws-ofi-nccl",
        source="aws/aws-ofi-nccl issue 161",
        matches=(
            "NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error",
            "NCCL WARN NET/OFI Request 0x7f8a3c0 completed with error. RC: 113. Error: 15 (Unreachable remote).",
        ),
        differs=("algo-1:462:462 [0] NCCL INFO NET/OFI Selected Provider is efa",),
        is_consequence=True,
    ),
    KnownError(
        name="ofi-set-up",
        marker="NCCL WARN NET/OFI ",
        pattern=r"NCCL WARN NET/OFI (?P<what>Couldn't open [^\n]{1,120}|Creating new endpoint [^\n]{1,160})",
        cause="EFA (libfabric) could not be set up on this node: {what}",
        remedy="`fi_info -p efa` on that node must list the cards (container: it needs /dev/infiniband and `--ulimit memlock=-1`); `dmesg -T | grep -i efa` shows refusals; "
        "update EFA and aws-ofi-nccl together; `FI_LOG_LEVEL=warn` prints more",
        source="aws/aws-ofi-nccl issues 24, 22, 889",
        matches=(
            "create_nccl_ofi_component:459 NCCL WARN NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
            "nccl_net_ofi_domain_get_ep:969 NCCL WARN NET/OFI Creating new endpoint for domain 0x7f9b failed: Invalid argument",
        ),
        differs=("NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error",),
    ),
    # Peers that are gone.
    KnownError(
        name="nccl-peer-closed",
        marker="Connection closed by remote peer",
        pattern=r"Connection closed by remote peer (?P<peer>[^\s<]{1,120})<\d{1,5}>",
        cause="This rank lost its NCCL connection to a rank on {peer} (closed): the process there ended, or the network between them failed",
        remedy="First the ranks on {peer}: an error in their logs, or a kill there (`dmesg -T | grep -i 'killed process'`). If none ended before, the network: `ibstat` and `dmesg -T | grep -iE 'mlx|link'` on both nodes, NCCL_SOCKET_IFNAME; `NCCL_IB_DISABLE=1` tests without InfiniBand",
        source="NVIDIA/nccl src/misc/socket.cc v2.12 to v2.30; NVIDIA/nccl-tests issue 185",
        matches=(
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\n"
            "socketProgress: Connection closed by remote peer w3<41109>",
            "NCCL WARN Net : Connection closed by remote peer 10.0.0.3<41109>",
        ),
        differs=("NCCL WARN NET/IB : Got completion from peer 10.0.0.3<41109> with error 12", "ssh: Connection closed by 10.0.0.3 port 22"),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-peer-reset",
        marker="failed : Connection reset by peer",
        pattern=r"Call to (?:recv from|send to) (?P<peer>[^\s<]{1,120})<\d{1,5}> failed : Connection reset by peer",
        cause="This rank lost its NCCL connection to a rank on {peer} (reset): the process there ended, or the network between them failed",
        remedy="First the ranks on {peer}: an error in their logs, or a kill there (`dmesg -T | grep -i 'killed process'`). If none ended before, the network: `ibstat` and `dmesg -T | grep -iE 'mlx|link'` on both nodes, NCCL_SOCKET_IFNAME; `NCCL_IB_DISABLE=1` tests without InfiniBand",
        source="NVIDIA/nccl src/misc/socket.cc v2.12 to v2.28",
        matches=(
            "socketProgressOpt: Call to recv from 10.0.0.3<50210> failed : Connection reset by peer",
            "NCCL WARN Net : Call to recv from 10.0.0.3<50210> failed : Connection reset by peer",
        ),
        differs=("RuntimeError: Connection reset by peer",),
        is_consequence=True,
    ),
    KnownError(
        name="gloo-peer-closed",
        marker="Connection closed by peer [",
        pattern=r"Connection closed by peer \[(?P<peer>[0-9A-Fa-f.:]{2,45})\]:\d{1,5}",
        cause="This rank lost its Gloo connection to a rank on {peer} (closed): the process there ended, or the network between them failed",
        remedy="First the ranks on {peer}: an error in their logs, or a kill there (`dmesg -T | grep -i 'killed process'`). If none ended before, the network between the two nodes: `dmesg -T | grep -i link` on both, a firewall, GLOO_SOCKET_IFNAME",
        source="pytorch/gloo gloo/transport/tcp/pair.cc (2022 and 2026)",
        matches=(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.3]:8594",
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.3]:8594. This is typically caused by a "
            "remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! 🏖️",
        ),
        differs=("NCCL WARN Net : Connection closed by remote peer 10.0.0.3<41109>",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="gloo-peer-reset",
        marker="Read error [",
        pattern=r"Read error \[(?P<peer>[0-9A-Fa-f.:]{2,45})\]:\d{1,5}: Connection reset by peer",
        cause="This rank lost its Gloo connection to a rank on {peer} (reset): the process there ended, or the network between them failed",
        remedy="First the ranks on {peer}: an error in their logs, or a kill there (`dmesg -T | grep -i 'killed process'`). If none ended before, the network between the two nodes: `dmesg -T | grep -i link` on both, a firewall, GLOO_SOCKET_IFNAME",
        source="pytorch/gloo gloo/transport/tcp/pair.cc (2022 and 2026)",
        matches=(
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [10.0.0.3]:38211: Connection reset by peer",
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.3]:38211: Connection reset by peer. This is typically "
            "caused by a remote worker hanging or bugs in the application.",
        ),
        differs=("ConnectionResetError: [Errno 104] Connection reset by peer",),
        is_consequence=True,
    ),
    KnownError(
        name="gloo-wait-timed-out",
        marker="ms for ",
        pattern=r"Timed out waiting (?P<ms>\d{1,12})ms for (?P<what>recv|send) operation to complete",
        cause="Another rank did not take part in a Gloo operation within {ms} ms: it ended, hangs, still works on something else, or cannot be reached",
        remedy="Find the rank that is missing: its first error, or its stack while it hangs (`py-spy dump`); saving, loading or long rollouts on one rank only while "
        "the others wait do this too: raise the group's timeout if that is it",
        source="pytorch/gloo issue 511; pytorch/gloo gloo/transport/tcp/unbound_buffer.cc",
        matches=(
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:136] Timed out waiting 600000ms for send operation to complete",
        ),
        differs=("[c10d] Timed out after 601 seconds waiting for clients. 1/2 clients joined.",),
        is_consequence=True,
    ),
    KnownError(
        name="gloo-pair-closed",
        marker="Application timeout caused pair closure",
        pattern=r"Application timeout caused pair closure",
        cause="An earlier Gloo operation of this rank timed out, and that closed its connections",
        remedy="Look for the rank that was missing in that operation: its first error, or its stack while it hangs (`py-spy dump`)",
        source="pytorch/gloo gloo/transport/tcp/unbound_buffer.cc",
        matches=("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:76] Application timeout caused pair closure",),
        differs=("RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",),
        is_consequence=True,
    ),
    KnownError(
        name="monitored-barrier",
        marker="failed to pass monitoredBarrier in",
        pattern=r"Ranks? (?P<ranks>\d{1,6}(?:, \d{1,6}){0,200}) failed to pass monitoredBarrier in (?P<ms>\d{1,12}) ms",
        cause="These ranks did not reach the barrier within {ms} ms: {ranks}",
        remedy="Read the first error in their logs; if they still run, `py-spy dump` of them shows where they hang",
        source="pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupGloo.cpp",
        matches=(
            "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 1800000 ms\n Original exception: \n[gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.3]:8594",
            "RuntimeError: [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 120000 ms",
        ),
        differs=("RuntimeError: monitoredBarrier is only implemented for GLOO backend",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-watchdog-first",
        marker="Watchdog caught collective operation timeout",
        pattern=r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=1, OpType=(?P<op>\w{1,40}),[^\n]{0,300}?Timeout\(ms\)=(?P<ms>\d{1,12})\)",
        cause="The first collective of a process group, {op}, did not end within {ms} ms: a rank is missing, or the ranks cannot reach each other",
        remedy="Read the first error of all ranks (a crash, out of memory); if there is none, it is the network: set `NCCL_SOCKET_IFNAME` on all nodes, test with "
        "`NCCL_IB_DISABLE=1` and `NCCL_P2P_DISABLE=1`; `NCCL_DEBUG=INFO` shows how far each rank came",
        source="verl-project/verl issue 1420; OFA-Sys/OFA issue 271 (form of the line)",
        matches=(
            "[rank1]:[E1218 20:27:21.484903450 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, "
            "NumelIn=131072000, NumelOut=131072000, Timeout(ms)=600000) ran for 600088 milliseconds before timing out.",
        ),
        differs=(
            "[rank7]: [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600013 milliseconds",
        ),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-watchdog-timeout",
        marker="Watchdog caught collective operation timeout",
        pattern=r"\[Rank (?P<rank>\d{1,6})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<sequence>\d{1,12}), OpType=(?P<op>\w{1,40}),"
        r"[^\n]{0,300}?Timeout\(ms\)=(?P<ms>\d{1,12})\)",
        cause="Rank {rank} waited {ms} ms in collective {sequence}, {op}: another rank did not reach it, or the transfer between them hangs",
        remedy="Find the first error in the logs of all ranks (a crash, out of memory); if there is none, a rank hangs or is slow: the one with the lowest last enqueued "
        "work, or another `py-spy dump`; only if it is slow, raise the limit (veRL: actor_rollout_ref.nccl_timeout)",
        source="verl-project/verl issues 1158, 1420; OpenRLHF/OpenRLHF issue 624; hiyouga/LlamaFactory issue 7396",
        matches=(
            "[rank7]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4486, OpType=ALLTOALL, "
            "NumelIn=46684160, NumelOut=46684160, Timeout(ms)=600000) ran for 600013 milliseconds before timing out.",
            "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=469508, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for "
            "1802212 milliseconds before timing out.",
            "[rank0]:[E1225 12:58:32 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17284, OpType=_ALLGATHER_BASE, "
            "NumelIn=415236096, NumelOut=1245708288, Timeout(ms)=7200000) ran for 7200031 milliseconds before timing out.",
        ),
        differs=("[rank7]: NCCL INFO Watchdog thread started",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-watchdog-other",
        marker="Watchdog caught collective operation timeout",
        pattern=r"Watchdog caught collective operation timeout",
        cause="A rank waited in a collective until its time limit: another rank did not reach it, or the transfer between them hangs",
        remedy="Find the first error in the logs of all ranks (a crash, out of memory); if there is none, compare their stacks while they hang (`py-spy dump`) and check the "
        "network between the nodes (`NCCL_SOCKET_IFNAME`, `NCCL_DEBUG=INFO`)",
        source="pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        matches=(
            "RuntimeError: NCCL communicator was aborted on rank 2. Original reason for failure was: Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, "
            "Timeout(ms)=1800000) ran for 1808499 milliseconds before timing out.",
        ),
        differs=("ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-watchdog-stuck",
        marker="watchdog got stuck for",
        pattern=r"ProcessGroupNCCL's watchdog got stuck for (?P<seconds>\d{1,9}) seconds without making progress",
        cause="torch ended this rank, since a CUDA or NCCL call in it hung for {seconds} s",
        remedy="Find the first error in the logs of all ranks; if there is none, a GPU or its network hangs: `nvidia-smi` and `dmesg -T | grep -i xid` on its node; if it "
        "was only busy, set `TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=3600`",
        source="OpenRLHF/OpenRLHF issue 624; pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        matches=(
            "[rank1]:[F1111 17:10:53 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0(default_pg) Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
            "progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog",
        ),
        differs=("[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=14863",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-dump-signal",
        marker="Received a dump signal due to a collective timeout from",
        pattern=r"Received a dump signal due to a collective timeout from {1,2}(?P<who>rank \d{1,6}|this local rank)",
        cause="A collective timed out, first noticed by {who}",
        remedy="Look for the first error of all ranks before this moment (a crash, out of memory); if there is none, compare the last enqueued work of the ranks: the lowest "
        "is the one that hangs",
        source="sgl-project/sglang issue 10216; pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        matches=(
            "[rank6]:[E909 08:45:31 ProcessGroupNCCL.cpp:1870] [PG ID 0 PG GUID 0 Rank 6] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info.",
            "[rank4]:[E703 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 4] Received a dump signal due to a collective timeout from  rank 7 and we will try our best",
        ),
        differs=("[rank2]: ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-aborted",
        marker="NCCL communicator was aborted on rank",
        pattern=r"NCCL communicator was aborted on rank (?P<rank>\d{1,6})",
        cause="Rank {rank} used an NCCL group that torch had already given up after an earlier failure",
        remedy="Read the first error of this rank and of the others: a rank that ended, or a collective that timed out",
        source="pytorch/pytorch torch/csrc/distributed/c10d/NCCLUtils.cpp",
        matches=("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.  Original reason for failure was: NCCL error: remote process exited or there was a network error",),
        differs=("[rank3]: NCCL communicator was initialized on rank 3.",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-remote-error",
        marker="remote process exit",
        pattern=r"remote process exited or there was a network error|network error or a remote process exiting prematurely",
        cause="NCCL lost a peer: its process ended, or the network between them failed",
        remedy="Read the first error in the logs of the other ranks and their nodes (`dmesg -T | tail` for a kill by the kernel); only if no rank ended, check the network "
        "(`NCCL_DEBUG=INFO`, `ibstat`)",
        source="NVIDIA/nccl src/init.cc v2.30.7; pytorch/pytorch torch/csrc/distributed/c10d/NCCLUtils.cpp",
        matches=(
            "RuntimeError: NCCL error: remote process exited or there was a network error",
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.21.5",
        ),
        differs=("ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.",),
        is_consequence=True,
        is_general=True,
    ),
    # Stores and rendezvous.
    KnownError(
        name="nccl-id-not-received",
        marker="is setting up NCCL communicator and ",
        pattern=r"\[(?P<rank>\d{1,6})\] is setting up NCCL communicator and retr(?:ie|ei)ving ncclUniqueId from \[0\] via c10d key-value store by key '[^'\n]{1,80}', "
        r"but store->get\('[^'\n]{1,80}'\) got error: (?P<why>[^\n]{1,160})",
        cause="Rank {rank} of a group got no NCCL id from the group's rank 0: {why}",
        remedy="Read the log of rank 0 of that group: it failed before or in NCCL, or came late (it still loads, or waits for input such as a wandb login); only if it is well, "
        "check the network to it",
        source="sgl-project/sglang issue 4096; zai-org/ChatGLM-6B issue 1232; pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        matches=(
            "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: failed to recv, got 0 bytes",
            "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout",
            "[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
        ),
        differs=("NCCL INFO [1] is setting up NCCL communicator and joins",),
        is_consequence=True,
    ),
    KnownError(
        name="store-clients-missing",
        marker="seconds waiting for ",
        pattern=r"Timed out after (?P<seconds>\d{1,9}) seconds waiting for (?:clients|workers)\. (?P<joined>\d{1,6})/(?P<all>\d{1,6}) (?:clients|workers) joined",
        cause="Only {joined} of {all} processes joined the process group within {seconds} s",
        remedy="See the processes that are missing: they crashed, hang, still load, or cannot reach rank 0's address and port; in a group of a trainer and its vLLM engines (weight "
        "sync) the missing ones are the engines: read their log",
        source="OpenRLHF/OpenRLHF issue 1040; Liuziyu77/Visual-RFT issue 123; pytorch/pytorch pull request 111805",
        matches=(
            "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/3 clients joined.",
            "torch.distributed.DistStoreError: Timed out after 6 seconds waiting for workers. 1/2 workers joined.",
        ),
        differs=("TimeoutError: Timed out waiting for placement groups to be ready.",),
        is_consequence=True,
    ),
    KnownError(
        name="store-wait-timed-out",
        marker="wait timeout after ",
        pattern=r"wait timeout after (?P<ms>\d{1,12})ms, keys: (?P<keys>[^\n]{1,120})",
        cause="A rank waited {ms} ms for what another rank should put into the store ({keys})",
        remedy="Find the rank that is missing: it crashed (its first error is the cause), hangs or is late (loading, compiling, a world size larger than the number of processes); raise "
        "the timeout of init_process_group only if it is just late",
        source="pytorch/pytorch test/distributed/test_store.py; huggingface/trl issue 3221",
        matches=("torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//0",),
        differs=("MMScheduler: embedding wait timeout after 3000ms (queue_depth=4, batch_wait_ms=5)",),
        is_consequence=True,
    ),
    KnownError(
        name="store-barrier",
        marker="in store based barrier on rank",
        pattern=r"in store based barrier on rank:? (?P<rank>\d{1,6}), for key: \S{1,80} \(world_size=(?P<world>\d{1,6}), (?:worker_count|num_workers_joined)=(?P<joined>\d{1,6}), timeout=(?P<limit>[\d:.]{1,20})",
        cause="After {limit}, {joined} processes had joined a process group of {world}",
        remedy="Fewer than the world size: the others crashed, hang or still load: see their logs; more: two jobs share one MASTER_ADDR and MASTER_PORT (or a store that was not "
        "emptied): give each job its own port",
        source="vllm-project/vllm issue 1401; facebookincubator/submitit issue 1613",
        matches=(
            "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)",
            "torch.distributed.DistStoreError: Timed out initializing process group in store based barrier on rank 0, for key: store_based_barrier_key:1 (world_size=8, num_workers_joined=16, timeout=0:30:00)",
        ),
        differs=("INFO Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.",),
        is_consequence=True,
    ),
    KnownError(
        name='store-connect-docker-bridge',
        marker='The client socket has timed out after ',
        pattern=r"The client socket has timed out after (?P<limit>\d{1,9}\w{1,3}) while trying to connect to \(?(?P<host>172\.17\.\d{1,3}\.\d{1,3})(?:, |:)(?P<peer_port>\d{1,5})\)?",
        cause="No process answered at {host}, port {peer_port}, within {limit}; addresses that begin with 172.17 are mostly of Docker's own bridge, which other hosts cannot reach",
        remedy="Start the containers with `--network=host` on all nodes, or give rank 0's address of the cluster's network: MASTER_ADDR, VLLM_HOST_IP or `ray start --node-ip-address` (`ip -br addr` on the host shows it); then NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME too",
        source='OpenRLHF/OpenRLHF issue 265',
        matches=('[E socket.cpp:922] [c10d] The client socket has timed out after 1800s while trying to connect to (172.17.0.2, 44737).',),
        differs=('torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.2, 29500).',),
    ),
    KnownError(
        name="store-connect-own-host",
        marker="The client socket has timed out after ",
        pattern=r"The client socket has timed out after (?P<limit>\d{1,9}\w{1,3}) while trying to connect to \(?(?P<host>0\.0\.0\.0|127\.[\d.]{5,11}|localhost)(?:, |:)(?P<peer_port>\d{1,5})\)?",
        cause="No process of this same host answered at port {peer_port} within {limit}: the address {host} leads to no other host",
        remedy="`ss -ltn 'sport = :{peer_port}'` here: nobody listens: rank 0 or the engine that should open it failed (its log), or runs on another host or in another container: give the real address (MASTER_ADDR; "
        "TRL vllm_server_host). In use by others: another port (TRL vllm_group_port, 51216 unless set)",
        source="huggingface/trl issues 3736, 3925",
        matches=(
            "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to (0.0.0.0, 51216).",
            "The client socket has timed out after 600s while trying to connect to (127.0.0.1, 29500).",
        ),
        differs=("torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.2, 29500).",),
        is_consequence=True,
    ),
    KnownError(
        name="store-connect-timed-out",
        marker="The client socket has timed out after ",
        pattern=r"The client socket has timed out after (?P<limit>\d{1,9}\w{1,3}) while trying to connect to \(?(?P<host>[^\s,()]{1,200}?)(?:, |:)(?P<peer_port>\d{1,5})\)?",
        cause="No process answered at {host}, port {peer_port}, within {limit}: rank 0 does not listen there, or the network blocks it",
        remedy="On {host}, `ss -ltn 'sport = :{peer_port}'` shows whether rank 0 listens: if not, its log shows why; if it does, MASTER_ADDR must be an address that the other nodes "
        "reach, and a firewall must let the port through",
        source="vllm-project/vllm issues 6650, 19670; pytorch/pytorch issue 107021",
        matches=(
            "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (10.0.0.2, 29500).",
            "[E socket.cpp:957] [c10d] The client socket has timed out after 60s while trying to connect to (w1, 29400).",
            "[E socket.cpp:860] [c10d] The client socket has timed out after 60s while trying to connect to 10.0.0.2:1234",
        ),
        differs=("[W socket.cpp:663] [c10d] The client socket has failed to connect to [w1]:29500 (errno: 111 - Connection refused).",),
        is_consequence=True,
    ),
    KnownError(
        name="store-connect-failed",
        marker="failed to connect to any network address of",
        pattern=r"The client socket has failed to connect to any network address of \(\s?(?P<host>[^\s,()]{1,200}), (?P<peer_port>\d{1,5})\)",
        cause="This node could not connect to {host}, port {peer_port}, where rank 0 of the group should listen",
        remedy="On {host}, `ss -ltn 'sport = :{peer_port}'` shows whether rank 0 listens: if not, its log shows why; if it does, MASTER_ADDR must be an address that the other nodes "
        "reach (not loopback), and a firewall must let the port through",
        source="vllm-project/vllm issue 2427; pytorch/pytorch torch/csrc/distributed/c10d/socket.cpp",
        matches=(
            "torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (w1-master-0, 23456). The client socket has failed to connect to "
            "w1-master-0:23456 (errno: 110 - Connection timed out).",
        ),
        differs=("[W socket.cpp:663] [c10d] The client socket has failed to connect to [w1]:29500 (errno: 111 - Connection refused).",),
        is_consequence=True,
    ),
    KnownError(
        name="store-lost",
        marker=" failed on SocketImpl(",
        pattern=r"(?:send|recv)\w{1,30} failed on SocketImpl\(fd=[^\n]{1,300}?remote=\[?(?P<remote>[^\s\])]{1,200})\]?[^\n]{0,20}\):",
        cause="The connection to the process that keeps the rendezvous store ({remote}) is lost: mostly rank 0 ended before this rank",
        remedy="Read the first error in the log of rank 0; if rank 0 ended well, this line is harmless: this rank was only slower to end",
        source="pytorch/pytorch torch/csrc/distributed/c10d/TCPStore.cpp (logs of torch 2.6 to 2.8)",
        matches=(
            "[rank1]:[W901 07:40:20.971331164 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=64, addr=[localhost]:35986, remote=[localhost]:45489): Broken pipe",
            "[rank15]:[W305 TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=102, addr=w2:33978, remote=10.0.0.2:5000): Broken pipe",
            "[rank1]:[W901 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=64, addr=[localhost]:35986, remote=[localhost]:45489): failed to recv, got 0 bytes",
        ),
        differs=("[c10d] waitForInput: poll for socket SocketImpl(fd=100, addr=[w1]:43590, remote=[w1]:20000) returned 0, likely a timeout",),
        is_warning=True,
    ),
    KnownError(
        name="torchrun-store-unreachable",
        marker="The connection to the C10d store has failed",
        pattern=r"RendezvousConnectionError: The connection to the C10d store has failed",
        cause="torchrun could not use the rendezvous store of its endpoint: nothing listens there, the network blocks it, or the node that kept it ended",
        remedy="At the start: --rdzv-endpoint must be the same on all nodes, an address of the first node that the others reach, and a port that is free and open there; later: the "
        "node that kept the store ended: see its log",
        source="pytorch/pytorch issues 107021, 69197, 121944; meta-pytorch/torchtune issue 2676",
        matches=("torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for details.",),
        differs=("WARNING: The node 'w1_3140_0' has failed to shutdown the rendezvous '3045' due to an error of type RendezvousConnectionError.",),
        is_consequence=True,
    ),
    KnownError(
        name="torchrun-rendezvous-timed-out",
        marker="RendezvousTimeoutError",
        pattern=r"(?:^|\.|raise )RendezvousTimeoutError(?:\(|:|\s{0,9}$)",
        cause="Not all nodes called torchrun with the same rendezvous in time",
        remedy="Start torchrun on all nodes (`--nnodes` of them) with the same --rdzv-id, --rdzv-endpoint and --nnodes; see the logs of those that are missing; wait longer with "
        "`--rdzv-conf timeout=1800`",
        source="ymcui/Chinese-LLaMA-Alpaca-2 issue 274; pytorch/pytorch torch/distributed/elastic/rendezvous/api.py",
        matches=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", "    raise RendezvousTimeoutError()"),
        differs=("from torch.distributed.elastic.rendezvous import RendezvousTimeoutError, RendezvousError",),
        is_consequence=True,
    ),
    # Process groups in code.
    KnownError(
        name="process-group-twice",
        marker="trying to initialize the default process group twice",
        pattern=r"trying to initialize the default process group twice",
        cause="The code called init_process_group in a process that had a process group already",
        remedy="Call it once: only if torch.distributed.is_initialized() says no; two frameworks in one process (an engine beside a trainer): let the engine run in its own process or actor",
        source="torch distributed/distributed_c10d.py",
        matches=("ValueError: trying to initialize the default process group twice!",),
        differs=("Default process group has not been initialized",),
    ),
    KnownError(
        name="torch-without-backend",
        marker="Distributed package doesn't have ",
        pattern=r"Distributed package doesn't have (?P<backend>NCCL|MPI|Gloo|XCCL) built in|Distributed package doesn't have (?P<other>\w{2,20}) ",
        cause="The installed torch was built without that backend of torch.distributed; without NCCL it is mostly a build for CPUs (or not for Linux)",
        remedy="`python -c 'import torch; print(torch.__version__, torch.version.cuda)'` in the Python of the job: +cpu or None means: install the build for CUDA (https://pytorch.org), on all nodes",
        source="torch distributed/distributed_c10d.py",
        matches=("RuntimeError: Distributed package doesn't have NCCL built in",),
        differs=("AssertionError: Torch not compiled with CUDA enabled",),
    ),
    KnownError(
        name="store-peer-lost",
        marker="DistNetworkError: ",
        pattern=r"DistNetworkError: (?P<why>Connection reset by peer|[Ff]ailed to (?:recv, got 0|send|recv)[^\n]{0,60}|Connection was likely closed[^\n]{0,60}|Broken pipe)",
        cause="A process lost its connection to the store of the process group, which rank 0 (or torchrun of the first node) keeps: mostly that one ended first",
        remedy="The first error of rank 0 or of its torchrun is the reason, or a kill there (`dmesg -T | grep -i 'killed process'`); right at the start: another program listens at that port",
        source="torch csrc/distributed/c10d/socket.cpp; pytorch/pytorch issue 128970",
        matches=('torch.distributed.DistNetworkError: Connection reset by peer', 'torch.distributed.DistNetworkError: failed to recv, got 0 bytes',),
        differs=("torch.distributed.DistNetworkError: The client socket has failed to connect to any network address of (n1, 29500).",),
        is_consequence=True,
    ),
    KnownError(
        name='torch-without-libuv',
        marker='use_libuv was requested but PyTorch was',
        pattern=r"use_libuv was requested but PyTorch was (?:built|build) without libuv support",
        cause='This build of torch has no libuv, and its store was told to use it',
        remedy='`export USE_LIBUV=0` before the start on all nodes (torchrun: `--rdzv-conf use_libuv=0`), or a torch that was built with it',
        source='torch distributed/rendezvous.py; csrc/distributed/c10d/TCPStore.cpp',
        matches=('RuntimeError: use_libuv was requested but PyTorch was built without libuv support',),
        differs=('UserWarning: use_libuv is on',),
    ),
    KnownError(
        name="torch-shared-memory-manager",
        marker="hared memory manager connection has timed out",
        pattern=r"Shared memory manager connection has timed out",
        cause="torch's helper process for shared memory (torch_shm_manager) did not answer: the host is overloaded, or cannot start processes",
        remedy='Fewer DataLoader workers (`num_workers`), `torch.multiprocessing.set_sharing_strategy("file_descriptor")`, and limits: `ulimit -u`, `ulimit -n 65536`, `df -h /dev/shm /tmp`',
        source="torch csrc/libshm (its text)",
        matches=("RuntimeError: Shared memory manager connection has timed out",),
        differs=("RuntimeError: unable to open shared memory object </torch_1> in read-write mode",),
    ),
    KnownError(
        name="torch-shared-memory-file",
        marker="file </torch_",
        pattern=r"unable to (?P<what>write to|open) file </torch_\d{1,10}_\d{1,10}[^>\n]{0,40}>(?: in read-only mode)?(?:: (?P<why>[^\n]{1,60}))?",
        cause="A tensor in shared memory could not be written or read: /dev/shm is full, or the process that made it has ended",
        remedy="`df -h /dev/shm` on that node: a container needs `docker run --shm-size=64g` or --ipc=host (in Kubernetes an emptyDir with medium: Memory); if it has room, a DataLoader worker or another process ended first: see its error",
        source="torch aten/src/ATen/MapAllocator.cpp",
        matches=('RuntimeError: unable to write to file </torch_110_2063>', 'RuntimeError: unable to open file </torch_110_2063> in read-only mode: No such file or directory (2)',),
        differs=("RuntimeError: unable to open shared memory object </torch_3541_2563> in read-write mode: Too many open files (24)",),
    ),
    KnownError(
        name="torchrun-hangup",
        marker="SignalException: Process",
        pattern=r"SignalException: Process (?P<pid>\d{1,10}) got signal: 1$",
        cause="torchrun was ended by SIGHUP: the terminal or ssh connection that it was started from was closed (nohup alone does not help, since torchrun handles SIGHUP itself)",
        remedy="Start it so that it has no terminal: in `tmux new -s train`, with `setsid torchrun … > train.log 2>&1 &`, through Slurm (`sbatch`), or as a job of Ray (`ray job submit`); go on from the last checkpoint",
        source="zai-org/ChatGLM2-6B issue 238, keyu-tian/SparK issue 19, pytorch/pytorch issue 67538",
        matches=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 8665 got signal: 1",),
        differs=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 8665 got signal: 15",),
    ),
    KnownError(
        name="torchrun-signalled",
        marker="SignalException: Process",
        pattern=r"SignalException: Process (?P<pid>\d{1,10}) got signal: (?P<signal>2|15)$",
        cause="torchrun was told to end (signal {signal}: 15 is SIGTERM, 2 is Ctrl-C) and ended its processes; this is not its own error",
        remedy="Who did it: Slurm (time limit, `scancel`, or srun after another node failed; see its lines), Kubernetes or Ray ending the pod or job, or a person. In a run of several nodes, the first error of another node is the reason",
        source="torch distributed/elastic/multiprocessing/api.py; pytorch/pytorch issue 116974",
        matches=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 222135 got signal: 15",),
        differs=("torch.distributed.elastic.multiprocessing.api.SignalException: Process 8665 got signal: 1",),
        is_consequence=True,
    ),
    KnownError(
        name="torchrun-rendezvous-closed",
        marker="RendezvousClosedError",
        pattern=r"elastic\.rendezvous\.api\.RendezvousClosedError",
        cause="torchrun came to a rendezvous that was closed already: another node had ended or failed, or the same rendezvous ID was used by an earlier run",
        remedy="The first error of another node is the reason, if there is one. Otherwise start all nodes again at the same time, with a new `--rdzv_id` (such as Slurm's job ID) and a free port in `--rdzv_endpoint`",
        source="pytorch/pytorch issues 116974 and 147064",
        matches=("torch.distributed.elastic.rendezvous.api.RendezvousClosedError",),
        differs=("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-rdma-device-refused",
        marker="Unable to open device ",
        pattern=r"NCCL WARN NET/IB : Unable to open device (?P<device>[\w.-]{1,60})",
        cause="NCCL could not open the RDMA device {device}, and goes on without it: it belongs to another container, or this one may not use it",
        remedy="Name the devices that are meant: `export NCCL_IB_HCA=mlx5_1` (`ibv_devinfo -l` lists them), or give the container all of /dev/infiniband; by itself it ends no job, so look for another error",
        source="NCCL src/transport/net_ib.cc; zai-org/ImageReward issue 65",
        matches=("transport/net_ib.cc:149 NCCL WARN NET/IB : Unable to open device mlx5_59",),
        differs=("NCCL INFO NET/IB : Using [0]mlx5_1:1/RoCE",),
        is_warning=True,
    ),
    KnownError(
        name="nccl-rdma-no-queue",
        marker="Call to ibv_create_qp failed",
        pattern=r"NCCL WARN Call to ibv_create_qp failed\s{0,9}$",
        cause="The RDMA card could not make a connection (queue pair) for NCCL; this old NCCL does not say why, and mostly the limit on locked memory is too low",
        remedy="`ulimit -l` in the job must say unlimited: `docker run --ulimit memlock=-1 --cap-add IPC_LOCK`, for Slurm and systemd LimitMEMLOCK=infinity. To go on over TCP: `export NCCL_IB_DISABLE=1`",
        source="NVIDIA/nccl issue 1129",
        matches=("node08:6561:6605 [0] misc/ibvwrap.cc:280 NCCL WARN Call to ibv_create_qp failed",),
        differs=("NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory",),
    ),
    KnownError(
        name="nccl-network-plugin-missing",
        marker="Error: network ",
        pattern=r"Error: network (?P<net>[\w /-]{1,60}?) not found",
        cause="NCCL was told to use the network {net} (NCCL_NET), and no plugin offers it in this process",
        remedy="On AWS: EFA is not usable here; `fi_info -p efa` must list devices (a container needs /dev/infiniband and the EFA plugin), and aws-ofi-nccl must be on LD_LIBRARY_PATH. To go on over TCP: `unset NCCL_NET` or `export NCCL_NET=Socket`",
        source="NCCL src/net.cc (its text); aws/aws-ofi-nccl issue 1020",
        matches=("Error: network AWS Libfabric not found.",),
        differs=("NCCL INFO Using network AWS Libfabric",),
    ),
    KnownError(
        name="efa-no-device",
        marker="fi_getinfo() call failed",
        pattern=r"fi_getinfo\(\) call failed: (?P<why>[^\n]{1,60})",
        cause="EFA's plugin for NCCL found no EFA device that it can use: {why}",
        remedy="`fi_info -p efa -t FI_EP_RDM` there: nothing in a container but devices on the host: give it /dev/infiniband (in Kubernetes the resource vpc.amazonaws.com/efa). Nothing on the host: no EFA interface, or its driver is missing; plugin and libfabric must be of one installer",
        source="aws/aws-ofi-nccl issue 1020",
        matches=("ip-172-31-3-90:1929:1937 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available",),
        differs=("NCCL WARN NET/OFI Request completed with error. RC: 21. Error: unknown error",),
        is_consequence=True,
    ),
    KnownError(
        name="process-group-missing",
        marker="Default process group has not been initialized",
        pattern=r"(?:Error: |^)Default process group has not been initialized",
        cause="The code used torch.distributed in a process where init_process_group had not run",
        remedy="Start it with torchrun or the framework's own launcher, not with plain python; a tool for one process must ask `torch.distributed.is_initialized()` first; in a new "
        "child process or Ray actor, init_process_group must run again",
        source="pytorch/pytorch torch/distributed/distributed_c10d.py",
        matches=(
            "ValueError: Default process group has not been initialized, please make sure to call init_process_group.",
            "RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.",
        ),
        differs=("ValueError: trying to initialize the default process group twice!",),
    ),
    KnownError(
        name="process-group-device",
        marker="No backend type associated with device type",
        pattern=r"No backend type associated with device type (?P<device>\w{1,20})",
        cause="A collective got a tensor on the {device}, and its process group has no backend for that device",
        remedy="NCCL needs tensors on the GPU, Gloo on the CPU: move the tensor (`.cuda()`), or make the group for both with `backend='cpu:gloo,cuda:nccl'`; with CPU offload, optimizer "
        "states and buffers stay on the CPU",
        source="rwth-i6/returnn issue 1724; pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroup.hpp",
        matches=("RuntimeError: No backend type associated with device type cpu", "[rank0]: RuntimeError: No backend type associated with device type cuda"),
        differs=("RuntimeError: Distributed package doesn't have NCCL built in",),
    ),
    KnownError(
        name="nccl-needs-gpu-tensor",
        marker="Tensors must be CUDA and dense",
        pattern=r"Tensors must be CUDA and dense",
        cause="An NCCL collective got a tensor that is on the CPU or sparse",
        remedy="Move the tensor to the GPU before the collective (`.cuda()`, `.to_dense()`), or make the group with `backend='cpu:gloo,cuda:nccl'`",
        source="pytorch/pytorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
        matches=("RuntimeError: Tensors must be CUDA and dense", "ValueError: Tensors must be CUDA and dense"),
        differs=("RuntimeError: Tensors must be contiguous",),
    ),
    KnownError(
        name="process-group-invalid",
        marker="Invalid process group specified",
        pattern=r"(?:Value|Runtime)Error: Invalid process group specified",
        cause="The code used a process group to which this rank does not belong, or that was destroyed",
        remedy="Only ranks of the group may use it: check the list of ranks of new_group (all ranks must call it) and that nothing destroyed the group before",
        source="pytorch/pytorch torch/distributed/distributed_c10d.py",
        matches=("ValueError: Invalid process group specified", "RuntimeError: Invalid process group specified"),
        differs=('tcl: "invalid process group specified (must be greater than 1)"',),
    ),
    KnownError(
        name="pg-options-renamed",
        marker="unexpected keyword argument 'pg_options'",
        pattern=r"_new_process_group_helper\(\) got an unexpected keyword argument 'pg_options'",
        cause="The code calls a private function of torch with pg_options, which torch 2.6 renamed to backend_options",
        remedy="Update the framework (OpenRLHF: a version after its pull request 462), or use a torch older than 2.6",
        source="OpenRLHF/OpenRLHF pull request 462",
        matches=("TypeError: _new_process_group_helper() got an unexpected keyword argument 'pg_options'",),
        differs=("TypeError: init_process_group() got an unexpected keyword argument 'device_id'",),
    ),
    KnownError(
        name="sglang-weight-group",
        marker="Failed to initialize custom process group: ",
        pattern=r"Failed to initialize custom process group: (?P<why>[^\n]{1,220})",
        cause="The SGLang engine could not join the group over which the trainer sends weights: {why}",
        remedy="Trainer and engines must start it together, with the same address, port, world size and NCCL version; the address must be one that the engine's node reaches (not "
        "loopback): see also the trainer's error at the same time",
        source="sgl-project/sglang python/sglang/srt/model_executor/model_runner.py; areal-project/AReaL pull request 177",
        matches=("[2025-07-15 02:18:13] Failed to initialize custom process group: The server socket has failed to listen on any local network address.",),
        differs=("Succeeded to initialize custom process group.",),
        is_consequence=True,
    ),
    KnownError(
        name="sglang-weight-update",
        marker="Failed to update parameter online: ",
        pattern=r"Failed to update parameter online: (?P<why>[^\n]{1,160}?)\. The full weights of the",
        cause="The SGLang engine could not take a parameter from the trainer: {why}",
        remedy="A name in quotes means that the engine's model has no such parameter: the conversion of names does not fit this model and this SGLang version; else it is the error of "
        "the transfer (a peer ended, memory)",
        source="sgl-project/sglang python/sglang/srt/model_executor/model_runner.py",
        matches=(
            "Failed to update parameter online: 'model.visual.blocks.0.mlp.gate_up_proj.weight'. The full weights of the ModelRunner are partially updated. Please discard the whole weights.",
        ),
        differs=("Succeeded to update parameter online.",),
    ),
    KnownError(
        name="vllm-world-size",
        marker="is not equal to tensor_model_parallel_size (",
        pattern=r"world_size \((?P<world>\d{1,6})\) is not equal to tensor_model_parallel_size \((?P<tensor>\d{1,6})\) x pipeline_model_parallel_size \((?P<pipeline>\d{1,6})\)",
        cause="vLLM found itself in a process group of {world} ranks, but its settings need tensor {tensor} x pipeline {pipeline}",
        remedy="Start vLLM's LLM() from one process (not from each rank of torchrun), or give it tensor_parallel_size x pipeline_parallel_size = {world}; inside torchrun ranks it needs "
        "`distributed_executor_backend='external_launcher'`",
        source="vllm-project/vllm vllm/distributed/parallel_state.py (text of several versions)",
        matches=("RuntimeError: world_size (8) is not equal to tensor_model_parallel_size (1) x pipeline_model_parallel_size (1)",),
        differs=("AssertionError: world size (8) is not divisible by total_model_size (16)",),
    ),
    KnownError(
        name="ray-collective-rendezvous",
        marker="Unable to meet other processes",
        pattern=r"Unable to meet other processes\s{1,2}at the rendezvous store",
        cause="A process of a Ray collective group waited for the group's leader, which did not come",
        remedy="All members must create the group (init_collective_group) at the same time, with the same group name and world size: see the log of the member that is missing",
        source="ray 2.60 util/collective/collective_group/nccl_collective_group.py",
        matches=(
            "RuntimeError: Unable to meet other processes at the rendezvous store. If you are using P2P communication, please check if tensors are put in the correct GPU. ",
        ),
        differs=("DEBUG: Failed to meet at the store 'abc'.Trying again...",),
        is_consequence=True,
    ),
    # What remains of NCCL.
    KnownError(
        name="nccl-proxy-call",
        marker="Proxy Call to rank",
        pattern=r"Proxy Call to rank (?P<rank>\d{1,6}) failed \((?P<what>\w{1,30})\)",
        cause="NCCL's helper thread of rank {rank} could not do its part ({what})",
        remedy="`NCCL_DEBUG=WARN` prints the real error of rank {rank} (a connection, memory, shared memory): look for `NCCL WARN` there",
        source="vllm-project/vllm issue 798",
        matches=("ncclInternalError: Internal check failed.\nLast error:\nProxy Call to rank 7 failed (Connect)",),
        differs=("NCCL INFO Connected to proxy localRank 1 -> connection 0x7f2bac006548",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-last-error",
        marker="Last error:",
        pattern=r"Last error:[ \t]{0,4}\n(?:\[rank\d{1,6}\]:[ \t]{0,4})?(?P<what>[^\s\[(][^\n]{2,240})",
        cause="NCCL failed: {what}",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN` lines before this one name the call and the node; look also for an earlier error of another rank",
        source="pytorch/pytorch torch/csrc/distributed/c10d/NCCLUtils.cpp",
        matches=(
            "ncclInternalError: Internal check failed.\nLast error:\nAttribute busid of node nic not found",
            "[rank3]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. \n[rank3]: Last error:\n[rank3]: Call to bind failed: Cannot assign requested address",
        ),
        differs=("torch.distributed.DistBackendError: NCCL error in: x, internal error\nLast error:\n\n", "INFO Last error: none"),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-error-unnamed",
        marker="NCCL error: ",
        pattern=r"NCCL [Ee]rror(?: \d)?: (?P<what>internal error|unhandled system error|unhandled cuda error|invalid usage|invalid argument|remote process exited or there was a network error)(?:, NCCL version (?P<version>[\d.]{3,12}))?\s{0,9}$",
        cause="NCCL failed ({what}); the log does not say in which call",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN` line names it (an interface, /dev/shm, locked memory, a connection, a CUDA error, two ranks on one GPU); look first for an earlier error of another rank",
        source="facebookresearch/ParlAI issue 3084; vllm-project/vllm issue 427; pytorch before 1.10",
        matches=(
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL error: internal error, NCCL version 2.7.8",
            "RuntimeError: NCCL error: unhandled system error, NCCL version 2.7.8",
        ),
        differs=("RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-system-error",
        marker="unhandled system error",
        pattern=r"unhandled system error",
        cause="A system call or a network call of NCCL failed; the log does not say which",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN` line names it (locked memory, /dev/shm, a connection, an interface); look first for an earlier error of another rank",
        source="NVIDIA/nccl src/init.cc v2.30.7; vllm-project/vllm issue 10626",
        matches=(
            "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)",
            "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:410, unhandled system error, NCCL version 2.4.8",
        ),
        differs=("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-cuda-error",
        marker="unhandled cuda error",
        pattern=r"unhandled cuda error",
        cause="A CUDA call of NCCL failed; the log does not say which",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN Cuda failure` line names it; in nvls.cc: `NCCL_NVLS_ENABLE=0`; between a trainer and vLLM: `NCCL_CUMEM_ENABLE=0` on both; "
        "out of memory: leave more GPU memory free",
        source="vllm-project/vllm issue 6732; aarora79/agentic-coding-harness-benchmarks pull request 173",
        matches=(
            "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.1",
        ),
        differs=("RuntimeError: CUDA error: unknown error",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-internal-error",
        marker="internal error - please report this issue to the NCCL developers",
        pattern=r"internal error - please report this issue to the NCCL developers",
        cause="NCCL stopped at an internal check; the log does not say which, and it is rarely a fault of NCCL itself",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN` line names it (an interface, a peer that ended, ranks with different NCCL versions); look first for an earlier error of another rank",
        source="NVIDIA/nccl src/init.cc v2.30.7; NVIDIA/nccl-tests issues 219, 275",
        matches=("RuntimeError: NCCL error: internal error - please report this issue to the NCCL developers",),
        differs=("500 Internal Server Error - please report this issue",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="nccl-invalid-argument",
        marker="ncclInvalidArgument",
        pattern=r"ncclInvalidArgument: Invalid value for an argument",
        cause="NCCL got an argument that is not valid, such as a root rank outside of the group or a tensor of another GPU",
        remedy="Run again with `NCCL_DEBUG=WARN`: the `NCCL WARN` line names the argument; source and root of a collective must belong to its group, and the tensor must be on the rank's own GPU",
        source="pytorch/pytorch torch/csrc/distributed/c10d/NCCLUtils.cpp; NVIDIA/nccl src/misc/argcheck.cc v2.30.7",
        matches=("ncclInvalidArgument: Invalid value for an argument.",),
        differs=("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",),
    ),
    KnownError(
        name="nccl-nvml-foreign-gpu",
        marker="NCCL WARN nvmlDeviceGetHandleByPciBusId() failed",
        pattern=r"NCCL WARN nvmlDeviceGetHandleByPciBusId\(\) failed: (?P<why>[^\n]{1,80})",
        cause="NCCL looked up a GPU by its PCI address and NVML does not show it to this process ({why}): another rank on the same host uses a GPU that this container does not see",
        remedy="Give all containers of one host the same GPUs (`--gpus all`, and CUDA_VISIBLE_DEVICES to choose), or a different `NCCL_HOSTID` each, so that NCCL takes them for two hosts",
        source="vllm-project/vllm issue 14093; nccl src/misc/nvmlwrap.cc",
        matches=("w1:301:301 [0] misc/nvmlwrap.cc:187 NCCL WARN nvmlDeviceGetHandleByPciBusId() failed: Not Found",),
        differs=("w1:301:301 [0] NCCL INFO nvmlDeviceGetHandleByPciBusId",),
    ),
    KnownError(
        name="hccl-socket-timeout",
        marker="Getting socket times out",
        pattern=r"(?P<code>EI0006)[^\n]{0,80}Getting socket times out",
        cause="Ascend's HCCL waited in vain for the connection of another rank",
        remedy="Find the rank that is missing (its own first error); if all run, the NPUs' network: `hccn_tool -i 0 -link -g` and `hccn_tool -i 0 -ip -g` on each node, `HCCL_IF_IP` and `HCCL_SOCKET_IFNAME`, and `HCCL_CONNECT_TIMEOUT=1200` if ranks are only late",
        source="Ascend CANN's error codes",
        matches=("EI0006: [PID: 799] 2024-01-01-10:00:00.000.000 Getting socket times out. Reason: Remote Rank did not send the data in time.",),
        differs=("EI0004: The ranktable is invalid",),
        is_consequence=True,
    ),
    KnownError(
        name="nccl-invalid-usage",
        marker="NCCL error: invalid usage",
        pattern=r"NCCL error: invalid usage",
        cause="NCCL was used in a way that it refuses; the log does not say which",
        remedy="Run again with `NCCL_DEBUG=WARN`: the line with NCCL WARN names it; mostly two ranks use the same GPU (check CUDA_VISIBLE_DEVICES and the device that each rank sets) or the ranks' counts differ",
        source="vLLM distributed/device_communicators/pynccl_wrapper.py",
        matches=("RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",),
        differs=("NCCL error: unhandled system error",),
        is_consequence=True,
    ),
    KnownError(
        name="store-socket-timeout",
        marker="Socket Timeout",
        pattern=r"(?:RuntimeError|DistStoreError|DistNetworkError): Socket Timeout",
        cause="A rank waited in vain for the store of its process group: another rank did not arrive or has ended",
        remedy="Find the first error of all ranks, above all of rank 0; if there is none, one is late (loading, compiling): give init_process_group a longer timeout",
        source="pytorch/pytorch torch/csrc/distributed/c10d/TCPStore.cpp",
        matches=(
            "RuntimeError: Socket Timeout",
            "torch.distributed.DistStoreError: Socket Timeout",
        ),
        differs=("zmq socket timeout",),
        is_consequence=True,
    ),
    KnownError(
        name="process-group-connection-lost",
        marker="RuntimeError: ",
        pattern=r"RuntimeError: (?:Connection reset by peer|Broken pipe)\s{0,2}$",
        cause="A connection of the process group broke: mostly the process at its other end has ended",
        remedy="Find the rank that ended first: its own error, a kill (`dmesg -T | grep -i 'killed process'` on its node) or a node that went away",
        source="pytorch/pytorch torch/csrc/distributed/c10d/socket code",
        matches=(
            "RuntimeError: Connection reset by peer",
            "RuntimeError: Broken pipe",
        ),
        differs=("ConnectionResetError: [Errno 104] Connection reset by peer",),
        is_consequence=True,
    ),
)  # fmt: skip
