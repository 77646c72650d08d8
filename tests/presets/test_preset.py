"""A preset's file is read and checked, and each mistake names its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from cockpit.config.document import InputError, json_schema
from cockpit.presets import Needs, RayNode, RayStart, SlurmStart, read_preset
from cockpit.presets.amounts import byte_count, version_matches
from cockpit.presets.folder import READY_MADE
from cockpit.presets.ray_flags import FLAGS, NOT_SETTABLE, flag_name
from cockpit.presets.schema import EDITOR_SCHEMA, WORDS, PresetFile

WHOLE = """
about: PPO on a 7B model, two nodes
ray:
  head: {host: head, port: 6379, num_gpus: 8, num-cpus: 96, object_store_memory: 50GB, dashboard_port: 8265}
  workers: [{host: w1, address: 10.0.0.2, num_gpus: 8, resources: {disk: 1}, disable-usage-stats: true}, w2]
  env: {RAY_memory_usage_threshold: 0.970, NCCL_DEBUG: WARN}
  python: /opt/conda/bin/python
job:
  entrypoint: python -m openrlhf.cli.train_ppo_ray --actor.num_nodes 1
  working_dir: .
  env: {VLLM_USE_V1: 1, WANDB_API_KEY: "${WANDB_API_KEY}", FLAG: True, EMPTY: ""}
  runtime_env: {pip: [wandb], excludes: ["*.pt"]}
  submission_id: "ppo-7b-{time}"
  entrypoint_num_gpus: 1
  entrypoint_memory: 8GiB
  metadata: {owner: alice, run: 7}
needs: {gpu_memory_free: 70GB, bundles: [{GPU: 1, CPU: 1, count: 8}, {GPU: 0.5}], ray_version: 2.10, open_files: 65536}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "ppo.yaml"


def complaint(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_preset(file)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace("~/ppo.yaml", "FILE")


def test_a_whole_preset_is_taken_in_and_the_value_of_a_variable_is_what_was_typed(file):
    file.write_text(WHOLE)
    preset = read_preset(file)
    assert (preset.name, preset.about) == ("ppo", "PPO on a 7B model, two nodes")
    assert isinstance(preset.ray, RayStart)
    flags = {"port": 6379, "num_gpus": 8, "num_cpus": 96, "object_store_memory": 50 * 10**9, "dashboard_port": 8265}
    assert preset.ray.head == RayNode("head", None, flags)
    assert [node.host for node in preset.ray.nodes] == ["head", "w1", "w2"]
    assert preset.ray.workers[0].address == "10.0.0.2"
    assert preset.ray.workers[0].arguments == ("--num-gpus=8", '--resources={"disk": 1}', "--disable-usage-stats")
    assert preset.ray.python == "/opt/conda/bin/python"
    assert preset.ray.env == {"RAY_memory_usage_threshold": "0.970", "NCCL_DEBUG": "WARN"}
    assert preset.job is not None
    assert preset.job.entrypoint_memory == 8 << 30
    assert preset.job.env == {"VLLM_USE_V1": "1", "WANDB_API_KEY": "${WANDB_API_KEY}", "FLAG": "True", "EMPTY": ""}
    assert preset.job.metadata == {"owner": "alice", "run": "7"}
    assert preset.needs == Needs(
        bundles=(({"GPU": 1.0, "CPU": 1.0}, 8), ({"GPU": 0.5}, 1)), gpu_memory_free=70 * 10**9, open_files=65536, ray_version="2.10"
    )
    assert (preset.needs.amount("GPU"), preset.needs.amount("CPU"), Needs().amount("GPU")) == (8.5, 8.0, None)


def test_what_is_taken_over_from_elsewhere_in_the_file_counts_too(file):
    ray = "ray:\n  head: &all {host: a, num_gpus: 8}\n  workers: [{<<: *all, host: b}]\n  env: &e {A: 1}\n"
    file.write_text(f"{ray}job:\n  entrypoint: x\n  env: {{<<: *e}}\n")
    preset = read_preset(file)
    assert isinstance(preset.ray, RayStart)
    assert preset.ray.workers == (RayNode("b", None, {"num_gpus": 8}),)
    assert preset.job is not None
    assert preset.job.env == {"A": "1"}


@pytest.mark.parametrize(
    ("ray", "start"),
    [
        (
            "{head: {num-gpus: 8, port: 6400}, workers: {num_gpus: 4}, env: {A: 1}, python: /py}",
            SlurmStart({"num_gpus": 8, "port": 6400}, {"num_gpus": 4}, {"A": "1"}, "/py"),
        ),
        ("{head: {num_gpus: 8}}", SlurmStart({"num_gpus": 8})),
        ("{head: {}, workers: {}}", SlurmStart()),
    ],
)
def test_flags_without_a_host_are_for_the_nodes_of_a_job_of_slurms(file, ray, start):
    file.write_text(f"ray: {ray}\n")
    preset = read_preset(file)
    assert preset.ray == start
    assert preset.nodes == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "FILE:1: contains neither `job` nor `ray`: nothing to launch or start"),
        ("- a\n", "FILE:1: expected keys with values, such as `job: {entrypoint: …}`"),
        ("jobs: {}\n", "FILE:1: jobs: no such key; perhaps job"),
        ("job: {}\n", "FILE:1: job: entrypoint is missing"),
        ("job:\n  entrypoint: ''\n", "FILE:2: job.entrypoint: expected a command, got nothing"),
        ("job:\n  entrypoint: ' '\n", "FILE:2: job.entrypoint: expected a command, got  "),
        ("job:\n  entrypoint: [a, b]\n", "FILE:2: job.entrypoint: expected a command, got a list"),
        ("job:\n  entrypiont: x\n", "FILE:2: job.entrypiont: no such key; perhaps entrypoint"),
        ("job:\n  entrypoint: x\n  env_vars: {}\n", "FILE:3: job.env_vars: no such key; perhaps env"),
        ("job:\n  entrypoint: x\n  env: [A=1]\n", "FILE:3: job.env: expected variables with their values, got a list"),
        ("job:\n  entrypoint: x\n  env:\n    A: 1\n    B:\n", 'FILE:5: job.env.B: expected text, got nothing; an empty text is ""'),
        ("job:\n  entrypoint: x\n  env:\n    A: [1]\n", "FILE:4: job.env.A: expected text, got a list"),
        ("job:\n  entrypoint: x\n  env: {A B: 1}\n", "FILE:3: job.env: 'A B' is not a valid variable name"),
        ("job:\n  entrypoint: x\n  env: {1: a}\n", "FILE:3: job.env: a key must be text; put a number, true or false in quotes"),
        (
            "job:\n  entrypoint: x\n  env: {A: '${B:-1}'}\n",
            "FILE:3: job.env.A: ${B:-1} can't be filled in, only ${NAME} can; write $${B:-1} to pass it on unchanged",
        ),
        ("job:\n  entrypoint: x\n  runtime_env: {env_vars: {A: b}}\n", "FILE:3: job.runtime_env.env_vars: put it in job.env"),
        ("job:\n  entrypoint: x\n  runtime_env: {working_dir: .}\n", "FILE:3: job.runtime_env.working_dir: put it in job.working_dir"),
        ("job:\n  entrypoint: x\n  runtime_env: {exclude: [a]}\n", "FILE:3: job.runtime_env.exclude: no such key; perhaps excludes"),
        (
            "job:\n  entrypoint: x\n  submission_id: ppo-{date}\n",
            "FILE:3: job.submission_id: unknown placeholder {date}; known ones: {time} {name}",
        ),
        (
            "job:\n  entrypoint: x\n  submission_id: a/b\n",
            "FILE:3: job.submission_id: expected at most 100 letters, digits and . _ -, because Ray uses it in a URL and a file name",
        ),
        ("job:\n  entrypoint: x\n  entrypoint_num_gpus: -1\n", "FILE:3: job.entrypoint_num_gpus: expected a number from 0, got -1"),
        ("job:\n  entrypoint: x\n  entrypoint_num_gpus: .nan\n", "FILE:3: job.entrypoint_num_gpus: expected a number from 0, got .nan"),
        ("job:\n  entrypoint: x\n  entrypoint_memory: lots\n", "FILE:3: job.entrypoint_memory: expected an amount such as 8GB, got lots"),
        ("job:\n  entrypoint: x\n  entrypoint_resources: {a: b}\n", "FILE:3: job.entrypoint_resources.a: expected a number from 0, got b"),
        ("ray: {}\n", "FILE:1: ray: head is missing"),
        ("ray:\n  head: {host: , num_gpus: 8}\n", "FILE:2: ray.head: host is missing"),
        (
            "ray:\n  head: {num_gpus: 8}\n  workers: [w1]\n",
            "FILE:2: ray.head: host is missing: ray.workers lists hosts, so the head needs one too",
        ),
        ("ray:\n  head: {address: a}\n", "FILE:2: ray.head.address: needs `host` beside it"),
        (
            "ray:\n  head: {}\n  workers: {host: w1}\n",
            "FILE:3: ray.workers.host: hosts belong in a list of workers, and then ray.head needs a host too",
        ),
        ("ray:\n  head: {}\n  workers: {port: 6379}\n", "FILE:3: ray.workers.port: only allowed for the head"),
        ("ray:\n  head: {}\n  workers: {num_gpu: 8}\n",
         "FILE:3: ray.workers.num_gpu: `ray start` of 2.9 to 2.60 has no such flag; perhaps num_gpus"),
        ("ray:\n  head: {}\n  workers: {num_gpus: all}\n", "FILE:3: ray.workers.num_gpus: expected a whole number from 0, got all"),
        ("ray:\n  head: {}\n  workers: {node_name: w}\n", "FILE:3: ray.workers.node_name: belongs to one host, but ray.head names none"),
        ("ray:\n  head: {node-ip-address: 10.0.0.1}\n",
         "FILE:2: ray.head.node-ip-address: belongs to one host, but ray.head names none"),
        (
            "ray:\n  head: a\n  workers: {num_gpus: 8}\n",
            "FILE:3: ray.workers: expected a list of hosts, because ray.head names one, got keys with values",
        ),
        (
            "ray:\n  head: {}\n  workers:\n",
            "FILE:3: ray.workers: expected a list of hosts, each a name or {host: …, …}; or {num_gpus: …, …} without hosts, got nothing",
        ),
        ("ray:\n  head: {host: -oProxyCommand=x}\n", "FILE:2: ray.head: '-oProxyCommand=x' can't be the name of a host"),
        ("ray:\n  head: a\n  workers: [b, c, b]\n", "FILE:3: ray.workers[2]: b is already a worker"),
        ("ray:\n  head: a\n  workers: [a]\n", "FILE:3: ray.workers[0]: a is already the head"),
        (
            "ray:\n  head: {host: a, num_gpu: 8}\n",
            "FILE:2: ray.head.num_gpu: `ray start` of 2.9 to 2.60 has no such flag; perhaps num_gpus",
        ),
        ("ray:\n  head: {host: a, num_gpus: 8, num-gpus: 8}\n", "FILE:2: ray.head.num-gpus: given twice, with _ and with -"),
        ("ray:\n  head: {host: a, num_gpus: '8'}\n", "FILE:2: ray.head.num_gpus: expected a whole number from 0, got 8"),
        ("ray:\n  head: {host: a, port: 65536}\n", "FILE:2: ray.head.port: expected a port from 0 to 65535, got 65536"),
        ("ray:\n  head: {host: a, port: true}\n", "FILE:2: ray.head.port: expected a port from 0 to 65535, got true"),
        (
            "ray:\n  head: {host: a, object_store_memory: 50 apples}\n",
            "FILE:2: ray.head.object_store_memory: expected an amount such as 50GB or 1.5TiB, got 50 apples",
        ),
        (
            "ray:\n  head: {host: a, resources: 7}\n",
            "FILE:2: ray.head.resources: expected resources with their amounts, such as {fast_disk: 1}, got 7",
        ),
        (
            "ray:\n  head: {host: a, worker_port_list: a-b}\n",
            "FILE:2: ray.head.worker_port_list: expected ports such as 10002,10003, got a-b",
        ),
        ("ray:\n  head: {host: a, head: true}\n", "FILE:2: ray.head.head: can't be set here: the host under `ray.head` is the head"),
        (
            "ray:\n  head: {host: a, block: true}\n",
            "FILE:2: ray.head.block: can't be set here: Ray keeps running after `ray start` returns",
        ),
        (
            "ray:\n  head: a\n  workers: [{host: b, address: 'a:6379'}]\n",
            "FILE:3: ray.workers[0].address: give the host's address without a port; Ray's port is the head's `port`",
        ),
        ("ray:\n  head: a\n  workers: [{host: b, port: 6379}]\n", "FILE:3: ray.workers[0].port: only allowed for the head"),
        (
            "ray:\n  head: {host: a, resources: {x: .inf}}\n",
            "FILE:2: ray.head.resources: expected resources with their amounts, such as {fast_disk: 1}, got keys with values",
        ),
        (
            "ray:\n  head: {host: a, labels: {x: 1}}\n",
            "FILE:2: ray.head.labels: expected labels with their text, such as {zone: a}, got keys with values",
        ),
        ("ray:\n  head: {host: 7}\n", "FILE:2: ray.head.host: expected the name or address of a host, got 7"),
        ("ray:\n  head: {host: a, user: me}\n", "FILE:2: ray.head.user: can't be set here: set it under `hosts` in cockpit's config"),
        (
            "job:\n  entrypoint: x\n  runtime_env: {config: {a: 2026-01-01}}\n",
            "FILE:3: job.runtime_env: contains a value that is neither text nor a number, such as a date",
        ),
        ("ray:\n  head: a\n  python: /a b\n", "FILE:3: ray.python: '/a b' can't be the path of a Python"),
        ("ray:\n  head: a\n  flags: {}\n", "FILE:3: ray.flags: no such key"),
        ("job: {entrypoint: x}\nneeds:\n  gpu_memory: 70GB\n", "FILE:3: needs.gpu_memory: no such key; perhaps gpu_memory_free"),
        ("job: {entrypoint: x}\nneeds:\n  shm_free: true\n", "FILE:3: needs.shm_free: expected an amount such as 10GB, got true"),
        ("job: {entrypoint: x}\nneeds:\n  bundles: [{}]\n", "FILE:3: needs.bundles[0]: a bundle must ask for something, such as GPU: 1"),
        (
            "job: {entrypoint: x}\nneeds:\n  bundles: [{GPU: 1, count: 0}]\n",
            "FILE:3: needs.bundles[0].count: expected a whole number from 1, got 0",
        ),
        (
            "job: {entrypoint: x}\nneeds:\n  strategy: TIGHT\n",
            "FILE:3: needs.strategy: expected PACK, SPREAD, STRICT_PACK or STRICT_SPREAD, got TIGHT",
        ),
        ("job: {entrypoint: x}\nneeds:\n  open_files: 0\n", "FILE:3: needs.open_files: expected a whole number from 1, got 0"),
        (
            "job: {entrypoint: x}\nneeds:\n  ray_version: new\n",
            "FILE:3: needs.ray_version: expected a version such as 2.44, or a range such as '>=2.40,<2.50', got new",
        ),
        ("job: {entrypoint: x}\nabout: a\nabout: b\n", "FILE:3: about: given twice"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_preset_is_one_sentence_with_file_line_and_key(file, text, message):
    assert complaint(file, text) == message


def test_a_mistake_shows_no_secret_and_a_preset_that_is_not_there_is_said_so(file):
    with pytest.raises(InputError, match=r"~/ppo\.yaml: no such file"):
        read_preset(file)
    told = complaint(file, "job:\n  entrypoint: x\n  env: {A: 1}\n  working_dir: [hf_abcdefghijkl]\n")
    assert told == "FILE:4: job.working_dir: expected a folder, got a list"
    assert "hf_abc" not in complaint(file, "job:\n  entrypoint: x\n  entrypoint_num_gpus: hf_abcdefghijkl\n")


KEYS = st.sampled_from([place.rpartition(".")[2] for place in WORDS if "[]" not in place]) | st.text(max_size=4)
PLAIN = st.none() | st.booleans() | st.floats() | st.text(max_size=5)


@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12))
def test_whatever_stands_in_a_file_it_is_read_or_the_place_of_a_mistake_is_said(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(json.dumps(data))
    try:
        read_preset(path)
    except InputError as error:
        said = str(error)
    else:
        return
    assert said.startswith(str(path))


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("50GB", 50 * 10**9), ("50 GB", 50 * 10**9), ("50gb", 50 * 10**9), ("1.5TiB", 3 << 39), ("70GiB", 70 << 30), ("70G", 70 << 30),
        ("512M", 512 << 20), ("1024", 1024), ("0", 0), ("10B", 10), (1024, 1024), (1e9, 10**9), ("64kB", 64000),
        ("GB", None), ("-1GB", None), ("5 apples", None), ("", None), ("1e9", None),
        (True, None), (-1, None), (float("nan"), None), ([], None),
    ],
)  # fmt: skip
def test_amounts_of_memory_are_read_as_people_write_them(written, amount):
    assert byte_count(written) == amount


@pytest.mark.parametrize(
    ("wanted", "version", "matches"),
    [
        ("2.44", "2.44.1", True), ("2.44.1", "2.44.0", False), ("2", "2.60.0", True), (">=2.40,<2.50", "2.44.1", True),
        (">=2.40,<2.50", "2.50.0", False), (">2.40", "2.40.1", True), ("!=2.44.1", "2.44.1", False), ("==3.10.*", "3.10.14", True),
        ("<=3.12", "3.12.9", False), ("2.44", "3.0.0.dev0", False), ("2.9", "2.44.1", False), ("2.9", "2.9.3", True),
        ("<=3.12", "3.12", True), ("new", "2.44.1", None), ("2.44", "nightly", None), ("2.44,", "2.44.1", None),
    ],
)  # fmt: skip
def test_a_version_is_one_of_those_wanted(wanted, version, matches):
    assert version_matches(wanted, version) is matches


@pytest.fixture(scope="module")
def ray_start():
    """Ray's own command. To import it takes longer than all other tests of this module."""
    from ray.scripts.scripts import start

    return start


def test_every_flag_of_rays_own_command_is_known_and_of_its_kind(ray_start):
    for option in ray_start.params:
        name = max(option.opts, key=len).lstrip("-").replace("-", "_")
        if name == "address" or name in NOT_SETTABLE:
            continue
        kind = FLAGS[flag_name(name)].kind
        assert (kind == "switch") is bool(option.is_flag), name
        if option.type.name == "integer":
            assert kind in ("port", "count", "bytes"), name
        if option.type.name == "boolean" and not option.is_flag:
            assert kind == "true or false", name


def test_rays_own_command_reads_the_flags_of_a_preset(file, ray_start):
    file.write_text(WHOLE)
    cluster = read_preset(file).ray
    assert isinstance(cluster, RayStart)
    for node in cluster.nodes:
        read = ray_start.make_context("start", list(node.arguments)).params
        for name, value in node.flags.items():
            assert read[name] == value, name


def test_the_schema_has_every_key_that_the_reader_knows():
    names = {field for made in json_schema(PresetFile)["$defs"].values() for field in made["properties"]}
    assert names == {place.rpartition(".")[2] for place in WORDS if "[]" not in place}


@pytest.mark.parametrize(
    "check", [Draft202012Validator(json_schema(PresetFile)), Draft7Validator(EDITOR_SCHEMA.document())], ids=["2020-12", "draft-07"]
)
def test_the_schema_refuses_what_the_reader_refuses(check):
    check.check_schema(check.schema)
    for broken in (
        {"job": {}},
        {"job": {"entrypoint": 7}},
        {"jop": {}},
        {"ray": {"head": {"host": "a", "num_gpu": 1}}},
        {"ray": {}},
        {"ray": {"head": {}, "workers": ["a"]}},
        {"ray": {"head": {"address": "a"}}},
        {"ray": {"head": {}, "workers": {"host": "a"}}},
        {"ray": {"head": {}, "workers": {"num_gpu": 1}}},
        {"ray": {"head": "a", "workers": {"num_gpus": 1}}},
        {"ray": {"head": {"host": "a"}, "workers": {"num_gpus": 1}}},
        {"ray": {"head": {"host": "a"}, "workers": [{"num_gpus": 1}]}},
    ):
        assert not check.is_valid(broken), broken
    assert check.is_valid({"ray": {"head": {"host": "a", "num-gpus": 8, "object_store_memory": "50GB"}, "workers": ["b"]}})
    assert check.is_valid({"ray": {"head": {"num_gpus": 8}, "workers": {"num-gpus": 8}}})
    assert check.is_valid({"ray": {"head": {}}})
    assert check.is_valid({"ray": None, "job": {"entrypoint": "x"}})


def test_every_key_of_the_schema_is_described():
    def undescribed(node, where=""):
        for name, made in node.get("properties", {}).items():
            if "description" not in made and "$ref" not in json.dumps(made):
                yield f"{where}.{name}"

    found = [name for title, made in json_schema(PresetFile)["$defs"].items() for name in undescribed(made, title)]
    assert found == []


@pytest.mark.parametrize("path", sorted(READY_MADE.iterdir()), ids=lambda path: path.stem)
def test_a_ready_made_preset_is_valid_and_so_says_the_schema(path):
    import yaml

    preset = read_preset(path)
    assert preset.about
    assert isinstance(preset.ray, RayStart)
    assert preset.job is not None
    Draft202012Validator(json_schema(PresetFile)).validate(yaml.safe_load(path.read_text()))
    Draft7Validator(EDITOR_SCHEMA.document()).validate(yaml.safe_load(path.read_text()))
    for node in preset.ray.nodes:
        assert len(preset.ray.env["CUDA_VISIBLE_DEVICES"].split(",")) == node.flags["num_gpus"]
    assert float(preset.ray.env["RAY_memory_usage_threshold"]) < 1
    sleeps = "enable_sleep" in preset.job.entrypoint or "free_cache_engine=True" in preset.job.entrypoint
    assert not (sleeps and "expandable_segments" in preset.job.env.get("PYTORCH_CUDA_ALLOC_CONF", ""))


@pytest.mark.parametrize(
    "text",
    [
        f"job: {{entrypoint: x, entrypoint_memory: 1{'0' * 400}}}",
        f"job: {{entrypoint: x, entrypoint_resources: {{disk: 1{'0' * 400}}}}}",
        f"ray: {{head: {{host: a, num_gpus: 1{'0' * 400}}}}}",
        f"ray: {{head: {{host: a, resources: {{disk: 1{'0' * 400}}}}}}}",
        'job: {entrypoint: x, env: {A: "a\\0b"}}',
        "job: {entrypoint: x, runtime_env: {config: &a [*a]}}",
        "job: {entrypoint: x, runtime_env: {config: ["
        + ", ".join(f"&a{level} [{', '.join([f'*a{level - 1}'] * 9 if level else ['x'] * 9)}]" for level in range(12))
        + "]}}",
    ],
)
def test_what_no_machine_can_hold_is_a_mistake_and_no_crash(tmp_path: Path, text: str):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"odd\.yaml"):
        read_preset(path)
