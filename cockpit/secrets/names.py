"""Lists the names of secrets, and the values that are no secret under such a name, each with examples."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

import msgspec

MAX_NAME_CHARS: Final = 200
"""Only the end of a longer name is read: its last words have the meaning."""
MAX_PLAIN_CHARS: Final = 400
"""A longer value always counts as a secret."""


class Secrecy(IntEnum):
    """How certain it is, by the name alone, that a value is a secret."""

    NONE = 0
    POSSIBLE = 1
    """The value is a secret if it looks random."""
    LIKELY = 2
    """The value is a secret if it looks random. The value of a variable is always a secret."""
    CERTAIN = 3
    """The value is always a secret."""


NONE, POSSIBLE, LIKELY, CERTAIN = Secrecy


class NameRule(msgspec.Struct, frozen=True):
    """The secrecy of names that match. A name is matched as lower-case words with `_` between them: `secretKeyRef` as `secret_key_ref`."""

    secrecy: Secrecy
    pattern: str
    examples: tuple[str, ...]


class PlainRule(msgspec.Struct, frozen=True):
    """Values that are no secret, under any name or, if `under` is given, under names that match it."""

    pattern: str
    examples: tuple[str, ...]
    under: str = ""


_VENDORS: Final = (
    r"wandb|swanlab|comet|neptune|clearml|hf|modelscope|openai|anthropic|deepseek|moonshot|zhipu\w{0,2}|dashscope|qwen|groq|ngc|nvidia"
    r"|azure|oss|cos|obs|tos|s3|minio|qiniu"
)

_HOOKS: Final = r"hook|bots?(?:_|$)|_ur[il]s?$"
_WORDS: Final = r"(?-i:[\[({<]{0,2}[a-z_./ -]*(?:[A-Z]{1,4}[a-z]{3,}[-_./ ]?)*[])}>,:;]{0,2})"
"""Small letters, or words with a capital first letter: `pre-commit`, `TimerHook`."""

# fmt: off
NAME_RULES: Final = (  # the first match is used
    NameRule(CERTAIN, r"(?:(?:^|_|web)hook|(?:^|_)(?:ro)?bot)s?(?:_(?:url|uri|addr|address|endpoint|code))?_?\d{0,3}$"
             r"|(?:^|_)(?:alert|notify)_ur[il]s?$", ("FEISHU_HOOK", "WEBHOOK_URL", "DINGTALK_ROBOT", "WECOM_BOT", "ALERT_URL")),
    NameRule(NONE, r"_(?:file|path|dir|directory|folder|name|ref|type|class|url|uri|endpoint|host|source|column|field|store|manager)s?$",
             ("HF_TOKEN_PATH", "secretName", "secretKeyRef", "token_url", "password-file")),
    NameRule(NONE, r"_(?:len|length|limit|count|size|level|mean|budget|mask|index|idx|ratio|rate|usage|per_\w{1,20}|at_k)s?$",
             ("max_token_len", "token_budget", "pass_rate", "pass_at_k")),
    NameRule(NONE, r"_(?:mode|method|enabled|required|version|algorithm|provider|prefix|suffix|status|state|policy|stdin"
             r"|authentication)s?$", ("auth_mode", "password_authentication", "--password-stdin")),
    NameRule(NONE, r"_(?:expir\w{1,8}|ttl|prompt|hint|helper|fingerprint|format|template|error|exception|warning)s?$",
             ("token_expires", "credential.helper", "NoCredentialsError")),
    NameRule(NONE, r"token_(?:ids?|acc|loss|entropy|logprobs?|probs?|weights?|rewards?|embedding|dispatcher\w{0,5}|level_\w{1,20})$",
             ("pad_token_id", "stop_token_ids", "token_level_rewards")),
    NameRule(NONE, r"(?:^|_)(?:input|output|label|prompt|response|answer|images?|videos?|audio|reward_fn|metric|dict|query|q|kv|v"
             r"|k)_keys?$", ("input_key", "reward_fn_key", "images_key")),
    NameRule(NONE, r"(?:^|_)(?:primary|foreign|sort|partition|group|cache|padding|public|pub|recv|host)_keys?$",
             ("primary_key", "public_key", "--recv-keys")),
    NameRule(POSSIBLE, r"^(?:no|use|with|without|skip|enable|disable|allow|require|need|is|has|add|hf_hub_disable)_"
             r".*(?:token|pass|auth|key)", ("use_auth_token", "HF_HUB_DISABLE_IMPLICIT_TOKEN")),
    NameRule(POSSIBLE, r"(?:^|_)(?:max|min|num|per|avg|mean|total|eos|bos|eot|eom|pad|unk|sep|cls|mask|stop|special|image|img|video|audio"
             r"|vision|think\w{0,3}|start|startup|begin|end|prefix|suffix|middle|prompt|completion|response|output|input|first|next|last"
             r"|new|cached|added|extra|bad|forced|tool|page|placeholder|dummy|second|all)_(?:\w{1,20}_)?tokens?$",
             ("eos_token", "max_new_token", "tool_call_start_token")),
    NameRule(POSSIBLE, r"(?:^|_)(?:forward|backward|first|second|single|one|two|multi|num|test|all|max|min)_pass$", ("forward_pass",)),
    NameRule(CERTAIN, r"token(?:_?\d{1,3})?$", ("HF_TOKEN", "hfToken", "GITHUB_TOKEN_2", "X-Auth-Token", "access_token")),
    NameRule(CERTAIN, r"pass_?w(?:or)?d|passwort|pass_?phrase|passcode|(?:^|_|bind)pw$|pwd_?\d{0,3}$|pgpass",
             ("PGPASSWORD", "redis-password", "MYSQL_PWD", "SSH_PASSPHRASE", "LDAP_BINDPW", "PGPASS")),
    NameRule(CERTAIN, r"(?:^|_|db|smtp|user|ssh|redis|mysql|root|admin|mail|ftp|proxy|ldap|require|master)pass$",
             ("DB_PASS", "SMTPPASS", "requirepass")),
    NameRule(CERTAIN, r"secret(?!s)|credential|(?:^|_)creds?$|connection_string|conn_str",
             ("CLIENT_SECRET", "DB_CRED", "GOOGLE_CREDENTIALS")),
    NameRule(CERTAIN, r"(?:api|access|private|auth|account|secret|signing|encrypt\w{0,4}|master|licen[cs]e|subscription|fernet|hmac|aes|jwt"
             rf"|deploy|{_VENDORS})_?key|key_data$",
             ("WANDB_API_KEY", "OPENAI_APIKEY", "AccountKey", "aws_access_key_id", "logger.wandb.key", "client-key-data")),
    NameRule(CERTAIN, r"[a-z0-9]_[as]k$|(?:^|_)(?:otp|jwt|bearer|auth)$|authorization$|auth_?code$|sess(?:ion)?id$|session_cookie$",
             ("VOLC_SK", "OSS_AK", "VPN_OTP", "API_BEARER", "NPM_AUTH", "JSESSIONID")),
    NameRule(CERTAIN, r"(?:密码|密碼|口令|令牌|密钥|密鑰|秘钥|金鑰|凭证|凭据|授权码|提取码|验证码)$", ("密码", "登录密码")),
    NameRule(LIKELY, r"token(?!i[zs])|secrets$|(?<!by)(?<!com)(?<!ask)(?<!sur)pass$", ("HF_TOKENS", "token_prod", "imagePullSecrets")),
    NameRule(LIKELY, r"(?:^|_|ssh|client|server|session)keys?_?\d{0,3}$|(?:^|_)(?:[as]k|pat|dsn|cookies?)$",
             ("KEY", "KEY_2", "judge_key", "GITHUB_PAT", "SENTRY_DSN", "sk")),
    NameRule(POSSIBLE, r"(?:^|_)(?:sid|session|sig|sign|signature)$", ("sig", "DESKTOP_SESSION")),
)
PLAIN_RULES: Final = (
    PlainRule(r"true|false|yes|no|on|off|none|null|nil|undefined|unset|optional|required|default|auto", ("True", "null", "unset")),
    PlainRule(r"empty|dummy|placeholder|redacted|your\W.*|your_\w+|[*x•]{3,12}|\.{3}|…|\#|[|>][-+]?",
              ("EMPTY", "YOUR_API_KEY", "***", "xxx", "|")),
    PlainRule(r"(?:(?:bearer|basic|token)\ )?(?:(?-i:\$\{?[A-Z_][A-Z0-9_]*)\}?|\$\{[\w.]+(?::[\w.]+)?(?::?[-?+])?\}?|\$\d|%\w+%)",
              ("$HF_TOKEN", "${TOKEN}", "${oc.env:REDIS_PASSWORD", "${TOKEN:-", "Bearer $TOKEN", "$1", "%TOKEN%")),
    PlainRule(r"\$\w{0,60}?(?:token|key|pass|secret|pwd)\w{0,60}", ("$hf_token",)),
    PlainRule(r"(?:(?:bearer|basic|token)\ )?(?:(?:\$\(|`|\$?\{\{).*|\{[a-z_][\w.\[\]]*\}?)", ("$(cat", "{{", "${{", "{self.token}")),
    PlainRule(r"<[^<>\s]{1,60}>|\[[a-z]{2,8}\]", ("</s>", "<|im_end|>", "<your-token>", "[PAD]")),
    PlainRule(r"\\?[\[({]+(?:[\d.,\s]*|[\w.-]{1,80}:?)[\])}]*", ("[]", "{name:", "(1,")),
    PlainRule(r"(?:~|\.{1,2}|/(?:root|home|etc|usr|var|run|opt|mnt|tmp|data\d*|dev|srv|workspace|nfs|models?|proc|sys))/.*|id=\w+",
              ("/run/secrets/hf", "~/.netrc", "id=hf")),
    PlainRule(r"(?:os|self|args|cls|cfg|config|settings|env|environ|secrets|getpass|request|ctx|kwargs|field|optional|union)[.\[(].*",
              ("os.environ[", "args.token", "Optional[str]")),
    PlainRule(r"[a-z_]\w*(?:\.\w+)+\(.*|(?:str|int|bytes|bool|float|token|key|auth|secretstr)[\]),:]{0,2}",
              ("a.decode(b)", "str,", "token")),
    PlainRule(r"(?:\w*_)?(?:api_?key|access_?key|secret_?key)|\w+_(?:token|password|secret)", ("api_key", "hf_token")),
    PlainRule(r"(?:re)?(?:type|enter)|the|please|unable|invalid|missing|wrong|incorrect|updated|expired|changed|failed|denied|not"
              r"|must|should|was|is|has|an?|it|this|which|expected|got|use|give|write|passwd:", ("Retype", "expired", "a")),
    PlainRule(r"[\d.,]{1,8}[kmgt]?|-?\d?\.\d+", ("1024", "16k", "-0.5"), under=r"token|pass_?$"),
    PlainRule(r"\w{1,80}\(.*", ("HTTPBasicAuth(",), under=rf"auth$|{_HOOKS}"),
    PlainRule(rf"{_WORDS}|\S{{0,11}}", ("pre-commit", "[TimerHook,", "ur5e"), under=_HOOKS),
    PlainRule(r"(?-i:https?://[^\s/?#@]+(?:/(?:[a-z_.-]+|(?=[^/]*[A-Z0-9])[\w.-]{1,11}|))*)", ("http://h:80/v1/in", "https://h/"),
              under=_HOOKS),
    PlainRule(r"basic|digest|bearer|token|ntlm|kerberos|gssapi|oauth2?|oidc|ldap|ssh|tls|password|publickey|anonymous|trust|md5|iam|read"
              r"|write|secret", ("basic", "write"), under=r"auth$|authorization$|token$"),
)
# fmt: on
POSSIBLE_NAMES: Final = (
    r"token|pass|pw|secret|cred|conn(?:ection)?_str|key|auth|cookie|otp$|jwt$|bearer$|sess(?:ion)?(?:_?id)?$"
    r"|hook|bots?(?:[_\d]|$)|(?:alert|notify)_ur[il]"
    r"|(?:^|_)(?:[as]k|pat|dsn|sid|sig|sign|signature)$|[^\x00-\x7f]"
)
"""A name without a match has the secrecy NONE under every rule."""
_FOLDERS: Final = ("PWD", "OLDPWD")
_HUMP: Final = r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])"


def secrecy(name: str) -> Secrecy:
    """Return the secrecy of a value by the name of its variable, flag or field."""
    return _secrecy(name[-MAX_NAME_CHARS:])


@lru_cache(2048)
def _secrecy(name: str) -> Secrecy:
    if name in _FOLDERS or not can_be_secret(name):
        return NONE
    words = _split_words(name)
    return next((rule.secrecy for rule in NAME_RULES if re.search(rule.pattern, words)), NONE)


@lru_cache(2048)
def can_be_secret(name: str) -> bool:
    """Return whether `secrecy` could be more than NONE. Most names are ruled out here, which is fast."""
    return re.search(POSSIBLE_NAMES, _split_words(name)) is not None


def _split_words(name: str) -> str:
    """Return the words of a name in lower case, with `_` between them."""
    return re.sub(r"\W+", "_", re.sub(_HUMP, "_", name)).strip("_").lower()


def is_plain(value: str, name: str = "") -> bool:
    """Return whether the value is no secret, although it is at the place of one."""
    return len(value) <= MAX_PLAIN_CHARS and any(
        re.fullmatch(rule.pattern, value, re.IGNORECASE) for rule in PLAIN_RULES if re.search(rule.under, name.strip("_"), re.IGNORECASE)
    )


_RANDOM: Final = r"(?<![a-z0-9])(?:(?=[a-z]*\d[a-z]*\d)(?=\d*[a-z])[a-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![a-z0-9]))"
MIN_SWITCHING: Final = 0.45
"""A text looks random from this share of neighbours of different kinds: a small letter and a capital, or a letter and a digit.
For random letters and digits it is 0.62 on average; `DeepSeek-R1-Distill-Qwen-7B` has 0.39."""


def looks_random(value: str) -> bool:
    """Return whether the value contains a text that looks like a key, not like a name.

    Such a text is a UUID; or at least 16 letters and digits without a break, some of them digits; or at least 16 letters, digits, `-` and
    `_` in which small letters, capitals and digits alternate.
    """
    return re.search(_RANDOM, value, re.IGNORECASE) is not None or any(map(_is_mixed, re.findall(r"[A-Za-z0-9_-]{16,}", value)))


def _is_mixed(text: str) -> bool:
    """Return whether small letters, capitals and digits alternate in the text."""
    if text.islower() or text.isupper():
        return False
    kinds = ["a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "" for char in text]
    neighbours = [(one, other) for one, other in pairwise(kinds) if one and other]
    return sum(one != other for one, other in neighbours) >= MIN_SWITCHING * len(neighbours)


def is_key_variable(name: str, value: str) -> bool:
    """Return whether this is a variable for a key, as in `JUDGE_KEY=…`, whose value is neither short nor consists of words."""
    return re.fullmatch(r"[A-Z0-9_]{1,200}_KEYS?_?\d{0,3}", name) is not None and re.fullmatch(rf"{_WORDS}|\S{{0,11}}", value) is None
