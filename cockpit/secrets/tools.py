"""Lists the rules that recognize a secret as an argument of a known tool."""

from __future__ import annotations

from typing import Final

from cockpit.secrets.rule import GAP, REST, WORD, Q, Rule

_STORES: Final = ("ossutil", "obsutil", "tosutil", "coscmd")
_USER: Final = ("-u", "curl", "-user")

# fmt: off
TOOLS: Final = (
    # Of training
    Rule("wandb login", ("wandb login",), lead=rf"\bwandb login{REST}{Q}(?=(?:local-)?(?:[0-9a-f]{{40}}|[\w-]{{60,}}))",
         value=r"[\w-]{40,}"),
    Rule("key where a switch may stand", ("use_wandb", "use_swanlab"), is_near=True, lead=rf"use_(?:wandb|swanlab){Q}[=:,\s]\s?{Q}",
         value=r"[\w-]{20,}"),
    Rule("swanlab login", ("swanlab login",), lead=rf"\bswanlab login{REST}-k{GAP}"),
    Rule("modelscope login", ("api.login", "modelscope login"), lead=rf"\b(?:api\.login\(|modelscope login\s){Q}", value=r"[\w-]{20,}"),
    Rule("Kaggle", ("kaggle", "username"), lead=r"username\\{0,7}\"\s?:\s?\\{0,7}\"[^\"]{1,60}\",\s?\\{0,7}\"key\\{0,7}\"\s?:\s?\\{0,7}\""),

    # Of registries and object stores
    Rule("registry login", ("login", "upload", "conan"),
         lead=rf"\b(?:login|twine upload|conan user){REST}-p(?:{GAP})?(?!\d{{1,5}}(?:\s|$|:)|-)"),
    Rule("poetry, cargo", ("poetry config", "cargo login"), lead=r"\b(?:poetry config http-basic\.\S{1,60} \S{1,60}|cargo login) (?!-)"),
    Rule("MinIO client", ("mc ",), lead=r"\bmc (?:alias set|config host add) \S{1,80} \S{1,200} ", value=rf"{WORD} {WORD}"),
    Rule("Qiniu's qshell", ("qshell",), lead=r"\bqshell account ", value=rf"{WORD} {WORD}"),
    Rule("object store's key id", _STORES, lead=rf"\b(?:(?:oss|obs|tos)util|coscmd)\w{{0,3}}{REST}-[ia]{GAP}"),
    Rule("object store's key", _STORES, lead=rf"\b(?:(?:oss|obs|tos)util|coscmd)\w{{0,3}}{REST}-[ks]{GAP}(?!-)"),
    Rule("key beside its id", ("ltai", "akid", "akia", "aklt", "asia"),
         lead=r"\b(?:LTAI|AKID|AKIA|AKLT|ASIA)[A-Za-z0-9]{12,60}\\{0,7}[\"']?(?::|,\s?|\s)[\"']?(?=[\w+/]{0,60}\d)",
         value=r"[\w+/]{20,}={0,2}"),
    Rule("vault login", ("vault login",), lead=r"\bvault login (?!-)"),

    # Of hosts and databases
    Rule("MySQL", ("mysql", "mariadb"), lead=rf"\b(?:mysql|mariadb)[\w-]{{0,20}}{REST}-p(?={Q}[^\s'\"]){Q}"),
    Rule("Redis", ("redis-cli",), lead=rf"\bredis-cli{REST}(?:-a|--pass){GAP}"),
    Rule("MongoDB", ("mongo",), lead=rf"\bmongo\w{{0,10}}{REST}-p{GAP}"),
    Rule("sshpass", ("sshpass",), lead=rf"\bsshpass{REST}-p(?:{GAP})?{Q}"),
    Rule("expect", ("send ", "send \""), lead=r"(?i)(?:password|passphrase)[^\n]{0,60}?\bsend(?:\s--)?\s\\{0,7}['\"]",
         value=r"[^'\"\\\n]+"),
    Rule("Redis's own words", ("requirepass", "masterauth", "auth "), lead=rf"\b(?:requirepass|masterauth|AUTH(?: default)?)\s{{1,4}}{Q}",
         value=r"(?=[^\s\d]{0,40}\d)[^\s'\"]{6,}"),
    Rule("baseboards", ("ipmi", "redfishtool", "racadm"), lead=rf"\b(?:ipmi[\w-]{{1,10}}|redfishtool|racadm){REST}-[Pp]{GAP}"),
    Rule("LDAP", ("ldap",), lead=rf"\bldap\w{{3,10}}{REST}-w{GAP}"),
    Rule("SMB", ("smb", "rpcclient"), lead=rf"\b(?:smb\w{{1,10}}|rpcclient){REST}-U(?:{GAP})?[\w.\\-]{{1,60}}%"),
    Rule("chpasswd", ("echo", "chpasswd"), lead=rf"\b(?:echo\s(?:-e\s)?|<<<\s?){Q}[\w.-]{{1,60}}:",
         value=r"[^\s'\"`|\\]{1,200}(?=\\{0,7}['\"`]?\s{0,4}\|\s{0,4}(?:sudo\s)?chpasswd)"),
    Rule("piped to who asks for it", ("echo", "printf"), lead=rf"\b(?:echo|printf)\s{{1,4}}(?:-n\s)?{Q}",
         value=r"[^\s'\"`|\\]{4,200}(?=\\{0,7}['\"`]?\s{0,4}\|\s{0,4}"
               r"(?:sudo\s[^|\n]{0,60}-S\b|[^|\n]{0,120}(?:-stdin|--with-token|wandb login|kinit)))"),
    Rule("archives", ("zip", "unzip", "7z", "rar ", "unrar"),
         lead=rf"\b(?:(?:un)?zip{REST}-P\s{{0,2}}|7z\w?{REST}-p|(?:un)?rar{REST}-p){Q}"),
    Rule("OpenSSL", ("pass:",), lead=rf"-(?:pass(?:in|out)?|k)\s{{1,4}}{Q}pass:"),

    # Of HTTP
    Rule("curl's user", _USER, is_near=True, value=WORD,
         lead=rf"""(?<![^\s'"])(?:-[a-zA-Z]{{0,6}}u|--(?:proxy-)?user)(?:{GAP})?[^\s:'"`/=+]{{0,80}}["']?:(?!//|\d+(?:\s|$)){Q}"""),
    Rule("curl's user with a space in the password", _USER, is_near=True, value=r"[^'\"\n]+",
         lead=r"""(?<![^\s'"])(?:-[a-zA-Z]{0,6}u|--(?:proxy-)?user)[=\s]{0,2}['"][^\s:'"`/=+]{0,80}:"""),
    Rule("curl's user that is a key", _USER, is_near=True, lead=rf"(?<![^\s'\"])(?:-[a-zA-Z]{{0,6}}u|--user){GAP}",
         value=r"(?=[A-Za-z_-]{0,40}\d)[\w!-]{12,}(?=:['\"]?(?:\s|$))"),
    Rule("curl's cookie", ("curl",), lead=rf"\bcurl{REST}(?:-b|--cookie)[=\s]['\"]?[\w.-]{{1,80}}=", value=r"[^'\"\n]+"),
    Rule("HTTPie's user", ("http -", "https -"), lead=rf"\bhttps?{REST}-a{GAP}[\w.@$-]{{1,60}}:"),
    Rule("lftp's user", ("lftp",), lead=rf"\blftp{REST}-u{GAP}[\w.@-]{{1,60}},"),
    Rule("Python's pair for auth", ("auth=", "auth =", "httpbasicauth", "basicauth"),
         lead=r"\b(?:auth\s?=\s?|HTTP\w{1,10}Auth|BasicAuth)\(?\s?['\"][^'\"\n]{0,80}['\"],\s?['\"]"),
    Rule("Python's cookies", ("cookies",), lead=r"\bcookies\s?[=:]\s?\{\s?['\"][\w.-]{1,60}['\"]:\s?['\"]"),
)
# fmt: on
