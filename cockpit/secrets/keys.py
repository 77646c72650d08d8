"""Lists the rules that recognize a key anywhere by its shape: the vendor's prefix, and its length."""

from __future__ import annotations

from typing import Final

from cockpit.secrets.rule import Rule

# fmt: off
KEYS: Final = (
    # Tracking of experiments, models, inference
    Rule("wandb", ("wandb_v1_",), value=r"wandb_v1_[\w-]{16,}"),
    Rule("Hugging Face", ("hf_", "api_org_"),
         value=r"(?<!_)(?:hf|api_org)_(?:[A-Za-z0-9]{10,}(?![\w-])|(?=[A-Za-z-]{0,20}\d)[A-Za-z0-9-]{16,}(?!\w))"),
    Rule("ModelScope", ("ms-",), value=r"ms-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Rule("OpenAI, Anthropic, DeepSeek, Moonshot, Qwen, OpenRouter, LiteLLM", ("sk-",), value=r"sk-(?=[A-Za-z_-]{0,40}\d)[\w-]{16,}"),
    Rule("Groq", ("gsk_",), value=r"gsk_[A-Za-z0-9]{20,}"),
    Rule("Replicate", ("r8_",), value=r"r8_[A-Za-z0-9]{20,}"),
    Rule("NVIDIA", ("nvapi-",), value=r"nvapi-[\w-]{20,}"),
    Rule("Google", ("aiza", "ya29.", "gocspx-"), value=r"(?:AIza[\w-]{30,}|ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,})"),
    Rule("xAI, Perplexity, Cerebras, Voyage, Tavily, Jina", ("xai-", "pplx-", "csk-", "tvly-", "jina_"),
         value=r"(?:xai-|pplx-|csk-|tvly-(?:dev-|prod-)?|jina_)[A-Za-z0-9]{20,}"),
    Rule("Fireworks, E2B, Together, Pinecone, RunPod", ("fw_", "e2b_", "tgp_v1_", "pcsk_", "rpa_"),
         value=r"(?:fw|e2b|tgp_v1|pcsk|rpa)_(?=[A-Za-z_]{0,40}\d)[\w-]{20,}"),
    Rule("LangSmith", ("lsv2_",), value=r"lsv2_[ps][tk]_\w{20,}"),
    Rule("Comet, Kaggle, Prefect", ("kgat_", "pnu_"), value=r"(?:KGAT|pnu)_[A-Za-z0-9]{30,}"),
    Rule("Databricks", ("dapi",), value=r"dapi[0-9a-f]{32}(?:-\d)?"),

    # Code and packages
    Rule("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
         value=r"(?:gh[pousr]_(?=[A-Za-z-]{0,30}\d)[A-Za-z0-9-]{16,}|github_pat_\w{20,})"),
    Rule("GitLab", ("glpat-", "glrt-", "gldt-", "glcbt-", "glptt-", "gloas-", "glagent-", "glsoat-", "gr1348941"),
         value=r"(?:gl(?:pat|rt|dt|cbt|ptt|oas|agent|soat)-[\w.-]{16,}|GR1348941[\w-]{16,})"),
    Rule("PyPI", ("pypi-ag",), value=r"pypi-Ag[\w-]{40,}"),
    Rule("npm", ("npm_",), value=r"npm_[A-Za-z0-9]{30,}"),
    Rule("Docker", ("dckr_", "eyjhdxrocyi6"), value=r"(?:dckr_[op]at_[\w-]{20,}|eyJhdXRocyI6[\w+/=]{20,})"),
    Rule("Anaconda", ("an-",), value=r"[a-z]{2}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    Rule("Artifactory, RubyGems, Sourcegraph, SonarQube", ("akcp", "cmvmd", "rubygems_", "sgp_", "squ_", "sqp_", "sqa_"),
         value=r"(?:AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{55,}|rubygems_[0-9a-f]{40,}|sgp_\w{40,}|sq[uap]_[0-9a-f]{40})"),

    # Clouds
    Rule("AWS", ("akia", "asia", "abia", "acca", "a3t", "absk"),
         value=r"(?:(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}|ABSK[A-Za-z0-9+/]{100,}={0,2})"),
    Rule("Aliyun", ("ltai", "sts."), value=r"(?:LTAI[A-Za-z0-9]{12,}|STS\.[A-Za-z0-9]{20,})"),
    Rule("Tencent Cloud", ("akid",), value=r"AKID[A-Za-z0-9]{13,}"),
    Rule("Volcano Engine", ("aklt", "aktp"), value=r"AK(?:LT|TP)[A-Za-z0-9_-]{20,}={0,2}"),
    Rule("Baidu", ("bce-v", "altak"), value=r"(?:bce-v\d/)?ALTAK[A-Za-z0-9-]{16,}(?:/[0-9a-f]{32,})?"),
    Rule("DigitalOcean, Cloudflare, Fly", ("dop_v1_", "doo_v1_", "dor_v1_", "v1.0-", "fm2_", "fo1_"),
         value=r"(?:do[por]_v1_[0-9a-f]{40,}|v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}|f[mo][12]_[\w+/-]{40,})"),
    Rule("hash of a password", ("$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$argon2"),
         value=r"\$(?:[156y]|2[aby]|argon2\w{1,2})\$[\w./$=,+-]{20,}"),
    Rule("OpenShift", ("sha256~",), value=r"sha256~[\w-]{40,}"),
    Rule("kubeadm", ("kubeadm", "bootstrap"), is_near=True, value=r"[a-z0-9]{6}\.[a-z0-9]{16}(?![\w.])"),

    Rule("JSON Web Token", ("eyj",), value=r"eyJ[\w-]{10,2000}\.[\w-]{10,4000}\.[\w-]*"),

    # Messages and services
    Rule("Slack", ("xox", "xapp-"), value=r"(?:xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{20,})"),
    Rule("Feishu", ("t-g", "u-", "cli_"), value=r"[tu]-g?[01][A-Za-z0-9._-]{30,}"),
    Rule("DingTalk", ("dingtalk", "dingding"), is_near=True, value=r"SEC[0-9a-f]{64}"),
    Rule("ServerChan", ("sct",), value=r"SCT\d{3,8}T[A-Za-z0-9]{20,}"),
    Rule("Stripe", ("sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_", "whsec_"),
         value=r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[\w+/=]{20,})"),
    Rule("SendGrid", ("sg.",), value=r"SG\.[\w-]{16,}\.[\w-]{16,}"),
    Rule("Vault", ("hvs.", "hvb.", "hvr.", "s."),
         value=r"(?:hv[sbr]\.[\w-]{20,}|(?<![\w.])s\.(?=[A-Za-z]{0,23}\d)[A-Za-z0-9]{24}(?![\w.(]))"),
    Rule("Doppler", ("dp.",), value=r"dp\.(?:st|pt|ct|sa|scim|audit)\.(?:[\w-]{1,40}\.)?[A-Za-z0-9]{30,}"),
    Rule("Mailgun", ("key-",), value=r"key-[0-9a-f]{32}"),
    Rule("Pulumi, 1Password", ("pul-", "ops_eyj"), value=r"(?:pul-[0-9a-f]{40}|ops_eyJ[\w+/-]{40,})"),
    Rule("Grafana", ("glsa_", "glc_", "eyjrijoi"), value=r"(?:glsa_\w{30,}|glc_[\w+/]{30,}={0,2}|eyJrIjoi[\w+/]{40,}={0,2})"),
    Rule("Sentry", ("sntry",), value=r"sntry[su]_[\w+/=]{40,}"),
    Rule("New Relic", ("nrak-", "nrii-", "nrjs-"), value=r"NR(?:AK|II|JS)-[A-Za-z0-9-]{18,}"),
    Rule("Linear, Notion, Figma", ("lin_api_", "ntn_", "figd_"), value=r"(?:(?:lin_api|ntn)_[A-Za-z0-9]{30,}|figd_[\w-]{30,})"),
    Rule("Tailscale, age, PostHog", ("tskey-", "age-secret-key-", "phx_", "phc_"),
         value=r"(?:tskey-[\w-]{20,}|AGE-SECRET-KEY-1[A-Z0-9]{40,}|ph[xc]_[A-Za-z0-9]{30,})"),
    Rule("Atlassian, Postman, Buildkite, CircleCI", ("atatt3", "pmak-", "bkua_", "ccipat_"),
         value=r"(?:ATATT3[\w=-]{40,}|PMAK-[0-9a-f-]{40,}|bkua_[0-9a-f]{30,}|CCIPAT_\w{20,})"),
    Rule("Shopify, Square, Supabase, Neon", ("shp", "sq0atp-", "sbp_", "napi_"),
         value=r"(?:shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0atp-[\w-]{20,}|(?:sbp|napi)_[a-z0-9]{40,})"),
    Rule("Zhipu", ("zhipu", "zai ", "bigmodel"), is_near=True, value=r"[0-9a-f]{32}\.[A-Za-z0-9]{16}(?!\w)"),
    Rule("Discord", ("discord",), is_near=True, value=r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"),
)
# fmt: on
