from __future__ import annotations

import json
import time
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.text import HIDDEN, UNKNOWN, age, clean, count, percent, plural, ratio, redact, redact_variable, redact_within, secrets, size

CONTROLS = ("Cc", "Cf", "Cs", "Zl", "Zp")
ODD = "\x00\x07\x1b[]m\x9b\r\n\t\u202e\u2066\u200b\u200d\ufeff\u115f\U000e0041\U000e0100\ud800漢é a"
KEY = "c0ffee-4dead9beef"
HEX = "0123456789abcdef0123456789abcdef01234567"


@given(st.text() | st.text(st.sampled_from(ODD)))
def test_what_is_clean_holds_nothing_that_controls_hides_or_reorders(text):
    cleaned = clean(text)
    assert not [char for char in cleaned if category(char) in CONTROLS]
    assert len(cleaned) == len(text)


def test_no_control_of_unicode_is_forgotten():
    assert not [hex(code) for code in range(0x110000) if category(char := chr(code)) in CONTROLS and clean(char) == char]


@given(st.text() | st.text(st.sampled_from(ODD)))
def test_what_is_clean_stays_as_it_is(text):
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize("text", ["python train.py --lr=1e-6", "[/]", "漢字", "naïve café", "👩 ❤"])
def test_what_people_write_is_left_alone(text):
    assert clean(text) == text


def test_a_break_becomes_a_space_and_a_control_can_be_seen():
    assert clean("a\tb\nc\rd") == "a b c d"
    assert clean("a\x1b[31mb") == "a\N{REPLACEMENT CHARACTER}[31mb"


@pytest.mark.parametrize(
    "text",
    [
        f"WANDB_API_KEY={KEY} python train.py",
        f"--hf_token {KEY}",
        f"--hf-token={KEY}",
        f"--redis-password '{KEY}'",
        f"++trainer.wandb_token={KEY}",
        f"use_token --x_token --hf_token {KEY}",
        f"HF_TOKEN=-{KEY}",
        f'{{"env_vars": {{"HF_TOKEN": "{KEY}"}}}}',
        f'{{"api_key":"{KEY}","model":"x"}}',
        f"{{'password': '{KEY}'}}",
        f"['--token', '{KEY}']",
        f"[password={KEY}]",
        f"env_vars: {{SECRET: {KEY}}}",
        f"https://train:{KEY}@host/repo.git",
        f"redis://:{KEY}@head:6379",
        f"http://head:8265/?auth_token={KEY}&page=1",
        f"-H 'Authorization: Bearer {KEY}'",
        f"authorization: basic {KEY}",
        f"git clone https://hf_{KEY}@huggingface.co/x",
        f"hf_{KEY}",
        f"sk-proj-{KEY}",
        f"ghp_{KEY}",
        f"the key is eyJhbGciOiJIUzI1NiJ9.{KEY}0.x",
        f"export AWS_SECRET_ACCESS_KEY={KEY}",
        f"PassPhrase: {KEY}",
        f"Api-Key: {KEY}",
        f"credentials={KEY}",
        f'serialized_runtime_env: "{{\\"env_vars\\": {{\\"WANDB_API_KEY\\": \\"{KEY}\\"}}}}"',
        f'{{\\\\"HF_TOKEN\\\\":\\\\"{KEY}\\\\"}}',
        f'{{"password": "\\u00e4 {KEY}"}}',
        f"sshpass -p {KEY} ssh w1",
        f"SSHPASS={KEY} sshpass -e ssh w1",
    ],
)
def test_a_secret_is_hidden_by_its_name_or_its_shape(text):
    hidden = redact(text)
    assert KEY not in hidden
    assert HIDDEN in hidden


@pytest.mark.parametrize(
    "text",
    [
        f"curl -u me:{HEX} https://x",
        f"curl -sSu me:{HEX} https://x",
        f"curl --user 'me:{HEX}' https://x",
        f"curl --proxy-user=me:{HEX}",
        f'key: "HF_TOKEN" value: "{HEX}"',
        f'env_vars {{ key: "WANDB_API_KEY" value: "{HEX}" }}',
        f'key: "HF_TOKEN"\n  value: "{HEX}"',
        f'{{"name": "HF_TOKEN", "value": "{HEX}"}}',
        json.dumps(json.dumps({"key": "AWS_SECRET_ACCESS_KEY", "value": HEX})),
        f"- name: HF_TOKEN\n  value: {HEX}",
        f"redis://:{HEX}@host:1",
        f"http://u:{HEX}@more@host",
        f"https://{HEX}@github.com/x",
        f"--remote_rm_url http://u:{HEX}@h:5000/get_reward",
        f"--wandb_token={HEX}",
        f"--use_wandb {HEX}",
        f"--use_wandb='{HEX}'",
        f"--logger.wandb.key {HEX}",
        f"++trainer.wandb.key={HEX}",
        f"--logger.swanlab.key {HEX}",
        f"+ray_kwargs.ray_init.runtime_env.env_vars.WANDB_API_KEY={HEX}",
        f"wandb login {HEX}",
        f"wandb login --relogin {HEX}",
        f"AWS_SECRET_ACCESS_KEY={HEX} AWS_SESSION_TOKEN={HEX}",
        f"OPENAI_KEY={HEX}",
        f"-H 'Authorization: Bearer {HEX}'",
        f"-H 'Authorization: {HEX}'",
        f'{{"Authorization": "Token {HEX}"}}',
        f"github_pat_{HEX}",
        f"npm_{HEX}",
        f"hf_{HEX}",
        f"AIza{HEX}",
        f"https://hooks.slack.com/services/T000/B000/{HEX}",
        f"https://x.blob.core.windows.net/c/f?sv=2026&sig={HEX}",
        f"https://bucket.s3.amazonaws.com/f?X-Amz-Signature={HEX}&x=1",
        f"-----BEGIN RSA PRIVATE KEY-----\n{HEX}-{HEX}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_a_secret_is_hidden_where_tools_of_training_take_it(text):
    hidden = redact(text)
    assert HEX not in hidden
    assert HIDDEN in hidden
    assert redact(hidden) == hidden


def test_secrets_within_json_are_taken_out_by_the_names_they_stand_under():
    told = {"env_vars": {"HF_TOKEN": KEY, "HOME": "/x"}, "pip": [f"git+https://me:{KEY}@host/x", "wandb"], "config": {"retries": 3}}
    assert redact_within(told) == {
        "env_vars": {"HF_TOKEN": HIDDEN, "HOME": "/x"},
        "pip": [f"git+https://{HIDDEN}@host/x", "wandb"],
        "config": {"retries": 3},
    }


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"A=1 HF_TOKEN={KEY} curl -u me:{HEX} x", [KEY, HEX]),
        (f'--use_wandb {HEX} --password "correct horse"', [HEX, "correct horse"]),
        (f"git clone https://me:{KEY}@host/x", [f"me:{KEY}"]),
        ("--max_tokens 1024 --use_wandb True", []),
    ],
)
def test_where_a_secret_stands_can_be_told(text, parts):
    assert [text[start:end] for start, end in secrets(text)] == parts


def test_a_quoted_secret_is_hidden_with_all_its_words():
    assert redact('--password "correct horse battery" --lr 1') == f'--password "{HIDDEN}" --lr 1'


def test_a_password_of_digits_is_no_count():
    assert redact("--redis-password 5241590000000000") == f"--redis-password {HIDDEN}"


def test_json_in_a_string_stays_json():
    text = json.dumps({"text": json.dumps({"env": {"HF_TOKEN": KEY, "HOME": "/x"}})})
    assert json.loads(json.loads(redact(text))["text"]) == {"env": {"HF_TOKEN": HIDDEN, "HOME": "/x"}}


def test_what_stands_around_a_secret_stays():
    assert redact(f"A=1 HF_TOKEN={KEY} python -m openrlhf --lr 2") == f"A=1 HF_TOKEN={HIDDEN} python -m openrlhf --lr 2"
    assert redact(f"https://me:{KEY}@host/x") == f"https://{HIDDEN}@host/x"


@pytest.mark.parametrize(
    "text",
    [
        "--max_tokens 1024",
        "--max_token 1024 --pad_token_id=0",
        "--token_budget 16k",
        "--tokenizer /models/qwen --tokenizer_mode auto",
        "data.tokenizer=null actor.max_token_len_per_gpu=16384",
        "--use_auth_token True",
        '{"token": "", "model": "x"}',
        "--input_key prompt --label_key answer",
        "key=value keyboard=us",
        "python /data/secrets/train.py",
        "http://head:8265/#/jobs",
        "--skip-tokens",
        "--no-password --lr 1e-6",
        "ssh://host:22/x",
        "task-12345678901234",
        "docker run -u 1000:1000 image",
        "python -u train.py",
        "--use_wandb True --lr 1",
        "--use_wandb --train.colocate_all",
        "--data.input_key=prompt INPUT_KEY=context_messages",
        "trainer.logger=[console,wandb] +trainer.val_before_train=False",
        'key: "GPU" value: 8',
        '{"name": "MAX_TOKENS", "value": "1024"}',
        f"commit {HEX}",
        "HF_HUB_OFFLINE=1 HF_HUB_ENABLE_HF_TRANSFER=1 --hf_model_name_or_path /m --hf_checkpoint_dir /c",
        "--zone asia-northeast1-a npm_config_cache=/c",
        "--logger.wandb.key $WANDB_API_KEY --api_key ${OPENAI_API_KEY} HF_TOKEN=$HF_TOKEN",
        "git@github.com:OpenRLHF/OpenRLHF.git",
        "s3://bucket/path@v2",
    ],
)
def test_what_is_no_secret_survives(text):
    assert redact(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "TOKEN", "HF_TOKEN", "HF_TOKENS", "hfToken", "GITHUB_TOKEN_2", "SECRET", "CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY",
        "KEY", "KEY_1", "KEY2", "WANDB_API_KEY", "OPENAI_APIKEY", "apiKey", "API_KEYS", "PGPASSWORD",
        "REDIS_PASSWD", "SSH_PASSPHRASE", "MYSQL_PWD", "DBPWD", "DB_PASS", "SMTPPASS", "SENTRY_DSN", "GOOGLE_CREDENTIALS",
        "CREDENTIAL_JSON", "AZURE_STORAGE_CONNECTION_STRING", "GITHUB_PAT", "NPM_AUTH",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value",
    [
        KEY,
        "correct horse, battery & staple",
        "'quoted' \"twice\"",
        f"one\n{KEY}\n",
        "a=b c=d",
        "-----BEGIN RSA PRIVATE KEY-----\nc0ffee\n",
        "123456789012",
    ],
)
def test_of_a_variable_whose_name_tells_of_a_secret_nothing_is_shown(name, value):
    assert redact_variable(name, value) == HIDDEN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false then"),
        ("KEYBOARD", "us intl"),
        ("XKEYBOARD_KEYMAP", "us"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.7"),
        ("PWD", "/home/me/my work"),
        ("OLDPWD", "/home/me"),
        ("PASSTHROUGH", "yes please"),
        ("BYPASS", "all"),
        ("SSH_ASKPASS", "/usr/lib/ssh/x11-ssh-askpass"),
        ("COMPASS", "north"),
        ("MONKEY", "see"),
        ("MAX_TOKENS", "1024"),
        ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"),
        ("USE_AUTH_TOKEN", "True"),
        ("HF_TOKEN", ""),
        ("LS_COLORS", "rs=0:di=01;34:ln=01;36"),
        ("PATH", "/usr/bin:/bin"),
    ],
)
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


def test_no_name_of_a_variable_takes_longer_than_its_length():
    for piece in ("token", "key", "a", "pass", "api", "_", "pwd1"):
        started = time.process_time()
        redact_variable(piece * 50_000, "value")
        assert time.process_time() - started < 0.5, piece


@given(st.text(st.sampled_from("token=:'\" -_\n,x@/")))
def test_hiding_twice_hides_no_more(text):
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize(
    "piece",
    [
        "token",
        "token ",
        "token=",
        "a-",
        "-",
        "'",
        '"',
        " ",
        "token: '",
        "x://",
        "x://a:",
        "eyJa.",
        "sk-",
        "Bearer ",
        "token\t\t",
        "a",
        "-u a:",
        "KEY=",
        "key: 'token', value: ",
        "authorization: ",
        "-----BEGIN PRIVATE KEY-----",
        "use_wandb ",
        "A",
        "://a/services/",
        "a.b-c+",
    ],
)
def test_no_line_takes_longer_than_its_length(piece):
    def taken(length):
        text = piece * (length // len(piece))
        started = time.process_time()
        redact("token" + text)
        redact(text)
        return time.process_time() - started

    assert min(taken(80_000) for _ in range(2)) < 16 * max(min(taken(10_000) for _ in range(3)), 0.005)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0B"),
        (999, "999B"),
        (999.6, "1.0K"),
        (1000, "1.0K"),
        (9.96 * 1024, "10K"),
        (512 << 20, "512M"),
        (3.4 * (1 << 30), "3.4G"),
        (80 << 30, "80G"),
        (1 << 40, "1.0T"),
    ],
)
def test_sizes_are_read_at_a_glance(amount, text):
    assert size(amount) == text


@given(st.floats(0, 1 << 59))
def test_no_size_is_wider_than_its_column(amount):
    assert len(size(amount)) <= 5


def test_ages_are_short():
    assert [age(seconds) for seconds in (0, -5, 59.9, 61, 187, 18120, 12 * 86400 + 4 * 3600, 200 * 86400)] == [
        "0s",
        "0s",
        "59s",
        "1m01s",
        "3m07s",
        "5h02m",
        "12d04h",
        "200d",
    ]


def test_quantities_are_as_short_as_they_can_be():
    assert [count(value) for value in (8.0, 0.25, 0.0, 12345.0)] == ["8", "0.25", "0", "12345"]
    assert percent(99.6) == "100%"
    assert [plural(1, "node"), plural(2, "node"), plural(0, "process", "processes")] == ["1 node", "2 nodes", "0 processes"]


def test_unknown_is_never_zero():
    assert {size(None), age(None), count(None), percent(None)} == {UNKNOWN}
    assert ratio(None, 5) is ratio(5, None) is ratio(5, 0) is None
    assert ratio(0, 5) == 0
