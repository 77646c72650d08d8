"""Each rule hides its examples, and nothing else; any text takes linear time."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64encode
from string import ascii_letters, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.secrets import HIDDEN, LineRedactor, find_secrets, redact, redact_variable, redact_within
from cockpit.secrets.contexts import CONTEXTS, URLS
from cockpit.secrets.keys import KEYS
from cockpit.secrets.names import NAME_RULES, PLAIN_RULES, POSSIBLE_NAMES, is_plain, looks_random, secrecy
from cockpit.secrets.redaction import _anywhere, _behind_names, _find_names
from cockpit.secrets.tools import TOOLS
from tests.growth import is_linear
from tests.secrets.examples import EXAMPLES

RULES = (*CONTEXTS, *URLS, *TOOLS, *KEYS)
KEY = "c0ffee-4dead9beef"
HEX = "0123456789abcdef0123456789abcdef01234567"
MADE_UP = "c0ffee4dead9beef" * 8
NEAR = ("key where a switch may stand", "curl's user", "curl's user with a space in the password", "curl's user that is a key", "kubeadm",
        "DingTalk", "Zhipu", "Discord")  # fmt: skip
"""Rules whose hint is neither the beginning of the secret nor of the command before it."""


def filled(example):
    """An example of a rule with made-up values in it."""
    return re.sub(r"\{(U?)(\d+)\}", lambda found: (MADE_UP.upper() if found[1] else MADE_UP)[: int(found[2])], example)


def marked(rules):
    return [pytest.param(rule, filled(example), id=f"{rule.name}: {example}") for rule in rules for example in EXAMPLES[rule.name].hides]


def unmarked(example):
    return example.replace("⟨", "").replace("⟩", "")


def secrets_by(rule, text):
    """Where one rule finds secrets."""
    return [*(_behind_names(rule, text, _find_names(text)) if rule.after else _anywhere(rule, text))]


def test_each_rule_has_its_own_examples():
    assert [rule.name for rule in RULES] == [*EXAMPLES]
    assert all(examples.hides for examples in EXAMPLES.values())


@pytest.mark.parametrize(("rule", "example"), marked(RULES))
def test_a_rule_hides_exactly_what_its_examples_mark(rule, example):
    text = unmarked(example)
    assert redact(text) == re.sub("⟨.*?⟩", HIDDEN, example, flags=re.DOTALL)
    assert secrets_by(rule, text), "it is another rule that hides this"


@pytest.mark.parametrize(
    "example", [pytest.param(filled(each), id=f"{name}: {each}") for name, examples in EXAMPLES.items() for each in examples.leaves]
)
def test_no_rule_hides_what_the_examples_of_one_leave(example):
    assert redact(example) == example


@pytest.mark.parametrize("example", [filled(each) for examples in EXAMPLES.values() for each in examples.hides if unmarked(each).isascii()])
def test_a_secret_is_hidden_also_in_json_and_in_json_within_json(example):
    values = [value for value in re.findall("⟨(.*?)⟩", example, re.DOTALL) if "\n" not in value]
    for text in (json.dumps({"x": unmarked(example)}), json.dumps(json.dumps([unmarked(example)])), f"(pid=7) {unmarked(example)} end"):
        assert not [value for value in values if value in redact(text)], text
    assert isinstance(json.loads(redact(json.dumps({"x": unmarked(example)}))), dict)


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule in NAME_RULES for name in rule.examples])
def test_a_name_has_the_secrecy_of_its_rule(rule, name):
    assert secrecy(name) is rule.secrecy


@pytest.mark.parametrize(("rule", "value"), [(rule, value) for rule in PLAIN_RULES for value in rule.examples])
def test_a_plain_value_is_no_secret_under_any_name(rule, value):
    name = "hook" if rule.under.startswith("hook") else {"": "password", "token|pass_?$": "token"}.get(rule.under, "auth")
    assert is_plain(value, name)
    assert redact_variable(name, value) == value


@pytest.mark.parametrize(
    ("value", "is_random"),
    [
        *((key, True) for key in (HEX, "AKLTc0ffee4dead9beef", "x-c0ffee4dead9beef4", "c0ffee00-dead-4bee-f000-c0ffee4dead9")),
        *((name, False) for name in ("Qwen2.5-7B-Instruct", "val/accuracy@1", "eval_loss_total_2024_avg", "/data/models/x")),
        *((name, False) for name in ("console,wandb", "")),
    ],
)
def test_keys_look_random_and_names_do_not(value, is_random):
    assert looks_random(value) is is_random


@pytest.mark.parametrize(
    "text",
    [
        f"WANDB_API_KEY={KEY} python train.py", f"--hf_token {KEY}", f"--hf-token={KEY}", f"--redis-password '{KEY}'",
        f"++trainer.wandb_token={KEY}", f"use_token --x_token --hf_token {KEY}", f"HF_TOKEN=-{KEY}",
        f'{{"env_vars": {{"HF_TOKEN": "{KEY}"}}}}', f'{{"api_key":"{KEY}","model":"x"}}', f"{{'password': '{KEY}'}}",
        f"['--token', '{KEY}']", f"[password={KEY}]", f"env_vars: {{SECRET: {KEY}}}", f"https://train:{KEY}@host/repo.git",
        f"redis://:{KEY}@head:6379", f"http://head:8265/?auth_token={KEY}&page=1", f"-H 'Authorization: Bearer {KEY}'",
        f"authorization: basic {KEY}", f"git clone https://hf_{KEY}@huggingface.co/x", f"hf_{KEY}", f"sk-proj-{KEY}", f"ghp_{KEY}",
        f"the key is eyJhbGciOiJIUzI1NiJ9.{KEY}0.x", f"export AWS_SECRET_ACCESS_KEY={KEY}", f"PassPhrase: {KEY}", f"Api-Key: {KEY}",
        f"credentials={KEY}", f'serialized_runtime_env: "{{\\"env_vars\\": {{\\"WANDB_API_KEY\\": \\"{KEY}\\"}}}}"',
        f'{{\\\\"HF_TOKEN\\\\":\\\\"{KEY}\\\\"}}', f'{{"password": "\\u00e4 {KEY}"}}', f"sshpass -p {KEY} ssh w1",
        f"SSHPASS={KEY} sshpass -e ssh w1", f"curl -u me:{HEX} https://x", f"curl -sSu me:{HEX} https://x",
        f"curl --user 'me:{HEX}' https://x", f"curl --proxy-user=me:{HEX}", f'key: "HF_TOKEN" value: "{HEX}"',
        f'env_vars {{ key: "WANDB_API_KEY" value: "{HEX}" }}', f'key: "HF_TOKEN"\n  value: "{HEX}"',
        f'{{"name": "HF_TOKEN", "value": "{HEX}"}}', json.dumps(json.dumps({"key": "AWS_SECRET_ACCESS_KEY", "value": HEX})),
        f"- name: HF_TOKEN\n  value: {HEX}", f"redis://:{HEX}@host:1", f"http://u:{HEX}@more@host", f"https://{HEX}@github.com/x",
        f"--remote_rm_url http://u:{HEX}@h:5000/get_reward", f"--wandb_token={HEX}", f"--use_wandb {HEX}", f"--use_wandb='{HEX}'",
        f"--logger.wandb.key {HEX}", f"++trainer.wandb.key={HEX}", f"--logger.swanlab.key {HEX}",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={HEX}", f"wandb login {HEX}", f"wandb login --relogin {HEX}",
        f"AWS_SECRET_ACCESS_KEY={HEX} AWS_SESSION_TOKEN={HEX}", f"OPENAI_KEY={HEX}", f"-H 'Authorization: Bearer {HEX}'",
        f"-H 'Authorization: {HEX}'", f'{{"Authorization": "Token {HEX}"}}', f"github_pat_{HEX}", f"npm_{HEX}", f"hf_{HEX}", f"AIza{HEX}",
        f"https://hooks.slack.com/services/T000/B000/{HEX}", f"https://x.blob.core.windows.net/c/f?sv=2026&sig={HEX}",
        f"https://bucket.s3.amazonaws.com/f?X-Amz-Signature={HEX}&x=1",
        f"-----BEGIN RSA PRIVATE KEY-----\n{HEX}-{HEX}\n-----END RSA PRIVATE KEY-----",
    ],
)  # fmt: skip
def test_a_secret_is_hidden_by_its_name_or_its_shape_and_where_tools_of_training_take_it(text):
    hidden = redact(text)
    assert KEY not in hidden
    assert HEX not in hidden
    assert HIDDEN in hidden
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    ("told", "safe"),
    [
        (
            {"env_vars": {"HF_TOKEN": KEY, "HOME": "/x"}, "pip": [f"git+https://me:{KEY}@host/x", "wandb"], "config": {"retries": 3}},
            {"env_vars": {"HF_TOKEN": HIDDEN, "HOME": "/x"}, "pip": [f"git+https://{HIDDEN}@host/x", "wandb"], "config": {"retries": 3}},
        ),
        ({"name": "HF_TOKEN", "value": KEY}, {"name": "HF_TOKEN", "value": HIDDEN}),
        ({"name": "GPUS", "value": "8"}, {"name": "GPUS", "value": "8"}),
        (["serve", "--api-key", KEY, "--port", "80"], ["serve", "--api-key", HIDDEN, "--port", "80"]),
        ({"api_keys": [KEY], "tags": [KEY]}, {"api_keys": [HIDDEN], "tags": [KEY]}),
        ({"password": 52415900, "max_tokens": 1024, "use_token": True}, {"password": HIDDEN, "max_tokens": 1024, "use_token": True}),
    ],
)
def test_secrets_within_json_are_hidden_by_the_names_that_they_stand_under_or_beside(told, safe):
    assert redact_within(told) == safe


def by_lines(*lines):
    redactor = LineRedactor()
    return [redactor(line) for line in lines]


@pytest.mark.parametrize("prefix", ["", "    ", "(raylet, ip=10.0.0.1) ", "\x1b[36m(pid=7)\x1b[0m "])
def test_a_private_key_is_hidden_line_by_line_and_what_follows_it_is_shown(prefix):
    key = [
        "-----BEGIN RSA PRIVATE KEY-----",
        "Proc-Type: 4,ENCRYPTED",
        "",
        MADE_UP[:64],
        MADE_UP[:20] + "==",
        "-----END RSA PRIVATE KEY-----",
    ]
    hidden = [*key[:3], HIDDEN, HIDDEN, key[5]]
    assert by_lines(*(prefix + line for line in (*key, "done"))) == [prefix + line for line in (*hidden, "done")]


def test_a_private_key_that_has_no_end_ends_with_the_first_line_that_is_none_of_it():
    lines = by_lines("-----BEGIN PRIVATE KEY-----", MADE_UP[:64], "step 1: loss 0.5", "saved")
    assert lines == ["-----BEGIN PRIVATE KEY-----", HIDDEN, "step 1: loss 0.5", "saved"]
    about = ["expected -----BEGIN PRIVATE KEY-----, found:", "step 1 is done", "saved"]
    assert by_lines(*about)[1:] == about[1:]
    redactor = LineRedactor()
    redactor.skip("-----BEGIN PRIVATE KEY-----")
    assert redactor(MADE_UP[:64]) == HIDDEN, "a line that was skipped still leads up to the next"


@pytest.mark.parametrize(
    ("lines", "safe"),
    [
        (
            ["- name: S3_SK", f"  value: {HEX}", "- name: GPUS", "  value: 8"],
            ["- name: S3_SK", f"  value: {HIDDEN}", "- name: GPUS", "  value: 8"],
        ),
        (["password:", f"  {KEY}", "user: me"], ["password:", f"  {HIDDEN}", "user: me"]),
        (["api_key: |", f"  {KEY}"], ["api_key: |", f"  {HIDDEN}"]),
        (["secret:", "  name: x"], ["secret:", "  name: x"]),
        ([f"token: {KEY}", "value: 8"], [f"token: {HIDDEN}", "value: 8"]),
    ],
)
def test_a_secret_is_hidden_in_the_line_after_its_name(lines, safe):
    assert by_lines(*lines) == safe


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"A=1 HF_TOKEN={KEY} curl -u me:{HEX} x", [KEY, HEX]),
        (f'--use_wandb {HEX} --password "correct horse"', [HEX, "correct horse"]),
        (f"git clone https://me:{KEY}@host/x", [f"me:{KEY}"]),
        ("--max_tokens 1024 --use_wandb True", []),
    ],
)
def test_the_place_of_a_secret_is_returned(text, parts):
    assert [text[start:end] for start, end in find_secrets(text)] == parts


def test_json_in_a_string_stays_json():
    text = json.dumps({"text": json.dumps({"env": {"HF_TOKEN": KEY, "HOME": "/x"}})})
    assert json.loads(json.loads(redact(text))["text"]) == {"env": {"HF_TOKEN": HIDDEN, "HOME": "/x"}}


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (f"A=1 HF_TOKEN={KEY} python -m openrlhf --lr 2", f"A=1 HF_TOKEN={HIDDEN} python -m openrlhf --lr 2"),
        (f"https://me:{KEY}@host/x", f"https://{HIDDEN}@host/x"),
        ('--password "correct horse battery" --lr 1', f'--password "{HIDDEN}" --lr 1'),
        ("--redis-password 5241590000000000", f"--redis-password {HIDDEN}"),
    ],
)
def test_the_text_around_a_secret_stays(text, safe):
    assert redact(text) == safe


@pytest.mark.parametrize(
    "text",
    [
        "--max_tokens 1024", "--max_token 1024 --pad_token_id=0", "--token_budget 16k", "--tokenizer /models/qwen --tokenizer_mode auto",
        "data.tokenizer=null actor.max_token_len_per_gpu=16384", "--use_auth_token True", '{"token": "", "model": "x"}',
        "--input_key prompt --label_key answer", "key=value keyboard=us", "python /data/secrets/train.py", "http://head:8265/#/jobs",
        "--skip-tokens", "--no-password --lr 1e-6", "ssh://host:22/x", "task-12345678901234", "docker run -u 1000:1000 image",
        "python -u train.py", "--use_wandb True --lr 1", "--use_wandb --train.colocate_all",
        "--data.input_key=prompt INPUT_KEY=context_messages", "trainer.logger=[console,wandb] +trainer.val_before_train=False",
        'key: "GPU" value: 8', '{"name": "MAX_TOKENS", "value": "1024"}', f"commit {HEX}",
        "HF_HUB_OFFLINE=1 HF_HUB_ENABLE_HF_TRANSFER=1 --hf_model_name_or_path /m --hf_checkpoint_dir /c",
        "--zone asia-northeast1-a npm_config_cache=/c", "--logger.wandb.key $WANDB_API_KEY --api_key ${OPENAI_API_KEY} HF_TOKEN=$HF_TOKEN",
        "git@github.com:OpenRLHF/OpenRLHF.git", "s3://bucket/path@v2",
    ],
)  # fmt: skip
def test_text_without_secrets_stays_unchanged(text):
    assert redact(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN", "HF_TOKEN", "HF_TOKENS", "hfToken", "GITHUB_TOKEN_2", "SECRET", "CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY",
        "KEY", "KEY_1", "KEY2", "WANDB_API_KEY", "OPENAI_APIKEY", "apiKey", "API_KEYS", "PGPASSWORD",
        "REDIS_PASSWD", "SSH_PASSPHRASE", "MYSQL_PWD", "DBPWD", "DB_PASS", "SMTPPASS", "SENTRY_DSN", "GOOGLE_CREDENTIALS",
        "VOLC_SK", "OSS_AK", "DB_CRED", "API_BEARER", "SESSIONID",
        "VPN_OTP", "PGPASS", "CREDENTIAL_JSON", "AZURE_STORAGE_CONNECTION_STRING", "GITHUB_PAT", "NPM_AUTH",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value",
    [
        KEY, "correct horse, battery & staple", "'quoted' \"twice\"", f"one\n{KEY}\n", "a=b c=d",
        "-----BEGIN RSA PRIVATE KEY-----\nc0ffee\n", "123456789012",
    ],
)  # fmt: skip
def test_the_value_of_a_variable_with_the_name_of_a_secret_is_hidden(name, value):
    assert redact_variable(name, value) == HIDDEN


HOOKS = st.sampled_from(["FEISHU_HOOK", "OPS_WEBHOOK", "WEBHOOK_URL", "SLACK_HOOK_URL_2", "DINGTALK_ROBOT", "WECOM_BOT", "ALERT_URL"])
KEY_NAMES = st.sampled_from(["OPS_WEBHOOK_KEY", "JUDGE_KEY", "FEISHU_APP_KEY_2"])
RANDOM_KEYS = st.one_of(
    st.text("0123456789abcdef", min_size=16, max_size=64).filter(lambda key: re.search("[a-f]", key) and re.search("[0-9]", key)),
    st.text(ascii_letters + digits, min_size=16, max_size=48).filter(lambda key: re.search("[0-9]", key) and re.search("[a-z]", key)),
    st.binary(min_size=16, max_size=48)
    .map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("="))
    .filter(lambda k: re.search("[0-9]", k)),
    st.uuids().map(str),
)
"""As they are given out: hexadecimal digits, letters and digits, base64 for URLs, UUIDs."""
URLS_WITH_KEYS = st.builds(
    "{}{}".format, st.sampled_from(["https://ops.corp/in/", "http://h:80/v1/x/", "https://h/robot?id="]), RANDOM_KEYS
)


@given(st.tuples(HOOKS, RANDOM_KEYS | URLS_WITH_KEYS) | st.tuples(KEY_NAMES, RANDOM_KEYS))
def test_a_random_value_of_a_variable_for_a_webhook_or_a_key_is_hidden(variable):
    name, value = variable
    key = re.split("[/=]", value)[-1]
    assert redact_variable(name, value) == HIDDEN
    assert redact_within({"env_vars": {name: value}}) == {"env_vars": {name: HIDDEN}}
    for text in (f"{name}={value} python x.py", f"export {name}='{value}'", f"env: {{{name}: {value}}}", json.dumps({name: value})):
        assert key not in redact(text), text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false then"), ("KEYBOARD", "us intl"), ("XKEYBOARD_KEYMAP", "us"),
        ("DESKTOP_SESSION", "ubuntu on wayland"), ("PAD_TOKEN", "pad it"), ("PASS_AT_K", "8"),
        ("HF_TOKEN_PATH", "/data/.cache/huggingface/token"), ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.7"), ("PWD", "/home/me/my work"),
        ("OLDPWD", "/home/me"), ("PASSTHROUGH", "yes please"), ("BYPASS", "all"), ("SSH_ASKPASS", "/usr/lib/ssh/x11-ssh-askpass"),
        ("COMPASS", "north"), ("MONKEY", "see"), ("MAX_TOKENS", "1024"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ("USE_AUTH_TOKEN", "True"), ("HF_TOKEN", ""), ("LS_COLORS", "rs=0:di=01;34:ln=01;36"), ("PATH", "/usr/bin:/bin"),
        ("PRIMARY_KEY", "id"), ("SSH_KEY_PATH", "/x"), ("GIT_HOOK", "pre-commit"), ("POST_HOOK", "/data/scripts/run2024_final.sh"),
        ("ROBOT", "ur5e"), ("ROBOT_URL", "http://robot-7:8000/v1/act"),
    ],
)  # fmt: skip
def test_a_variable_that_holds_no_secret_is_shown_whole(name, value):
    assert redact_variable(name, value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", f"postgres://train:{KEY}@db/x"),
        ("RAY_JOB_CONFIG_JSON_ENV_VAR", f'{{"runtime_env": {{"env_vars": {{"HF_TOKEN": "{KEY}"}}}}}}'),
        ("EXTRA_ARGS", f"--lr 1 --hf_token {KEY}"),
        ("SSL_CERT", f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n"),
    ],
)
def test_a_secret_inside_a_variable_is_hidden_whatever_its_name(name, value):
    assert KEY not in redact_variable(name, value)


@pytest.mark.slow
def test_no_name_of_a_variable_takes_longer_than_its_length():
    for piece in ("token", "key", "a", "pass", "api", "_", "pwd1"):
        assert is_linear(lambda times, piece=piece: redact_variable(piece * times, "value"), 2000), piece


@given(st.text(st.sampled_from("token=:'\" -_\n,x@/")))
def test_hiding_twice_hides_no_more(text):
    assert redact(redact(text)) == redact(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "token", "token ", "token=", "a-", "-", "'", '"', " ", "token: '", "x://", "x://a:", "eyJa.", "sk-", "Bearer ", "token\t\t", "a",
        "-u a:", "KEY=", "key: 'token', value: ", "authorization: ", "-----BEGIN PRIVATE KEY-----", "use_wandb ", "A", "://a/services/",
        "a.b-c+", "eyJ_", "sk=", "a@b://", "<token>a</", "login -p", "curl -u a:", "echo ", "密码", "value: name: ", '{"password": "\\\\',
    ],
)  # fmt: skip
def test_no_line_takes_longer_than_its_length(piece):
    assert is_linear(lambda times: (redact("token" + piece * times), redact(piece * times)), 5_000 // len(piece))


@pytest.mark.parametrize("rule", [rule for rule in NAME_RULES if rule.secrecy])
@given(data=st.data())
def test_every_name_that_a_rule_matches_is_a_possible_name(rule, data):
    assert re.search(POSSIBLE_NAMES, data.draw(st.from_regex(rule.pattern)))


@pytest.mark.parametrize("before", ["echo start\\n", "echo \x1b[32m", "basic send"])
@pytest.mark.parametrize(("rule", "example"), marked(rule for rule in RULES if rule.name in NEAR))
def test_a_near_hint_may_end_a_longer_word(rule, example, before):
    text = before + example
    assert redact(unmarked(text)) == re.sub("⟨[^⟩]*⟩", HIDDEN, text)
