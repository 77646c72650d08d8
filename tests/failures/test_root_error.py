"""The root error of whole logs, as the programs write them."""

from __future__ import annotations

import textwrap

import pytest
from msgspec.structs import replace

from cockpit.failures import RootError, describe, find_root_error
from cockpit.findings.failures import reason_of


def root_of(log: str) -> RootError:
    found = find_root_error(log.splitlines())
    assert found is not None
    return found


def known_name(error: RootError) -> str | None:
    return error.known.error.name if error.known else None


def first_line(error: RootError) -> str:
    return error.text.partition("\n")[0]


MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free. "
    "Including non-PyTorch memory, this process has 78.09 GiB memory in use."
)
VERL = f"""\
(TaskRunner pid=4100) step:3 - actor/loss:0.12
Training Progress:   2%|▏         | 3/150 [03:12<2:31:40, 61.9s/it]
(WorkerDict pid=4312, ip=10.0.0.3) NCCL version 2.26.2+cuda12.2
Error executing job with overrides: ['data.train_batch_size=1024', 'trainer.nnodes=2']
Traceback (most recent call last):
  File "/app/verl/trainer/main_ppo.py", line 31, in main
    run_ppo(config)
  File "/app/verl/trainer/main_ppo.py", line 54, in run_ppo
    ray.get(runner.run.remote(config))
  File "/usr/lib/python3.10/site-packages/ray/_private/worker.py", line 930, in get_objects
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(OutOfMemoryError): ray::TaskRunner.run() (pid=4100, ip=10.0.0.2, actor_id=c1d0, repr=<main_ppo.TaskRunner object at 0x7f0>)
  File "/app/verl/trainer/main_ppo.py", line 210, in run
    trainer.fit()
  File "/app/verl/trainer/ppo/ray_trainer.py", line 1100, in fit
    actor_output = self.actor_rollout_wg.update_actor(batch)
ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_update_actor() (pid=4312, ip=10.0.0.3, actor_id=aa, repr=<WorkerDict>)
  File "/app/verl/workers/fsdp_workers.py", line 660, in update_actor
    metrics = self.actor.update_policy(data=data)
  File "/app/verl/workers/actor/dp_actor.py", line 412, in update_policy
    loss.backward()
  File "/usr/lib/python3.10/site-packages/torch/autograd/graph.py", line 824, in _engine_run_backward
    return Variable._execution_engine.run_backward(
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{MEMORY}

Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.
"""


def test_of_a_verl_run_it_is_the_error_of_the_worker_and_not_that_of_the_task_runner():
    root = root_of(VERL)
    assert known_name(root) == "cuda-out-of-memory"
    assert (root.line.pid, root.line.ip) == (4312, "10.0.0.3")
    assert root.raised_at == "graph.py:824 in _engine_run_backward"
    assert root.known is not None
    assert root.known.cause == "CUDA ran out of memory on GPU 0: it asked for 2.00 GiB, 1.00 GiB of 79.10 GiB was free"
    assert "HYDRA" not in root.text
    assert (root.also, root.others) == (0, None)


ACTOR_DIED = """\
Traceback (most recent call last):
  File "/app/openrlhf/cli/train_ppo_ray.py", line 478, in <module>
    train(args)
  File "/app/openrlhf/cli/train_ppo_ray.py", line 170, in train
    ray.get(refs)
  File "/usr/lib/python3.10/site-packages/ray/_private/worker.py", line 863, in get_objects
    raise value
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: PolicyModelActor
\tactor_id: f20da4dcf474d8bb05e952bb03000000
\tpid: 5226
\tnamespace: aa07eaa0-19a3-4a8b-9095-8872e5d243ba
\tip: 10.7.34.138
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection \
error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray \
stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors.
"""


def test_an_actor_that_died_is_named_with_its_own_process_and_node():
    root = root_of(ACTOR_DIED)
    assert known_name(root) == "ray-actor-ended-at-once"
    assert root.is_consequence
    failure = describe(root)
    assert (failure.pid, failure.ip) == (5226, "10.7.34.138")


def test_what_the_dead_actor_wrote_before_is_the_cause():
    crash = "(PolicyModelActor pid=5226, ip=10.7.34.138) *** SIGSEGV received at time=1739339449 on cpu 57 ***\n"
    root = root_of(crash + ACTOR_DIED)
    assert known_name(root) == "segfault"
    assert (root.line.pid, root.line.ip) == (5226, "10.7.34.138")


def test_of_an_actor_that_was_not_constructed_it_is_the_exception_in_its_constructor():
    stack = """\
(pid=918378, ip=10.209.8.134, actor_id=27f2, repr=<slime.ray.rollout.RolloutManager object at 0x7141>)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/app/slime/ray/rollout.py", line 37, in __init__
    init_http_client(args)
  File "/app/slime/utils/http_utils.py", line 124, in init_http_client
    _client_concurrency = args.sglang_server_concurrency * args.rollout_num_gpus // args.rollout_num_gpus_per_engine
                          ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~^~~~~~~~~~~~~~~~~~~~~~~
TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'
""".splitlines()
    died = "The actor died because of an error raised in its creation task, ray::RolloutManager.__init__() "
    worker = "\n".join(
        f"(RolloutManager pid=918378) {line}" for line in (f"Exception raised in creation task: {died}{stack[0]}", *stack[1:])
    )
    driver = "\n".join((f"ray.exceptions.ActorDiedError: {died}{stack[0]}", *stack[1:]))
    root = root_of(f"{worker}\n{driver}")
    assert first_line(root) == "TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'"
    assert (root.line.pid, root.raised_at) == (918378, "http_utils.py:124 in init_http_client")
    assert (root.also, root.others) == (0, None)


TORCHRUN_TABLE = """\
W0325 20:57:20.000000 2606 site-packages/torch/distributed/elastic/multiprocessing/api.py:897] Sending process 2625 closing signal SIGTERM
E0325 20:57:27.620000 2606 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 5 (pid: 2630) of binary: /usr/bin/python
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
             ^^^^^^
  File "/usr/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:{space}
=====================================================
train.py FAILED
-----------------------------------------------------
Failures:
[1]:
  time      : 2025-03-25_20:57:28
  host      : w1
  rank      : 14 (local_rank: 6)
  exitcode  : 1 (pid: 2631)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
-----------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-03-25_20:57:27
  host      : w1
  rank      : 13 (local_rank: 5)
  exitcode  : {code} (pid: 2630)
  error_file: <N/A>
  traceback : {traceback}
=====================================================
"""


def torchrun(code: int, traceback: str) -> str:
    return TORCHRUN_TABLE.format(code=code, traceback=traceback, space=" ")


NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


def test_torchruns_table_tells_which_rank_was_killed():
    root = root_of(torchrun(-9, "Signal 9 (SIGKILL) received by PID 2630"))
    assert known_name(root) == "torchrun-sigkill-summary"
    assert (root.line.rank, root.line.pid) == (13, 2630)
    assert "host: w1" in root.text


def test_unknown_errors_of_other_ranks_follow_from_the_kill_of_one():
    others = "".join(rank_error(rank, "RuntimeError: the others have left") for rank in (3, 4))
    root = root_of(others + torchrun(-9, "Signal 9 (SIGKILL) received by PID 2630"))
    assert (known_name(root), root.line.rank) == ("torchrun-sigkill-summary", 13)
    assert (root.others, root.others_count) == ("RuntimeError: the others have left", 2)


def rank_error(rank: int, error: str, clock: str = "") -> str:
    return (
        f"[rank{rank}]: Traceback (most recent call last):\n"
        f'[rank{rank}]:   File "/app/train.py", line {40 + rank}, in main\n'
        f"[rank{rank}]:     step(batch)\n"
        f"[rank{rank}]: {error}\n"
    )


def test_of_torchruns_ranks_the_one_of_its_table_has_the_root_error():
    log = rank_error(14, "ValueError: second") + rank_error(13, "ValueError: too many values to unpack (expected 2)")
    root = root_of(log + torchrun(1, NO_TRACEBACK))
    assert first_line(root) == "ValueError: too many values to unpack (expected 2)"
    assert (root.line.rank, root.raised_at) == (13, "train.py:53 in main")
    assert (root.others, root.others_count) == ("ValueError: second", 1)


def test_torchruns_table_names_the_rank_even_if_it_left_no_traceback():
    root = root_of(torchrun(1, NO_TRACEBACK))
    assert root.is_consequence
    assert (root.line.rank, root.line.pid) == (13, 2630)


def test_without_marks_the_first_of_the_tracebacks_that_stand_together_is_the_root():
    log = (
        'Traceback (most recent call last):\n  File "/app/a.py", line 3, in load\n    x()\nRuntimeError: shard 3 is missing\n'
        'Traceback (most recent call last):\n  File "/app/b.py", line 9, in wait\n    y()\nRuntimeError: another rank has left\n'
    )
    assert first_line(root_of(log + torchrun(1, NO_TRACEBACK))) == "RuntimeError: shard 3 is missing"


def test_tracebacks_that_two_processes_wrote_through_each_other_name_no_place():
    log = (
        "Traceback (most recent call last):\nTraceback (most recent call last):\n"
        '  File "/app/a.py", line 3, in load\n  File "/app/b.py", line 9, in wait\n    x()\n    y()\n'
        "KeyError: 'shard'\nRuntimeError: another rank has left\n"
    )
    root = root_of(log + torchrun(1, NO_TRACEBACK))
    assert first_line(root) == "KeyError: 'shard'"
    assert root.raised_at is None


def test_interleaved_tracebacks_of_two_workers_are_taken_apart_by_their_marks():
    log = """\
(WorkerDict pid=11, ip=10.0.0.2) Traceback (most recent call last):
(WorkerDict pid=12, ip=10.0.0.3) Traceback (most recent call last):
(WorkerDict pid=11, ip=10.0.0.2)   File "/app/a.py", line 3, in load
(WorkerDict pid=12, ip=10.0.0.3)   File "/app/b.py", line 9, in wait
(WorkerDict pid=11, ip=10.0.0.2)     x()
(WorkerDict pid=12, ip=10.0.0.3)     y()
(WorkerDict pid=12, ip=10.0.0.3) KeyError: 'shard'
(WorkerDict pid=11, ip=10.0.0.2) RuntimeError: something else
"""
    root = root_of(log + ACTOR_DIED)
    assert (first_line(root), root.raised_at) == ("KeyError: 'shard'", "b.py:9 in wait")
    assert (root.line.pid, root.line.ip) == (12, "10.0.0.3")
    assert (root.others, root.others_count) == ("RuntimeError: something else", 1)


WATCHDOG = (
    "(WorkerDict pid={pid}, ip=10.0.0.{node}) [rank{rank}]:[E510 00:18:{second:02}.328053719 ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=3, OpType=BROADCAST, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out."
)


def test_a_timeout_on_31_ranks_follows_from_the_memory_of_one():
    memory = f"""\
(WorkerDict pid=209, ip=10.0.0.3) [rank9]:[E510 00:18:15.100000000 x.cpp:1] note
(WorkerDict pid=209, ip=10.0.0.3) [rank9]: Traceback (most recent call last):
(WorkerDict pid=209, ip=10.0.0.3) [rank9]:   File "/app/fsdp.py", line 7, in step
(WorkerDict pid=209, ip=10.0.0.3) [rank9]: {MEMORY}
"""
    timeouts = "\n".join(
        WATCHDOG.format(pid=200 + rank, node=rank // 8 + 2, rank=rank, second=20 + rank) for rank in range(32) if rank != 9
    )
    root = root_of(memory + timeouts)
    assert known_name(root) == "cuda-out-of-memory"
    assert (root.line.rank, root.line.pid, root.also) == (9, 209, 0)
    assert root.others is not None
    assert root.others.startswith("[Rank 0] Watchdog caught collective operation timeout")
    assert root.others_count == 31


def test_a_timeout_alone_is_only_a_consequence():
    root = root_of(WATCHDOG.format(pid=200, node=2, rank=0, second=20))
    assert known_name(root) == "nccl-watchdog-timeout"
    assert (root.is_consequence, root.line.rank) == (True, 0)


def test_the_earlier_error_is_said_with_the_seconds_between():
    log = """\
2025-05-10 10:00:01,100 (WorkerDict pid=1) ValueError: bad shard
2025-05-10 10:00:05,100 (WorkerDict pid=2) RuntimeError: rank 1 has left
2025-05-10 10:00:06,100 (WorkerDict pid=3) RuntimeError: rank 1 has left
"""
    root = root_of(log)
    assert (first_line(root), root.earlier_s) == ("ValueError: bad shard", 4.0)
    assert (root.others, root.others_count) == ("RuntimeError: rank 1 has left", 2)


def test_equal_errors_that_ray_prints_once_are_counted():
    log = f"""\
(WorkerDict pid=1, ip=10.0.0.2) Traceback (most recent call last):
(WorkerDict pid=1, ip=10.0.0.2)   File "/app/fsdp.py", line 7, in step
(WorkerDict pid=1, ip=10.0.0.2) {MEMORY}
(WorkerDict pid=9, ip=10.0.0.3) {MEMORY} [repeated 31x across cluster] (Ray deduplicates logs by default.)
"""
    root = root_of(log)
    assert (known_name(root), root.line.pid, root.also) == ("cuda-out-of-memory", 1, 31)


VLLM = """\
(EngineCore_DP0 pid=59619) INFO 10-15 08:32:29 [pynccl.py:103] vLLM is using nccl==2.27.3
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708]   File "/usr/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 699, in run_engine_core
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708]     engine_core = EngineCoreProc(*args, **kwargs)
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708]   File "/usr/lib/python3.12/site-packages/vllm/v1/worker/utils.py", line 77, in request_memory
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708]     raise ValueError(
(EngineCore_DP0 pid=59619) ERROR 10-15 08:32:31 [core.py:708] ValueError: Free memory on device (61.05/119.7 GiB) on startup is less than desired GPU \
memory utilization (0.52, 62.24 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.
(EngineCore_DP0 pid=59619) Process EngineCore_DP0:
(EngineCore_DP0 pid=59619) Traceback (most recent call last):
(EngineCore_DP0 pid=59619)   File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap
(EngineCore_DP0 pid=59619)     self.run()
(EngineCore_DP0 pid=59619) ValueError: Free memory on device (61.05/119.7 GiB) on startup is less than desired GPU memory utilization (0.52, 62.24 GiB).
(APIServer pid=59500) Traceback (most recent call last):
(APIServer pid=59500)   File "/usr/lib/python3.12/site-packages/vllm/v1/engine/utils.py", line 729, in launch_core_engines
(APIServer pid=59500)     wait_for_engine_startup(
(APIServer pid=59500) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore_DP0': 1}
"""


def test_of_vllms_engine_the_cause_stands_above_the_error_of_its_parent():
    root = root_of(VLLM)
    assert known_name(root) == "vllm-start-memory-not-free"
    assert root.line.pid == 59619
    assert (root.also, root.others) == (0, None)


SGLANG = """\
[2025-04-23 21:31:40 TP0] Prefill batch. #new-seq: 1
[2025-04-23 21:31:41 TP2] Scheduler hit an exception: Traceback (most recent call last):
  File "/env/sglang/srt/managers/scheduler.py", line 2015, in run_scheduler_process
    scheduler.event_loop_normal()
  File "/env/sglang/srt/mem_cache/common.py", line 412, in alloc_paged_token_slots_extend
    raise RuntimeError(error_msg)
RuntimeError: Prefill out of memory. Try to lower your batch size.
Try to allocate 8192 tokens.

[2025-04-23 21:31:41] Received sigquit from a child process. It usually means the child failed.
Killed
"""


def test_of_sglang_it_is_the_exception_of_its_scheduler():
    root = root_of(SGLANG)
    assert known_name(root) == "sglang-kv-pool-full"
    assert (root.line.rank, root.raised_at) == (2, "common.py:412 in alloc_paged_token_slots_extend")
    assert "Received" not in root.text


DEEPSPEED = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/app/openrlhf/cli/train_sft.py", line 180, in train
[rank0]:     strategy.prepare(model)
[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/data/sft/train.jsonl'
[2025-04-17 23:16:39,064] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 1619464
[2025-04-17 23:16:39,162] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 1619465
[2025-04-17 23:16:40,064] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', '-m', 'openrlhf.cli.train_sft'] exits with return code = 1
"""


def test_of_the_deepspeed_launcher_it_is_the_error_of_the_rank():
    root = root_of(DEEPSPEED)
    assert (known_name(root), root.line.rank) == ("file-missing", 0)


def test_a_rank_that_the_deepspeed_launcher_lost_without_a_word_was_killed():
    log = DEEPSPEED.partition("[2025")[2].replace("return code = 1", "return code = -9")
    assert known_name(root_of("[2025" + log)) == "process-return-code-9"


def test_nccls_warning_before_the_exception_is_the_cause():
    log = """\
w1:4016:4653 [7] misc/ibvwrap.cc:278 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory
w1:4016:4653 [7] NCCL INFO transport/net_ib.cc:700 -> 2
Traceback (most recent call last):
  File "/app/train.py", line 90, in main
    dist.all_reduce(flag)
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Call to ibv_reg_mr_iova2 failed
"""
    assert known_name(root_of(log)) == "nccl-locked-memory"


def test_nccls_own_name_of_the_error_belongs_to_the_exception_before_it():
    log = """\
Traceback (most recent call last):
  File "/app/train.py", line 30, in main
    dist.all_reduce(t)
RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1275, unhandled system error, NCCL version 2.14.3
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
socketStartConnect: Connect to fe80::966d:ae03:a2:8cf0%ib1<17943> failed : Software caused connection abort
"""
    root = root_of(log)
    assert (known_name(root), root.raised_at) == ("nccl-link-local-ipv6", "train.py:30 in main")


def test_a_chain_by_direct_cause_leads_to_its_first_error():
    log = """\
Traceback (most recent call last):
  File "/app/load.py", line 5, in read
    row["label"]
KeyError: 'label'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/train.py", line 9, in main
    raise RuntimeError("no data") from error
RuntimeError: no data
"""
    root = root_of(log)
    assert (first_line(root), root.raised_at) == ("KeyError: 'label'", "load.py:5 in read")


DURING = """\
Traceback (most recent call last):
  File "/app/load.py", line 5, in read
    open(path)
{first}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/train.py", line 9, in main
    cleanup()
{second}
"""


def test_an_error_while_another_was_handled_counts_unless_only_the_other_is_known():
    missing = "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.parquet'"
    assert first_line(root_of(DURING.format(first="KeyError: 'x'", second="ValueError: y"))) == "ValueError: y"
    assert first_line(root_of(DURING.format(first=missing, second="AttributeError: y"))) == missing
    assert first_line(root_of(DURING.format(first="KeyError: 'x'", second=missing))) == missing


def test_of_a_hub_that_is_not_reachable_the_chain_ends_in_the_known_error():
    log = """\
Traceback (most recent call last):
  File "/env/urllib3/connection.py", line 198, in _new_conn
    sock = connection.create_connection(
socket.gaierror: [Errno -2] Name or service not known

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/env/urllib3/connectionpool.py", line 787, in urlopen
    response = self._make_request(
urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /Qwen/Qwen3-8B/resolve/main/config.json (Caused by NameResolutionError("x: Failed to resolve 'huggingface.co'"))

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/env/huggingface_hub/file_download.py", line 1533, in _get_metadata_or_catch_error
    metadata = get_hf_file_metadata(url=url)
requests.exceptions.ConnectionError: (MaxRetryError("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x"), '(Request ID: 1)')

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/env/transformers/utils/hub.py", line 479, in cached_files
    hf_hub_download(
huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/main.py", line 3, in <module>
    AutoConfig.from_pretrained("Qwen/Qwen3-8B")
OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.
Check your internet connection or see how to run the library in offline mode at 'https://huggingface.co/docs/transformers/installation#offline-mode'.
"""
    assert known_name(root_of(log)) in ("hub-not-reachable", "hub-connection-failed")


def test_an_exception_that_python_ignores_is_no_failure():
    log = """\
Exception ignored in: <function LLM.__del__ at 0x7f>
Traceback (most recent call last):
  File "/app/llm.py", line 9, in __del__
    self.close()
AttributeError: 'NoneType' object has no attribute 'close'
"""
    assert find_root_error(log.splitlines()) is None
    error = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in load\n    x()\nKeyError: 'shard'\n"
    assert first_line(root_of(error + log)) == "KeyError: 'shard'"
    assert first_line(root_of(log + error)) == "KeyError: 'shard'"


def test_a_logger_that_failed_is_no_failure():
    log = """\
--- Logging error ---
Traceback (most recent call last):
  File "/usr/lib/python3.10/logging/__init__.py", line 1103, in emit
    stream.write(msg + self.terminator)
BrokenPipeError: [Errno 32] Broken pipe
Call stack:
  File "/app/a.py", line 3, in load
    logger.error("x")
Message: 'Received sigquit'
Arguments: ()
"""
    assert find_root_error(log.splitlines()) is None


def test_an_error_that_was_caught_early_is_not_the_cause_of_a_later_one():
    caught = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in load\n    x()\nModuleNotFoundError: No module named 'flash_attn'\n"
    steps = "".join(f"step {number}: loss 0.1\n" for number in range(150))
    fatal = 'Traceback (most recent call last):\n  File "/app/b.py", line 9, in fit\n    y()\nZeroDivisionError: division by zero\n'
    for between in (steps, 2 * steps, steps[:2000]):
        root = root_of(caught + between + fatal)
        assert (first_line(root), root.raised_at) == ("ZeroDivisionError: division by zero", "b.py:9 in fit")


def test_a_kill_at_the_end_counts_more_than_an_error_that_the_same_process_survived():
    caught = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    y()\nModuleNotFoundError: No module named 'flash_attn'\n"
    assert known_name(root_of(caught + "step\n" * 150 + "Killed\n")) == "word-killed"
    assert known_name(root_of(caught + "step\n" * 150)) == "flash-attn-missing"


def test_what_was_caught_or_ignored_is_no_reason_for_a_wrapper_either():
    ignored = 'Exception ignored in: <f>\nTraceback (most recent call last):\n  File "/app/a.py", line 3, in f\nOSError: [Errno 28] No space left on device\n'
    assert known_name(root_of(ignored + ACTOR_DIED)) == "ray-actor-ended-at-once"
    caught = ignored.partition("\n")[2] + "step\n" * 250
    assert known_name(root_of(caught + ACTOR_DIED)) == "ray-actor-ended-at-once"


def test_a_traceback_without_an_end_does_not_reach_to_the_next_error():
    log = 'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\n' + "step\n" * 300 + "ValueError: later\n"
    root = root_of("KeyError: 'early'\n" + log)
    assert (first_line(root), root.raised_at) == ("ValueError: later", None)


def test_an_error_that_a_worker_survived_is_not_the_cause():
    caught = """\
(RewardWorker pid=7) Traceback (most recent call last):
(RewardWorker pid=7)   File "/app/reward.py", line 3, in score
(RewardWorker pid=7)     response.json()
(RewardWorker pid=7) json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
    log = caught + "(RewardWorker pid=7) scored a batch\n" * 120 + rank_error(3, "ZeroDivisionError: division by zero")
    assert first_line(root_of(log)) == "ZeroDivisionError: division by zero"


def test_a_command_that_failed_is_explained_by_what_it_printed():
    log = """\
+ python train.py
Traceback (most recent call last):
  File "/app/train.py", line 3, in <module>
    import trl
ModuleNotFoundError: No module named 'trl'
Traceback (most recent call last):
  File "/app/launch.py", line 12, in <module>
    subprocess.run(command, check=True)
  File "/usr/lib/python3.10/subprocess.py", line 526, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.
"""
    assert known_name(root_of(log)) == "module-missing"


def test_argparse_and_the_shell_are_understood_without_python():
    usage = "usage: train_ppo_ray.py [-h] [--n N]\ntrain_ppo_ray.py: error: unrecognized arguments: --use_kl_los\n"
    assert known_name(root_of(usage)) == "openrlhf-option-spelling"
    assert known_name(root_of("./run.sh: line 3: ray: command not found\n")) == "command-not-found"
    assert known_name(root_of("loading\n./run.sh: line 32: 3376060 Killed                  python train.py\n")) == "shell-line-killed"


def test_a_known_line_is_shown_without_the_lines_after_it():
    root = root_of("loading\nbash: ray: command not found\nbye\n")
    assert (root.text, root.line.number) == ("bash: ray: command not found", 1)


def test_a_killed_line_of_the_shell_does_not_belong_to_the_error_before_it():
    log = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in load\n    x()\nKeyError: 'shard'\n./run.sh: line 32: 37 Killed   python"
    root = root_of(log)
    assert (known_name(root), root.text) == ("key-missing", "KeyError: 'shard'")


def test_an_assertion_is_known_by_the_line_of_code_that_made_it():
    log = """\
Traceback (most recent call last):
  File "/app/openrlhf/cli/train_ppo_ray.py", line 40, in train
    assert actor_world_size % args.vllm_num_engines == 0
AssertionError
"""
    assert known_name(root_of(log)) == "openrlhf-engines-divide-actors"


def test_a_log_that_ends_in_the_middle_shows_no_error():
    assert (
        find_root_error(["step 1: loss 0.2", "step 2: loss 0.1", "Traceback (most recent call last):", '  File "/app/a.py", line 3, in x'])
        is None
    )
    assert find_root_error([]) is None


def test_a_notice_alone_is_only_what_was_last_reported():
    wait = "INFO [shm_broadcast.py:501] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging."
    failure = describe(root_of(wait))
    assert failure.cause is not None
    assert failure.cause.startswith("A vLLM worker has been busy")
    assert failure.is_notice
    assert reason_of(replace(failure, moment=5.0)) == f"it last reported: {failure.cause}"
    assert reason_of(failure) == failure.cause
    assert known_name(root_of(f"{wait}\nKilled\n")) == "word-killed"


def test_progress_bars_do_not_hide_an_error():
    bar = "".join(f"\r{percent:3d}%|{'█' * (percent // 10):10}| {percent}/100 [00:10<00:10, 1.0it/s]" for percent in range(0, 100, 1))
    log = [
        f"{bar}\r[rank0]: Traceback (most recent call last):███| 55/64 [03:04<00:27]",
        '[rank0]:   File "/app/a.py", line 3, in load',
        "[rank0]: KeyError: 'x'",
    ]
    root = find_root_error(log)
    assert root is not None
    assert (first_line(root), root.line.rank) == ("KeyError: 'x'", 0)


def test_times_that_kubernetes_writes_before_each_line_do_no_harm():
    log = "\n".join(f"2025-10-18T15:15:23.123456789Z {line}" for line in VERL.splitlines())
    root = root_of(log)
    assert (known_name(root), root.line.pid, root.raised_at) == ("cuda-out-of-memory", 4312, "graph.py:824 in _engine_run_backward")


def test_text_in_utf_16_and_escapes_are_read_all_the_same():
    wide = "\ufffd\ufffd" + "".join(f"{character}\0" for character in VERL)
    assert known_name(root_of(wide)) == "cuda-out-of-memory"
    colored = "\n".join(f"\x1b[36m{line}\x1b[0m" for line in VERL.splitlines())
    assert known_name(root_of(colored)) == "cuda-out-of-memory"


SERVER_PORT = """\
Traceback (most recent call last):
  File "/env/sglang/srt/server_args.py", line 5142, in init_new
    wait_port_available(port_base, "port_base")
ValueError: port_base at 21234 is not available in 30 seconds. port_base is used by a process already.
"""
"""Of an engine; its launcher writes into the same stream."""


def test_a_launcher_that_only_says_that_its_server_ended_is_no_root():
    for report in (
        "Exception: Server process exited with code 1. Check server logs for errors.",
        "RuntimeError: server launch failed",
        "RuntimeError: Failed to start the SGLang server",
        "areal.utils.launcher.JobException: Job a:trainer JobState.COMPLETED at node local",
        "RuntimeError: Worker process 3 died unexpectedly",
    ):
        log = f'{SERVER_PORT}Traceback (most recent call last):\n  File "/app/launch.py", line 9, in launch\n    raise X(\n{report}\n'
        assert known_name(root_of(log)) == "sglang-port", report
        alone = root_of(f'Traceback (most recent call last):\n  File "/app/launch.py", line 9, in launch\n    raise X(\n{report}\n')
        assert first_line(alone) == report
        assert alone.is_consequence


def test_an_error_that_says_itself_why_a_server_ended_is_no_mere_report():
    why = "RuntimeError: Failed to launch the server: unsupported option --x"
    log = f'{SERVER_PORT}Traceback (most recent call last):\n  File "/app/launch.py", line 9, in launch\n    raise X(\n{why}\n'
    alone = root_of(f'Traceback (most recent call last):\n  File "/app/launch.py", line 9, in launch\n    raise X(\n{why}\n')
    assert not alone.is_consequence
    assert known_name(root_of(log)) in ("sglang-port", "message-names-a-limit")


def test_an_error_that_a_data_loader_hands_on_is_the_one_of_its_worker():
    log = """\
Traceback (most recent call last):
  File "/env/torch/_utils.py", line 769, in reraise
    raise exception
ValueError: Caught ValueError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/env/torch/utils/data/_utils/fetch.py", line 52, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
  File "/app/dataset.py", line 36, in __getitem__
    raise ValueError(f"no image in {row}")
ValueError: no image in 17

"""
    root = root_of(log)
    assert (first_line(root), root.raised_at) == ("ValueError: no image in 17", "dataset.py:36 in __getitem__")


def test_an_abort_follows_from_what_was_reported_before():
    watchdog = (
        "(Worker pid=7) [rank3]:[E219 08:58:32.6 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.\n"
    )
    abort = "(Worker pid=8) *** SIGABRT received at time=1739955512 on cpu 15 ***\n(Worker pid=8) Fatal Python error: Aborted\n"
    assert known_name(root_of(watchdog + abort)) == "nccl-watchdog-timeout"
    assert first_line(root_of("ZeroDivisionError: division by zero\n" + abort)) == "ZeroDivisionError: division by zero"
    assert root_of(abort).is_consequence


def test_a_second_error_of_cuda_in_a_process_follows_from_the_first():
    illegal = "RuntimeError: CUDA error: an illegal memory access was encountered"
    busy = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    assert known_name(root_of(DURING.format(first=illegal, second=busy))) == "cuda-illegal-memory-access"
    assert known_name(root_of(DURING.format(first="KeyError: 'x'", second=busy))) == "gpu-busy-or-unavailable"


def test_an_error_that_a_program_logs_in_pieces_counts_although_its_logger_failed_too():
    first = 'Traceback (most recent call last):\n  File "/app/core.py", line 207, in execute\n    run()\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n'
    own = '\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "/app/dump.py", line 3, in dump\n    f()\nTypeError: not serializable\nCall stack:\n  File "/app/core.py", line 9, in f\n'
    assert known_name(root_of("--- Logging error ---\n" + first)) == "cuda-no-kernel-image"
    assert known_name(root_of("--- Logging error ---\n" + first + own)) == "cuda-no-kernel-image"


def test_the_message_of_an_error_ends_where_other_programs_go_on():
    error = "Traceback (most recent call last):\n  File \"/app/a.py\", line 3, in f\n    y()\nKeyError: 'shard'\n"
    for after in (
        "/env/verl/config.py:49: UserWarning: Torch profiler is not supported\n  warnings.warn(",
        "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
        "----------------------------------------------------------------------\nRan 0 tests in 20.007s",
        "20250813-22:08:44.627 Local Scheduler INFO: Waiting for 0 local running processes, pids:",
        "INFO 03-02 03:24:45 ray_distributed_executor.py:104] Shutting down Ray distributed executor.",
    ):
        assert root_of(f"{error}{after}\n").text == "KeyError: 'shard'", after


def test_of_errors_that_were_all_survived_the_last_known_one_is_shown():
    known = f'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\n{MEMORY}\n'
    unknown = "Traceback (most recent call last):\n  File \"/app/a.py\", line 9, in g\nKeyError: 'x'\n"
    assert known_name(root_of(known + unknown + "step\n" * 150)) == "cuda-out-of-memory"
    assert first_line(root_of(unknown + "step\n" * 150)) == "KeyError: 'x'"


def test_hydra_names_the_argument_and_not_only_the_key():
    log = """\
Traceback (most recent call last):
  File "/env/omegaconf/_utils.py", line 797, in _raise
    raise ex
omegaconf.errors.ConfigAttributeError: Key 'loss' is not in struct
    full_key: algorithm.loss
    object_type=dict

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/env/hydra/_internal/config_loader_impl.py", line 389, in _apply_overrides_to_config
    raise ConfigCompositionException(
hydra.errors.ConfigCompositionException: Could not override 'algorithm.loss'.
To append to your config use +algorithm.loss=x
"""
    assert known_name(root_of(log)) == "hydra-unknown-key"


def test_a_name_that_no_node_knows_is_the_cause_of_a_connection_that_was_not_made():
    log = """\
(A pid=4, ip=10.0.0.3) [W socket.cpp:558] [c10d] The IPv4 network addresses of (head-7x, 48211) cannot be retrieved (gai error: -2 - Name or service not known).
(A pid=4, ip=10.0.0.3) Traceback (most recent call last):
(A pid=4, ip=10.0.0.3)   File "/env/torch/distributed/rendezvous.py", line 159, in _create_c10d_store
(A pid=4, ip=10.0.0.3) RuntimeError: The client socket has failed to connect to any network address of (head-7x, 48211).
"""
    assert known_name(root_of(log)) == "c10d-name-unknown"


def test_a_traceback_that_lost_its_indentation_is_read_all_the_same():
    log = """\
Traceback (most recent call last):
File "/app/main.py", line 22, in main
raise
File "<frozen importlib._bootstrap>", line 1027, in _find_and_load
File "/app/trainer.py", line 716, in fit
start_epoch = global_step // self.steps_per_epoch
ZeroDivisionError: integer division or modulo by zero
"""
    root = root_of(log)
    assert (known_name(root), root.raised_at) == ("verl-sft-steps-zero", "trainer.py:716 in fit")


def test_of_a_process_that_aborted_it_is_what_it_said_before():
    log = """\
terminate called after throwing an instance of 'std::runtime_error'
  what():  no such kernel
(Worker pid=8) *** SIGABRT received at time=1739955512 on cpu 15 ***
Fatal Python error: Aborted

Thread 0x1 (most recent call first):
  File "/app/b.py", line 3 in f
"""
    assert "no such kernel" in root_of(log).text
    assert root_of(log).is_consequence


def test_a_row_that_needs_the_line_of_code_counts_more_than_one_of_the_message_alone():
    log = 'Traceback (most recent call last):\n  File "/app/a.py", line 3, in f\n    {source}\nRuntimeError: CUDA error: invalid argument\n'
    assert known_name(root_of(log.format(source="buffer = torch.empty(size, pin_memory=True)"))) == "pinned-memory-refused"
    assert known_name(root_of(log.format(source="kernel(x)"))) == "cuda-invalid-argument"


def test_a_row_that_explains_only_a_kind_of_error_never_decides_which_error_was_the_cause():
    log = """\
Traceback (most recent call last):
  File "/app/registry.py", line 10, in find
    return MANAGERS[name]
KeyError: 'dapo2'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/main.py", line 3, in main
    find(config.name)
  File "/app/registry.py", line 12, in find
    raise ValueError(f"Reward manager {name} is not registered")
ValueError: Reward manager dapo2 is not registered
"""
    assert first_line(root_of(log)) == "ValueError: Reward manager dapo2 is not registered"
    # Another process reports an error of a known kind later; the first one counts although no row knows it.
    first = 'Traceback (most recent call last):\n  File "/app/a.py", line 1, in f\n    g()\nRuntimeError: the disk said no\n'
    later = (
        "Traceback (most recent call last):\n  File \"/app/b.py\", line 1, in f\n    h()\nTypeError: 'NoneType' object is not iterable\n"
    )
    mixed = "".join(f"(Worker pid={pid}) {line}\n" for pid, text in ((1, first), (2, later), (3, later)) for line in text.splitlines())
    assert first_line(root_of(mixed)) == "RuntimeError: the disk said no"


def test_a_row_of_the_line_of_code_comes_before_one_that_explains_only_the_kind():
    log = """\
Traceback (most recent call last):
  File "/opt/vllm/models/qwen.py", line 501, in load_weights
    param = params_dict[name]
            ~~~~~~~~~~~^^^^^^
KeyError: 'model.visual.patch_embed.weight'
"""
    assert known_name(root_of(log)) == "engine-weight-unknown"
    assert known_name(root_of(log.replace("params_dict[name]", "columns[name]"))) == "key-missing"


def test_a_bare_assert_says_which_check_failed():
    log = """\
Traceback (most recent call last):
  File "/opt/flash_attn/cross_entropy.py", line 165, in forward
    assert labels.shape == (n_rows,)
           ^^^^^^^^^^^^^^^^^^^^^^^^^
AssertionError
"""
    assert describe(root_of(log)).cause == "The program asserts labels.shape == (n_rows,), which does not hold"


def test_the_advice_of_a_message_is_quoted_and_no_command_of_it_looks_like_one_of_cockpits():
    said = "ValueError: The model has no adapter. Please run `rm -rf /` first"
    failure = describe(root_of(f"loading\n{said}\n"))
    assert failure.remedy == "Its message says what to do: \"Please run 'rm -rf /' first\""


def test_torchruns_prefix_and_torchs_own_are_both_taken_off():
    log = 'loading\n[default3]:[rank3]: Traceback (most recent call last):\n[default3]:[rank3]:   File "/app/a.py", line 1, in f\n[default3]:[rank3]: MyError: no\n'
    root = root_of(log)
    assert (root.text, root.line.rank, root.raised_at) == ("MyError: no", 3, "a.py:1 in f")


def test_a_bare_assertion_gives_way_to_a_known_warning_directly_above_it():
    warning = "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
    error = find_root_error(["step 1", warning, "Traceback (most recent call last):", '  File "/x/a.py", line 5, in f', "AssertionError:"])
    assert error is not None
    assert error.known is not None
    assert "802" in error.text
    other = find_root_error(
        ["step 1", warning, "Traceback (most recent call last):", '  File "/x/a.py", line 5, in f', "ValueError: x < y"]
    )
    assert other is not None
    assert other.text == "ValueError: x < y"


def test_a_report_of_another_process_far_below_in_a_message_does_not_hide_the_error():
    report = "Received sigquit from a child process. It usually means the child failed."
    error = find_root_error(["step 1", "RuntimeError: the table has no rows", "of the", "first kind", report])
    assert error is not None
    assert error.known is None or error.known.error.name != "sglang-child-failed"
    assert error.text.startswith("RuntimeError: the table has no rows")


def test_an_engine_that_was_told_to_stop_did_not_die_by_itself():
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."
    error = find_root_error(
        ["INFO [shutdown] EngineCore received signal=SIGTERM", "Traceback (most recent call last):", '  File "/x/a.py", line 5, in f', dead]
    )
    assert error is not None
    assert error.known is not None
    assert error.known.error.name == "engine-told-to-stop"


@pytest.mark.parametrize("width", [60, 73, 80, 100, 120])
def test_a_message_that_was_wrapped_at_some_width_is_known(width: int):
    message = (
        "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29600 "
        "(errno: 98 - Address already in use). The server socket has failed to bind to 0.0.0.0:29600 (errno: 98 - Address already in use)."
    )
    for lines in (textwrap.wrap(message, width), [message[at : at + width] for at in range(0, len(message), width)]):
        error = find_root_error(lines)
        assert error is not None
        assert error.known is not None
        assert (error.known.error.name, error.known.parts["port"]) == ("torch-bind-in-use", "29600")


def test_lines_that_were_not_wrapped_are_not_joined():
    error = find_root_error(["RuntimeError: weights are missing: No space left", f"on device 3 {'the loss was 0.1 ' * 8}"])
    assert error is not None
    assert error.known is None


def test_why_a_process_was_killed_counts_before_the_shells_line_that_it_was():
    error = root_of(
        "/var/spool/slurmd/job00191/slurm_script: line 28:  8156 Killed                  python3 main.py\n"
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=191.batch cgroup."
    )
    assert known_name(error) == "slurm-memory-kill"
    assert known_name(root_of("train.sh: line 28:  8156 Killed                  python3 main.py")) == "shell-line-killed"
