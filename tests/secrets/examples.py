"""Examples of texts that each rule of `cockpit.secrets` hides, by the rule's name, and of texts that no rule may hide."""

from __future__ import annotations

from typing import NamedTuple


class Examples(NamedTuple):
    """The examples of one rule."""

    hides: tuple[str, ...]
    """The hidden part is between ⟨ and ⟩. `{20}` becomes 20 made-up digits and letters, `{U20}` the same in upper case."""
    leaves: tuple[str, ...] = ()
    """Texts in which nothing is hidden."""


# fmt: off
EXAMPLES = {
    # cockpit/secrets/contexts.py
    "name and value": Examples(
        hides=("A=1 HF_TOKEN=⟨{9}⟩ python x.py", "{'password': '⟨{9}⟩'}", '{\\"api_key\\":\\"⟨{9}⟩\\"}', "{password: ⟨{9}⟩}",
               "X_CRED=⟨{9}⟩", "Key=x;AccountKey=⟨{40}==⟩;Suffix=y", "token：⟨{20}⟩", "密码=⟨{9}⟩", "x?a_token=⟨{9}⟩&b=1",
               "wandb.login(key='⟨{40}⟩')", "os.environ['API_KEY'] = '⟨{9}⟩'", "password=b'⟨{9}⟩'", "login_password: ⟨{9}⟩",
               "sentry_token := ⟨{64}⟩", "VOLC_SK=⟨{9}⟩", "VPN_OTP=⟨123456⟩", "API_BEARER=⟨{9}⟩", "SESSIONID=⟨{9}⟩", "PGPASS=⟨{9}⟩",
               "FEISHU_HOOK=⟨{20}⟩ python x.py", "OPS_WEBHOOK=⟨https://h/in/{20}⟩", "WEBHOOK_URL: ⟨https://h/x?id={20}⟩",
               "WECOM_BOT=⟨{36}⟩",
               "ALERT_URL=⟨https://h/{20}⟩", "OPS_WEBHOOK_KEY=⟨aBcd_efGh-iJklMnop⟩"),
        leaves=("--max_tokens=1024", "pass_at_k=8", "eos_token: </s>", "HF_TOKEN=$HF_TOKEN", "token=None", "data.prompt_key=prompt",
                "secretKeyRef: {name: x, key: y}", "password: ${{ secrets.X }}", "token_path=/data/x", 'api_key="EMPTY"', "token == x:",
                "HF_TOKEN= python x.py", '{"key": "{40}"}', "Forward pass: slow", "next_token=a.b(c)", "env.HF_TOKEN: a secret is here",
                'expect "password:" ; x', "GIT_HOOK=pre-commit", "hooks: [TimerHook, SaveHook]", "forward_hook=<function f at 0x7f00aa>",
                "ROBOT=ur5e ROBOT_URL=http://robot:8000/v1/act", "POST_HOOK=/data/run.sh", "PRIMARY_KEY=id", "REWARD_KEY=score"),
    ),
    "flag and value": Examples(
        hides=("--hf_token ⟨{9}⟩ --lr 1", '--password "⟨correct horse⟩" -x', "--logger.wandb.key ⟨{40}⟩", "--redis-password ⟨524159000⟩",
               "--auth ⟨{24}⟩"),
        leaves=("--pass_at_k 8", "--eos_token '</s>'", "--input_key prompt", "--use_auth_token True", "--no-password --lr 1",
                "--auth none"),
    ),
    "flag and value in a list": Examples(("['--token', '⟨{9}⟩']", '["--api-key","⟨{9}⟩"]'), ("['--max-tokens', '1024']",)),
    "name, then what looks random": Examples(
        hides=("Your token is ⟨{32}⟩", "set HF_TOKEN ⟨{34}⟩", "configure set aws_secret_access_key ⟨{40}⟩", "password ⟨{40}⟩"),
        leaves=("the token has expired", "Secret wandb-secret-2 created", "Invalid user token."),
    ),
    "default of a variable": Examples(
        hides=("os.environ.setdefault('API_KEY', '⟨{40}⟩')", 'os.getenv("HF_TOKEN", "⟨{34}⟩")'),
        leaves=("os.environ.get('API_KEY', '')", "getattr(tokenizer, 'pad_token', 'eos_token')", "d.get('key', 'data_source')"),
    ),
    "password, said": Examples(("the password is ⟨{9}7⟩", "login me password ⟨{9}7⟩"), ("password is required", "password for root:")),
    "password, said in Chinese": Examples(("用户名 admin 密码 ⟨{9}⟩", "口令是⟨{9}⟩，请勿外传"), ("密码错误", "密钥：/etc/ssh/id_rsa")),
    "value on the next line": Examples(("password:\n  ⟨{9}⟩", "api_key: |\n    ⟨{40}⟩\nx: y"), ("secret:\n  name: x", "tokens:\n  - 1")),
    "name and value in fields of their own": Examples(
        hides=('key: "HF_TOKEN" value: "⟨{9}⟩"', "- name: S3_SK\n  value: ⟨{40}⟩", '{"name": "DB_CRED", "value": "⟨{9}⟩"}'),
        leaves=('key: "GPU" value: 8', '{"name": "MAX_TOKENS", "value": "1024"}'),
    ),
    "value and name in fields of their own": Examples(("- value: ⟨{40}⟩\n  name: MINIO_SECRET_KEY",), ("- value: 8\n  name: GPUS",)),
    "name and value in XML": Examples(
        hides=("<password>⟨{9}⟩</password>", "<name>fs.s3a.secret.key</name>\n  <value>⟨{40}⟩</value>"),
        leaves=("<max_tokens>8</max_tokens>",),
    ),
    "Authorization": Examples(
        hides=("-H 'Authorization: ⟨Bearer {20}⟩'", '{"authorization": "⟨Token {20}⟩"}', "Authorization: ⟨{20}⟩",
               "authorization: ⟨Basic {8}⟩ x"),
        leaves=("HTTP 401: authorization failed", "Authorization: Bearer $TOKEN"),
    ),
    "Bearer": Examples(
        hides=("sent Bearer ⟨{20}⟩", "['Bearer ⟨abcdefgh⟩']"),
        leaves=("bearer authentication is enabled", 'Basic realm="x"', "Basic Configuration"),
    ),
    "Cookie": Examples(("-H 'Cookie: ⟨a={9}; b={9}⟩'", 'Cookie: ⟨a=b; session="2|1:0|{40}"; c={9}⟩'), ("cookie: accepted",)),
    "Set-Cookie": Examples(("Set-Cookie: session=⟨{9}⟩; Path=/",)),
    "private key": Examples(
        hides=("-----BEGIN RSA PRIVATE KEY-----⟨\n{64}\n{20}==\n⟩-----END RSA PRIVATE KEY-----\nx",),
        leaves=("-----BEGIN PUBLIC KEY-----\nx",),
    ),
    "Azure": Examples(("it is ⟨{3}8Q~{34}⟩",)),
    "Telegram": Examples(("api.telegram.org/⟨bot1234567890:AA{33}⟩/send", "bot ⟨1234567890:AA{33}⟩ said"), ("it was 10:AA",)),
    "user and password in a URL": Examples(
        hides=("https://⟨me:{9}⟩@h/x.git", "redis://⟨:p@s/{9}⟩@h:1", "git+https://⟨{40}⟩@github.com/x.git@main", "a://⟨a:{9}⟩@${H}/x"),
        leaves=("http://h:8265/#/jobs", "ssh://git@h:22/x", "s3://b/x@v2", "http://h:8000/x?y=me@z", "http://$U:$P@h"),
    ),
    "signed URL": Examples(
        hides=("https://b.x/f?a=1&sig=⟨{43}%3D⟩", "https://b.x/f?X-Amz-Signature=⟨{64}⟩&x=1", "https://x/webhook/send?key=⟨{36}⟩"),
        leaves=("http://h/x?key=prompt&n=1",),
    ),
    "webhook": Examples(
        hides=("https://hooks.slack.com/services/⟨T{9}/B{9}/{24}⟩", "https://open.feishu.cn/open-apis/bot/v2/hook/⟨{36}⟩",
               "https://x.webhook.office.com/webhookb2/⟨{36}@{36}/IncomingWebhook/{32}/{36}⟩", "https://api.day.app/⟨{22}⟩"),
        leaves=("https://h/services/list", "https://git-scm.com/docs/githooks"),
    ),
    "webhook by its name": Examples(("ops_webhooks_a=https://h/⟨a/{20}⟩",), ("webhook: https://h/x",)),
    # cockpit/secrets/tools.py
    "wandb login": Examples(
        hides=("wandb login ⟨{40}⟩", "wandb login --host http://h:8080 --relogin ⟨{40}⟩ && x"),
        leaves=("wandb login --host=http://h",),
    ),
    "key where a switch may stand": Examples(
        hides=("--use_wandb ⟨{40}⟩ --lr 1", "use_swanlab='⟨{21}⟩'"),
        leaves=("--use_wandb True", "--use_wandb --train.colocate_all"),
    ),
    "swanlab login": Examples(("swanlab login --relogin -k ⟨{21}⟩ -h x",)),
    "modelscope login": Examples(('api.login("⟨{36}⟩")',), ("modelscope login --help",)),
    "Kaggle": Examples(('{"username":"me","key":"⟨{32}⟩"}',)),
    "registry login": Examples(
        hides=("docker login -u me -p ⟨{12}⟩ h", "az login --service-principal -u x -p ⟨{34}⟩ --tenant y", "twine upload -p ⟨{20}⟩ x"),
        leaves=("docker login -u me --password-stdin h", 'docker login -p "$PASSWORD" h', "docker run -p 8265:8265 x"),
    ),
    "poetry, cargo": Examples(("poetry config http-basic.x me ⟨{16}⟩", "cargo login ⟨{36}⟩")),
    "MinIO client": Examples(("mc alias set x http://h:9000 ⟨{20} {40}⟩",)),
    "Qiniu's qshell": Examples(("qshell account ⟨{40} {40}⟩ me",)),
    "object store's key id": Examples(("obsutil config -i=⟨{20}⟩ -e=x",), ("ossutil ls oss://x",)),
    "object store's key": Examples(
        hides=("ossutil64 cp -k ⟨{30}⟩ x oss://y", "coscmd config -s ⟨{32}⟩ -b x", "['ossutil', '-k', '⟨{30}⟩']"),
        leaves=("ossutil ls oss://x -s",),
    ),
    "key beside its id": Examples(("oss2.Auth('⟨LTAI{20}⟩', '⟨{30}⟩')", "x:⟨LTAI{20}⟩:⟨{30}⟩")),
    "vault login": Examples(("vault login ⟨{24}⟩",), ("vault login -method=oidc",)),
    "MySQL": Examples(("mysql -h db -uroot -p⟨{9}⟩ x", "mysqldump -p'⟨{5} {5}⟩' x"), ("mysql -u root -p mlflow",)),
    "Redis": Examples(("redis-cli -h x -a ⟨{16}⟩ ping", "redis-cli --pass ⟨{8}⟩"), ("redis-cli -h x ping",)),
    "MongoDB": Examples(("mongosh -u me -p ⟨{9}⟩ mongodb://h",)),
    "sshpass": Examples(("sshpass -p '⟨{5} {5}⟩' ssh x", "sshpass -p⟨{9}⟩ ssh x"), ("sshpass -e ssh x",)),
    "expect": Examples(('expect "password:" ; send "⟨{9}⟩\\r"',), ('send "yes\\r"',)),
    "Redis's own words": Examples(("CONFIG SET requirepass ⟨{12}⟩", "AUTH default ⟨{12}⟩"), ("auth 2 is next", "AUTH failed")),
    "baseboards": Examples(("ipmitool -H h -U ADMIN -P ⟨{9}⟩ power cycle", "racadm -u root -p ⟨{9}⟩ x")),
    "LDAP": Examples(("ldapsearch -x -D cn=x -w ⟨{9}⟩ -b y",)),
    "SMB": Examples(("smbclient //h/x -U me%⟨{9}⟩",)),
    "chpasswd": Examples(('echo "root:⟨{9}⟩" | chpasswd',)),
    "piped to who asks for it": Examples(
        hides=("echo ⟨{9}⟩ | sudo -S reboot", "echo '⟨{14}⟩' | docker login -u me --password-stdin h"),
        leaves=('echo "$TOKEN" | docker login --password-stdin', "echo done | tee x"),
    ),
    "archives": Examples(("zip -r -P ⟨{9}⟩ x.zip x", "7z x -p⟨{9}⟩ x.7z"), ("unzip -p x.zip",)),
    "OpenSSL": Examples(("openssl rsa -passin pass:⟨{16}⟩ -in x",)),
    "curl's user": Examples(
        hides=("curl -u me:⟨{9}⟩ https://x", "curl -sSu me:⟨{9}⟩ x", "curl --proxy-user=me:⟨{9}⟩ x", "curl -ume:⟨{9}⟩ x",
               "['-u', 'me:⟨{9}⟩']"),
        leaves=("docker run -u 1000:1000 x", "python -u x.py", "date -u +%H:%M"),
    ),
    "curl's user with a space in the password": Examples(("curl -su 'me:⟨{5} {5}⟩' x",), ("-u 'a'",)),
    "curl's user that is a key": Examples(("curl -u ⟨{24}⟩: https://x",)),
    "curl's cookie": Examples(("curl -b 'SESSION=⟨{32}⟩' x",), ("curl -b cookies.txt x",)),
    "HTTPie's user": Examples(("http -a me:⟨{9}⟩ GET https://x",)),
    "lftp's user": Examples(("lftp -u me,⟨{9}⟩ ftp://h",)),
    "Python's pair for auth": Examples(("get(url, auth=('me', '⟨{9}⟩'))", "auth=HTTPBasicAuth('me', '⟨{9}⟩')")),
    "Python's cookies": Examples(("get(url, cookies={'SESSION': '⟨{32}⟩'})",)),
    # cockpit/secrets/keys.py
    "wandb": Examples(("x ⟨wandb_v1_{24}_{50}⟩ y",), ("wandb_v1_api",)),
    "Hugging Face": Examples(("hf auth: ⟨hf_{34}⟩", "⟨api_org_{34}⟩"), ("hf_model_name_or_path", "use_hf_checkpoint")),
    "ModelScope": Examples(("⟨ms-{8}-{4}-{4}-{4}-{12}⟩",), ("ms-swift-2026",)),
    "OpenAI, Anthropic, DeepSeek, Moonshot, Qwen, OpenRouter, LiteLLM": Examples(
        hides=("rejected: ⟨sk-{32}⟩.", "⟨sk-proj-{40}_{20}⟩", "⟨sk-ant-api03-{80}⟩"),
        leaves=("sk-learn", "disk-usage-report-2026", "sk-learn-extra-contrib"),
    ),
    "Groq": Examples(("⟨gsk_{52}⟩",), ("gsk_kernel_fused_attention",)),
    "Replicate": Examples(("⟨r8_{37}⟩",), ("r8_quantized",)),
    "NVIDIA": Examples(("⟨nvapi-{64}⟩",)),
    "Google": Examples(("⟨AIza{35}⟩", "⟨ya29.a0{80}⟩", "⟨GOCSPX-{28}⟩"), ("AIza",)),
    "xAI, Perplexity, Cerebras, Voyage, Tavily, Jina": Examples(("⟨xai-{80}⟩", "⟨pplx-{48}⟩"), ("xai-org/grok-1", "pplx-api")),
    "Fireworks, E2B, Together, Pinecone, RunPod": Examples(("⟨fw_{22}⟩", "⟨e2b_{40}⟩"), ("fw_kernel_fused",)),
    "LangSmith": Examples(("⟨lsv2_pt_{32}_{10}⟩",)),
    "Comet, Kaggle, Prefect": Examples(("⟨pnu_{36}⟩", "⟨KGAT_{32}⟩")),
    "Databricks": Examples(("⟨dapi{32}⟩", "⟨dapi{32}-2⟩"), ("dapi_v2",)),
    "GitHub": Examples(("⟨ghp_{36}⟩", "⟨github_pat_{22}_{59}⟩"), ("ghp_action",)),
    "GitLab": Examples(("⟨glpat-{20}⟩", "⟨GR1348941{20}⟩")),
    "PyPI": Examples(("⟨pypi-AgEIcHlwaS5vcmc{70}⟩",), ("pypi-agent==1",)),
    "npm": Examples(("⟨npm_{36}⟩",), ("npm_config_cache=/c",)),
    "Docker": Examples(("⟨dckr_pat_{27}⟩", ".dockerconfigjson: ⟨eyJhdXRocyI6{60}⟩")),
    "Anaconda": Examples(("⟨an-{8}-{4}-{4}-{4}-{12}⟩",)),
    "Artifactory, RubyGems, Sourcegraph, SonarQube": Examples(("⟨AKCp{69}⟩",), ("sgp_config",)),
    "AWS": Examples(("id ⟨AKIA{U16}⟩ is unknown", "⟨ASIA{U16}⟩"), ("--zone asia-northeast1-a",)),
    "Aliyun": Examples(("⟨LTAI5t{18}⟩ is forbidden", "⟨STS.N{24}⟩"), ("sts.py",)),
    "Tencent Cloud": Examples(("secretid ⟨AKID{32}⟩",), ("akid",)),
    "Volcano Engine": Examples(("⟨AKLT{44}⟩",)),
    "Baidu": Examples(("⟨bce-v3/ALTAK-{21}/{40}⟩",)),
    "DigitalOcean, Cloudflare, Fly": Examples(("⟨dop_v1_{64}⟩",)),
    "hash of a password": Examples(("usermod -p '⟨$6${8}${40}⟩' x",), ("cost is $1$",)),
    "OpenShift": Examples(("⟨sha256~{43}⟩",), ("sha256:{64}",)),
    "kubeadm": Examples(("kubeadm join --token ⟨{6}.{16}⟩",)),
    "JSON Web Token": Examples(("it is ⟨eyJ{33}.eyJ{40}.{43}⟩",), ("eyJust.a.test",)),
    "Slack": Examples(("⟨xoxb-{12}-{12}-{24}⟩", "⟨xapp-1-A{10}-{13}-{64}⟩"), ("xapp-config",)),
    "Feishu": Examples(("⟨t-g1{38}⟩",), ("t-g10",)),
    "DingTalk": Examples(("dingtalk ⟨SEC{64}⟩",), ("dingtalk SECTION",)),
    "ServerChan": Examples(("⟨SCT123456T{26}⟩",), ("SCTP",)),
    "Stripe": Examples(("⟨sk_live_{24}⟩", "⟨rk_test_{24}⟩")),
    "SendGrid": Examples(("⟨SG.{22}.{43}⟩",), ("SG.Config",)),
    "Vault": Examples(("⟨hvs.{90}⟩", "⟨s.{24}⟩ is denied"), ("s.startswith(x)", "results.py")),
    "Doppler": Examples(("⟨dp.pt.{43}⟩", "⟨dp.st.prd.{40}⟩"), ("dp.size=4",)),
    "Mailgun": Examples(("api:⟨key-{32}⟩",), ("key-value",)),
    "Pulumi, 1Password": Examples(("⟨pul-{40}⟩", "⟨ops_eyJ{60}⟩"), ("pul-request",)),
    "Grafana": Examples(("⟨glsa_{32}_{8}⟩", "⟨glc_{60}⟩")),
    "Sentry": Examples(("⟨sntryu_{64}⟩", "⟨sntrys_{60}_{43}⟩")),
    "New Relic": Examples(("⟨NRAK-{27}⟩",)),
    "Linear, Notion, Figma": Examples(("⟨lin_api_{40}⟩", "⟨ntn_{46}⟩"), ("lin_api_gateway",)),
    "Tailscale, age, PostHog": Examples(("⟨tskey-auth-{11}-{32}⟩", "⟨AGE-SECRET-KEY-1{U58}⟩", "⟨phx_{43}⟩")),
    "Atlassian, Postman, Buildkite, CircleCI": Examples(("⟨ATATT3{60}⟩", "⟨PMAK-{24}-{34}⟩")),
    "Shopify, Square, Supabase, Neon": Examples(("⟨shpat_{32}⟩", "⟨sbp_{40}⟩"), ("shpat_x",)),
    "Zhipu": Examples(("zai said ⟨{32}.{16}⟩",), ("zai {32}.safetensors",)),
    "Discord": Examples(("discord ⟨MTA{23}.{6}.{38}⟩",)),
}
# fmt: on
