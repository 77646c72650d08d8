"""Rows for errors of Ray itself: names, the head and its GCS, dead actors, objects, runtime environments, scheduling, jobs and pickling."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

_WHO_ENDED_IT = (
    "On its node, `dmesg -T | grep -iE 'oom|killed process|segfault'` shows a kernel kill (host memory) or a crash; "
    "'Fatal Python error' or SIGSEGV in the worker's .err file is a crash too. Neither: `ray stop --force`, `kill -9` or the job system ended it"
)
_READ_OWN_LOG = "`ray list actors --filter state=DEAD --detail` shows each dead actor's own cause; read the log of the one that died first"
_NO_RAY_HERE = (
    "Run the driver on a node of the cluster, or start Ray in this host or container first (`ray start --address=HEAD:6379`); "
    "containers of one node must share /tmp/ray. From outside, use `ray job submit --address=http://HEAD:8265`"
)

RAY_ERRORS: tuple[KnownError, ...] = (
    # Names of actors.
    KnownError(
        name="ray-gcs-no-session-name",
        marker="Could not read 'session_name' from GCS",
        pattern=r"Could not read 'session_name' from GCS\. Did GCS start successfully\?",
        cause="Ray's GCS on the head answered nothing when a process of Ray began: it did not start, or has ended",
        remedy="On the head, read gcs_server.out and gcs_server.err in logs of the newest session in /tmp/ray: a port that is in use, a full disk and too little memory "
        "are frequent; end what is left over (`ray stop`), then `ray start --head` again",
        source="ray/_private/node.py 2.9 to 2.60; Jiayi-Pan/TinyZero issue 75",
        matches=("ConnectionError: Could not read 'session_name' from GCS. Did GCS start successfully?",),
        differs=(
            "ValueError: Session name session_1 does not match persisted value session_2. Perhaps there was an error connecting to Redis.",
        ),
    ),
    KnownError(
        name="verl-register-center-name-taken",
        marker="_register_center (namespace=",
        pattern=r"The name (?P<actor_name>\w{1,80}_register_center) \(namespace=[^)\n]{0,80}\) is already taken",
        cause="The actor {actor_name} exists already in the namespace of this job; veRL makes that name at random in each run, so rank 0 of this same run "
        "probably created it before",
        remedy="`ray list actors --filter name={actor_name}` shows its job. This same job: rank 0 of that worker group was constructed twice; fix the first "
        "error of a WorkerDict above this line, or use a newer veRL. A job that has ended: `cockpit kill-actor {actor_name}`",
        source="hiyouga/EasyR1 issue 314, Visual-Agent/DeepEyes issue 57, volcengine/verl single_controller/base/worker.py (0015dbb)",
        matches=(
            "ValueError: The name ZChSMX_register_center (namespace=None) is already taken. Please use a different name or get the existing actor using "
            "ray.get_actor('ZChSMX_register_center', namespace='None')",
        ),
        differs=(
            "Failed to look up actor with name 'N4K03i_register_center'. This could because 1. You are trying to look up a named actor you didn't create.",
            "WARNING:2025-05-13 10:53:20,328:Waiting for register center actor N4K03i_register_center to be ready. Elapsed time: 0 seconds out of 300 seconds.",
        ),
        action="kill-actor",
        look_up="actor-name",
    ),
    KnownError(
        name="ray-actor-name-taken",
        marker="is already taken. Please use a different name or get the existing actor",
        pattern=r"The name (?P<actor_name>[^\n(]{1,120}) \(namespace=(?:None|(?P<namespace>[^)\n]{0,80}))\) is already taken\. Please use",
        cause="An actor with the name {actor_name} exists already in that namespace, so Ray refused to create a second one",
        remedy="`ray list actors --filter name={actor_name}` shows its job. A detached actor of a job that has ended keeps its name: `cockpit kill-actor {actor_name}`. "
        "An actor of this same job: the code creates it twice; use `get_if_exists=True` in `.options(...)`",
        source="ray actor.py 2.60",
        matches=(
            "ray.exceptions.ActorAlreadyExistsError: The name SerialPoolBroker (namespace=None) is already taken. Please use a different name or get the "
            "existing actor using ray.get_actor('SerialPoolBroker', namespace='None')",
            "ValueError: The name agent_loop_worker_0 (namespace=train) is already taken. Please use a different name or get the existing actor using "
            "ray.get_actor('agent_loop_worker_0', namespace='train')",
        ),
        differs=(
            "ValueError: This name is already taken. Please use a different name or log in.",
            "ValueError: Failed to look up actor with name 'SerialPoolBroker'. This could because 1. You are trying to look up a named actor you didn't create.",
        ),
        action="kill-actor",
        look_up="actor-name",
    ),
    KnownError(
        name="ray-actor-name-exists",
        marker="already exists in the namespace",
        pattern=r"Actor with name '(?P<actor_name>[^'\n]{1,120})' already exists in the namespace (?P<namespace>[\w-]{1,80})",
        cause="An actor with the name {actor_name} exists already in the namespace {namespace}, so the head refused to register a second one",
        remedy="`ray list actors --filter name={actor_name}` shows its job. A detached actor of a job that has ended keeps its name: `cockpit kill-actor {actor_name}`. "
        "Two processes of this same job create it: use `get_if_exists=True` in `.options(...)`",
        source="gcs_server 2.60 (strings), ray-project/ray pull request 54953 and issue 20611",
        matches=(
            "ray.exceptions.ActorAlreadyExistsError: Actor with name 'synchronizer' already exists in the namespace 7f3e2f0c-trinity",
        ),
        differs=(
            "Actor with name 'synchronizer' was not found.",
            "Key already exists in the namespace session",
        ),
        action="kill-actor",
        look_up="actor-name",
    ),
    KnownError(
        name="ray-actor-name-not-found",
        marker="Failed to look up actor with name '",
        pattern=r"Error: Failed to look up actor with name '(?P<name>[^'\n]{1,120})'",
        cause="No living actor has the name {name} in the caller's namespace: it was not created there, or it has died",
        remedy="`ray list actors --filter name={name}` shows it. DEAD: fix its death cause first. ALIVE in another namespace: give `namespace=` to "
        "`ray.get_actor` or `ray.init`. Not listed: the part that creates it failed or is slower",
        source="verl-project/verl issue 1502, RLinf/RLinf issue 237, agentscope-ai/Trinity-RFT issue 236, _raylet.so 2.60 (strings)",
        matches=(
            "ValueError: Failed to look up actor with name 'env_buffer_list:0'. This could because 1. You are trying to look up a named actor you didn't create. "
            "2. The named actor died. 3. You did not use a namespace matching the namespace of the actor.",
        ),
        differs=(
            "[2025-05-13 10:53:26,347 W 3061289 3061289] actor_manager.cc:110: Failed to look up actor with name 'N4K03i_register_center'. This could because 1. "
            "You are trying to look up a named actor you didn't create.",
            "ValueError: Failed to look up placement group with name: pg",
        ),
        look_up="actor-name",
        is_consequence=True,
    ),
    KnownError(
        name="verl-register-center-timeout",
        marker="register_center_actor",
        pattern=r"ailed to get register_center_actor:? (?P<group>\w{1,40})_register_center in \[",
        cause="veRL waited in vain for rank 0 of the worker group {group}: that worker failed, or it did not start in time",
        remedy="`ray list actors` shows whether WorkerDict of rank 0 is PENDING (no free GPU or CPU: `ray status`, also leftovers of an earlier run) or DEAD "
        "(read its first error). If it is only slow: `trainer.ray_wait_register_center_timeout=900`",
        source="verl-project/verl issue 491, pull request 947",
        matches=(
            "AssertionError: failed to get register_center_actor: t2Lrtj_register_center in [{'name': 't2LrtjWorkerDict_0:0', 'namespace': '47191b06'}]",
            "TimeoutError: Failed to get register_center_actor t2Lrtj_register_center in [] for 300 seconds. Ensure that any lingering Ray resources from previous "
            "runs are cleaned up (e.g., by restarting the Ray cluster), ",
        ),
        differs=('    register_center_actor = ray.get_actor(f"{self.name_prefix}_register_center")',),
        is_consequence=True,
    ),
    # The head and its GCS.
    KnownError(
        name="ray-gcs-address-without-host",
        marker="Failed to connect to GCS at address :",
        pattern=r"Failed to connect to GCS at address :(?P<peer_port>\d{1,5})\b",
        cause="Ray got the head's address without a host (only :{peer_port}), so the variable that should hold the host was empty",
        remedy="Set that variable on every node before the launch script runs: `export MASTER_ADDR=10.0.0.2` (or the name that the script uses in "
        "`ray start --address=...:{peer_port}`), with the address of the head node",
        source="ModalMinds/MM-EUREKA issue 54, GAIR-NLP/LIMR issue 1",
        matches=(
            "[2025-07-23 10:05:49,679 W 51000 51000] gcs_rpc_client.h:151: Failed to connect to GCS at address :6379 within 5 seconds.",
            "[2025-02-18 08:33:41,093 E 283990 283990] gcs_rpc_client.h:179: Failed to connect to GCS at address :6379 within 5 seconds.",
        ),
        differs=(
            "[2025-02-16 16:05:55,537 E 350061 350061] gcs_rpc_client.h:179: Failed to connect to GCS at address 10.0.0.2:20000 within 5 seconds.",
        ),
    ),
    KnownError(
        name="ray-default-address-stale",
        marker="Failed to connect to the default Ray cluster address at",
        pattern=r"Failed to connect to the default Ray cluster address at (?P<address>[\w.:\[\]-]{3,80}?)\. This is most likely",
        cause="The file ray_current_cluster of this host still names the cluster at {address}, and no such cluster answered",
        remedy="If that cluster is gone: `rm /tmp/ray/ray_current_cluster` on this host, then start the job again. If it should run: start its head again and look "
        "there into /tmp/ray/session_latest/logs/gcs_server.out. `ray stop` does the first too, but stops every Ray of the host",
        source="ray _private/worker.py 2.60, alibaba/ROLL issue 147",
        matches=(
            "2025-08-01 10:00:00,000 INFO worker.py:1700 -- Failed to connect to the default Ray cluster address at 10.0.0.2:6379. This is most likely due to a "
            "previous Ray instance that has since crashed. To reset the default address to connect to, run `ray stop` or restart Ray with `ray start`.",
        ),
        differs=("INFO worker.py:1636 -- Connecting to existing Ray cluster at address: 10.0.0.2:6379...",),
    ),
    KnownError(
        name="ray-gcs-not-reachable",
        marker="connect to GCS at ",
        pattern=r"(?:Failed|Unable) to connect to GCS at (?:address )?(?P<host>[\w.-]{1,80}):(?P<peer_port>\d{1,5})(?: within \d{1,6} seconds|\. Check that)",
        cause="No Ray head answered at {host}:{peer_port}: its GCS does not run there, or the network blocks the port",
        remedy="On this node, `nc -zv {host} {peer_port}`. Refused: start the head first, or the address belongs to an older cluster (see `echo $RAY_ADDRESS`, "
        "/tmp/ray/ray_current_cluster). Timeout: firewall, VPN or a wrong interface (`ip route get {host}`). Both ends need the same Ray version",
        source="Jiayi-Pan/TinyZero issue 75, vllm-project/vllm issue 15385, secretflow/secretflow issue 467, ray-project/ray issue 49149 (VPN)",
        matches=(
            "[2025-02-16 16:05:55,537 E 350061 350061] gcs_rpc_client.h:179: Failed to connect to GCS at address 10.0.0.2:20000 within 5 seconds.",
            "Unable to connect to GCS at 10.0.0.2:9008. Check that (1) Ray GCS with matching version started successfully at the specified address, and (2) there is "
            "no firewall setting preventing access.",
        ),
        differs=(
            "gcs_rpc_client.h:533: Failed to connect to GCS within 60 seconds. GCS may have been killed.",
            "Failed to connect to GCS, TaskEventBuffer will stop now. [status=IOError]",
        ),
    ),
    KnownError(
        name="ray-gcs-not-available",
        marker="Timed out while waiting for GCS to become available",
        pattern=r"Timed out while waiting for GCS to become available",
        cause="The Ray head's GCS did not answer in time, so this process could not join the cluster",
        remedy='The lines above name the address ("Failed to connect to GCS at address"). On the head, `ray status` and the end of '
        "/tmp/ray/session_latest/logs/gcs_server.out show whether it runs; from here `nc -zv HEAD 6379` tests the network",
        source="Jiayi-Pan/TinyZero issue 75, ModalMinds/MM-EUREKA issue 54",
        matches=(
            "[2025-02-16 16:06:26,552 W 350061 350061] gcs_client.cc:178: Failed to get cluster ID from GCS server: TimedOut: Timed out while waiting for GCS to become available.",
            "ray.exceptions.RpcError: Timed out while waiting for GCS to become available.",
        ),
        differs=("There was timeout in getting the actor handle, probably because the GCS server is dead or under high load .",),
    ),
    KnownError(
        name="ray-gcs-lost",
        marker="GCS may have been killed",
        pattern=r"Failed to connect to GCS within (?P<seconds>\d{1,6}) seconds\. GCS may have been killed",
        cause="This process lost the Ray head for {seconds} seconds: the head's GCS ended or the network to the head broke, so the process ended too",
        remedy="Look at the head: the end of /tmp/ray/session_latest/logs/gcs_server.out, `dmesg -T | grep -i 'killed process'`, full disk or memory, or `ray stop`. "
        "Then restart all nodes of the cluster, since workers do not join a new head by themselves",
        source="ray-project/ray issue 34334, _raylet.so 2.60 (strings), issues 45570 and 64349",
        matches=(
            "[2023-04-12 11:23:25,823 E 946 946] (raylet) gcs_rpc_client.h:533: Failed to connect to GCS within 60 seconds. GCS may have been killed. It's either GCS "
            "is terminated by `ray stop` or is killed unexpectedly. If it is killed unexpectedly, see the log file gcs_server.out.",
        ),
        differs=("gcs_rpc_client.h:179: Failed to connect to GCS at address 10.0.0.2:6379 within 5 seconds.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-cluster-connect-failed",
        marker="Failed to connect to Ray cluster at",
        pattern=r"ConnectionError: Failed to connect to Ray cluster at (?P<address>[\w.:\[\]-]{3,80})",
        cause="`ray.init` could not connect to the Ray cluster at {address}; the exception above that says why",
        remedy='Fix the exception above ("The above exception was the direct cause"). No head there: check with `ray status --address={address}`; this host is not a '
        "node of that cluster: run the job on one, or `ray start --address={address}` first",
        source="ray _private/worker.py 2.60",
        matches=("ConnectionError: Failed to connect to Ray cluster at 10.0.0.2:6379",),
        differs=("ConnectionError: Failed to connect to Ray at address: http://10.0.0.2:8265.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-no-running-instance",
        marker="Could not find any running Ray instance",
        pattern=r"Could not find any running Ray instance\.",
        cause="The program asked for a Ray that runs already (address auto), and no Ray runs on this host or in this container",
        remedy="Start Ray here first: `ray start --head` on the head, `ray start --address=HEAD:6379` on other nodes; or name the cluster: "
        "`export RAY_ADDRESS=HEAD:6379`. To let the program start its own Ray: `unset RAY_ADDRESS` and call `ray.init()` without an address",
        source="ray _private/services.py 2.60, allwefantasy/auto-coder issue 22, ray-project/ray issue 8089",
        matches=(
            "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting `--address` flag or `RAY_ADDRESS` environment variable.",
            "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to by setting `address`.",
        ),
        differs=("Did not find any active Ray processes.", "INFO worker.py:1841 -- Started a local Ray instance."),
    ),
    KnownError(
        name="ray-several-instances",
        marker="Found multiple active Ray instances",
        pattern=r"ConnectionError: Found multiple active Ray instances: (?P<addresses>[^\n]{1,200}?)\. Please specify",
        cause="Several Ray clusters run on this host ({addresses}), and the program did not say which one it wants",
        remedy="Name it: `export RAY_ADDRESS=HOST:PORT` with one of these addresses. `ps -ef | grep [g]cs_server` shows whose each one is; end a leftover by its process "
        "number (`ray stop` would stop all of them)",
        source="ray _private/services.py 2.60",
        matches=(
            "ConnectionError: Found multiple active Ray instances: {'10.0.0.2:6379', '10.0.0.2:6380'}. Please specify the one to connect to by setting the `--address` "
            "flag or `RAY_ADDRESS` environment variable.",
        ),
        differs=(
            "Found multiple active Ray instances: {'10.0.0.2:6379', '10.0.0.2:6380'}. Connecting to latest cluster at 10.0.0.2:6380.",
        ),
    ),
    KnownError(
        name="ray-client-timeout",
        marker="ay client connection timeout",
        pattern=r"ConnectionError: ray client connection timeout",
        cause="No Ray Client server answered at the ray:// address of `ray.init`",
        remedy="Use the client port of the head, 10001 by default, not the GCS port 6379: `nc -zv HEAD 10001`, then `ray.init('ray://HEAD:10001')` with the head's versions "
        "of Ray and Python. On a node of the cluster use `ray.init(address='auto')`",
        source="ray-project/ray issue 46733, vllm-project/vllm issue 14349, ray-project/kuberay issue 1687",
        matches=("ConnectionError: ray client connection timeout",),
        differs=(
            "INFO client_builder.py:244 -- Passing the following kwargs to ray.init() on the server: ignore_reinit_error, log_to_driver",
        ),
    ),
    KnownError(
        name="ray-head-already-running",
        marker="Ray is trying to start at",
        pattern=r"Ray is trying to start at (?P<new_address>[\w.:\[\]-]{3,80}), but is already running at (?P<running>[\w.:\[\]-]{3,80}?)\. Please",
        cause="A Ray head runs already at {running} on this host, so `ray start --head` (for {new_address}) refused to start",
        remedy="To use it: leave out `ray start --head`, since jobs find it by `RAY_ADDRESS={running}`. If it is left over and nobody uses it: `ray stop` (it stops every "
        "Ray of this host). For a second head: `ray start --head --port=6380` with other dashboard and worker ports",
        source="ray scripts/scripts.py 2.60",
        matches=(
            "ConnectionError: Ray is trying to start at 10.0.0.2:6379, but is already running at 10.0.0.2:6379. Please specify a different port using the `--port` flag of `ray start` command.",
        ),
        differs=("Found multiple active Ray instances: {'10.0.0.2:6379'}. Connecting to latest cluster at 10.0.0.2:6379.",),
    ),
    KnownError(
        name="ray-init-twice",
        marker="twice by accident?",
        pattern=r"Maybe you called ray\.init(?:\(\"ray://<address>\"\))? twice by accident\?",
        cause="This process called `ray.init` a second time while it was connected",
        remedy="Call it once: `if not ray.is_initialized(): ray.init(...)`, or pass `ignore_reinit_error=True`; `ray.shutdown()` first if you want another cluster",
        source="ray _private/worker.py and util/client_connect.py 2.60",
        matches=(
            "RuntimeError: Maybe you called ray.init twice by accident? This error can be suppressed by passing in 'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'.",
            'RuntimeError: Ray Client is already connected. Maybe you called ray.init("ray://<address>") twice by accident?',
        ),
        differs=("INFO worker.py:1855 -- Calling ray.init() again after it has already been called.",),
    ),
    KnownError(
        name="ray-not-started",
        marker="Ray has not been started yet",
        pattern=r"Ray has not been started yet\. You can start Ray with 'ray\.init\(\)'",
        cause="This process called Ray while it was not connected: before `ray.init`, after `ray.shutdown`, or in a child process of the driver",
        remedy="Call `ray.init(address='auto')` in this process before the first Ray call; a process that multiprocessing starts does not inherit the driver's connection. "
        "In a job that is ending, the error before this one is the real one",
        source="ray _private/worker.py 2.60",
        matches=("ray.exceptions.RaySystemError: System error: Ray has not been started yet. You can start Ray with 'ray.init()'.",),
        differs=("RuntimeError: Maybe you called ray.init twice by accident?",),
    ),
    KnownError(
        name="ray-existing-cluster-argument",
        marker="When connecting to an existing cluster,",
        pattern=r"When connecting to an existing cluster, (?P<argument>[\w ]{1,60}?) must not be provided",
        cause="`ray.init` got {argument}, but it joined a Ray that runs already, where only `ray start` can set that",
        remedy="Leave it out (veRL: `ray_kwargs.ray_init.num_cpus=null`, older `ray_init.num_cpus=null`), or let the job start its own Ray: `unset RAY_ADDRESS`, and no Ray "
        "may run on this host (`ray status`)",
        source="ray _private/worker.py 2.60",
        matches=(
            "ValueError: When connecting to an existing cluster, num_cpus and num_gpus must not be provided.",
            "ValueError: When connecting to an existing cluster, object_store_memory must not be provided.",
        ),
        differs=("INFO worker.py:1636 -- Connecting to existing Ray cluster at address: 10.0.0.2:6379...",),
    ),
    KnownError(
        name="ray-version-mismatch",
        marker="Version mismatch: The cluster was started with:",
        pattern=r"Error: Version mismatch: The cluster was started with:\s{1,9}Ray: (?P<ray>\S{1,30})\s{1,9}Python: (?P<python>\S{1,30})\s{1,9}"
        r"This process on (?P<process>[^\n:]{1,60}) was started with:\s{1,9}Ray: (?P<own_ray>\S{1,30})\s{1,9}Python: (?P<own_python>\S{1,30})",
        cause="The cluster has Ray {ray} and Python {python}, but the process on {process} has Ray {own_ray} and Python {own_python}",
        remedy="Use one environment or container image on all nodes and in the driver: `pip install ray=={ray}` with Python {python} there (Python must agree to the patch version), "
        "then start Ray on that node again",
        source="ray _private/utils.py 2.60, ray-project/ray issue 50511",
        matches=(
            "RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.39.0\n    Python: 3.10.14\nThis process on node 10.0.0.2 was started with:\n    Ray: 2.39.0\n    Python: 3.10.15\n",
            "RuntimeError: Version mismatch: The cluster was started with: Ray: 2.39.0 Python: 3.10.14 This process on node 10.0.0.2 was started with: Ray: 2.39.0 Python: 3.10.15",
        ),
        differs=(
            "WARNING utils.py:1436 -- Python patch version mismatch: The cluster was started with:\n    Ray: 2.39.0\n    Python: 3.10.14\nThis process on Ray Client was started with:\n    Ray: 2.39.0\n    Python: 3.10.15\n",
        ),
    ),
    KnownError(
        name="ray-version-mismatch-short",
        marker="ersion mismatch: ",
        pattern=r"RuntimeError: (?:Version mismatch: The cluster was started with:|Ray version mismatch: cluster has Ray version)",
        cause="This process has another version of Ray or Python than the cluster",
        remedy="Use one environment or container image on all nodes and in the driver (Python down to the patch version): compare `ray --version; python --version` here and on the "
        "head, install the head's versions, then start Ray on that node again",
        source="ray _private/utils.py and scripts/scripts.py 2.60",
        matches=(
            "RuntimeError: Version mismatch: The cluster was started with:",
            "RuntimeError: Ray version mismatch: cluster has Ray version 2.47.1 but local Ray version is 2.48.0",
        ),
        differs=("WARNING utils.py:1436 -- Python patch version mismatch: The cluster was started with:",),
        is_general=True,
    ),
    KnownError(
        name="ray-token-missing",
        marker="authentication token",
        pattern=r"Token authentication is enabled but no authentication token was found|Unauthorized: Missing authentication token",
        cause="The Ray cluster wants a token (token authentication is on), and this process has none",
        remedy="Copy the head's ~/.ray/auth_token (mode 600) to this node and account, and `export RAY_AUTH_MODE=token` before `ray start` or the job (an explicit address does not "
        "pick the token up by itself). On a closed network: `RAY_AUTH_MODE=disabled` for the whole cluster",
        source="ray _private/authentication/authentication_constants.py 2.60",
        matches=(
            "ray.exceptions.AuthenticationError: Token authentication is enabled but no authentication token was found. Note: RAY_AUTH_MODE is currently 'disabled' (not 'token').",
            "RuntimeError: Request failed with status code 401: Unauthorized: Missing authentication token.",
        ),
        differs=(
            "No authentication token found. Use ray `get-auth-token --generate` to create one.",
            "403 Forbidden: Invalid authentication token",
        ),
    ),
    KnownError(
        name="ray-token-wrong",
        marker="authentication token",
        pattern=r"Token authentication is enabled but the authentication token is invalid|Forbidden: Invalid authentication token",
        cause="The Ray cluster did not accept the token of this process: it belongs to another cluster or account",
        remedy="Copy the head's ~/.ray/auth_token to this node and account; look also for `RAY_AUTH_TOKEN` and `RAY_AUTH_TOKEN_PATH` in the environment, since they come before the file; "
        "then start Ray on this node again",
        source="ray _private/authentication/authentication_constants.py 2.60",
        matches=(
            "ray.exceptions.AuthenticationError: Token authentication is enabled but the authentication token is invalid or incorrect..",
            "RuntimeError: Request failed with status code 403: Forbidden: Invalid authentication token.",
        ),
        differs=("401 Unauthorized: Missing authentication token", "huggingface_hub.errors.HfHubHTTPError: 403 Forbidden: None."),
    ),
    # Nodes: start, address, directories, death.
    KnownError(
        name="ray-node-address-unknown",
        marker="none of these match this node's IP",
        pattern=r"Connected to (?:GCS|Redis) at (?P<head>[\w.:-]{3,60}),? and found raylets at (?P<raylets>[^\n]{0,300}?),? but none of these match this node's IP (?P<node_ip>[\w.:-]{3,45}?)\. ",
        cause="This host calls itself {node_ip}, but the cluster at {head} has no node with that address (its nodes: {raylets})",
        remedy="Not a node of the cluster: `ray start --address={head}:6379` here first, or use `ray job submit`. A node with several addresses: start Ray on it again with "
        "`--node-ip-address={node_ip}`, or give the driver the listed address (`ray.init(_node_ip_address=...)`)",
        source="ray global_state_accessor.cc",
        matches=(
            "RuntimeError: This node has an IP address of 10.0.0.7, and Ray expects this IP address to be either the GCS address or one of the Raylet addresses. Connected to GCS at 10.0.0.2 "
            "and found raylets at 10.0.0.3, 10.0.0.4 but none of these match this node's IP 10.0.0.7. Are any of these actually a different IP address for the same node?You might need to "
            "provide --node-ip-address to specify the IP address that the head should use when sending to this node.",
        ),
        differs=(
            "INFO: This node has an IP address of 10.0.0.7, but we cannot find a local Raylet with the same address. This can happen when you connect to the Ray cluster with a different IP "
            "address or when connecting to a container.",
        ),
    ),
    KnownError(
        name="ray-no-node-on-this-host",
        marker="Can't find a `node_ip_address.json` file",
        pattern=r"Can't find a `node_ip_address\.json` file from (?P<path>\S{1,200}?)\.? for \d{1,6} seconds",
        cause="The driver found the cluster, but no Ray node runs on this host or in this container ({path} has no node file)",
        remedy=_NO_RAY_HERE,
        source="ray _private/services.py 2.60; ray-project/ray issues 56076, 39385, 45010",
        matches=(
            "ValueError: Can't find a `node_ip_address.json` file from /tmp/ray/session_2026-01-27_23-34-45_963846_7. for 60 seconds. \nA ray instance hasn't started. Did you do `ray start` or "
            "`ray.init` on this host?",
        ),
        differs=("FileNotFoundError: [Errno 2] No such file or directory: '/data/node_ip_address.json'",),
    ),
    KnownError(
        name="ray-no-node-info",
        marker="No node info found matching attributes",
        pattern=r"No node info found matching attributes: '(?P<attributes>[^'\n]{0,200})' when trying to resolve node to connect to",
        cause="The driver found the cluster, but no living Ray node of it runs on this host or in this container",
        remedy=_NO_RAY_HERE,
        source="ray _private/services.py 2.60",
        matches=("RuntimeError: No node info found matching attributes: '' when trying to resolve node to connect to.",),
        differs=("RuntimeError: Timed out waiting for node info for node_id=8f3c.",),
    ),
    KnownError(
        name="ray-driver-processes-not-registered",
        marker="Have you run 'ray start' on this node?",
        pattern=r"Some processes that the driver needs to connect to have not registered with GCS",
        cause="The driver waits for a Ray node on this host: none has joined the cluster yet",
        remedy=_NO_RAY_HERE,
        source="_raylet.so 2.60 (strings)",
        matches=(
            "Some processes that the driver needs to connect to have not registered with GCS, so retrying. Have you run 'ray start' on this node?",
        ),
        differs=("Some workers of the worker process(1234) have not registered within the timeout.",),
        is_warning=True,
    ),
    KnownError(
        name="ray-node-start-timeout",
        marker="The current node timed out during startup",
        pattern=r"The current node timed out during startup\. This could happen because",
        cause="This node's Ray did not register with the head in time: its raylet failed at the start, or the head is overloaded",
        remedy="Read the reason: `tail -n 50 /tmp/ray/session_latest/logs/raylet.err /tmp/ray/session_latest/logs/raylet.out /tmp/ray/session_latest/logs/dashboard_agent.log` on this node. "
        "Many nodes at once: start them in groups; slow disk: put `--temp-dir` on a local disk",
        source="ray _private/node.py 2.60",
        matches=(
            "Exception: The current node timed out during startup. This could happen because some of the raylet failed to startup or the GCS has become overloaded.",
        ),
        differs=("RuntimeError: Timed out waiting for node info for node_id=8f3c.",),
    ),
    KnownError(
        name="ray-session-name-mismatch",
        marker="does not match persisted value",
        pattern=r"Session name (?P<own>session_[\w-]{1,60}) does not match persisted value b?'?(?P<other>session_[\w-]{1,60}|None)",
        cause="Another Ray head answered at this head's port: it belongs to {other}, while this start made {own} (or the external Redis still holds that old session)",
        remedy="`ps -ef | grep [g]cs_server` on this host and in containers with host network: end the old head if nobody uses it (`ray stop` stops every Ray of the host), or use "
        "`ray start --head --port=6380`. With an external Redis: a new `RAY_external_storage_namespace`",
        source="ray _private/node.py 2.60",
        matches=(
            "AssertionError: Session name session_2025-07-26_11-11-23_919839_82775 does not match persisted value b'session_2025-07-20_20-10-55_307915_26236'. Perhaps there was an error connecting to Redis.",
            "AssertionError: Session name session_2026-07-26_11-11-23_919839_82775 does not match persisted value None. Perhaps there was an error connecting to the GCS storage backend.",
        ),
        differs=("The changeFromQuantity value does not match persisted value.",),
    ),
    KnownError(
        name="ray-redis-not-reachable",
        marker="Unable to connect to Redis at",
        pattern=r"Unable to connect to Redis at (?P<host>[\w.-]{1,100}):(?P<peer_port>\d{1,5})\b",
        cause="Ray could not connect to Redis at {host}:{peer_port}, where the head keeps its state",
        remedy="`redis-cli -h {host} -p {peer_port} ping` on this node (add `-a PASSWORD`): no PONG means Redis is down, blocked, or wants a password (`--redis-password`). If no external Redis is "
        "meant: `unset RAY_REDIS_ADDRESS`",
        source="ray _private/services.py 2.60",
        matches=("RuntimeError: Unable to connect to Redis at 10.0.0.2:6380: Error 111 connecting to 10.0.0.2:6380. Connection refused.",),
        differs=("redis.exceptions.ConnectionError: Error 111 connecting to 10.0.0.2:6380. Connection refused.",),
    ),
    KnownError(
        name="ray-directory-permission",
        marker="Permission denied: '",
        pattern=r"\[Errno 13\] Permission denied: '(?P<path>(?:/tmp/ray|[^'\n]{0,120}/ray/session_|[^'\n]{0,120}/ray_current_cluster|/tmp/_ray_lockfiles)[^'\n]{0,200})'",
        cause="This account may not write {path}; usually another user of the host started Ray first and owns it",
        remedy="Give Ray a directory of your own: `mkdir -p /tmp/$USER; export RAY_TMPDIR=/tmp/$USER` before `ray start` and the job (keep it short: a socket path may have 107 bytes), or "
        "`ray start --head --temp-dir=/tmp/$USER/ray`",
        source="ray-project/ray issues 3899, 4593, 20634, 22525 and 32776",
        matches=(
            "PermissionError: [Errno 13] Permission denied: '/tmp/ray/ray_current_cluster'",
            "PermissionError: [Errno 13] Permission denied: '/tmp/ray/session_2025-01-01_10-00-00_1_2'",
            "PermissionError: [Errno 13] Permission denied: '/scratch/ray/session_latest'",
        ),
        differs=("PermissionError: [Errno 13] Permission denied: '/data/checkpoints/global_step_10'",),
    ),
    KnownError(
        name="unix-socket-path-too-long",
        marker="AF_UNIX path too long",
        pattern=r"OSError: AF_UNIX path too long",
        cause="A process tried to open a Unix socket whose path has more than 107 bytes, since its temporary directory has a long path",
        remedy="Set a short one before the start, on all nodes: `export TMPDIR=/tmp` (for Ray also `export RAY_TMPDIR=/tmp/$USER`; for vLLM `export VLLM_RPC_BASE_PATH=/tmp`)",
        source="CPython 3.11 _socket (strings)",
        matches=("OSError: AF_UNIX path too long",),
        differs=("OSError: [Errno 36] File name too long: 'a'",),
    ),
    KnownError(
        name="ray-object-store-larger-than-shm",
        marker="The configured object store size",
        pattern=r"The configured object store size \((?P<asked>[\d.]{1,20}) GB\) exceeds /dev/shm size \((?P<free>[\d.]{1,20}) GB\)",
        cause="Ray's object store should have {asked} GB, but /dev/shm of this host or container has only {free} GB available",
        remedy="Give the container more: `docker run --shm-size=200g` (Kubernetes: an emptyDir with `medium: Memory` at /dev/shm), remove leftovers in /dev/shm (`ls -l /dev/shm`), or ask for less: "
        "`ray start --object-store-memory=20000000000` (bytes)",
        source="ray _private/services.py 2.60",
        matches=(
            "ValueError: The configured object store size (200.0 GB) exceeds /dev/shm size (67.108864 GB). This will harm performance. Consider deleting files in /dev/shm or increasing its size with "
            "--shm-size in Docker. To ignore this warning, set RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE=1.",
        ),
        differs=("WARNING: The object store is using /tmp/ray instead of /dev/shm because /dev/shm has only 67108864 bytes available.",),
        look_up="shm",
    ),
    KnownError(
        name="ray-object-store-not-in-shm",
        marker="instead of /dev/shm because /dev/shm has only",
        pattern=r"The object store is using (?P<place>\S{1,200}) instead of /dev/shm because /dev/shm has only (?P<bytes>\d{1,20}) bytes available",
        cause="Ray's object store is on disk in {place}, because /dev/shm has only {bytes} bytes available; this is slow, but not an error",
        remedy="Give the container more: `docker run --shm-size=200g` (Kubernetes: an emptyDir with `medium: Memory` at /dev/shm; more than 30 % of the host's memory), and remove leftovers: "
        "`ls -l /dev/shm`",
        source="ray _private/services.py 2.60, ray-project/ray issues 2917 and 11950",
        matches=(
            "WARNING services.py:2248 -- WARNING: The object store is using /tmp/ray instead of /dev/shm because /dev/shm has only 67108864 bytes available. This will harm performance!",
        ),
        differs=("ValueError: The configured object store size (200.0 GB) exceeds /dev/shm size (67.108864 GB).",),
        look_up="shm",
        is_warning=True,
    ),
    KnownError(
        name="ray-agent-failed",
        marker="The raylet exited immediately because one Ray agent failed",
        pattern=r"because one Ray agent failed, agent_name = (?P<agent>\w{1,40}?)(?:/\d{1,10})?\.?\s",
        cause="The {agent} process of a Ray node ended, and the node's raylet ended with it",
        remedy="Read the end of /tmp/ray/session_latest/logs/dashboard_agent.log and runtime_env_agent.log on that node: a port in use, a wrong grpcio (`pip show grpcio`), or no line at all "
        "(killed: `dmesg -T | grep -i 'killed process'`, or a process limit, `ulimit -u`)",
        source="raylet 2.60 (strings), ray-project/ray issues 41343 and 49162",
        matches=(
            "[2025-05-08 15:00:26,661 E 159 228] (raylet) agent_manager.cc:87: The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent.\nThe raylet fate shares with "
            "the agent. This can happen because\n- The version of `grpcio` doesn't follow Ray's requirement.",
            "(raylet) The raylet exited immediately because one Ray agent failed, agent_name = dashboard_agent/424238335.\n",
        ),
        differs=("The raylet exited immediately because the runtime env agent timed out when Raylet try to connect to it.",),
    ),
    KnownError(
        name="ray-runtime-env-agent-timeout",
        marker="The raylet exited immediately because the runtime env agent timed out",
        pattern=r"The raylet exited immediately because the runtime env agent timed out when Raylet try to connect to it",
        cause="A node's raylet could not reach its runtime env agent, so the raylet ended: the agent did not start, or it listens on another port",
        remedy="Read /tmp/ray/session_latest/logs/runtime_env_agent.log and .err on that node. A port in use: `ray start --runtime-env-agent-port=0` lets Ray choose a free one; a slow start (network file "
        "system, overload): put the environment on a local disk",
        source="raylet 2.60 (strings)",
        matches=(
            "The raylet exited immediately because the runtime env agent timed out when Raylet try to connect to it. This can happen because the runtime env agent was never started, or is listening to the wrong port.",
        ),
        differs=("The raylet exited immediately because one Ray agent failed, agent_name = runtime_env_agent.",),
    ),
    KnownError(
        name="ray-raylet-terminated",
        marker="Termination is unexpected",
        pattern=r"Raylet is terminated(?:: ip=(?P<node_ip>[\w.:]{1,60}), id=\w{8,64})?\. Termination is unexpected",
        cause="The raylet (Ray's process of a node) ended unexpectedly, and all workers of that node ended with it",
        remedy="Below it stand the raylet's last lines: \"Check failed\" or a stack is a crash (often a limit: `ulimit -n 65536`, `ulimit -u`); nothing special: `dmesg -T | grep -iE 'oom|killed process'` on that node, the pod's OOMKilled, or somebody's `ray stop`",
        source="ray _private/process_watcher.py 2.60; ray-project/ray issues 59626 and 31119",
        matches=(
            "(raylet) Raylet is terminated. Termination is unexpected. Possible reasons include: (1) SIGKILL by the user or system OOM killer, (2) Invalid memory access from Raylet causing SIGSEGV or SIGBUS, (3) Other termination signals. Last 20 lines of the Raylet logs:",
            "2022-12-20 22:02:13,602\tERROR agent.py:217 -- Raylet is terminated: ip=10.0.0.2, id=5fa7195f6fdcb2f6. Termination is unexpected.",
        ),
        differs=("Raylet is terminated. Termination is graceful.",),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-node-marked-dead-itself",
        marker="mistakenly been marked as dead by the GCS",
        pattern=r"Exiting because this node manager has mistakenly been marked as dead by the GCS",
        cause="The head got no answer to its health checks of this node and declared it dead, so the raylet of this node ended",
        remedy="The machine or its network stood still: check load and memory at that time (`dmesg -T`, `sar`), swapping, a suspended container, lost packets to the head. For short stalls start the head with "
        "`RAY_health_check_failure_threshold=20 RAY_health_check_timeout_ms=30000`",
        source="raylet 2.60 (strings), ray-project/ray issues 59193, 54035 and 44680",
        matches=(
            "[Timeout] Exiting because this node manager has mistakenly been marked as dead by the GCS: GCS failed to check the health of this node for 5 times. This is likely because the machine or raylet has "
            "become overloaded.",
        ),
        differs=("Node is marked as dead by GCS as it's already shutting down.",),
    ),
    KnownError(
        name="ray-node-marked-dead",
        marker="has been marked dead because the detector",
        pattern=r"and address: (?P<node_ip>[\w.:-]{1,60}) and node name: (?P<node>\S{1,80}) has been marked dead because the detector has missed too many heartbeats",
        cause="The node {node} ({node_ip}) no longer answered the head's health checks, so Ray declared it dead",
        remedy="On {node_ip}: `uptime` (was it restarted?), `dmesg -T | tail -n 50` (memory kill, GPU or disk error) and the end of /tmp/ray/session_latest/logs/raylet.out; then start Ray there again. If the node "
        "was only overloaded, run fewer workers on it",
        source="gcs_server 2.60 (strings)",
        matches=(
            "2023-03-03 05:15:30,774 WARNING worker.py:1866 -- The node with node id: 9426f44574cce4866be798cfed308f2d3e21ba69487d422872cdd6e3 and address: 10.0.0.3 and node name: 10.0.0.3 has been marked dead because "
            "the detector has missed too many heartbeats from it. This can happen when a       (1) raylet crashes unexpectedly (OOM, preempted node, etc.)",
        ),
        differs=("the actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",),
    ),
    KnownError(
        name="ray-worker-not-registered",
        marker="Unable to register worker with raylet",
        pattern=r"Unable to register worker with raylet",
        cause="A process could not register with the raylet of its node: the raylet had ended, or it closed the connection before the process was registered",
        remedy="Read the end of raylet.out and raylet.err in /tmp/ray/session_latest/logs there. Often Ray starts more workers than the node allows (Slurm, cgroup, `ulimit -u`): give the real CPUs with "
        "`ray start --num-cpus=16`, in veRL `ray_kwargs.ray_init.num_cpus=16` (older: `ray_init.num_cpus=16`)",
        source="Jiayi-Pan/TinyZero issue 7, verl-project/verl issue 3972 and FAQ, LeapLabTHU/Absolute-Zero-Reasoner issue 15, vllm-project/vllm issue 1025, ray-project/ray issue 30012",
        matches=(
            "[2025-01-25 08:22:57,421 E 759 759] core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file worker_id=01000000ff",
            "core_worker.cc:201: Failed to register worker 01000000ff to Raylet. IOError: [RayletClient] Unable to register worker with raylet. No such file or directory",
        ),
        differs=(
            "Failed to register worker to Raylet: Invalid: Invalid: No available ports. Please specify a wider port range using --min-worker-port and --max-worker-port.",
        ),
    ),
    KnownError(
        name="ray-worker-socket-closed",
        marker="Failed to register worker to Raylet: IOError: ",
        pattern=r"Failed to register worker to Raylet: IOError: (?:\[RayletClient\] )?(?!\[RayletClient\] Unable)Failed to read data from the socket: End of file",
        cause="A process (often the driver itself) could not register with the raylet of its node, which closed the connection: the raylet had ended, or has another version of Ray or Python",
        remedy="Read the end of /tmp/ray/session_latest/logs/raylet.out and raylet.err there. Frequent: `ray.init` saw too many CPUs in a container (give num_cpus), limits (`ulimit -u`, `ulimit -n 65536`), or uv or conda mixed with another Python's Ray",
        source="alibaba/ROLL issue 263, NVIDIA-NeMo/RL issue 2112, Jiayi-Pan/TinyZero issue 7",
        matches=(
            "[2025-11-23 22:52:54,526 E 51567 51567] core_worker_process.cc:223: Failed to register worker to Raylet: IOError: Failed to read data from the socket: End of file worker_id=01000000ffffffff",
        ),
        differs=(
            "core_worker.cc:496: Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file",
            "Failed to register worker to Raylet: Invalid: Invalid: No available ports.",
        ),
    ),
    KnownError(
        name="ray-worker-start-hangs",
        marker="have not registered within the timeout",
        pattern=r"worker process\((?P<pid>\d{1,9})\) have not registered within the timeout\. The process is still alive",
        cause="The worker process {pid} was started, but it did not come up within Ray's limit (60 s by default); it was still alive",
        remedy="Its start is slow: Python imports from a network file system (use a local disk or image), `uv run` that builds an environment for each worker (`unset VIRTUAL_ENV`, or `uv run --active`), too many workers at "
        "once. More time: `export RAY_worker_register_timeout_seconds=600` before `ray start`",
        source="ray worker_pool.cc; public logs of uv and of network file systems",
        matches=(
            "(raylet) [2025-05-01 10:00:00,000 E 10 10] (raylet) worker_pool.cc:589: Some workers of the worker process(2345) have not registered within the timeout. The process is still alive, probably it's hanging during start.",
        ),
        differs=(
            "worker_pool.cc:589: Some workers of the worker process(2345) have not registered within the timeout. The process is dead, probably it crashed during start.",
        ),
    ),
    KnownError(
        name="ray-worker-start-crashed",
        marker="have not registered within the timeout",
        pattern=r"worker process\((?P<pid>\d{1,9})\) have not registered within the timeout\. The process is dead",
        cause="The worker process {pid} died while it started, before it registered with the raylet",
        remedy="On that node: `ls /tmp/ray/session_latest/logs/*{pid}*` and read these files; if there is none, its Python did not start at all: a missing interpreter or module, a space in its path, a process limit "
        "(`ulimit -u`), or no memory",
        source="ray worker_pool.cc",
        matches=(
            "(raylet) worker_pool.cc:589: Some workers of the worker process(2345) have not registered within the timeout. The process is dead, probably it crashed during start.",
        ),
        differs=(
            "worker_pool.cc:589: Some workers of the worker process(2345) have not registered within the timeout. The process is still alive, probably it's hanging during start.",
        ),
    ),
    KnownError(
        name="ray-more-gpus-than-visible",
        marker="Attempting to start raylet with",
        pattern=r"Attempting to start raylet with (?P<count>\d{1,4}) GPUs?, ?but (?P<variable>\w{1,40}) contains (?P<devices>\[[^\]\n]{0,200}\])",
        cause="Ray should start with {count} GPUs, but {variable} shows only {devices} to it",
        remedy="`unset {variable}` (or list all GPUs in it) before `ray start` and the job, or ask for as many GPUs as it lists: `--num-gpus`, in veRL `trainer.n_gpus_per_node`",
        source="ray _private/resource_and_label_spec.py 2.60, verl-project/verl issue 589",
        matches=(
            "ValueError: Attempting to start raylet with 8 GPU, but CUDA_VISIBLE_DEVICES contains ['0', '1'].",
            "ValueError: Attempting to start raylet with 8 GPUs, but CUDA_VISIBLE_DEVICES contains ['0', '1'].",
        ),
        differs=("Available GPUs: 2, CUDA_VISIBLE_DEVICES contains ['0', '1']",),
    ),
    # Dead workers and actors.
    KnownError(
        name="ray-actor-constructor-failed",
        marker="The actor died because of an error raised in its creation task",
        pattern=r"The actor died because of an error raised in its creation task, \S{0,20}?(?P<actor>ray::[\w.<>: -]{1,120}?)\(",
        cause="The constructor of the actor {actor} raised an exception; its traceback follows this line",
        remedy="Fix the last line of that traceback; if several actors report this, the one with the earliest time has the real error",
        source="ray exceptions.py 2.60 (ActorDiedError)",
        matches=(
            "ray.exceptions.ActorDiedError: The actor died because of an error raised in its creation task, ray::WorkerDict.__init__() (pid=1234, ip=10.0.0.2, actor_id=aa01000000, repr=<WorkerDict object at 0x7f>)",
        ),
        differs=("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-actor-killed-by-program",
        marker="The actor is dead because it was killed by `ray.kill`",
        pattern=r"The actor is dead because it was killed by `ray\.kill`",
        cause="Somebody ended the actor on purpose: the program itself (`ray.kill`) or a person (`ray kill-actor`, cockpit)",
        remedy="Look for an earlier error: frameworks kill their actors after a failure of another part. If there is none, ask who ended it, and start the job again",
        source="gcs_server 2.60 (strings)",
        matches=("The actor is dead because it was killed by `ray.kill`.",),
        differs=(
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ),
        is_consequence=True,
    ),
    KnownError(
        name="ray-actor-out-of-scope",
        marker="The actor is dead because all references to the actor were removed",
        pattern=r"The actor is dead because all references to the actor were removed",
        cause="The program gave up its last handle of the actor, so Ray ended the actor",
        remedy="If the job was ending, an earlier error is the cause. Else keep the handle as long as the actor is needed (an attribute of the trainer, not a local variable or a weak reference), or create the actor with "
        "`lifetime='detached'`",
        source="gcs_server 2.60 (strings), verl-project/verl pull request 65",
        matches=(
            "The actor is dead because all references to the actor were removed.",
            "The actor is dead because all references to the actor were removed including lineage ref count.",
        ),
        differs=("The actor is dead because it was killed by `ray.kill`.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-actor-owner-died",
        marker="The actor is dead because its owner has died",
        pattern=r"Owner Ip address: (?P<node_ip>\S{1,45}) Owner worker exit type: (?P<type>\w{1,40}) Worker exit detail: (?P<detail>[^\n]{1,160}?)\.?(?:\n|$)",
        cause="The actor ended because the process that created it, on {node_ip}, ended first ({type}: {detail})",
        remedy='Find out why that process on {node_ip} ended: the driver or a trainer actor; its own error comes before this line. "Owner\'s node has crashed": look at that node (`dmesg -T`, raylet.out)',
        source="ray gcs_actor_manager.cc",
        matches=(
            "The actor is dead because its owner has died. Owner Id: 05000000ffffffffffffffffffffffffffffffffffffffffffffffff Owner Ip address: 10.0.0.2 Owner worker exit type: SYSTEM_ERROR Worker exit detail: Owner's node has crashed.",
        ),
        differs=(
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Owner's worker process has crashed.",
        ),
        is_consequence=True,
    ),
    KnownError(
        name="ray-actor-node-preempted",
        marker="the actor's node was preempted:",
        pattern=r"the actor's node was preempted: (?P<reason>[^\n]{0,160})",
        cause="The node of the actor was taken away (drained or preempted): {reason}",
        remedy="Start the job again from its last checkpoint on the nodes that are left, or use nodes that are not preemptible; `ray list nodes` shows which node is gone",
        source="ray gcs_actor_manager.cc, gcs_server 2.60 (strings)",
        matches=("The actor died because its node has died. Node Id: aa\n\tthe actor's node was preempted: preemption of spot instance",),
        differs=("the actor's node was terminated expectedly: received SIGTERM",),
    ),
    KnownError(
        name="ray-actor-node-stopped",
        marker="the actor's node was terminated expectedly:",
        pattern=r"the actor's node was terminated expectedly: (?P<reason>[^\n]{0,160})",
        cause="The Ray node of the actor was stopped from outside ({reason}), it did not crash",
        remedy="Somebody or something ended that node's Ray: `ray stop`, the end or time limit of its Slurm job or pod (`sacct -j JOB`, `kubectl get events`), or the end of the script that ran `ray start --block`. "
        "Start Ray there again, then the job",
        source="gcs_server 2.60 (strings) and ray's tests",
        matches=("The actor died because its node has died. Node Id: aa\n\tthe actor's node was terminated expectedly: received SIGTERM",),
        differs=("the actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",),
    ),
    KnownError(
        name="ray-actor-node-crashed",
        marker="the actor's node was terminated unexpectedly:",
        pattern=r"the actor's node was terminated unexpectedly: (?P<reason>[^\n]{1,160})",
        cause="The Ray node of the actor died: {reason}",
        remedy="`ray list nodes --filter state=DEAD` names it. There: `uptime` (restarted?), `dmesg -T | tail -n 50` (memory kill, GPU or disk error), the end of /tmp/ray/session_latest/logs/raylet.out; start Ray there "
        "again, then the job from its last checkpoint",
        source="gcs_server 2.60 (strings)",
        matches=(
            "The actor died because its node has died. Node Id: aa\n\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats",
        ),
        differs=("the actor's node was terminated expectedly: received SIGTERM",),
    ),
    KnownError(
        name="ray-actor-node-died",
        marker="because its node has died",
        pattern=r"The actor (?:died|is dead) because its node has died",
        cause="The node on which the actor ran left the cluster",
        remedy="`ray list nodes --filter state=DEAD` names it and says why. There: `uptime` (restarted?), `dmesg -T | tail -n 50`, the end of /tmp/ray/session_latest/logs/raylet.out; start Ray there again, then the job",
        source="gcs_server 2.60 (strings) and ray's tests",
        matches=("ray.exceptions.RayActorError: The actor died because its node has died. Node Id: 4ab3fe8f",),
        differs=("The actor is dead because its owner has died. Owner Id: 05 Owner Ip address: 10.0.0.2",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ray-worker-sigterm",
        marker="The process receives a SIGTERM",
        pattern=r"Worker exits with an exit code 1\.[^\n]{0,80}?The process receives a SIGTERM",
        cause="A worker process got SIGTERM, so something outside of it ended it: the job system, the end of its pod, `ray stop`, or `kill`",
        remedy="Look for an earlier error first. If there is none, see who sent it: `sacct -j JOB` (time limit, scancel), `kubectl get events`, the end of the script that started Ray on that node. Words about K8s memory "
        "limits in the text are only Ray's guess",
        source="ray _raylet.pyx, _private/worker.py 2.60",
        matches=(
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code 1. The process receives a SIGTERM.",
        ),
        differs=("Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code None.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-worker-left-with-code",
        marker="Worker exits with an exit code",
        pattern=r"Worker exits unexpectedly\. Worker exits with an exit code (?P<code>None|-?\d{1,5})\.",
        cause="A worker process ended itself with `sys.exit` (exit code {code}), so it was not killed; words about K8s memory limits after it are only Ray's guess",
        remedy="Find who called exit in that worker: the last lines of its .err file in /tmp/ray/session_latest/logs on its node, or the error before this line",
        source="ray _raylet.pyx",
        matches=(
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code None. The worker may have exceeded K8s pod memory limits.",
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code 1.",
        ),
        differs=("Worker exit type: INTENDED_USER_EXIT Worker exit detail: Worker exits with an exit code 0.",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ray-worker-constructor-failed",
        marker="Worker exits because there was an exception in the initialization method",
        pattern=r"Worker exits because there was an exception in the initialization method",
        cause="An actor ended because its constructor raised an exception",
        remedy='Fix that exception: its traceback stands after "error raised in its creation task", or in the worker\'s .err file in /tmp/ray/session_latest/logs on its node',
        source="_raylet.so 2.60 (strings)",
        matches=(
            "Worker exit type: USER_ERROR Worker exit detail: Worker exits because there was an exception in the initialization method (e.g., __init__). Fix the exceptions from the initialization to resolve the issue. ",
        ),
        differs=("Worker exits because the actor is killed. ",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-worker-connection-lost",
        marker="The leased worker has unrecoverable failure",
        pattern=r"The leased worker has unrecoverable failure\. Worker is requested to be destroyed when it is returned",
        cause="The caller lost its connection to a worker, so Ray ended that worker; the worker had died, or the network between the nodes failed",
        remedy="Text after this sentence names a network error (\"Connection timed out\": check firewall and worker ports 10002 to 19999 between the nodes). Without it the worker died: `dmesg -T | grep -iE 'oom|killed process|segfault'` "
        "on its node, and its .err file",
        source="ray node_manager.cc",
        matches=(
            "Worker exit type: SYSTEM_ERROR Worker exit detail: The leased worker has unrecoverable failure. Worker is requested to be destroyed when it is returned.",
        ),
        differs=("Worker is failed because the raylet couldn't reply the registration request: IOError",),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-actor-ended-at-once",
        marker="The actor died unexpectedly before finishing this task",
        pattern=r"The actor died unexpectedly before finishing this task\.\s{1,12}class_name: (?P<actor>[^\n]{1,120})\n\s{0,12}actor_id: \w{1,60}\n\s{0,12}pid: (?P<pid>\d{1,9})\n"
        r"(?:\s{0,12}name: [^\n]{1,160}\n)?(?:\s{0,12}namespace: [^\n]{1,160}\n)?\s{0,12}ip: \[?(?P<node_ip>[\w.:-]{2,45})[^\n]{0,60}\n"
        r"The actor is dead because its worker process has died\. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code \d",
        cause="The process {pid} of the actor {actor} on {node_ip} ended at once, without a message to Ray: it was killed (SIGKILL) or it crashed",
        remedy=_WHO_ENDED_IT,
        source="hkust-nlp/simpleRL-reason issue 25, verl-project/verl issues 472, 2189 and 4921, Simple-Efficient/RL-Factory issue 123",
        matches=(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: ActorModelRayActorBOX\n\tactor_id: f20da4dcf474d8bb05e952bb03000000\n\tpid: 5226\n"
            "\tnamespace: aa07eaa0-19a3-4a8b-9095-8872e5d243ba\n\tip: 10.0.0.2\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a "
            "connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage.",
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n        class_name: create_colocated_worker_cls.<locals>.WorkerDict\n        actor_id: 5066c201b724a3936948a11201000000\n"
            "        pid: 87687\n        name: 07GxnAWorkerDict_0:3\n        namespace: b8860f81\n        ip: [10.0.0.2](http://10.0.0.2/)\nThe actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
            "Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed by the OOM killer due to high memory usage",
        ),
        differs=(
            "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: A\n\tactor_id: f20d\n\tpid: 5226\n\tnamespace: aa07\n\tip: 10.0.0.2\nThe actor is dead because it was killed by `ray.kill`.",
        ),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-worker-died-on-node",
        marker="A worker died or was killed while executing a task by an unexpected system error",
        pattern=r"Worker IP address: (?P<node_ip>\S{1,45}) Worker port: \d{1,6} Worker PID: (?P<pid>\d{1,9}) Worker exit type: \w{1,40} Worker exit detail: Worker unexpectedly exits with a connection error code \d",
        cause="The worker process {pid} on {node_ip} ended at once, without a message to Ray: it was killed (SIGKILL) or it crashed",
        remedy=_WHO_ENDED_IT,
        source="verl-project/verl issue 472 (there the worker had no threads left)",
        matches=(
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ffffffffffffffff Worker ID: 12a64c4c "
            "Node ID: 0b6abfec Worker IP address: 10.0.0.2 Worker port: 45555 Worker PID: 26103 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ),
        differs=(
            "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the problem, check the logs for the dead worker. RayTask ID: ff Worker ID: e9 Node ID: 0c Worker IP address: "
            "127.0.0.1 Worker port: 34379 Worker PID: 711321 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code None.",
        ),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-worker-ended-at-once",
        marker="Worker unexpectedly exits with a connection error code",
        pattern=r"Worker unexpectedly exits with a connection error code \d{1,4}",
        cause="A worker process ended at once, without a message to Ray: it was killed (SIGKILL) or it crashed",
        remedy=_WHO_ENDED_IT,
        source="verl-project/verl pull request 2398, raylet 2.60 (strings), ray docs debug-memory",
        matches=(
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes.",
            "Worker exit type: UNEXPECTED_SYSTEM_EXIT Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.",
        ),
        differs=(
            "Failed to register worker to Raylet: IOError: [RayletClient] Unable to register worker with raylet. Failed to read data from the socket: End of file",
        ),
        look_up="oom-kill",
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ray-worker-left-on-purpose",
        marker="Worker exit type: INTENDED_",
        pattern=r"Worker exit type: INTENDED_\w{1,20}EXIT Worker exit detail: (?P<detail>[^\n]{1,160})",
        cause="The actor ended on purpose, it did not crash ({detail})",
        remedy="Look for an earlier error, since programs end their actors after a failure; else the program ended the actor too early (`exit_actor()`, `sys.exit(0)`) and used it afterwards",
        source="ray _raylet.pyx, _raylet.so 2.60 (strings)",
        matches=(
            "The actor is dead because its worker process has died. Worker exit type: INTENDED_USER_EXIT Worker exit detail: Worker exits with an exit code 0.",
        ),
        differs=("Worker exit type: SYSTEM_ERROR Worker exit detail: Worker exits unexpectedly.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-worker-crashed-in-task",
        marker="The worker died unexpectedly while executing this task",
        pattern=r"The worker died unexpectedly while executing this task\. Check python-core-worker",
        cause="The worker process of a Ray task ended at once: it was killed (SIGKILL) or it crashed; the log does not say which",
        remedy=_WHO_ENDED_IT,
        source="ray exceptions.py 2.60 (WorkerCrashedError)",
        matches=(
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.",
        ),
        differs=("ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information.",),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-raylet-died",
        marker="The task's local raylet died",
        pattern=r"The task's local raylet died\. Check raylet\.out",
        cause="The raylet (Ray's node process) on the worker's own node ended, so all workers of that node were lost",
        remedy="`ray list nodes --filter state=DEAD` names the node. There: the end of raylet.out, raylet.err and dashboard_agent.log in /tmp/ray/session_latest/logs, `dmesg -T | tail -n 50`; then start Ray there again",
        source="ray exceptions.py 2.60 (LocalRayletDiedError)",
        matches=("ray.exceptions.LocalRayletDiedError: The task's local raylet died. Check raylet.out for more information.",),
        differs=(
            "ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. Check python-core-worker-*.log files for more information.",
        ),
        is_consequence=True,
    ),
    KnownError(
        name="ray-node-of-task-died",
        marker="Task failed ",
        pattern=r"Task failed (?:due to the node dying\.\s{1,4}The node \(IP: |because the node it was running on is dead or unavailable\. Node IP: )(?P<node_ip>[\w.:-]{2,45}?),",
        cause="The node {node_ip}, on which the task ran, died or cannot be reached",
        remedy="On {node_ip}: `uptime` (restarted?), `dmesg -T | tail -n 50` (memory kill, GPU or disk error), the end of /tmp/ray/session_latest/logs/raylet.out; start Ray there again, then the job from its last checkpoint",
        source="_raylet.so 2.60 (strings)",
        matches=(
            "ray.exceptions.NodeDiedError: Task failed due to the node dying.\n\nThe node (IP: 10.0.0.3, node ID: aa) where this task was running crashed unexpectedly. This can happen if: (1) the instance where the node was running failed",
            "ray.exceptions.NodeDiedError: Task failed because the node it was running on is dead or unavailable. Node IP: 10.0.0.3, node ID: aa. This can happen if the node was preempted, had a hardware failure, or its raylet crashed unexpectedly.",
        ),
        differs=("Task failed with retryable exception: TaskID(aa).",),
    ),
    KnownError(
        name="ray-actor-unavailable",
        marker=" is unavailable: ",
        pattern=r"The actor (?P<actor>[0-9a-f]{8,64}|None) is unavailable: (?P<reason>[^\n]{1,160})",
        cause="The caller could not reach the actor {actor}: {reason}",
        remedy="`ray get actors {actor}` shows whether it is DEAD (fix its death cause) or ALIVE (network or an overloaded node: check the worker ports 10002 to 19999 between the nodes, and its load). The call may be repeated: "
        "`max_task_retries`",
        source="ray exceptions.py 2.60 (ActorUnavailableError)",
        matches=(
            "ray.exceptions.ActorUnavailableError: The actor 2d4d212e431c850dcf83f60801000000 is unavailable: The actor is temporarily unavailable: RpcError: RPC Error message: Socket closed; RPC Error details: . The task may or may not "
            "have been executed on the actor.",
        ),
        differs=("Service x is unavailable: 503",),
        is_consequence=True,
    ),
    # Objects.
    KnownError(
        name="ray-object-owner-died",
        marker="The object's owner has exited",
        pattern=r"The object's owner has exited\. This is the Python worker that first created the ObjectRef",
        cause="The process that owned a Ray object ended, so the object is lost",
        remedy="Find out why that process (the driver or an actor) ended; its own error comes first. The path in this line names its log. "
        + _READ_OWN_LOG,
        source="OpenRLHF/OpenRLHF issue 318, ray exceptions.py 2.60 (OwnerDiedError)",
        matches=(
            "The object's owner has exited. This is the Python worker that first created the ObjectRef via `.remote()` or `ray.put()`. Check cluster logs (`/tmp/ray/session_latest/logs/*4fe8*` at IP address 10.0.0.2) for more information "
            "about the Python worker failure.",
        ),
        differs=("The actor is dead because its owner has died. Owner Id: 05",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-object-copies-lost",
        marker="have been lost due to node failure",
        pattern=r"All copies of (?P<object>\w{8,80}) have been lost due to node failure",
        cause="All copies of a Ray object were on nodes or in processes that died",
        remedy="Find the node that died: `ray list nodes --filter state=DEAD`, and read there the end of /tmp/ray/session_latest/logs/raylet.out and `dmesg -T`; then start the job again from its last checkpoint",
        source="ray exceptions.py 2.60 (ObjectLostError)",
        matches=(
            "All copies of 004553850c97129b58c533c101cb5c1bc4de6d930200000002e1f505 have been lost due to node failure. Check cluster logs (`/tmp/ray/session_latest/logs`) for more information about the failure.",
        ),
        differs=("The object has already been deleted by the reference counting protocol. This should not happen.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-object-no-location",
        marker="timed out because no locations were found for the object",
        pattern=r"Fetch for object (?P<object>\w{8,80}) timed out because no locations were found for the object",
        cause="Ray waited for an object of which no copy exists any more: the process or node that had it died, or the network between the nodes failed",
        remedy="Look for a worker or node that died before this line (`ray list nodes --filter state=DEAD`, `ray list actors --filter state=DEAD`). If all live, test the object manager ports between the nodes",
        source="ray exceptions.py 2.60 (ObjectFetchTimedOutError)",
        matches=(
            "Fetch for object 0045538501000000 timed out because no locations were found for the object. This may indicate a system-level bug.",
        ),
        differs=("ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-object-deleted",
        marker="The object has already been deleted by the reference counting protocol",
        pattern=r"The object has already been deleted by the reference counting protocol",
        cause="The program used an ObjectRef whose object Ray had deleted, since no process held a reference that Ray knew of",
        remedy="Keep the ObjectRef itself (in the process that made it) until the object is read; do not store it in a file, in pickled bytes or in a message outside of Ray",
        source="ray exceptions.py 2.60 (ReferenceCountingAssertionError)",
        matches=("The object has already been deleted by the reference counting protocol. This should not happen.",),
        differs=("The object was manually freed using the internal `free` call.",),
    ),
    KnownError(
        name="ray-object-not-rebuilt",
        marker="The object cannot be reconstructed because",
        pattern=r"The object cannot be reconstructed because (?P<why>[^\n.]{1,160})",
        cause="A Ray object was lost with a worker or node, and Ray could not make it again because {why}",
        remedy="The loss is the cause: find the worker or node that died (`ray list nodes --filter state=DEAD`, `ray list actors --filter state=DEAD`). More retries: `@ray.remote(max_retries=5)` for the task that makes the object",
        source="ray exceptions.py 2.60 (ObjectReconstructionFailedError)",
        matches=(
            "[OBJECT_UNRECONSTRUCTABLE_PUT] The object cannot be reconstructed because it was created by ray.put(), which has no task lineage. To prevent this error, return the value from a task instead.",
            "The object cannot be reconstructed because the maximum number of task retries has been exceeded. Consider increasing the number of retries using `@ray.remote(max_retries=N)`.",
        ),
        differs=("All copies of 004553850c97129b have been lost due to node failure.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-object-store-full",
        marker="Failed to put object",
        pattern=r"Failed to put object \S{0,80} ?in object store because it\s{1,3}is full\. Object size is (?P<asked>\d{1,18}) bytes",
        cause="Ray's object store on that node is full of objects that are in use, so an object of {asked} bytes did not fit",
        remedy="`ray memory --stats-only` shows what fills it. Make the store larger (`ray start --object-store-memory=200000000000`, bytes, and /dev/shm as large), send smaller batches, drop ObjectRefs that are not needed, and keep disk free for "
        "spilling (`df -h /tmp`)",
        source="_raylet.so 2.60 (strings), ray-project/ray issue 7908",
        matches=(
            "ray.exceptions.ObjectStoreFullError: Failed to put object 00ffffffffffffffff01000000 in object store because it is full. Object size is 516884584 bytes.",
        ),
        differs=("Failed to put error object in plasma: IOError",),
        look_up="object-store",
    ),
    KnownError(
        name="ray-object-store-full-general",
        marker="ObjectStoreFullError",
        pattern=r"ObjectStoreFullError\b",
        cause="Ray's object store on that node is full of objects that are in use and cannot be spilled",
        remedy="`ray memory --stats-only` shows what fills it. Make the store larger (`ray start --object-store-memory=200000000000`, bytes, and /dev/shm as large), send smaller batches, drop ObjectRefs that are not needed, and keep disk free for "
        "spilling (`df -h /tmp`)",
        source="ray exceptions.py 2.60 (ObjectStoreFullError)",
        matches=(
            "ray.exceptions.ObjectStoreFullError: \nThe local object store is full of objects that are still in scope and cannot be evicted. Tip: Use the `ray memory` command to list active objects in the cluster.",
        ),
        differs=("io.objectbox.exception.DbFullException: Could not put (error code -30792)",),
        look_up="object-store",
        is_general=True,
    ),
    KnownError(
        name="ray-disk-full",
        marker="ocal disk",
        pattern=r"OutOfDiskError: Local disk is full|the local object store is full and the local disk's utilization is over capacity",
        cause="Ray's object store is full and the disk of its temporary directory is more than 95 % full, so Ray could not spill objects",
        remedy="`df -h /tmp` and `du -xsh /tmp/ray/session_*` on that node: remove directories of dead sessions (`cockpit clean`), or use a larger disk: `ray start --temp-dir=/data/ray`, "
        "`--object-spilling-directory=/data/spill` (newer Ray)",
        source="ray exceptions.py 2.60 (OutOfDiskError)",
        matches=(
            "ray.exceptions.OutOfDiskError: Local disk is full",
            "The object cannot be created because the local object store is full and the local disk's utilization is over capacity (95% by default).Tip: Use `df` on this node to check disk usage and `ray memory` to check object store memory usage.",
        ),
        differs=(
            "file_system_monitor.cc:116: /tmp/ray/session_1 is over 95% full, available space: 21.7165 GB; capacity: 491.586 GB. Object creation will fail if spilling is required.",
        ),
        action="clean",
        look_up="disk",
    ),
    KnownError(
        name="ray-disk-nearly-full",
        marker="Object creation will fail if spilling is required",
        pattern=r"(?<!\S)(?P<path>/\S{1,200}) is over (?P<percent>[\d.]{1,6})% full, available space: (?P<free>[\d.]{1,20}) GB; capacity: (?P<total>[\d.]{1,20}) GB",
        cause="The disk of {path} is over {percent} % full ({free} GB of {total} GB free); Ray only warns of this, and fails when it has to spill objects",
        remedy="`du -xsh /tmp/ray/session_*` on that node: remove directories of dead sessions (`cockpit clean`), old checkpoints and caches, or use a larger disk: `ray start --temp-dir=/data/ray`",
        source="raylet 2.60 (strings)",
        matches=(
            "(raylet) [2025-05-01 10:00:00,000 E 1 2] (raylet) file_system_monitor.cc:116: /tmp/ray/session_2025-05-01 is over 95% full, available space: 21.7165 GB; capacity: 491.586 GB. Object creation will fail if spilling is required.",
        ),
        differs=("/tmp/ray/session_1 has no capacity, object creation will fail if spilling is required.",),
        action="clean",
        look_up="disk",
        is_warning=True,
    ),
    KnownError(
        name="ray-shm-too-small-for-store",
        marker="exceeds memory available in",
        pattern=r"System memory request exceeds memory available in (?P<place>\S{1,100}?)\. The request is for (?P<asked>\d{1,18}) bytes, and the amount available is (?P<free>\d{1,18}) bytes",
        cause="Ray's object store asks for {asked} bytes in {place}, but only {free} bytes are available there",
        remedy="Give the container more: `docker run --shm-size=200g` (Kubernetes: an emptyDir with `medium: Memory` at /dev/shm), remove leftovers (`ls -l {place}`), or ask for less: `ray start --object-store-memory=20000000000` (bytes)",
        source="raylet 2.60 (strings)",
        matches=(
            "System memory request exceeds memory available in /dev/shm. The request is for 200000000000 bytes, and the amount available is 60397977 bytes. You may be able to free up space by deleting files in /dev/shm.",
        ),
        differs=("ValueError: The requested object store memory size is greater than the total available memory.",),
        look_up="shm",
    ),
    KnownError(
        name="ray-plasma-connection-lost",
        marker="The connection to the plasma store is failed",
        pattern=r"The connection to the plasma store is failed\. Terminate the process",
        cause="A process lost the object store of its node, since the raylet there ended, and so it ended itself",
        remedy="Find out why the raylet ended: the end of raylet.out and raylet.err in /tmp/ray/session_latest/logs on that node, `dmesg -T | tail -n 50`, or `ray stop`",
        source="ray plasma/connection.cc, _raylet.so 2.60 (strings)",
        matches=(
            "[2025-05-01 10:00:00,000 W 12 34] store_connection.cc:200: The connection to the plasma store is failed. Terminate the process. Status: IOError: Broken pipe",
        ),
        differs=("Failed to delete objects from plasma store: IOError",),
        is_consequence=True,
    ),
    # Runtime environments.
    KnownError(
        name="ray-package-too-large",
        marker="exceeds the maximum size of",
        pattern=r"Package size \((?P<asked>[\d.]{1,20} ?[KMG]i?B)\) exceeds the maximum size of (?P<limit>[\d.]{1,20} ?[KMG]i?B)",
        cause="The working directory of the job is {asked} as a package, and Ray takes at most {limit}",
        remedy='Leave large files out: `.rayignore` or `.gitignore` in that directory (checkpoints, data, wandb, .git, .venv), or `--runtime-env-json=\'{{"working_dir": ".", "excludes": [".git", "checkpoints"]}}\'`; or leave out working_dir if all '
        "nodes see the same file system",
        source="ray _private/runtime_env/packaging.py 2.60, ray-project/ray issues 38566, 45602 and 55877",
        matches=(
            "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\nFailed to upload working_dir /data/proj to the Ray cluster: Package size (552.06MiB) exceeds the maximum size of 500.00MiB. To exclude large files, add them to "
            "'.gitignore' or '.rayignore' files",
            "ValueError: Package size (552.06MiB) exceeds the maximum size of 500.00MiB. You can exclude large files using the 'excludes' option to the runtime_env or provide a remote URI of a zip file using protocols such as 's3://'",
        ),
        differs=(
            "The runtime_env package at '/tmp/p.zip' is 300.00MiB, approaching the maximum upload size of 500.00MiB. If the upload fails, exclude large directories",
        ),
    ),
    KnownError(
        name="ray-package-not-stored",
        marker="Failed to store package in the GCS",
        pattern=r"Failed to store package in the GCS",
        cause="The upload of the job's working directory to the Ray head failed",
        remedy="The exception above this line says why: a package that is too large (leave files out with `.rayignore`), or a head that did not answer (`ray status`, memory and disk of the head)",
        source="ray _private/runtime_env/packaging.py 2.60",
        matches=(
            "RuntimeError: Failed to store package in the GCS.\n  - GCS URI: gcs://_ray_pkg_d1f6f0.zip\n  - Package data (12.00MiB): b'PK'...",
        ),
        differs=("Successfully pushed file package 'gcs://_ray_pkg_d1f6f0.zip'.",),
    ),
    KnownError(
        name="ray-package-not-found",
        marker="Failed to download runtime_env file package",
        pattern=r"Failed to download runtime_env file package (?P<package>\S{1,120}) from\s{1,3}the GCS to the Ray worker node",
        cause="A node could not get the job's working directory {package} from the head: the head no longer has it",
        remedy="Submit the job again, so that it is uploaded again (if it says the package exists already, change any file in the directory). After a restart of the head all packages are gone; for slow uploads start Ray with "
        "`RAY_RUNTIME_ENV_TEMPORARY_REFERENCE_EXPIRATION_S=3600`",
        source="ray _private/runtime_env/packaging.py 2.60",
        matches=(
            "OSError: Failed to download runtime_env file package gcs://_ray_pkg_3a7cb06d19a5b0be.zip from the GCS to the Ray worker node. The package may have prematurely been deleted from the GCS due to a long upload time or a problem with Ray.",
        ),
        differs=("ValueError: GCS client must be provided to download from GCS.",),
    ),
    KnownError(
        name="ray-runtime-env-timeout",
        marker="Failed to install runtime_env within the timeout of",
        pattern=r"Failed to install runtime_env within the timeout of (?P<seconds>\d{1,7}) seconds",
        cause="The job's runtime environment was not ready within {seconds} seconds (packages to install or a large directory to fetch)",
        remedy="See how far it came: `tail -n 50 /tmp/ray/session_latest/logs/runtime_env_setup-*.log` on that node (no network to PyPI?). Install the packages in the image instead, or allow more time: "
        '`runtime_env={{"config": {{"setup_timeout_seconds": 3600}}}}`',
        source="ray _private/runtime_env/agent/runtime_env_agent.py 2.60",
        matches=(
            "Failed to install runtime_env within the timeout of 600 seconds. Consider increasing the timeout in the runtime_env config. For example: ",
        ),
        differs=('Creating runtime env: {"working_dir": "gcs://_ray_pkg_1.zip"} with timeout 600 seconds.',),
    ),
    KnownError(
        name="ray-runtime-env-pip-package",
        marker="Could not find a version that satisfies the requirement",
        pattern=r"ERROR: Could not find a version that satisfies the requirement (?P<package>[\w.\[\],<>=!~-]{1,120})(?=[\s;]|$)",
        cause="pip found no version of {package} that fits: a wrong name or version, none for this Python, or no network to the package index",
        remedy="`pip download --no-deps '{package}'` on that node with the same Python shows which. Behind a proxy or mirror: set `PIP_INDEX_URL` (or ~/.pip/pip.conf) on every node; or install it in the image and leave it out of `runtime_env`",
        source="ray-project/ray issue 22472 (a missing package), pip's message in the output that ray _private/runtime_env/utils.py 2.60 shows",
        matches=("    ERROR: Could not find a version that satisfies the requirement does-not-exist (from versions: none)",),
        differs=("    WARNING: Retrying (Retry(total=4, connect=None)) after connection broken",),
    ),
    KnownError(
        name="ray-runtime-env-no-pip",
        marker="No module named pip",
        pattern=r"bin/python\S{0,10}: No module named pip",
        cause="The Python of the runtime environment has no pip, so Ray could not install the job's packages there",
        remedy="Ray's own Python was made without pip (as `uv venv` does): `uv pip install pip` in it (or `uv venv --seed`) on all nodes, or leave `pip`/`uv` out of `runtime_env` and start the job with `uv run`",
        source="CPython's message, in public logs of ray runtime environments made by uv",
        matches=("    /tmp/ray/session_1/runtime_resources/uv/1/virtualenv/bin/python: No module named pip",),
        differs=("ModuleNotFoundError: No module named 'pip_audit'",),
    ),
    KnownError(
        name="ray-runtime-env-command-failed",
        marker="failed with the following details",
        pattern=r"Run cmd\[\d{1,5}\] failed with the following details\.\s{1,4}Command '\[(?P<command>[^\n]{1,400}?)\]' returned non-zero exit status (?P<code>-?\d{1,5})",
        cause="A command that Ray ran to make the job's runtime environment failed (exit status {code}): {command}",
        remedy='The lines after "Last 50 lines of stdout" say why (no network, a version conflict, a build error, a full disk). Install the packages in the image or environment of all nodes and leave `pip`, `uv` or `conda` out of `runtime_env`',
        source="ray _private/runtime_env/utils.py 2.60",
        matches=(
            "ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[12] failed with the following details.\nCommand '['/tmp/ray/session_1/virtualenv/bin/python', '-m', 'pip', 'install', '--disable-pip-version-check', '--no-cache-dir', 'uv']' "
            "returned non-zero exit status 1.\nLast 50 lines of stdout:\n    ERROR",
        ),
        differs=("The operation failed with the following details.",),
    ),
    KnownError(
        name="ray-runtime-env-no-virtualenv",
        marker="Please install virtualenv",
        pattern=r"Please install virtualenv\s{0,3}`(?P<python>\S{1,200}) -m pip install virtualenv`",
        cause="Ray needs the package virtualenv to make a runtime environment with pip or uv, and {python} does not have it",
        remedy="On every node: `{python} -m pip install virtualenv`, then submit the job again",
        source="ray _private/runtime_env/pip.py and uv.py 2.60",
        matches=("RuntimeError: Please install virtualenv `/usr/bin/python3 -m pip install virtualenv`to enable pip runtime env.",),
        differs=("Cloning virtualenv /usr to /tmp/ray/session_1/runtime_resources/pip/1",),
    ),
    KnownError(
        name="ray-runtime-env-changes-ray",
        marker="Changing the ray version is not allowed",
        pattern=r"Changing the ray version is not allowed:\s{1,4}current version: (?P<new>[\w.+]{1,40}),\s{1,4}expect version: (?P<old>[\w.+]{1,40}),",
        cause="The packages of the job's runtime environment would replace Ray {old} of the cluster with Ray {new}",
        remedy="Pin it in the runtime environment's `pip` list: `ray=={old}` (a package in the list, such as vllm, asks for another one), or install the packages in the image of all nodes instead",
        source="ray _private/runtime_env/dependency_utils.py 2.60",
        matches=(
            "RuntimeError: Changing the ray version is not allowed: \n  current version: 2.48.0,   expect version: 2.47.1,   current path: /tmp/a,   expect path: /usr/lib/b, Please ensure the dependencies in the runtime_env pip field do not install a different version of Ray.",
        ),
        differs=("RuntimeError: Version mismatch: The cluster was started with:",),
    ),
    KnownError(
        name="ray-runtime-env-conda-missing",
        marker="Could not find Conda executable at",
        pattern=r"Could not find Conda executable at '?(?P<path>[^'\s]{1,200}?)'?\.\s",
        cause="The runtime environment uses conda, and this node has no conda at {path}",
        remedy="On every node `export RAY_CONDA_HOME=/opt/conda` (where conda is) before `ray start`, or leave `conda` out of `runtime_env` and start Ray inside the conda environment",
        source="ray _private/runtime_env/conda_utils.py 2.60",
        matches=(
            "ValueError: Could not find Conda executable at 'conda'. Ensure Conda is installed as per the instructions at https://conda.io/projects/conda/en/latest/user-guide/install/index.html.",
        ),
        differs=("conda: command not found",),
    ),
    KnownError(
        name="ray-runtime-env-conda-name",
        marker="The given conda environment '",
        pattern=r"The given conda environment '(?P<name>[^'\n]{1,120})' from the runtime env",
        cause="The runtime environment names the conda environment {name}, and a node does not have it",
        remedy="Create it on every node (`conda env list` there shows what it has; `RAY_CONDA_HOME` says which conda Ray asks), or leave `conda` out of `runtime_env` and start Ray inside that environment",
        source="ray _private/runtime_env/conda.py 2.60",
        matches=(
            "ValueError: The given conda environment 'verl' from the runtime env {'conda': 'verl'} doesn't exist from the output of `conda info --json`. You can only specify an env that already exists.",
        ),
        differs=("RuntimeError: Failed to install conda environment /tmp/ray/session_1/conda/1:\nOutput:",),
    ),
    KnownError(
        name="ray-runtime-env-conda-failed",
        marker="Failed to install conda environment",
        pattern=r"Failed to install conda environment (?P<path>\S{1,250}):",
        cause="conda could not make the environment {path} of the job's runtime environment; its output follows",
        remedy="The output says why: packages that do not fit together, no network to the channel, a full disk. Make the environment beforehand on all nodes and give its name in `runtime_env`",
        source="ray _private/runtime_env/conda_utils.py 2.60",
        matches=(
            "RuntimeError: Failed to install conda environment /tmp/ray/session_1/runtime_resources/conda/1:\nOutput:\nResolvePackageNotFound:",
        ),
        differs=("The given conda environment 'verl' from the runtime env {} doesn't exist",),
    ),
    KnownError(
        name="ray-runtime-env-directory-gone",
        marker="Something may have gone wrong while",
        pattern=r"Local directory (?P<path>\S{1,250}) for URI (?P<uri>\S{1,250}) does not exist on the cluster\. Something may have gone wrong while",
        cause="A node has no directory {path} for {uri}: its installation failed before, or somebody removed it",
        remedy="Submit the job again; if it persists, read `tail -n 50 /tmp/ray/session_latest/logs/runtime_env_setup-*.log` on that node. Do not clean /tmp/ray (tmpwatch, systemd-tmpfiles) while Ray runs",
        source="ray _private/runtime_env/pip.py, uv.py and working_dir.py 2.60, ray-project/ray issue 38312",
        matches=(
            "ValueError: Local directory /tmp/ray/session_2023-08-14_16-30-15_404117_349384/runtime_resources/pip/4950ef for URI pip://4950ef does not exist on the cluster. Something may have gone wrong while installing the runtime_env `pip` packages.",
        ),
        differs=("ValueError: directory /data/proj must be an existing directory or a supported archive (zip)",),
    ),
    KnownError(
        name="ray-runtime-env-no-directory",
        marker="must be an existing directory",
        pattern=r"ValueError: directory (?P<path>\S{1,250}) must be an existing\s{1,3}directory",
        cause="The working_dir of the job, {path}, does not exist on the host from which the job was submitted",
        remedy='Give an existing directory, as an absolute path: `ray job submit --working-dir "$PWD" ...` from the project; it is read on the submitting host, not on the cluster',
        source="ray _private/runtime_env/working_dir.py and packaging.py 2.60",
        matches=(
            "ValueError: directory /openrlhf must be an existing directory or a supported archive (.zip, .tar.gz)",
            "ValueError: directory /openrlhf must be an existing directory",
        ),
        differs=("ValueError: Local directory /tmp/ray/a for URI gcs://b does not exist on the cluster.",),
    ),
    KnownError(
        name="ray-runtime-env-conflict",
        marker="Failed to merge the Job's runtime env",
        pattern=r"Failed to merge the Job's runtime env",
        cause="The runtime environment of `ray job submit` and that of `ray.init` in the program set the same field or the same variable",
        remedy='Set it in one place only: take these variables out of `--runtime-env-json`/`--runtime-env`, or let the program\'s values win: `ray job submit --runtime-env-json=\'{{"env_vars": {{"RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"}}}}\' ...`',
        source="ray _private/worker.py 2.60",
        matches=(
            "ValueError: Failed to merge the Job's runtime env {'env_vars': {'NCCL_DEBUG': 'INFO'}} with a ray.init's runtime env {'env_vars': {'NCCL_DEBUG': 'WARN'}} because of a conflict.",
        ),
        differs=("RuntimeEnvSetupError: Failed to set up runtime environment.",),
    ),
    KnownError(
        name="ray-runtime-env-upload-failed",
        marker="Failed to upload ",
        pattern=r"Failed to upload (?:working_dir|package|module) (?P<path>\S{1,250}) to the Ray cluster: (?P<why>[^\n]{1,200})",
        cause="Ray could not upload {path} to the cluster: {why}",
        remedy="Fix what the text after the path says: a file that cannot be read or vanished (exclude it with `.rayignore`), a package that is too large, or a head that did not answer (`ray status`)",
        source="ray _private/runtime_env/working_dir.py 2.60",
        matches=(
            "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.\nFailed to upload working_dir /data/proj to the Ray cluster: [Errno 13] Permission denied: '/data/proj/secret'",
        ),
        differs=("Failed to upload artifact to the tracking server",),
        is_general=True,
    ),
    KnownError(
        name="ray-runtime-env-failed",
        marker="untime",
        pattern=r"Failed to set ?up runtime environment\.|runtime_env setup failed: |because its associated runtime env failed to be created|Failed to create runtime env for job ",
        cause="Ray could not set up the runtime environment of the job; the lines after this one say why",
        remedy="Read these lines, and on the node `tail -n 50 /tmp/ray/session_latest/logs/runtime_env_setup-*.log`. The sure way: install everything in the image or environment of all nodes and submit with `env_vars` only",
        source='ray exceptions.py and dashboard/modules/job/job_manager.py 2.60, ray-project/ray issues 22472, 27962 ("setup" in one word) and 31818',
        matches=(
            "ray.exceptions.RuntimeEnvSetupError: Failed to set up runtime environment.",
            "ray.exceptions.RuntimeEnvSetupError: Failed to setup runtime environment.",
            "Status message: runtime_env setup failed: Failed to set up runtime environment.",
            "Could not create the actor because its associated runtime env failed to be created.",
        ),
        differs=("Creating runtime env: {} with timeout 600 seconds.", "runtime_env creation failed 3 times, giving up."),
        is_consequence=True,
        is_general=True,
    ),
    # Scheduling.
    KnownError(
        name="verl-too-few-free-gpus",
        marker="is less than total desired GPUs",
        pattern=r"Total available GPUs (?P<free>\d{1,9}(?:\.\d{1,4})?) is less than total desired GPUs (?P<asked>\d{1,9})",
        cause="The job wants {asked} GPUs, but only {free} are free in the Ray cluster (GPUs that other jobs or leftover actors hold do not count)",
        remedy="`ray status` shows total and used GPUs. Total too small: a node has not joined (`ray start --address=HEAD:6379` there). Used by an old job: stop it (`ray list jobs`). Else lower `trainer.nnodes` or `trainer.n_gpus_per_node`",
        source="verl-project/verl issues 2515, 5954, 746 and 372",
        matches=(
            "ValueError: Total available GPUs 8.0 is less than total desired GPUs 16",
            "ValueError: Total available GPUs 0 is less than total desired GPUs 8.",
        ),
        differs=("Total available GPUs: 8",),
    ),
    KnownError(
        name="verl-pool-does-not-fit",
        marker="cannot be satisfied in this ray cluster",
        pattern=r"Resource pool (?P<pool>[\w-]{1,80}): (?P<gpus>\d{1,6})\*(?P<nodes>\d{1,6}) ?cannot be satisfied in this ray cluster",
        cause="The cluster has enough GPUs in all, but for the pool {pool} it lacks {nodes} node(s) with {gpus} free GPUs each",
        remedy="`ray status -v` shows the free GPUs of each node. Free the nodes (old jobs, leftover actors), or use a shape that they have: fewer `trainer.n_gpus_per_node` and more `trainer.nnodes`",
        source="veRL ray_trainer.py",
        matches=(
            "ValueError: Resource pool global_pool: 8*2cannot be satisfied in this ray cluster",
            "ValueError: Resource pool global_pool: 8*1 cannot be satisfied in this ray cluster",
        ),
        differs=("Total available GPUs 8.0 is less than total desired GPUs 16",),
    ),
    KnownError(
        name="placement-group-bundle-index",
        marker="placement group bundle index",
        pattern=r"placement group bundle index (?P<index>-?\d{1,9}) is invalid\. Valid placement group indexes: 0-(?P<count>\d{1,9})",
        cause="The program asked for bundle {index} of a placement group that has only {count} bundles: the group was made for fewer GPUs than the model uses",
        remedy="Models that share a group must have its size. OpenRLHF: with `--colocate_all_models` (new: `--train.colocate_all`) nodes x GPUs of actor, ref and critic, and engines x tensor parallel size of vLLM, must be equal; with "
        "`--colocate_actor_ref` those of actor and ref",
        source="ray util/placement_group.py 2.60, OpenRLHF/OpenRLHF pull request 728 and issue 889",
        matches=("ValueError: placement group bundle index 6 is invalid. Valid placement group indexes: 0-4",),
        differs=("Destroying worker since its bundle was unused, bundle index: 3",),
    ),
    KnownError(
        name="skyrl-placement-group-timeout",
        marker="Failed to create placement group with",
        pattern=r"Failed to create placement group with (?P<bundles>\d{1,6}) bundles \(requiring (?P<gpus>[\d.]{1,12}) GPUs, (?P<cpus>[\d.]{1,12}) CPUs total\) in (?P<seconds>\d{1,7}) seconds",
        cause="Ray could not reserve {gpus} GPUs and {cpus} CPUs in {bundles} bundles within {seconds} seconds: they are not free, or no node has the shape of a bundle",
        remedy="`ray status -v` shows what each node has free (CPUs count too): stop the job that holds it, add nodes, or ask for less. Nodes that are still starting: `export SKYRL_RAY_PG_TIMEOUT_IN_S=900`",
        source="SkyRL utils.py and env_vars.py",
        matches=(
            "RuntimeError: Failed to create placement group with 4 bundles (requiring 32.0 GPUs, 32.0 CPUs total) in 180 seconds. This might indicate insufficient GPU resources.",
        ),
        differs=("Failed to create placement group 'pg', because the placement group has been removed by GCS.",),
    ),
    KnownError(
        name="vllm-more-gpus-than-cluster",
        marker="The number of required GPUs exceeds the total number of available GPUs",
        pattern=r"The number of required GPUs exceeds the total number of available GPUs(?: in the (?:placement group|cluster))?",
        cause="vLLM needs more GPUs (tensor x pipeline parallel size) than Ray has, or than its placement group holds",
        remedy="`ray status` shows how many GPUs Ray has. Lower `tensor_parallel_size`/`pipeline_parallel_size`, let the missing nodes join (`ray start --address=HEAD:6379`), or start Ray with all GPUs (`--num-gpus=8`, check CUDA_VISIBLE_DEVICES)",
        source="vLLM ray_utils.py",
        matches=(
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the placement group.",
            "ValueError: The number of required GPUs exceeds the total number of available GPUs in the cluster.",
        ),
        differs=("Total available GPUs 8.0 is less than total desired GPUs 16",),
    ),
    KnownError(
        name="ray-node-address-not-in-cluster",
        marker="No available node types can fulfill resource request",
        pattern=r"No available node types can fulfill resource requests? [^\n]{0,60}\{[^}\n]{0,120}'node:(?P<address>[0-9a-fA-F.:]{3,45})'",
        cause="The program asked for the node with the address {address}, and no node of the Ray cluster has that address",
        remedy="`ray list nodes` shows the addresses that Ray knows. A host with several addresses: set `VLLM_HOST_IP` on each node to that one, or start Ray with `--node-ip-address={address}` there",
        source="vLLM documentation on troubleshooting, ray-project/ray issue 31135",
        matches=(
            "(autoscaler) Error: No available node types can fulfill resource request {'CPU': 1.0, 'node:192.168.1.10': 0.001}. Add suitable node types to this cluster to resolve this issue.",
            "Error: No available node types can fulfill resource request defaultdict(<class 'float'>, {'node:192.168.1.10': 0.001, 'GPU': 1.0}).",
        ),
        differs=(
            "Error: No available node types can fulfill resource request {'GPU': 8.0, 'CPU': 8.0}.",
            "Error: No available node types can fulfill resource request {'CPU': 1.0, 'node:__internal_head__': 0.001}.",
        ),
    ),
    KnownError(
        name="ray-request-fits-no-node",
        marker="No available node types can fulfill resource request",
        pattern=r"No available node types can fulfill resource requests? (?:defaultdict\(<class 'float'>, )?(?P<request>\{[^}\n]{1,200}\})",
        cause="As Ray counts, no node of the cluster can give {request}, so this part of the job cannot start",
        remedy="`ray status -v` shows what each node has. Too few GPUs or CPUs in Ray's eyes: start Ray there with `--num-gpus=8 --num-cpus=64` (CUDA_VISIBLE_DEVICES may hide GPUs); else ask for less per actor, or add larger nodes",
        source="SkyworkAI/Skywork-OR1 issue 34, rllm issue 35, ray-project/ray issues 47792 and 18018",
        matches=(
            "(autoscaler) Error: No available node types can fulfill resource request defaultdict(<class 'float'>, {'CPU': 8.0, 'GPU': 8.0}). Add suitable node types to this cluster to resolve this issue.",
            "(autoscaler) Error: No available node types can fulfill resource request {'GPU': 8.0, 'CPU': 8.0}.",
            "(autoscaler) No available node types can fulfill resource requests {'CPU': 1.0, 'worker': 1.0}*4.",
        ),
        differs=("Demands: {'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK): 1+ pending placement groups",),
        is_general=True,
    ),
    KnownError(
        name="ray-bundle-too-small",
        marker="cannot fit into any bundles for the placement group",
        pattern=r"Cannot schedule (?P<what>[^\n]{1,120}?) with the placement group because the resource request (?P<request>\{[^}\n]{0,200}\}) cannot fit into any bundles",
        cause="{what} asks for {request}, and no bundle of its placement group is that large",
        remedy="Make the bundles as large as the largest actor in them (GPUs and CPUs of one actor must fit one bundle), or lower `num_gpus`/`num_cpus` of that actor",
        source="ray util/placement_group.py 2.60",
        matches=(
            "ValueError: Cannot schedule RayWorker with the placement group because the resource request {'CPU': 4, 'GPU': 2} cannot fit into any bundles for the placement group, [{'GPU': 1.0, 'CPU': 1.0}].",
        ),
        differs=("ValueError: placement group bundle index 6 is invalid. Valid placement group indexes: 0-4",),
    ),
    KnownError(
        name="ray-job-supervisor-not-placed",
        marker="Job supervisor actor could not be scheduled",
        pattern=r"Job supervisor actor could not be scheduled: (?P<why>[^\n]{1,200})",
        cause="Ray could not start the process that runs the job's command: {why}",
        remedy="By default it must run on the head node: `ray list nodes` shows whether the head's raylet is ALIVE; if not, restart the head. After a restart with the same Redis (fault tolerance), the old head's entry is stale: use a new "
        "`RAY_external_storage_namespace`",
        source="ray dashboard/modules/job/job_manager.py 2.60",
        matches=(
            "Status message: Job supervisor actor could not be scheduled: The actor is not schedulable: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and soft=False was specified.",
        ),
        differs=("Job supervisor actor failed to start within 900.0 seconds.",),
    ),
    KnownError(
        name="ray-pinned-node-gone",
        marker=" is not schedulable: ",
        pattern=r"The (?:actor|task) is not schedulable: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible",
        cause="The program pinned an actor or task to a certain node, and that node is no longer in the cluster or lacks the wanted resources",
        remedy="`ray list nodes` shows which nodes are ALIVE: start Ray again on the missing one. If it is alive, it has too few CPUs or GPUs for the request (`ray status -v`)",
        source="raylet 2.60 (strings), ray exceptions.py 2.60",
        matches=(
            "ray.exceptions.ActorUnschedulableError: The actor is not schedulable: The node specified via NodeAffinitySchedulingStrategy doesn't exist any more or is infeasible, and soft=False was specified.",
        ),
        differs=("ray.exceptions.ActorUnschedulableError: The actor is not schedulable: placement group removed",),
    ),
    KnownError(
        name="ray-placement-group-removed",
        marker="lacement group",
        pattern=r"The placement group corresponding to this (?:task|Actor) has been removed|because its associated placement group was removed",
        cause="The placement group (reserved GPUs) of an actor or task was removed while it was needed",
        remedy="Usually the job was ending: look for an earlier error. Else the program removed the group or dropped the actor that had created it; keep that actor, or create the group with `lifetime='detached'`",
        source="ray exceptions.py 2.60, gcs_server 2.60 (strings)",
        matches=(
            "ray.exceptions.ActorPlacementGroupRemoved: The placement group corresponding to this Actor has been removed.",
            "ray.exceptions.TaskPlacementGroupRemoved: The placement group corresponding to this task has been removed.",
            "Could not create the actor because its associated placement group was removed.",
        ),
        differs=("Removed placement group because its job finished.",),
        is_consequence=True,
    ),
    # Jobs.
    KnownError(
        name="ray-subprocess-ended",
        marker=" [exit code=",
        pattern=r"(?P<part>raylet|gcs_server|dashboard|log_monitor|monitor|ray_client_server|dashboard_agent|runtime_env_agent) \[exit code=(?P<code>-?\d{1,3})\]",
        cause="A process of this Ray node, {part}, ended with exit code {code}, so `ray start --block` stopped the others too",
        remedy="Its log says why: `tail -n 50 /tmp/ray/session_latest/logs/{part}.*`. raylet: the head's address or version, a port, /dev/shm, limits (`ulimit -n 65536`). A dashboard with -11: another grpcio than Ray wants (`pip install -U 'ray[default]'`)",
        source="ray scripts/scripts.py 2.60; ray-project/ray issues 24539 and 45041",
        matches=(
            "Some Ray subprocesses exited unexpectedly:\n  raylet [exit code=1]\n\nRemaining processes will be killed.",
            "2024-04-29 18:24:53,002\tERR scripts.py:908 -- dashboard [exit code=-11]",
        ),
        differs=("worker process [exit code=1]",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-check-failed",
        marker="Check failed: ",
        pattern=r"\] (?:\((?P<part>raylet|gcs_server|core_worker)\) )?(?P<place>\w{1,60}\.cc:\d{1,6}): {1,3}(?:An unexpected system state has occurred\. You have likely discovered a bug in Ray\. [^\n]{0,200})?Check failed: (?P<what>[^\n]{1,160})",
        cause="An internal check of Ray failed in {place}, and that process of Ray ended itself: {what}",
        remedy="Words about a limit or a connection in that text are the reason (`ulimit -n 65536`, `ulimit -u`, a head that is gone). Otherwise it is a defect of that version of Ray: search its issues for this text, and take the newest patch version on all nodes",
        source="ray util/logging.cc; ray-project/ray issues 50433 and 45642",
        matches=(
            "(raylet) [2025-02-11 18:42:15,859 C 30797 30797] resource_instance_set.cc:374:  Check failed: RAY_PREDICT_TRUE(_left_ >= _right_)  0 vs 10000",
            "[2024-05-29 22:54:10,723 C 359273 359273] (raylet) placement_group_resource_manager.cc:29: Check failed: ReturnBundle(*iter->second).ok()",
        ),
        differs=("RuntimeError: Check failed: tensor is contiguous",),
        is_general=True,
    ),
    KnownError(
        name="ray-exception-not-rebuilt",
        marker="pickle.loads(ray_exception.serialized_exception)",
        pattern=r"pickle\.loads\(ray_exception\.serialized_exception\)\n(?:\s{0,40}[\^~]{1,120}\n)?(?P<error>\w{1,40}Error): (?:(?P<type>[\w.]{1,80})\.)?(?P<why>[^\n]{1,160})",
        cause="A worker raised an exception that this process could not rebuild ({why}), so its text is missing here",
        remedy="Find the worker's own traceback: earlier in this log with the worker's pid, or in its .err file in /tmp/ray/session_latest/logs on its node. BackendCompilerFailed is torch.compile: try without it (veRL `use_torch_compile=False`, vLLM `--enforce-eager`)",
        source="ray exceptions.py 2.60; RUC-NLPIR/Tool-Star issue 11",
        matches=(
            "Traceback (most recent call last):\n  File \"/x/ray/exceptions.py\", line 51, in from_ray_exception\n    return pickle.loads(ray_exception.serialized_exception)\nTypeError: BackendCompilerFailed.__init__() missing 1 required positional argument: 'inner_exception'",
        ),
        differs=("return pickle.loads(data)\nTypeError: x",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-jobs-wrong-port",
        marker="BadStatusLine('",
        pattern=r"BadStatusLine\('\\x00\\x00\\x18?",
        cause="The program asked a port that does not speak HTTP, as `ray job submit` does with Ray's own port (6379 or 10001) instead of the dashboard's",
        remedy="Give the dashboard's address: `ray job submit --address=http://HEAD:8265 -- python x.py` (also in RAY_ADDRESS, without ray://)",
        source="ray-project/ray issue 31584",
        matches=("requests.exceptions.ConnectionError: ('Connection aborted.', BadStatusLine('\\x00\\x00\\x18\\x04\\x00\\x00'))",),
        differs=("http.client.BadStatusLine: ",),
    ),
    KnownError(
        name="grpc-answered-by-proxy",
        marker="Received http2 header with status: ",
        pattern=r"Received http2 header with status: (?P<code>\d{3})",
        cause="A gRPC call got the HTTP status {code}: a proxy or load balancer answered instead of the server",
        remedy="Take the proxy away for the cluster's addresses: `unset http_proxy https_proxy` or `export no_proxy=HEAD,10.0.0.0/8` before `ray start` and before the driver; a load balancer must pass HTTP/2 (gRPC) through",
        source="ray-project/ray issue 13446",
        matches=('	details = "Received http2 header with status: 502"',),
        differs=("HTTP status: 502",),
    ),
    KnownError(
        name="grpc-call-failed",
        marker="of RPC that terminated with:",
        pattern=r"RPC that terminated with:\n\s{0,12}status = StatusCode\.(?P<status>\w{1,40})\n\s{0,12}details = \"(?P<why>[^\"\n]{1,200})",
        cause="A gRPC call (in Ray: to the head, an agent or the Client server) failed with {status}: {why}",
        remedy="UNAVAILABLE: nothing answers at that address (any more): `ray status`, the end of gcs_server.out on the head, and proxies (`unset http_proxy https_proxy`). DEADLINE_EXCEEDED: overloaded or paused. The traceback names what was called",
        source="grpcio's text; ray-project/ray issues 22423 and 29412",
        matches=(
            'grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = "failed to connect to all addresses"',
        ),
        differs=("grpc._channel._InactiveRpcError",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ray-client-without-worker",
        marker="'Worker' object has no attribute 'core_worker'",
        pattern=r"AttributeError: 'Worker' object has no attribute 'core_worker'",
        cause="Code used Ray in a process that is not a part of the cluster (any more): a driver that is connected through Ray Client (ray://), or a worker that was just being ended",
        remedy="With a ray:// address: submit the program as a job instead (`ray job submit --address=http://HEAD:8265 -- python x.py`), since Ray Data and Train need a real driver. In a worker: it was being ended, so look for an earlier error",
        source="ray-project/ray issues 42739, 48682 and 37758",
        matches=("AttributeError: 'Worker' object has no attribute 'core_worker'",),
        differs=("AttributeError: 'Worker' object has no attribute 'model_runner'",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-click-version",
        marker="is not a valid Sentinel",
        pattern=r"ValueError: <object object at 0x[0-9a-f]{1,16}> is not a valid Sentinel",
        cause="The command `ray` does not start with the installed package click: Ray before 2.52 copies commands in a way that click 8.3 does not allow",
        remedy="`pip install 'click<8.3'` in that environment on all nodes (with click 8.2 still failing: 'click<8.2'), or a newer Ray; then start Ray again",
        source="ray-project/ray issue 56747, alibaba/ROLL pull request 477",
        matches=("ValueError: <object object at 0x7fa70eca36e0> is not a valid Sentinel",),
        differs=("ValueError: 'x' is not a valid SentinelMode",),
    ),
    KnownError(
        name="ray-serve-deploy-failed",
        marker="Deploying application",
        pattern=r"Deploying application '?(?P<app>[\w.-]{1,100})'? failed(?:: (?P<why>[^\n]{1,200}))?",
        cause="Ray Serve could not start the application {app}; this line is only the report",
        remedy="The traceback of the replica (ServeReplica or ServeController) above is the reason; `serve status` shows it too, and /tmp/ray/session_latest/logs/serve has the replicas' own logs",
        source="ray serve/_private/client.py 2.60; ray-project/ray pull requests 34773 and 48531",
        matches=(
            "RuntimeError: Deploying application default failed: Failed to update the deployments ['Fail'].",
            "RuntimeError: Deploying application llm failed: The deployment failed to start 3 times in a row. This may be due to a problem with its constructor or initial health check failing. See controller logs for details.",
        ),
        differs=("INFO Deploying application llm",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-serve-replica-waits",
        marker="that have taken more than",
        pattern=r"Deployment '(?P<name>[\w.-]{1,120})' in application '(?P<app>[\w.-]{0,100})' has (?P<count>\d{1,6}) replicas that have taken more than (?P<seconds>\d{1,6})s to be scheduled",
        cause="{count} replica(s) of the Serve deployment {name} wait for resources: no node has free what a replica asks for",
        remedy="The line names what is required and what is available: `ray status` shows who has it. Lower ray_actor_options (num_cpus, num_gpus) or num_replicas, end what holds the GPUs, or add nodes",
        source="ray serve/_private/deployment_state.py 2.60; redai-studio/Relax issue 231",
        matches=(
            "WARNING 2026-08-04 10:40:44 controller 16426 -- Deployment 'Rollout' in application 'rollout' has 1 replicas that have taken more than 30s to be scheduled. This may be due to waiting for the cluster to auto-scale or for a runtime environment to be installed.",
        ),
        differs=("Deployment 'Rollout' in application 'rollout' has 1 replicas that have taken more than 30s to initialize.",),
        is_warning=True,
    ),
    KnownError(
        name="ray-tune-trials-failed",
        marker="Trials did not complete",
        pattern=r"TuneError: \('Trials did not complete', \[(?P<trials>[^\]\n]{1,200})\]\)",
        cause="Trials of Ray Tune ended with errors; this line is only the report",
        remedy="The first traceback above (\"Trial task failed\") is the reason; each trial's own is in error.txt of its directory in ~/ray_results (or RunConfig's storage_path)",
        source="ray-project/ray issues 19077 and 9726",
        matches=("ray.tune.error.TuneError: ('Trials did not complete', [train_func_373ad_00000])",),
        differs=("ray.tune.error.TuneError: Insufficient cluster resources to launch trial",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-train-run-failed",
        marker="The Ray Train run failed",
        pattern=r"TrainingFailedError: The Ray Train run failed",
        cause="A training run of Ray Train failed; this line is only the report",
        remedy="The error of the worker above (RayTrainWorker, train_loop_per_worker) is the reason. To go on from the last checkpoint: `Trainer.restore(...)`, or `FailureConfig(max_failures=3)` for failures of nodes",
        source="ray train/base_trainer.py 2.60; ray-project/ray issue 47974",
        matches=(
            "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed. Please inspect the previous error messages for a cause. After fixing the issue (assuming that the error is not caused by your own application logic, but rather an error such as OOM), you can restart the run from scratch or continue this run.",
        ),
        differs=("ray.train.v2.api.exceptions.WorkerGroupError: Training failed due to worker errors:",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-cluster-too-few-nodes-roll",
        marker="cannot meet the required number of nodes",
        pattern=r"The Ray clusters\(ray_num_nodes: (?P<have>\d{1,6})\) cannot meet the required number of nodes \(`?num_nodes`?(?P<asked>\d{1,6})\)",
        cause="ROLL wants {asked} nodes with num_gpus_per_node free GPUs each, and the Ray cluster has {have} such nodes",
        remedy="`ray status` shows nodes and GPUs. Fewer GPUs per node than num_gpus_per_node: lower it. A node is missing: start Ray there (`ray start --address=HEAD:6379`). GPUs in use: end what is left of earlier runs",
        source="alibaba/ROLL issue 107 and roll/distributed/scheduler/resource_manager.py",
        matches=("AssertionError: The Ray clusters(ray_num_nodes: 0) cannot meet the required number of nodes (`num_nodes`2).",),
        differs=("The Ray cluster has 2 nodes",),
    ),
    KnownError(
        name="nemo-rl-too-few-gpus",
        marker="Not enough GPUs available. Requested ",
        pattern=r"Not enough GPUs available\. Requested (?P<asked>\d{1,6}) GPUs, but only (?P<have>\d{1,6}) are available in the cluster",
        cause="The job asks for {asked} GPUs, and the Ray cluster has {have}",
        remedy="Lower cluster.gpus_per_node and cluster.num_nodes to what `ray status` shows, or let the other nodes join before the driver starts (`ray start --address=HEAD:6379`); also check that each node reports its GPUs",
        source="NVIDIA-NeMo/RL pull request 89",
        matches=("ValueError: Not enough GPUs available. Requested 16 GPUs, but only 8 are available in the cluster.",),
        differs=("ValueError: Total available GPUs 0 is less than total desired GPUs 8",),
    ),
    KnownError(
        name="ray-pending-calls",
        marker="tasks are queued on the actor",
        pattern=r"PendingCallsLimitExceeded: The task (?P<task>[^\n]{1,120}?) could not be submitted to (?P<actor>[^\n]{1,120}?) because more than (?P<limit>\d{1,9}) tasks are queued",
        cause="More than {limit} calls wait for the actor {actor}, which is the limit that its max_pending_calls sets",
        remedy="The actor is slower than its callers, or hangs (its stack: `s` in cockpit): send less at once (`ray.wait` for earlier results), more actors, or raise `max_pending_calls` in `.options(...)`",
        source="ray exceptions.py 2.60",
        matches=(
            "ray.exceptions.PendingCallsLimitExceeded: The task score could not be submitted to RewardActor because more than 10 tasks are queued on the actor. This limit can be adjusted with the `max_pending_calls` actor option.",
        ),
        differs=("ray.exceptions.TaskCancelledError: Task: TaskID(123) was cancelled",),
    ),
    KnownError(
        name="ray-task-cancelled",
        marker="TaskCancelledError",
        pattern=r"ray\.exceptions\.TaskCancelledError: Task: ?(?:TaskID\((?P<task>\w{1,64})\))?",
        cause="A Ray task was cancelled: by the program (`ray.cancel`), or because the task or job that started it ended",
        remedy="The error of the process that started it is the reason; if there is none, find who calls `ray.cancel` (Serve cancels requests whose client has gone)",
        source="ray exceptions.py 2.60",
        matches=("ray.exceptions.TaskCancelledError: Task: TaskID(8f3c0a11) was cancelled. ",),
        differs=("asyncio.exceptions.CancelledError",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-job-no-agent",
        marker="No available agent to submit job",
        pattern=r"No available agent to submit job",
        cause="The Ray agent of the head node, which starts jobs, did not answer",
        remedy="On the head read the end of /tmp/ray/session_latest/logs/dashboard_agent.log: another process or Ray session has its port (52365; `ray start --dashboard-agent-listen-port=52366`), or a process limit was reached (`ulimit -u`). "
        "Right after `ray start`, wait 30 s and submit again",
        source="ray dashboard/modules/job/job_head.py 2.60, OpenRLHF/OpenRLHF issue 556, ray-project/kuberay issue 2676",
        matches=("RuntimeError: Request failed with status code 500: No available agent to submit job, please try again later..",),
        differs=("RuntimeError: Request failed with status code 500: Traceback (most recent call last):",),
    ),
    KnownError(
        name="ray-job-agent-port",
        marker="Agent info not found in internal KV for node",
        pattern=r"Agent info not found in internal KV for node (?P<node>\w{8,80})",
        cause="The Ray agent of the head node {node} never started, so it cannot start jobs",
        remedy="On the head read the end of /tmp/ray/session_latest/logs/dashboard_agent.log: a port in use (52365; `ray start --dashboard-agent-listen-port=52366`), a missing package (`pip install 'ray[default]'`), or a process limit (`ulimit -u`)",
        source="ray dashboard/modules/job/job_head.py 2.60",
        matches=(
            "KeyError: \"Agent info not found in internal KV for node 8f3c0a11aa. It's possible that the agent didn't launch successfully due to port conflicts or other issues. Please check `dashboard_agent.log` for more details.\"",
        ),
        differs=("No available agent to submit job, please try again later.",),
    ),
    KnownError(
        name="ray-job-start-timeout-resources",
        marker="Job supervisor actor failed to start within",
        pattern=r"Job supervisor actor failed to start within (?P<seconds>[\d.]{1,10}) seconds\.[^\n]{0,200}This may be because the job entrypoint's specified",
        cause="The job's command was not started within {seconds} seconds; it asked for CPUs, GPUs or memory of its own (--entrypoint-num-...), which were not free",
        remedy="Submit it without `--entrypoint-num-gpus`, `--entrypoint-num-cpus` and `--entrypoint-resources` (the driver needs none), or free them: `ray status`",
        source="ray dashboard/modules/job/job_manager.py 2.60",
        matches=(
            "Job supervisor actor failed to start within 900.0 seconds. This timeout can be configured by setting the environment variable RAY_JOB_START_TIMEOUT_SECONDS. This may be because the job entrypoint's specified resources "
            "(entrypoint_num_cpus, entrypoint_num_gpus, entrypoint_resources, entrypoint_memory)aren't available on the cluster.",
        ),
        differs=(
            "Job supervisor actor failed to start within 900.0 seconds. This timeout can be configured by setting the environment variable RAY_JOB_START_TIMEOUT_SECONDS.",
        ),
    ),
    KnownError(
        name="ray-job-start-timeout",
        marker="Job supervisor actor failed to start within",
        pattern=r"Job supervisor actor failed to start within (?P<seconds>[\d.]{1,10}) seconds",
        cause="The job's command was not started within {seconds} seconds: its runtime environment was not ready, or the head could not start the process",
        remedy="On the head: `tail -n 50 /tmp/ray/session_latest/logs/runtime_env_setup-*.log` (packages still being installed?), load and process limits (`ulimit -u`), and `ray list actors --filter class_name=JobSupervisor`",
        source="ray dashboard/modules/job/job_manager.py 2.60, ray-project/ray issues 48452 and 55133",
        matches=(
            "Job supervisor actor failed to start within 900.0 seconds. This timeout can be configured by setting the environment variable RAY_JOB_START_TIMEOUT_SECONDS.",
        ),
        differs=("Job supervisor actor could not be scheduled: The actor is not schedulable",),
    ),
    KnownError(
        name="ray-job-supervisor-died",
        marker="The actor died unexpectedly before finishing this task",
        pattern=r"(?:Job supervisor actor died|Unexpected error occurred): The actor died unexpectedly before finishing this task",
        cause="The process that ran the job's command (JobSupervisor) ended at once, so Ray lost the job; the lines after this one say how",
        remedy="It runs on the head node unless the job asked for resources. There: `dmesg -T | grep -i 'killed process'` (host memory), `ray stop` or a dead raylet (end of raylet.out). Keep the head free of heavy workers, since a kill there ends the job",
        source="ray dashboard/modules/job/job_manager.py 2.60, ray-project/ray issue 40696",
        matches=(
            "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor",
            "Unexpected error occurred: The actor died unexpectedly before finishing this task.\n\tclass_name: JobSupervisor",
        ),
        differs=("ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",),
        look_up="oom-kill",
        is_consequence=True,
    ),
    KnownError(
        name="ray-job-command-failed-old",
        marker="Job failed due to an application error",
        pattern=r"Job failed due to an application error, last available logs",
        cause="The job's command ended with an error; its last lines follow",
        remedy="The first error in these lines is the cause; the whole log is in `ray job logs JOB_ID`",
        source="ray job_manager.py before 2.9 and KubeRay",
        matches=(
            "Status message: Job failed due to an application error, last available logs (truncated to 20,000 chars):\nbye",
            "Message:                Job failed due to an application error, last available logs:\npython: can't open file '/tmp/code/script.ppy'",
        ),
        differs=("Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):",),
        is_consequence=True,
        is_general=True,
    ),
    KnownError(
        name="ray-dashboard-not-started",
        marker="Failed to start the dashboard",
        pattern=r"services\.py:\d{1,5} -- Failed to start the dashboard",
        cause="The Ray dashboard did not start; Ray itself may run without it, but jobs cannot be submitted",
        remedy="The lines after this one show the end of dashboard.log: a missing or unfitting package (`pip install 'ray[default]'`), a port in use, or a start that is too slow (network file system, overload). If the job starts its own Ray and fails too, read raylet.out and "
        "gcs_server.out there",
        source="chepraid/EasyR1 issue 12",
        matches=("2025-07-25 14:16:34,565 ERROR services.py:1350 -- Failed to start the dashboard ",),
        differs=("Failed to start the dashboard server.",),
        is_warning=True,
    ),
    KnownError(
        name="ray-dashboard-not-reachable",
        marker="Failed to connect to Ray at address",
        pattern=r"Failed to connect to Ray at address: (?P<address>\S{1,120}?)\.?(?:\s|$)",
        cause="No Ray dashboard answered at {address}, so the job could not be submitted or asked for",
        remedy="`curl -s {address}/api/version` tests it. On the head use http://127.0.0.1:8265; elsewhere give the head's address (`ray job submit --address=http://HEAD:8265`) and start the head with `--dashboard-host=0.0.0.0`. A proxy in between: "
        "`export no_proxy=HEAD`",
        source="ray dashboard/modules/dashboard_sdk.py 2.60",
        matches=("ConnectionError: Failed to connect to Ray at address: http://127.0.0.1:8265.",),
        differs=("ConnectionError: Failed to connect to Ray cluster at 10.0.0.2:6379",),
    ),
    KnownError(
        name="ray-job-id-taken",
        marker="Job with submission_id",
        pattern=r"Job with submission_id (?P<id>\S{1,120}) already exists\. Please use a different submission_id",
        cause="A job with the ID {id} is already known to this Ray cluster",
        remedy="Submit without `--submission-id`, or with a new one; to use the same again after that job has ended: `ray job delete {id}`",
        source="ray dashboard/modules/job/job_manager.py 2.60",
        matches=("ValueError: Job with submission_id train-1 already exists. Please use a different submission_id.",),
        differs=("Job 'train-1' submitted successfully",),
    ),
    KnownError(
        name="ray-default-missing",
        marker="require the ray[default] installation",
        pattern=r"require the ray\[default\] installation",
        cause="Ray is installed here without the packages for jobs and dashboard",
        remedy="`pip install \"ray[default]==$(python -c 'import ray; print(ray.__version__)')\"` on the head and on the submitting host, then start the head again",
        source="ray dashboard/modules/job/sdk.py 2.60",
        matches=("RuntimeError: The Ray jobs CLI & SDK require the ray[default] installation: `pip install 'ray[default]'`",),
        differs=("Cannot include dashboard with missing packages.",),
    ),
    # Pickling and messages.
    KnownError(
        name="ray-cannot-serialize",
        marker="Could not serialize the ",
        pattern=r"TypeError: Could not serialize the (?P<what>argument|put value|function|actor class) ",
        cause="Ray could not pickle the {what} that the program gave to another process, because it holds something that cannot be sent",
        remedy='The lines after this one ("FAIL serialization") name the member: a lock, thread, client, open file, generator, CUDA stream or tokenizer wrapper. Create it inside the actor or task instead, or pass only plain data',
        source="ray _private/worker.py and _private/function_manager.py 2.60",
        matches=(
            "TypeError: Could not serialize the argument <bound method Runner._async_generate_fn of <Runner object at 0x7f1acf9a1b10>> for a task or actor tool_agent_loop.ToolAgentLoop.__init__:",
            "TypeError: Could not serialize the put value <Trainer object at 0x7f>:",
        ),
        differs=("Could not serialize the arguments to workflow x",),
    ),
    KnownError(
        name="ray-exception-not-serializable",
        marker="isn't serializable",
        pattern=r"Exception (?P<type>[\w.]{1,120}) isn't serializable: ",
        cause="A worker raised {type}, which cannot be sent to the caller, so Ray shows its text instead",
        remedy='The real error stands below "Original exception details"; fix that one',
        source="ray exceptions.py 2.60 (RayTaskError)",
        matches=(
            "ray.exceptions.RayError: Exception openai.APIStatusError isn't serializable: cannot pickle '_thread.RLock' object.\nOriginal exception details:",
        ),
        differs=("The original cause of the RayTaskError (<class 'x'>) isn't serializable.",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-module-missing-on-node",
        marker="System error: No module named",
        pattern=r"System error: No module named '(?P<module>[\w.]{1,120})'",
        cause="A process that got a Ray object or actor could not import the module {module}",
        remedy="On every node: `python -c 'import {module}'` with Ray's Python. Install it there, or `export PYTHONPATH=/path` before `ray start` on all nodes (or submit with `--working-dir`). transformers_modules (trust_remote_code): each node needs the model's code in its cache",
        source="ray exceptions.py 2.60 (RaySystemError), in public logs of vLLM on Ray",
        matches=("ray.exceptions.RaySystemError: System error: No module named 'vllm'",),
        differs=("ModuleNotFoundError: No module named 'vllm'",),
    ),
    KnownError(
        name="ray-exception-not-readable",
        marker="Failed to unpickle serialized exception",
        pattern=r"(?:System error|RuntimeError): Failed to unpickle serialized exception",
        cause="A worker raised an exception that this process could not rebuild, so its text is missing here",
        remedy="Find the worker's own traceback: it is printed earlier in this log with the worker's pid, or in the worker's .err file in /tmp/ray/session_latest/logs on its node",
        source="ray exceptions.py 2.60 (RaySystemError) and its tests",
        matches=(
            "ray.exceptions.RaySystemError: System error: Failed to unpickle serialized exception\ntraceback: Traceback (most recent call last):",
        ),
        differs=("System error: No module named 'vllm'",),
        is_consequence=True,
    ),
    KnownError(
        name="ray-function-too-large",
        marker="FUNCTION_SIZE_ERROR_THRESHOLD",
        pattern=r"The (?P<what>[\w ]{1,40}?) (?P<name>[\w.<>]{1,160}) is too large \((?P<asked>\d{1,9}) MiB > FUNCTION_SIZE_ERROR_THRESHOLD=(?P<limit>\d{1,9})",
        cause="The {what} {name} takes {asked} MiB as a pickle, more than Ray's limit of {limit} MiB, because it captures a large object (a model, dataset or tensor)",
        remedy="Do not use large global or outer variables inside it: load them in the actor, or `ref = ray.put(data)` once and pass `ref`",
        source="ray _private/utils.py 2.60",
        matches=(
            "ValueError: The actor ImplicitFunc is too large (106 MiB > FUNCTION_SIZE_ERROR_THRESHOLD=95 MiB). Check that its definition is not implicitly capturing a large array or other object in scope.",
        ),
        differs=(
            "The remote function train is very large (12 MiB). Check that its definition is not implicitly capturing a large array or other object in scope.",
        ),
    ),
    KnownError(
        name="grpc-message-too-large",
        marker=" message larger than max (",
        pattern=r"(?P<direction>Sent|Received) message larger than max \((?P<size>\d{1,18}) vs\. (?P<limit>\d{1,18})\)",
        cause="A gRPC message of {size} bytes was larger than the limit of {limit} bytes",
        remedy="In Ray: send large data by `ray.put` or as tensors in the object store, not as arguments, environment or names, and return smaller batches; Ray's limit is `RAY_max_grpc_message_size` (bytes, set before `ray start` on all nodes). In another program: "
        "its option for the message length",
        source="gRPC's own text; ray _private/runtime_env/packaging.py 2.60 (the variable)",
        matches=(
            'grpc RESOURCE_EXHAUSTED: "CLIENT: Sent message larger than max (639180917 vs. 134217728)"',
            'details = "Received message larger than max (210771146 vs. 104857600)"',
        ),
        differs=("The runtime_env package is 300.00MiB, approaching the maximum upload size of 500.00MiB.",),
    ),
    KnownError(
        name="cannot-pickle",
        marker="cannot pickle '",
        pattern=r"TypeError: cannot pickle '(?P<type>[\w. -]{1,120})' object",
        cause="The program tried to send an object of the type {type} to another process, and Python cannot pickle it",
        remedy="Create it inside the process that uses it (actor, DataLoader worker, spawned process), or remove it from the object that is sent (`__getstate__`); `ray.util.inspect_serializability(obj)` finds the member that holds it",
        source="CPython 3.11 (strings), ray util/check_serialize.py 2.60",
        matches=("TypeError: cannot pickle '_thread.lock' object", "TypeError: cannot pickle 'generator' object"),
        differs=("Exception x isn't serializable: cannot pickle '_thread.RLock' object.",),
        is_general=True,
    ),
    KnownError(
        name="ray-actor-died",
        marker="The actor died unexpectedly before finishing this task",
        pattern=r"The actor died unexpectedly before finishing this task",
        cause="A worker process of Ray ended unexpectedly; the log does not say why",
        remedy=_WHO_ENDED_IT,
        source="ray exceptions.py (RayActorError)",
        matches=("ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",),
        differs=("ray.exceptions.RayActorError: The actor died because its node has died.",),
        look_up="oom-kill",
        is_consequence=True,
        is_general=True,
    ),
)
