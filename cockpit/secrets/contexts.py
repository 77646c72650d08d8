"""Lists the rules that recognize a secret by its place: after a name or a flag, in a header, in a block, in a URL."""

from __future__ import annotations

from typing import Final

from cockpit.secrets.rule import BREAK, CHINESE, IS, NAMES, RANDOM, SPACES, Q, Rule

# fmt: off
CONTEXTS: Final = (
    Rule("name and value", NAMES, after="name", lead=rf"{IS}(?:[&!]\w{{1,40}}\s{{1,4}}|[bfru]{{1,2}}(?=['\"]))?{Q}"),
    Rule("flag and value", NAMES, after="flag", lead=rf"\s{{1,8}}(?!-){Q}"),
    Rule("flag and value in a list", NAMES, after="flag", lead=r"""\\{0,7}["'],\s?\\{0,7}["']"""),
    Rule("name, then what looks random", NAMES, after="name", lead=rf"\s(?:is\s|was\s|header:\s|是\s?|为\s?)?{Q}", value=RANDOM),
    Rule("default of a variable", NAMES, after="name", lead=r"""\\{0,7}['"],\s{0,4}\\{0,7}['"](?=[^'"\n]{1,400}['"]\))""", value=RANDOM),
    Rule("password, said", ("passw", "passphrase", "pwd"), lead=rf"(?i)\b(?:password|passwd|passphrase|pwd)\s(?:is\s|was\s)?{Q}",
         value=r"(?=[^\s\d/]{0,40}\d)[^\s'\",;:]{6,}"),
    Rule("password, said in Chinese", CHINESE,
         lead=rf"(?:密码|密碼|口令|令牌|密钥|密鑰|秘钥|金鑰|凭证|凭据)(?:是|为|為|\s|:|：){{1,3}}\s{{0,4}}{Q}",
         value=r"[!-~]{4,}"),
    Rule("value on the next line", ("\n", "\\n"), after="name",
         lead=rf"{Q}:[ \t]{{0,8}}(?:[|>][-+]?[ \t]{{0,8}})?{BREAK}[ \t]{{1,80}}(?!-\s|[\w.-]{{1,80}}{Q}:(?:\s|$)){Q}"),
    Rule("name and value in fields of their own", ("value",), after="name", lead=rf"(?i){Q}{SPACES}{Q}value{Q}\s?[:=]\s?{Q}"),
    Rule("value and name in fields of their own", ("value",), lead=rf"(?i)\bvalue{Q}\s?[:=]\s?{Q}",
         value=rf"(?i)[^\s'\"\\,;]{{1,400}}(?![^\s'\"\\,;])(?={Q}{SPACES}{Q}(?:key|name){Q}\s?[:=]\s?{Q}"
                r"[\w.-]{0,80}(?:token|secret|passw|api_?key|access_?key|_[sa]k\b))"),
    Rule("name and value in XML", ("</",), after="name", lead=r"(?:</name>(?:\s|\\{1,7}n){0,80}<value)?>(?=[^<\n]{1,400}</)",
         value=r"[^<\n]+"),

    Rule("Authorization", ("authorization",), lead=rf"(?i)\bauthorization{Q}\s?[:=]\s?(?:f(?=['\"]))?{Q}",
         value=r"(?i)(?:(?:digest|oauth|signature|aws4-\S{1,40}|[\w-]{2,12}-sha256)\s[^\n'\"\\`]+|(?:[a-z][\w-]{1,20}\s)?[^\s'\"\\`]+)"),
    Rule("Bearer", ("bearer", "basic"), lead=r"(?i)\b(?:bearer|basic)\s{1,4}",
         value=r"(?!authen|authori|tokens?\b)(?:(?=[A-Za-z_.~+/-]{0,400}(?:\d|==))[\w.~+/-]{8,}=*|(?<=Bearer )[\w.~+/-]{8,}(?=['\"\\]|$))"),
    Rule("Cookie", ("cookie",), lead=rf"(?i)(?<![\w-])cookie2?{Q}\s?:\s?{Q}", value=r"[\w.$!-]{1,80}=(?:[^\n'\"\\`]|(?<==)\"[^\"\n]*\")+"),
    Rule("Set-Cookie", ("cookie",), lead=rf"(?i)\bset-cookie2?{Q}\s?:\s?{Q}[\w.$!-]{{1,80}}=", value=r"[^\s;'\"\\`]+"),
    Rule("private key", ("private key",), lead=r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
         value=r"(?:[\w+/=\s\\:,.()]|-(?!----))+"),
    Rule("Azure", ("q~",), value=r"[\w~.-]{3}\dQ~[\w~.-]{31,34}"),
    Rule("Telegram", (":aa",), value=r"(?:bot)?\d{8,10}:AA[\w-]{30,}"),
)
URLS: Final = (
    Rule("user and password in a URL", ("@",),
         value=r"(?<=://)(?:[^\s/@:'\"`\[]{0,100}:(?!\$|\d{1,5}(?:[/?#,;)\s]|$))[^\s'\"`]{1,300}(?<!\.git)|[\w-]{20,200})(?=@[^\s@])"),
    Rule("signed URL", ("sig", "credential=", "accesskeyid=", "key=", "q-ak=", "code=", "ticket="),
         lead=r"(?i)[?&;](?:sig|signature|\w{1,6}-(?:\w{1,6}-)?(?:signature|credential)|(?:oss|aws)accesskeyid|q-ak|key|code|ticket)=",
         value=r"(?=[A-Za-z_%+/.~-]{0,60}\d)[\w%+/=.~-]{16,}"),
    Rule("webhook", ("hook", "/services/", "/workflows/", "/triggers/", "ftqq.com", "day.app", "ifttt"),
         lead=r"(?i)://[\w.:-]{1,100}/(?:[\w./-]{0,60}?/)?(?:services|workflows|triggers|webhook|webhookb2|webhooks|hook|hooks|catch|key)/|"
              r"://(?:\w{2,5}\.ftqq\.com|api\.day\.app)/",
         value=r"(?=[^\s'\"]{0,60}?\d)[\w/@+-]{16,}"),
    Rule("webhook by its name", ("hook",), lead=rf"(?i)hook[\w.-]{{0,40}}{Q}[ \t]{{0,4}}[:=][ \t]{{0,4}}{Q}https?://[\w.:-]{{1,100}}/",
         value=r"(?=[^\s'\"]{0,100}?\d)[^\s'\"`]{12,}"),
)
# fmt: on
