"""The metrics of engines are read from Prometheus' text, whatever else stands there."""

from __future__ import annotations

import time
from pathlib import Path

from cockpit.probe.engine_metrics import MAX_ENGINES, EngineReading, read_engines

RECORDED = Path(__file__).parents[1] / "recorded" / "engines"
WORKER = "c4" * 28
THROUGH_RAY = f"""\
# HELP ray_vllm_num_requests_running Number of requests in model execution batches.
# TYPE ray_vllm_num_requests_running gauge
ray_vllm_num_requests_running{{Component="core_worker",NodeAddress="10.0.0.1",WorkerId="{WORKER}",engine="0",model_name="tiny"}} 4.0
ray_vllm_num_requests_waiting{{WorkerId="{WORKER}",engine="0",model_name="tiny"}} 8
ray_vllm_num_requests_waiting_by_reason{{WorkerId="{WORKER}",engine="0",model_name="tiny",reason="capacity"}} 99
ray_vllm_kv_cache_usage_perc{{WorkerId="{WORKER}",engine="0",model_name="tiny"}} 0.25
ray_vllm_generation_tokens_total{{WorkerId="{WORKER}",engine="0",model_name="tiny"}} 1.5e+03
ray_vllm_iteration_tokens_total_bucket{{WorkerId="{WORKER}",le="1.0"}} 77
ray_node_cpu_count{{ip="10.0.0.1"}} 8
""".encode()
SGLANG = b"""\
sglang:num_running_reqs{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="1"} 3.0
sglang:num_queue_reqs{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 5.0
sglang:token_usage{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 0.97
sglang:gen_throughput{engine_type="unified",model_name="tiny",pp_rank="0",tp_rank="0"} 812.5
sglang:generation_tokens_total{model_name="tiny"} 7000.0
"""


def test_an_engine_that_reports_through_ray_has_its_worker():
    expected = EngineReading("vllm", "0", "tiny", WORKER, running=4, waiting=8, kv_cache=0.25, tokens=1500, preemptions=0)
    assert read_engines(THROUGH_RAY) == [expected]


def test_the_ranks_of_an_engine_are_one_engine():
    expected = EngineReading("sglang", "", "tiny", None, running=3, waiting=5, kv_cache=0.97, tokens=7000, throughput=812.5)
    assert read_engines(SGLANG) == [expected]


def test_a_server_that_counts_no_preemption_says_nothing_of_them():
    (engine,) = read_engines(b'vllm:num_requests_running{engine="0",model_name="m"} 1\n')
    assert engine.preemptions is None
    assert engine.waiting is None


def test_engines_of_one_server_are_told_apart():
    text = b"".join(b'vllm:num_requests_running{engine="%d",model_name="m"} %d\n' % (number, 10 + number) for number in range(3))
    assert [(engine.number, engine.running) for engine in read_engines(text)] == [("0", 10), ("1", 11), ("2", 12)]


def test_a_counter_alone_is_no_engine():
    assert read_engines(b'sglang:generation_tokens_total{model_name="m"} 5\n') == []


def test_numbers_that_mean_nothing_are_unknown():
    for number in (b"NaN", b"-1", b"+Inf", b"1e300", b"five", b"1e99999"):
        text = b'vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_waiting{engine="0"} ' + number
        assert read_engines(text) == [EngineReading("vllm", "0", running=1)]
    assert read_engines(b"vllm:kv_cache_usage_perc 1.7\nvllm:num_requests_running 1\n")[0].kv_cache is None


def test_hostile_labels_stay_labels():
    text = rb'vllm:num_requests_running{model_name="a\"} 7 \\ x",engine="0\n"} 2' + b"\n"
    (engine,) = read_engines(text)
    assert engine.model == 'a"} 7 \\ x'
    assert engine.running == 2


def test_very_many_engines_and_endless_lines_are_cut():
    many = b"".join(b'vllm:num_requests_running{engine="%d"} 1\n' % number for number in range(5 * MAX_ENGINES))
    assert len(read_engines(many)) == MAX_ENGINES
    long = b'vllm:num_requests_running{model_name="' + b"x" * 100_000 + b'"} 1\n'
    assert read_engines(long) == []


def test_reading_takes_linear_time():
    worst = [
        b"vllm:num_requests_running{" + b"}" * 3900 + b"\n",
        b'vllm:num_requests_running{a="' + b"\\" * 3000 + b"} 1\n",
        b"ray_" * 1000,
    ]
    for line in worst:
        text = line * ((4 << 20) // len(line))
        began = time.process_time()
        read_engines(text)
        assert time.process_time() - began < 10


def test_bytes_that_are_no_text_raise_nothing():
    assert read_engines(bytes(range(256)) * 1000) == []


def test_a_real_vllm_that_reports_through_a_real_ray():
    (busy,) = read_engines((RECORDED / "ray-2.60-vllm-0.32-busy.txt").read_bytes())
    assert (busy.software, busy.number, busy.model) == ("vllm", "0", "/models/tiny-llama")
    assert (busy.running, busy.waiting, busy.tokens, busy.preemptions) == (4, 356, 8689, 0)
    assert busy.kv_cache is not None
    assert 0.20 < busy.kv_cache < 0.21
    (killed,) = read_engines((RECORDED / "ray-2.60-vllm-0.32-killed.txt").read_bytes())
    assert killed.worker == busy.worker
    assert (killed.running, killed.waiting, killed.kv_cache) == (None, None, None), "Ray drops them 20 s after the last step"
    assert killed.tokens == 147428


def test_a_real_vllm_server():
    expected = EngineReading("vllm", "0", "/models/tiny-llama", running=0, waiting=0, kv_cache=0, tokens=2000, preemptions=0)
    assert read_engines((RECORDED / "vllm-0.32-server.txt").read_bytes()) == [expected]
