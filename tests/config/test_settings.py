"""Settings come from flags, variables and the config file, and each mistake names its place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml

from cockpit.config.document import InputError, json_schema
from cockpit.config.reach import DEFAULT_REACH, HostEntry, HostFinder, check_host, parse_hosts, reach_command
from cockpit.config.settings import (
    Config,
    ConfigFile,
    config_path,
    config_text,
    default_file,
    init,
    load,
)
from cockpit.config.thresholds import Limits
from cockpit.model import Node


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".config" / "cockpit" / "config.yaml"
    path.parent.mkdir(parents=True)
    return path


def read(path: Path, text: str | bytes, **flags: object) -> Config:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(flags, {}, path)


def complaint(path: Path, text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        read(path, text)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace("~/.config/cockpit/config.yaml", "FILE")


@pytest.mark.parametrize("text", [None, "", "\n", "# nothing yet\n", "---\n", "{}", default_file()])
def test_no_file_and_an_empty_one_mean_defaults_whatever_variables_of_thresholds_say(path, text):
    if text is not None:
        path.write_text(text)
    assert load({}, {"COCKPIT_LIMITS": "7", "COCKPIT_FINDINGS": "7"}, path) == Config()
    assert (Config().reach, Config().interval) == (DEFAULT_REACH, 2.0)


def test_the_file_that_init_writes_holds_the_defaults_once_its_lines_are_taken_in(path):
    bare = "\n".join(
        line[2:] for line in default_file().splitlines() if line.startswith("# ") and not line.startswith(("# cockpit", "# yaml-"))
    )
    values = yaml.safe_load(bare)
    assert set(values) == set(Config.__struct_fields__) - {"origins", "slurm", "slurm_nodes", "kubernetes", "limits"} | {"findings"}
    config = read(path, bare)
    default = Config()
    assert config.limits == default.limits
    assert (config.reach, config.probe_hosts, config.interval) == (default.reach, default.probe_hosts, default.interval)
    assert (config.readonly, config.ascii) == (False, False)


def test_a_whole_file_is_taken_in(path):
    config = read(
        path,
        """
address: head:8265
hosts:
  - head
  - {name: w1, address: 10.0.0.2, user: train}
reach: "kubectl exec -i {name} -- {python} -"
interval: 5
probe_hosts: always
readonly: true
theme: dracula
ascii: yes
""",
    )
    assert config.address == "http://head:8265"
    assert config.hosts == (HostEntry("head"), HostEntry("w1", "10.0.0.2", "train"))
    assert (config.interval, config.probe_hosts, config.readonly, config.theme, config.ascii) == (5.0, "always", True, "dracula", True)
    assert config.origins["reach"] == "~/.config/cockpit/config.yaml:6"


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default_and_may_say_no(path):
    path.write_text("interval: 10\ntheme: file\nascii: true\n")
    config = load({"interval": 3.0, "theme": None}, {"COCKPIT_INTERVAL": "4", "COCKPIT_THEME": "variable", "COCKPIT_READONLY": "1"}, path)
    assert (config.interval, config.theme, config.ascii, config.readonly, config.probe_hosts) == (3.0, "variable", True, True, "auto")
    assert config.origins == {
        "interval": "--interval",
        "theme": "COCKPIT_THEME",
        "ascii": "~/.config/cockpit/config.yaml:3",
        "readonly": "COCKPIT_READONLY",
    }
    path.write_text("readonly: true\n")
    assert load({"readonly": False}, {"COCKPIT_INTERVAL": ""}, path) == Config(origins={"readonly": "--readonly"})


def test_a_host_on_the_command_line_keeps_its_details_from_the_file(path):
    path.write_text("hosts: [{name: w1, address: 10.0.0.2, user: train}, w2]\n")
    config = load({"hosts": "w1,w9,root@w2"}, {}, path)
    assert config.hosts == (HostEntry("w1", "10.0.0.2", "train"), HostEntry("w9"), HostEntry("w2", user="root"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts:\n  - head\n  - {name: w1, user: 7}\n", "FILE:3: hosts[1].user: expected a name, got 7"),
        ("hosts:\n- head\n- name: w1\n  adress: x\n", "FILE:4: hosts[1].adress: no such key; perhaps address"),
        ("hosts:\n- {user: me}\n", "FILE:2: hosts[0]: name is missing"),
        ("hosts:\n- head\n- 7\n", "FILE:3: hosts[1]: expected a name, or {name: …, address: …, user: …, python: …}, got 7"),
        ("hosts: [no]\n", "FILE:1: hosts[0]: expected a name, or {name: …, address: …, user: …, python: …}, got no"),
        ("hosts: w1\n", "FILE:1: hosts: expected a list of hosts, got w1"),
        ("hosts:\n", "FILE:1: hosts: expected a list of hosts, got nothing"),
        ("hosts: {w1: 1}\n", "FILE:1: hosts: expected a list of hosts, got keys with values"),
        ("hosts:\n- w1\n- w2\n- w1\n", "FILE:4: hosts[2]: w1 is listed twice"),
        ("hosts:\n- w1\n- -oProxyCommand=reboot\n", "FILE:3: hosts[1]: '-oProxyCommand=reboot' can't be the name of a host"),
        ("theme: x\n\ninterval: soon\n", "FILE:3: interval: expected a number of seconds from 0.5 to 3600, got soon"),
        ("interval: 0.1\n", "FILE:1: interval: expected a number of seconds from 0.5 to 3600, got 0.1"),
        ("interval: .nan\n", "FILE:1: interval: expected a number of seconds from 0.5 to 3600, got .nan"),
        ("interval: .inf\n", "FILE:1: interval: expected a number of seconds from 0.5 to 3600, got .inf"),
        ("interval: yes\n", "FILE:1: interval: expected a number of seconds from 0.5 to 3600, got yes"),
        ("interval: [2]\n", "FILE:1: interval: expected a number of seconds from 0.5 to 3600, got a list"),
        ("readonly: maybe\n", "FILE:1: readonly: expected true or false, got maybe"),
        ("probe_hosts: yes\n", "FILE:1: probe_hosts: expected auto, always or never, got yes"),
        ("probe_hosts: sometimes\n", "FILE:1: probe_hosts: expected auto, always or never, got sometimes"),
        ("colour: red\n", "FILE:1: colour: no such key"),
        ("limits: {}\n", "FILE:1: limits: no such key"),
        ("findings: 7\n", "FILE:1: findings: expected thresholds, such as `disk_full: 0.9`, got 7"),
        ("findings:\n  orphan_age: -1\n", "FILE:2: findings.orphan_age: expected a number from 0 to 86400, got -1"),
        ("findings:\n  orphan_age: .nan\n", "FILE:2: findings.orphan_age: expected a number from 0 to 86400, got .nan"),
        ("findings:\n  orphan_age: .inf\n", "FILE:2: findings.orphan_age: expected a number from 0 to 86400, got .inf"),
        ("findings:\n  orphan_age: yes\n", "FILE:2: findings.orphan_age: expected a number from 0 to 86400, got yes"),
        ("findings:\n  orfan_age: 1\n", "FILE:2: findings.orfan_age: no such key; perhaps orphan_age"),
        ("readonyl: true\n", "FILE:1: readonyl: no such key; perhaps readonly"),
        ("theme: a\ninterval: 2\ntheme: b\n", "FILE:3: theme: given twice"),
        ("hosts:\n- {name: a, user: b, name: c}\n", "FILE:2: hosts[0].name: given twice"),
        ("- a\n- b\n", "FILE:1: expected keys with values, such as `interval: 2`"),
        ("interval\n", "FILE:1: expected keys with values, such as `interval: 2`"),
        ("reach: ''\n", "FILE:1: reach: expected a command, got nothing"),
        ("reach: ssh 'x\n", "FILE:1: reach: the command can't be parsed: no closing quotation"),
        ("reach: ssh {host} -\n", "FILE:1: reach: unknown placeholder {host}; known ones: {name} {address} {user} {user@} {python}"),
        (
            "address: ray://h:10001\n",
            "FILE:1: address: ray://h:10001 is for Ray's client; give the dashboard address, such as http://h:8265",
        ),
        ("theme: x\nhosts: [a\n", "FILE:3: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("theme: a: b\n", "FILE:1: not YAML: mapping values are not allowed here"),
        ("theme: !!python/object/apply:os.system [id]\n", "FILE:1: not YAML: could not determine a constructor for the tag"),
        ("theme: 2026-13-45\n", "FILE: not YAML: month must be in 1..12"),
        (b"theme: a\nascii: \xff\n", "FILE:2: not UTF-8 text"),
        ("theme: \x00\n", "FILE: not YAML: "),
        pytest.param("[" * 20000, "FILE: not YAML: nested too deeply", id="nested too deeply"),
        ("#" * (1 << 20) + "\n", "FILE: larger than 1 MiB: too large for a cockpit file"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_line_and_key(path, text, message):
    assert complaint(path, text).startswith(message)


def test_a_few_aliases_that_stand_for_billions_of_values_cost_no_time(path):
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(30))
    assert complaint(path, bomb) == "FILE: its aliases expand to too many values"


def test_a_folder_and_an_unreadable_file_are_errors(path, tmp_path):
    path.mkdir()
    with pytest.raises(InputError, match=r"config\.yaml: is a directory$"):
        load({}, {}, path)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match=r"~/loop: its owner can't be read: too many levels of symbolic links, "):
        load({}, {}, loop)


def test_a_line_is_found_though_the_path_holds_a_password(path):
    message = complaint(path, "address: http://me:hunter2@head:8265\n")
    assert message == "FILE:1: address: an address must not contain a user or password; put a token in RAY_AUTH_TOKEN"


@pytest.mark.parametrize(
    ("flags", "env", "message"),
    [
        ({"interval": "fast"}, {}, "--interval: expected a number of seconds from 0.5 to 3600, got fast"),
        ({}, {"COCKPIT_INTERVAL": "7200"}, "COCKPIT_INTERVAL: expected a number of seconds from 0.5 to 3600, got 7200"),
        ({}, {"COCKPIT_ASCII": "perhaps"}, "COCKPIT_ASCII: expected true or false, got perhaps"),
        ({}, {"COCKPIT_PROBE_HOSTS": "no"}, "COCKPIT_PROBE_HOSTS: expected auto, always or never, got no"),
        ({"probe_hosts": "no"}, {}, "--probe-hosts: expected auto, always or never, got no"),
        ({"hosts": ","}, {}, "--hosts: expected hosts such as w1,w2, or a file that lists them"),
        ({"hosts": "w1,-x"}, {}, "--hosts: '-x' can't be the name of a host"),
        ({"hosts": "./none"}, {}, "--hosts: none: no such file"),
        ({"address": "auto"}, {}, None),
        ({"address": "http://"}, {}, "--address: 'http://' is not a dashboard address such as http://head:8265"),
    ],
)
def test_a_mistake_in_a_flag_or_variable_names_it(path, flags, env, message):
    if message is None:
        assert load(flags, env, path).address == "http://auto:8265"
        return
    with pytest.raises(InputError) as caught:
        load(flags, env, path)
    assert str(caught.value) == message


def test_the_file_is_in_the_folder_of_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "cockpit" / "config.yaml"


def test_init_writes_once_never_over_a_file_and_names_the_way_out_if_it_may_not_write(path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    init(path)
    assert path.read_text() == default_file()
    assert path.read_text().startswith("# yaml-language-server: $schema=schema/config.json\n")
    assert (path.parent / "schema" / "config.json").is_file()
    path.write_text("interval: 9\n")
    with pytest.raises(InputError, match="already exists; not overwritten"):
        init(path)
    assert path.read_text() == "interval: 9\n"
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match="permission denied; set XDG_CONFIG_HOME to a folder that you may write"):
        init(path)


def test_the_printed_config_has_the_origin_of_each_value_and_reads_back_the_same(path):
    config = read(path, "hosts: [head, {name: w1, user: train}]\ninterval: 5\n", theme="nord")
    text = config_text(config)
    assert "interval: 5.0  # ~/.config/cockpit/config.yaml:2\n" in text
    assert 'theme: "nord"  # --theme\n' in text
    assert "ascii: false  # default\n" in text
    again = read(path, text)
    assert [getattr(again, name) for name in Config.__struct_fields__ if name != "origins"] == [
        getattr(config, name) for name in Config.__struct_fields__ if name != "origins"
    ]


def test_the_schema_knows_every_key_and_refuses_others():
    found = json.loads(json.dumps(json_schema(ConfigFile)))
    file = found["$defs"]["ConfigFile"]
    assert set(file["properties"]) == set(Config.__struct_fields__) - {"origins", "slurm", "slurm_nodes", "kubernetes", "limits"} | {
        "findings"
    }
    assert file["additionalProperties"] is False
    limits = found["$defs"]["Limits"]
    assert limits["additionalProperties"] is False
    assert all("description" in value for value in (*file["properties"].values(), *limits["properties"].values()))


def test_the_default_of_every_threshold_is_within_its_bounds():
    for name, hint in get_type_hints(Limits, include_extras=True).items():
        mark, default = hint.__metadata__[0], getattr(Limits(), name)
        assert mark.le is not None or hint.__origin__ is int, name
        assert (mark.gt or mark.ge or 0) <= default <= (mark.le or default), name


def test_thresholds_are_read_and_printed_as_they_read(path):
    config = read(path, "theme: x\nfindings:\n  orphan_age: 30\n")
    assert config.limits == Limits(orphan_age=30.0)
    assert config.origins["limits"] == "~/.config/cockpit/config.yaml:2"
    text = config_text(config)
    assert "findings:  # ~/.config/cockpit/config.yaml:2\n  orphan_age: 30\n" in text
    assert read(path, "\n".join(line for line in text.splitlines() if ": null" not in line)).limits == config.limits


# Hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("w1", (HostEntry("w1"),)),
        ("w1, w2,,w1,", (HostEntry("w1"), HostEntry("w2"))),
        ("train@10.0.0.2,fe80::1%eth0", (HostEntry("10.0.0.2", user="train"), HostEntry("fe80::1%eth0"))),
    ],
)
def test_hosts_are_named_in_one_word(text, hosts):
    assert parse_hosts(text) == hosts


@pytest.mark.parametrize(
    ("content", "hosts"),
    [
        ("# mine\nw1 slots=8\n\nw2 slots=8  # spare\ntrain@w3\n", (HostEntry("w1"), HostEntry("w2"), HostEntry("w3", user="train"))),
        ("- w1\n- {name: w2, python: /opt/py/bin/python}\n", (HostEntry("w1"), HostEntry("w2", python="/opt/py/bin/python"))),
        ("[w1, w2]\n", (HostEntry("w1"), HostEntry("w2"))),
    ],
)
def test_hosts_are_read_from_a_file(tmp_path, content, hosts):
    file = tmp_path / "hosts"
    file.write_text(content)
    assert parse_hosts(str(file)) == hosts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("w1\nw2 w3\n", "hosts:2: expected one host, got w2 w3"),
        ("w1\n$(reboot)\n", r"hosts:2: '\$\(reboot\)' can't be the name of a host"),
        ("- w1\n- {user: x}\n", r"hosts:2: \[1\]: name is missing"),
        ("# none\n", "hosts: lists no host"),
    ],
)
def test_a_mistake_in_a_hosts_file_names_its_line(tmp_path, content, message):
    (tmp_path / "hosts").write_text(content)
    with pytest.raises(InputError, match=message):
        parse_hosts(str(tmp_path / "hosts"))


def test_a_file_of_hosts_that_another_user_could_have_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w1").write_text("- {name: w1, python: /tmp/evil}\n")
    Path("w1").chmod(0o666)
    with pytest.raises(InputError, match=r"w1: everybody can write to .*: copy it, or name the hosts themselves"):
        parse_hosts("w1")


@pytest.mark.parametrize(
    ("text", "message"), [("~nobody-of-that-name/hosts", "no such home folder"), ("w" * 5000, "can't be the name of a host")]
)
def test_a_text_that_is_neither_a_host_nor_a_file_is_an_error(text, message):
    with pytest.raises(InputError, match=message):
        parse_hosts(text)


def test_the_default_reach_is_ssh_with_or_without_a_user():
    assert reach_command(DEFAULT_REACH, HostEntry("w1"), "/run/cockpit/%C") == [
        "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5",
        "-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", "ControlPath=/run/cockpit/%C", "w1", "python3", "-",
    ]  # fmt: skip
    with_user = reach_command(DEFAULT_REACH, HostEntry("w1", "10.0.0.2", "train", "/opt/py/bin/python"))
    assert with_user[-3:] == ["train@10.0.0.2", "/opt/py/bin/python", "-"]
    assert "ControlPath=none" in with_user


def test_a_reach_of_ones_own_keeps_its_words_and_braces_that_are_not_places():
    assert reach_command("ssh {name} {python} -", HostEntry("w1"), "/run/cockpit/%C") == ["ssh", "w1", "python3", "-"]
    words = reach_command("docker exec -f '{{.Name}}' 'a b {name}' -u {user}", HostEntry("w1", user="me"))
    assert words == ["docker", "exec", "-f", "{{.Name}}", "a b w1", "-u", "me"]
    with pytest.raises(InputError, match=r"needs \{user\}, but w1 has no user"):
        reach_command("ssh -l {user} {address}", HostEntry("w1"))


@pytest.mark.parametrize(
    "entry",
    [
        HostEntry("-oProxyCommand=id"),
        HostEntry(""),
        HostEntry("a b"),
        HostEntry("a;id"),
        HostEntry("a\nb"),
        HostEntry("w1", "-p22"),
        HostEntry("w1", "$(id)"),
        HostEntry("w1", user="-l"),
        HostEntry("w1", user="a b"),
        HostEntry("w1", python="python3; id"),
        HostEntry("w1", python="-c"),
        HostEntry("w1", python=""),
        HostEntry("ẃ1"),
        HostEntry("w1:22x"),
    ],
)
def test_values_that_could_be_an_option_or_a_command_are_refused(entry):
    with pytest.raises(InputError, match="can't be the"):
        check_host(entry)
    with pytest.raises(InputError, match="can't be the"):
        reach_command("ssh {name} {user@}{address} {python} -", entry)


def test_an_invalid_node_name_is_no_error_if_only_the_address_is_used():
    assert reach_command(DEFAULT_REACH, HostEntry("worker 1; id", "10.0.0.2"))[-3:] == ["10.0.0.2", "python3", "-"]


def test_the_environment_is_read_by_itself(monkeypatch, path):
    monkeypatch.setitem(os.environ, "COCKPIT_THEME", "mono")
    assert load({}, path=path).theme == "mono"


def test_a_node_is_reached_as_the_first_matching_host_of_the_config():
    first, second = HostEntry("w1", user="train"), HostEntry("gpu-7", address="10.0.0.7")
    roster = HostFinder((first, second))
    assert roster.entry(Node("1", "w1", ip="10.0.0.1")) is first
    assert roster.entry(Node("1", "ip-10-0-0-7", ip="10.0.0.7")) is second
    assert roster.entry(Node("1", "gpu-7", name="w1", ip="10.0.0.7")) is first
    assert roster.entry(Node("1", "w2", ip="10.0.0.2")) == HostEntry("w2", address="10.0.0.2")
