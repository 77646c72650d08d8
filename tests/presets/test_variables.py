"""Variables of a preset are filled in from the environment, and its secrets are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.config.document import InputError
from cockpit.presets import Preset, doubts, fill_preset, presets_folder, read_preset, redact_preset
from cockpit.secrets import HIDDEN

KEY = "c0ffee4dead9beef"
ENV = {"WANDB_API_KEY": KEY, "RUN": "seven", "USER": "alice", "N": "8", "DATA": "/data/sets"}


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    def write(text: str, name: str = "ppo.yaml") -> Preset:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return read_preset(path)

    return write


def job(text: str) -> str:
    return f"job:\n  entrypoint: x\n  {text}\n"


def test_a_name_is_filled_in_wherever_text_stands(written):
    preset = written("""
ray: {head: a, env: {NCCL_DEBUG: "${RUN}"}}
job:
  entrypoint: python x.py --data ${DATA} --n $N
  working_dir: ${DATA}/src
  env: {WANDB_API_KEY: "${WANDB_API_KEY}", NAME: "run-${RUN}"}
  runtime_env: {pip: ["x==${N}"], conda: {dependencies: [{pip: ["${RUN}"]}]}}
  submission_id: "${USER}-{time}"
  metadata: {owner: "${USER}"}
""")
    filled = fill_preset(preset, ENV).preset
    assert filled.ray is not None
    assert filled.ray.env == {"NCCL_DEBUG": "seven"}
    assert filled.job is not None
    assert filled.job.entrypoint == "python x.py --data /data/sets --n $N"
    assert filled.job.working_dir == "/data/sets/src"
    assert filled.job.env == {"WANDB_API_KEY": KEY, "NAME": "run-seven"}
    assert filled.job.runtime_env == {"pip": ["x==8"], "conda": {"dependencies": [{"pip": ["seven"]}]}}
    assert filled.job.metadata == {"owner": "alice"}
    assert filled.job.submission_id == "alice-{time}"


def test_a_dollar_more_leaves_a_name_to_the_shell_over_there_and_nothing_is_filled_in_twice(written):
    filled = fill_preset(written("job:\n  entrypoint: echo $${HOME} ${N} $USER ${#x} ${Y:-1}\n  env: {LD: '$${LD}:/x'}\n"), ENV).preset.job
    assert filled is not None
    assert filled.entrypoint == "echo ${HOME} 8 $USER ${#x} ${Y:-1}"
    assert filled.env == {"LD": "${LD}:/x"}
    again = fill_preset(written(job("env: {A: '${A}'}")), {"A": "${B}"}).preset.job
    assert again is not None
    assert again.env == {"A": "${B}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (job("env:\n    A: 1\n    B: ${B}"), "~/ppo.yaml:5: job.env.B: ${B} is not set in your environment"),
        (job("env: {B: '${B}', C: '${C}'}"), "~/ppo.yaml:3: job.env.B: ${B} is not set in your environment, nor is ${C}"),
        (
            job("env: {B: '${B}', C: '${C}${D}${B}'}"),
            "~/ppo.yaml:3: job.env.B: ${B} is not set in your environment, nor are ${C}, ${D}",
        ),
        (job("runtime_env: {pip: [a, '${B}']}"), "~/ppo.yaml:3: job.runtime_env.pip[1]: ${B} is not set in your environment"),
        (
            "job: {entrypoint: 'X=1; echo ${X}'}",
            "~/ppo.yaml:1: job.entrypoint: ${X} is not set in your environment; for a variable of the shell on the cluster, write $${X}",
        ),
        ("ray:\n  head: a\n  env:\n    T: ${B}\n", "~/ppo.yaml:4: ray.env.T: ${B} is not set in your environment"),
        (job("submission_id: a-${MY_TOKEN}"), "~/ppo.yaml:3: job.submission_id: ${MY_TOKEN} is a secret, but Ray shows it to everybody"),
        (
            job("metadata: {a: '${WANDB_API_KEY}'}"),
            "~/ppo.yaml:3: job.metadata.a: ${WANDB_API_KEY} is a secret, but Ray shows it to everybody",
        ),
    ],
)  # fmt: skip
def test_what_can_not_be_filled_in_is_said_with_its_place(written, text, message):
    with pytest.raises(InputError) as caught:
        fill_preset(written(text), ENV)
    assert str(caught.value) == message


def test_what_can_not_be_filled_in_is_said_with_its_place_though_the_file_is_gone(written):
    preset = written(job("env: {B: '${B}'}"))
    preset.path.unlink()
    with pytest.raises(InputError, match=r"^~/ppo\.yaml: job\.env\.B: "):
        fill_preset(preset, {})
    with pytest.raises(InputError, match=r"job\.env\.A: \$\{ODD\} is not UTF-8"):
        fill_preset(written(job("env: {A: '${ODD}'}")), {"ODD": "\udc80"})


def test_secrets_of_a_launch_are_known_and_not_shown_by_accident(written):
    preset = written("""
ray: {head: a, env: {RAY_x: "${ODD_VALUE}"}}
job:
  entrypoint: python x.py --key ${WANDB_API_KEY} --user ${USER} --login http://me:pass123@h
  env: {A: "${RUN_DIRECTORY}", HF_TOKEN: literal-thing, PLAIN: nothing-special, SHORT: "${N}"}
""")
    ready = fill_preset(preset, {**ENV, "ODD_VALUE": "odd-value", "RUN_DIRECTORY": "/some/where"})
    assert ready.hidden == {KEY, "odd-value", "/some/where", "literal-thing", "me:pass123", "8"}
    assert KEY not in repr(ready)
    assert KEY not in str(ready.__rich_repr__())


def test_what_is_shown_of_a_preset_holds_names_and_no_secrets(written):
    preset = written("""
job:
  entrypoint: curl -u me:hunter22 x && python x.py --wandb_key ${WANDB_API_KEY} --hf_token $HF_TOKEN --api_key literal
  env: {A: "${WANDB_API_KEY}", HF_TOKEN: literal-thing, N: 8, DB: "postgres://me:hunter22@${HOST}/x", B: "${RUN}"}
  runtime_env: {pip: ["git+https://me:hunter22@host/x"], config: {retries: 3, token: hunter22}}
  metadata: {password: hunter22, owner: alice}
""")
    shown = redact_preset(preset).job
    assert shown is not None
    assert (
        shown.entrypoint == f"curl -u me:{HIDDEN} x && python x.py --wandb_key ${{WANDB_API_KEY}} --hf_token $HF_TOKEN --api_key {HIDDEN}"
    )
    assert shown.env == {"A": "${WANDB_API_KEY}", "HF_TOKEN": HIDDEN, "N": "8", "DB": f"postgres://{HIDDEN}@${{HOST}}/x", "B": "${RUN}"}
    assert shown.runtime_env == {"pip": [f"git+https://{HIDDEN}@host/x"], "config": {"retries": 3, "token": HIDDEN}}
    assert shown.metadata == {"password": HIDDEN, "owner": "alice"}


def test_a_secret_in_plain_text_is_told_and_not_shown(written):
    preset = written("""
ray: {head: a, env: {RAY_AUTH_TOKEN: hunter22}}
job:
  entrypoint: python x.py --api_key hunter22
  working_dir: https://me:hunter22@host/x.zip
  env: {HF_TOKEN: hunter22, WANDB_API_KEY: "${WANDB_API_KEY}", MAX_TOKENS: 1024}
  runtime_env: {pip: ["git+https://me:hunter22@host/x"]}
""")
    told = doubts(preset)
    places = ["ray.env.RAY_AUTH_TOKEN", "job.env.HF_TOKEN", "job.entrypoint", "job.working_dir", "job.runtime_env"]
    assert [one.partition(":")[0] for one in told] == places
    assert "hunter22" not in "".join(told)


def test_a_secret_that_is_filled_into_the_entrypoint_is_told(written):
    assert doubts(written("job: {entrypoint: 'x --key ${WANDB_API_KEY} --n ${N} --t $HF_TOKEN'}")) == (
        "job.entrypoint: Ray shows ${WANDB_API_KEY} to everybody who sees the job; set it in job.env and write $WANDB_API_KEY here",
    )


def test_a_folder_is_meant_beside_the_file_and_for_presets_of_cockpits_folder_where_one_stands(written, tmp_path, monkeypatch):
    def folder(preset: Preset) -> str | None:
        filled = fill_preset(preset, {}).preset.job
        return filled and filled.working_dir

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    text = job("working_dir: src/..")
    assert folder(written(text, "jobs/ppo.yaml")) == str(tmp_path / "jobs")
    assert folder(written(text, str(presets_folder() / "ppo.yaml"))) == str(elsewhere)
    assert folder(written(job("working_dir: ~/x"))) == str(tmp_path / "x")
    assert folder(written(job("working_dir: s3://bucket/x.zip"))) == "s3://bucket/x.zip"
    assert folder(written("job: {entrypoint: x}")) is None


def test_a_folder_that_leads_nowhere_is_said_with_its_place(written, tmp_path):
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for folder in ("~nobody-of-that-name/code", "circle", '"a\\0b"'):
        with pytest.raises(InputError, match=r"ppo\.yaml:3: job\.working_dir: can't be resolved: "):
            fill_preset(written(job(f"working_dir: {folder}")), ENV)


def test_a_password_among_the_flags_of_ray_start_or_in_the_address_of_a_working_dir_is_not_shown(written):
    ray = f"ray:\n  head: {{host: a, redis_password: {KEY}, port: 6380}}\n  workers: [{{host: b, redis-password: {KEY}}}]\n"
    preset = redact_preset(written(ray + "job: {entrypoint: x, working_dir: 'https://me:hunter22@host/job.zip'}\n"))
    assert preset.ray is not None
    assert [node.flags for node in preset.ray.nodes] == [{"redis_password": HIDDEN, "port": 6380}, {"redis_password": HIDDEN}]
    assert preset.job is not None
    assert preset.job.working_dir == f"https://{HIDDEN}@host/job.zip"
