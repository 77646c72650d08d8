"""Secrets that are known by the tool whose argument they are."""

from __future__ import annotations

from typing import Final

from cockpit.secrets.rule import GAP, REST, WORD, Q, Rule

_STORES: Final = ("ossutil", "obsutil", "tosutil", "coscmd")
_USER: Final = ("-u", "curl", "-user")

# fmt: off
TOOLS: Final = (
    # Of training
    Rule("wandb login", ("wandb login",), lead=rf"\bwandb login{REST}{Q}(?=(?:local-)?(?:[0-9a-f]{{40}}|[\w-]{{60,}}))",
         value=r"[\w-]{40,}", hides=("wandb login ⟨{40}⟩", "wandb login --host http://h:8080 --relogin ⟨{40}⟩ && x"),
         leaves=("wandb login --host=http://h",)),
    Rule("key where a switch may stand", ("use_wandb", "use_swanlab"), lead=rf"use_(?:wandb|swanlab){Q}[=:,\s]\s?{Q}", value=r"[\w-]{20,}",
         hides=("--use_wandb ⟨{40}⟩ --lr 1", "use_swanlab='⟨{21}⟩'"), leaves=("--use_wandb True", "--use_wandb --train.colocate_all")),
    Rule("swanlab login", ("swanlab login",), lead=rf"\bswanlab login{REST}-k{GAP}", hides=("swanlab login --relogin -k ⟨{21}⟩ -h x",)),
    Rule("modelscope login", ("api.login", "modelscope login"), lead=rf"\b(?:api\.login\(|modelscope login\s){Q}", value=r"[\w-]{20,}",
         hides=('api.login("⟨{36}⟩")',), leaves=("modelscope login --help",)),
    Rule("Kaggle", ("kaggle", "username"), lead=r"username\\{0,7}\"\s?:\s?\\{0,7}\"[^\"]{1,60}\",\s?\\{0,7}\"key\\{0,7}\"\s?:\s?\\{0,7}\"",
         hides=('{"username":"me","key":"⟨{32}⟩"}',)),

    # Of registries and object stores
    Rule("registry login", ("login", "upload", "conan"),
         lead=rf"\b(?:login|twine upload|conan user){REST}-p(?:{GAP})?(?!\d{{1,5}}(?:\s|$|:)|-)",
         hides=("docker login -u me -p ⟨{12}⟩ h", "az login --service-principal -u x -p ⟨{34}⟩ --tenant y", "twine upload -p ⟨{20}⟩ x"),
         leaves=("docker login -u me --password-stdin h", 'docker login -p "$PASSWORD" h', "docker run -p 8265:8265 x")),
    Rule("poetry, cargo", ("poetry config", "cargo login"), lead=r"\b(?:poetry config http-basic\.\S{1,60} \S{1,60}|cargo login) (?!-)",
         hides=("poetry config http-basic.x me ⟨{16}⟩", "cargo login ⟨{36}⟩")),
    Rule("MinIO client", ("mc ",), lead=r"\bmc (?:alias set|config host add) \S{1,80} \S{1,200} ", value=rf"{WORD} {WORD}",
         hides=("mc alias set x http://h:9000 ⟨{20} {40}⟩",)),
    Rule("Qiniu's qshell", ("qshell",), lead=r"\bqshell account ", value=rf"{WORD} {WORD}", hides=("qshell account ⟨{40} {40}⟩ me",)),
    Rule("object store's key id", _STORES, lead=rf"\b(?:(?:oss|obs|tos)util|coscmd)\w{{0,3}}{REST}-[ia]{GAP}",
         hides=("obsutil config -i=⟨{20}⟩ -e=x",), leaves=("ossutil ls oss://x",)),
    Rule("object store's key", _STORES, lead=rf"\b(?:(?:oss|obs|tos)util|coscmd)\w{{0,3}}{REST}-[ks]{GAP}(?!-)",
         hides=("ossutil64 cp -k ⟨{30}⟩ x oss://y", "coscmd config -s ⟨{32}⟩ -b x", "['ossutil', '-k', '⟨{30}⟩']"),
         leaves=("ossutil ls oss://x -s",)),
    Rule("key beside its id", ("ltai", "akid", "akia", "aklt", "asia"),
         lead=r"\b(?:LTAI|AKID|AKIA|AKLT|ASIA)[A-Za-z0-9]{12,60}\\{0,7}[\"']?(?::|,\s?|\s)[\"']?(?=[\w+/]{0,60}\d)",
         value=r"[\w+/]{20,}={0,2}", hides=("oss2.Auth('⟨LTAI{20}⟩', '⟨{30}⟩')", "x:⟨LTAI{20}⟩:⟨{30}⟩")),
    Rule("vault login", ("vault login",), lead=r"\bvault login (?!-)", hides=("vault login ⟨{24}⟩",), leaves=("vault login -method=oidc",)),

    # Of hosts and databases
    Rule("MySQL", ("mysql", "mariadb"), lead=rf"\b(?:mysql|mariadb)[\w-]{{0,20}}{REST}-p(?={Q}[^\s'\"]){Q}",
         hides=("mysql -h db -uroot -p⟨{9}⟩ x", "mysqldump -p'⟨{5} {5}⟩' x"), leaves=("mysql -u root -p mlflow",)),
    Rule("Redis", ("redis-cli",), lead=rf"\bredis-cli{REST}(?:-a|--pass){GAP}",
         hides=("redis-cli -h x -a ⟨{16}⟩ ping", "redis-cli --pass ⟨{8}⟩"), leaves=("redis-cli -h x ping",)),
    Rule("MongoDB", ("mongo",), lead=rf"\bmongo\w{{0,10}}{REST}-p{GAP}", hides=("mongosh -u me -p ⟨{9}⟩ mongodb://h",)),
    Rule("sshpass", ("sshpass",), lead=rf"\bsshpass{REST}-p(?:{GAP})?{Q}", hides=("sshpass -p '⟨{5} {5}⟩' ssh x", "sshpass -p⟨{9}⟩ ssh x"),
         leaves=("sshpass -e ssh x",)),
    Rule("expect", ("send ", "send \""), lead=r"(?i)(?:password|passphrase)[^\n]{0,60}?\bsend(?:\s--)?\s\\{0,7}['\"]", value=r"[^'\"\\\n]+",
         hides=('expect "password:" ; send "⟨{9}⟩\\r"',), leaves=('send "yes\\r"',)),
    Rule("Redis's own words", ("requirepass", "masterauth", "auth "), lead=rf"\b(?:requirepass|masterauth|AUTH(?: default)?)\s{{1,4}}{Q}",
         value=r"(?=[^\s\d]{0,40}\d)[^\s'\"]{6,}", hides=("CONFIG SET requirepass ⟨{12}⟩", "AUTH default ⟨{12}⟩"),
         leaves=("auth 2 is next", "AUTH failed")),
    Rule("baseboards", ("ipmi", "redfishtool", "racadm"), lead=rf"\b(?:ipmi[\w-]{{1,10}}|redfishtool|racadm){REST}-[Pp]{GAP}",
         hides=("ipmitool -H h -U ADMIN -P ⟨{9}⟩ power cycle", "racadm -u root -p ⟨{9}⟩ x")),
    Rule("LDAP", ("ldap",), lead=rf"\bldap\w{{3,10}}{REST}-w{GAP}", hides=("ldapsearch -x -D cn=x -w ⟨{9}⟩ -b y",)),
    Rule("SMB", ("smb", "rpcclient"), lead=rf"\b(?:smb\w{{1,10}}|rpcclient){REST}-U(?:{GAP})?[\w.\\-]{{1,60}}%",
         hides=("smbclient //h/x -U me%⟨{9}⟩",)),
    Rule("chpasswd", ("echo", "chpasswd"), lead=rf"\b(?:echo\s(?:-e\s)?|<<<\s?){Q}[\w.-]{{1,60}}:",
         value=r"[^\s'\"`|\\]{1,200}(?=\\{0,7}['\"`]?\s{0,4}\|\s{0,4}(?:sudo\s)?chpasswd)", hides=('echo "root:⟨{9}⟩" | chpasswd',)),
    Rule("piped to who asks for it", ("echo", "printf"), lead=rf"\b(?:echo|printf)\s{{1,4}}(?:-n\s)?{Q}",
         value=r"[^\s'\"`|\\]{4,200}(?=\\{0,7}['\"`]?\s{0,4}\|\s{0,4}"
               r"(?:sudo\s[^|\n]{0,60}-S\b|[^|\n]{0,120}(?:-stdin|--with-token|wandb login|kinit)))",
         hides=("echo ⟨{9}⟩ | sudo -S reboot", "echo '⟨{14}⟩' | docker login -u me --password-stdin h"),
         leaves=('echo "$TOKEN" | docker login --password-stdin', "echo done | tee x")),
    Rule("archives", ("zip", "unzip", "7z", "rar ", "unrar"),
         lead=rf"\b(?:(?:un)?zip{REST}-P\s{{0,2}}|7z\w?{REST}-p|(?:un)?rar{REST}-p){Q}",
         hides=("zip -r -P ⟨{9}⟩ x.zip x", "7z x -p⟨{9}⟩ x.7z"), leaves=("unzip -p x.zip",)),
    Rule("OpenSSL", ("pass:",), lead=rf"-(?:pass(?:in|out)?|k)\s{{1,4}}{Q}pass:", hides=("openssl rsa -passin pass:⟨{16}⟩ -in x",)),

    # Of HTTP
    Rule("curl's user", _USER, value=WORD,
         lead=rf"""(?<![^\s'"])(?:-[a-zA-Z]{{0,6}}u|--(?:proxy-)?user)(?:{GAP})?[^\s:'"`/=+]{{0,80}}["']?:(?!//|\d+(?:\s|$)){Q}""",
         hides=("curl -u me:⟨{9}⟩ https://x", "curl -sSu me:⟨{9}⟩ x", "curl --proxy-user=me:⟨{9}⟩ x", "curl -ume:⟨{9}⟩ x",
                "['-u', 'me:⟨{9}⟩']"),
         leaves=("docker run -u 1000:1000 x", "python -u x.py", "date -u +%H:%M")),
    Rule("curl's user with a space in the password", _USER, value=r"[^'\"\n]+",
         lead=r"""(?<![^\s'"])(?:-[a-zA-Z]{0,6}u|--(?:proxy-)?user)[=\s]{0,2}['"][^\s:'"`/=+]{0,80}:""",
         hides=("curl -su 'me:⟨{5} {5}⟩' x",), leaves=("-u 'a'",)),
    Rule("curl's user that is a key", _USER, lead=rf"(?<![^\s'\"])(?:-[a-zA-Z]{{0,6}}u|--user){GAP}",
         value=r"(?=[A-Za-z_-]{0,40}\d)[\w!-]{12,}(?=:['\"]?(?:\s|$))", hides=("curl -u ⟨{24}⟩: https://x",)),
    Rule("curl's cookie", ("curl",), lead=rf"\bcurl{REST}(?:-b|--cookie)[=\s]['\"]?[\w.-]{{1,80}}=", value=r"[^'\"\n]+",
         hides=("curl -b 'SESSION=⟨{32}⟩' x",), leaves=("curl -b cookies.txt x",)),
    Rule("HTTPie's user", ("http -", "https -"), lead=rf"\bhttps?{REST}-a{GAP}[\w.@$-]{{1,60}}:",
         hides=("http -a me:⟨{9}⟩ GET https://x",)),
    Rule("lftp's user", ("lftp",), lead=rf"\blftp{REST}-u{GAP}[\w.@-]{{1,60}},", hides=("lftp -u me,⟨{9}⟩ ftp://h",)),
    Rule("Python's pair for auth", ("auth=", "auth =", "httpbasicauth", "basicauth"),
         lead=r"\b(?:auth\s?=\s?|HTTP\w{1,10}Auth|BasicAuth)\(?\s?['\"][^'\"\n]{0,80}['\"],\s?['\"]",
         hides=("get(url, auth=('me', '⟨{9}⟩'))", "auth=HTTPBasicAuth('me', '⟨{9}⟩')")),
    Rule("Python's cookies", ("cookies",), lead=r"\bcookies\s?[=:]\s?\{\s?['\"][\w.-]{1,60}['\"]:\s?['\"]",
         hides=("get(url, cookies={'SESSION': '⟨{32}⟩'})",)),
)
# fmt: on
