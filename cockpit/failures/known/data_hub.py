"""Errors of models, data sets, hubs and trackers: unreachable, not allowed, wrong names, wrong shapes and numbers that are not finite."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

DATA_HUB: tuple[KnownError, ...] = (
    KnownError(
        name="hub-not-reachable",
        marker="We couldn't connect to '",
        pattern=r"We couldn't connect to '(?P<hub>https?://[^'\n]{3,100})' to load (?:the files?|this file|this model)[\s\S]{0,40}?couldn't find (?:it|them) in the\s{1,3}cached files",
        cause="That node could not reach {hub}, and the files are not in its local cache",
        remedy="On a node with network: `hf download` the model into a directory that all nodes share, and give that path (or the same `HF_HOME`) to the job, with "
        "`HF_HUB_OFFLINE=1`; where a mirror is allowed: `export HF_ENDPOINT=https://hf-mirror.com`; behind a proxy: `HTTPS_PROXY`; set them before `ray start`",
        source="transformers utils/hub.py",
        matches=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\nCheck your internet connection",
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it in the cached files and it looks like gpt2 is not the path to a directory containing a file named config.json.",
        ),
        differs=(
            "WARNING: We couldn't connect to 'https://huggingface.co', using the cached version",
            "ConnectionError: Couldn't reach 'openai/gsm8k' on the Hub (LocalEntryNotFoundError)",
        ),
    ),
    KnownError(
        name="hub-offline-cache-miss",
        marker="outgoing traffic has been disabled",
        pattern=r"Cannot find (?:the requested files in the disk cache|an appropriate\s{1,3}cached snapshot folder for the specified revision on the local disk) and\s{1,3}outgoing traffic has been disabled",
        cause="The Hub's offline mode is on (HF_HUB_OFFLINE=1 or local_files_only), and the cache of that node lacks the files",
        remedy="`echo $HF_HUB_OFFLINE $HF_HOME` in the job's environment: fill that cache once with network (`HF_HUB_OFFLINE=0 hf download`), use the HF_HOME that has the files on "
        "every node, or give a local path of the model; `ls $HF_HOME/hub` shows what is there",
        source="huggingface_hub file_download.py",
        matches=(
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find the requested files in the disk cache and outgoing traffic has been disabled. To enable hf.co look-ups and downloads online, set 'local_files_only' to False.",
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk and outgoing traffic has been disabled.",
        ),
        differs=("INFO outgoing traffic has been disabled by the firewall rule 7",),
    ),
    KnownError(
        name="gated-repository",
        marker="You are trying to access a gated repo",
        pattern=r"You are trying to access a gated repo\.?[\s\S]{0,120}?https://huggingface\.co/(?P<repository>[\w.-]{1,100}/[\w.-]{0,100}\w)",
        cause="{repository} is gated: this process has no token of an account that was granted access",
        remedy="Ask for access at https://huggingface.co/{repository}, then `export HF_TOKEN=` with a token of that account before `ray start` on every node (or `hf auth login`; the token is "
        "then in $HF_HOME/token); or download it once and give the local path",
        source="transformers utils/hub.py",
        matches=(
            "OSError: You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/google/gemma-3-1b-pt.\n401 Client Error. (Request ID: Root=1)",
        ),
        differs=("If you are trying to access a gated repository, ensure you have a valid HF token registered.",),
    ),
    KnownError(
        name="hub-id-not-found",
        marker="is not a local folder and is not a valid model identifier",
        pattern=r"(?<!\S)(?P<model>[^\s:]{1,300}) is not a local folder and is not a valid model identifier",
        cause="{model} is neither a directory on that node nor a model on the Hub that this process may see",
        remedy="A path: `ls -d {model}` on that node (relative paths start at the job's working directory); a Hub name: check its spelling at huggingface.co; a private one: "
        "`export HF_TOKEN=` before `ray start` on every node",
        source="transformers utils/hub.py",
        matches=(
            "OSError: Qwen/Qwen2.5-0.5B-Instrukt is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token",
        ),
        differs=(
            "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.",
        ),
    ),
    KnownError(
        name="path-taken-for-hub-id",
        marker="HFValidationError: Repo id must",
        pattern=r"HFValidationError: Repo id must (?:be in the form|use alphanumeric chars)[^\n]{0,200}: '(?P<path>[^'\n]{1,400})'",
        cause="{path} was taken for a name on the Hub, since no such directory was found",
        remedy="`ls -ld '{path}'` on that node: correct the path, copy the model there, or mount the disk on every node; an empty or unset variable in the launch script "
        "gives such a path too",
        source="huggingface_hub utils/_validators.py",
        matches=(
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/data/models/Qwen3-8B'. Use `repo_type` argument if needed.",
        ),
        differs=("huggingface_hub.errors.HFValidationError: Cannot have -- or .. in repo_id: 'a--b/c'.",),
    ),
    KnownError(
        name="hub-unauthorized",
        marker=" Client Error",
        pattern=r"(?P<code>401|403) Client Error: (?:Unauthorized|Forbidden)\s{1,3}for url: https://(?:huggingface\.co|hf-mirror\.com)/(?P<what>\S{1,200})",
        cause="The Hub refused the request for {what} (HTTP {code}): the token is missing, wrong or has no right to it, or the name does not exist",
        remedy="`hf auth whoami` on that node; `export HF_TOKEN=` with a valid token before `ray start` on every node (an expired HF_TOKEN is refused even for public models: unset it); "
        "check the name; ask for access if the page says gated",
        source="requests' HTTPError, in public logs",
        matches=(
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://huggingface.co/meta-llama/Llama-3.2-1B/resolve/main/config.json",
            "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/api/models/CompVis/stable-diffusion-v1-4/revision/main",
        ),
        differs=(
            "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: https://api.wandb.ai/graphql",
            "WARNING 404 Client Error: Not Found for url: https://huggingface.co/x/y",
        ),
    ),
    KnownError(
        name="hub-repository-not-found",
        marker="Repository Not Found for url",
        pattern=r"Repository Not Found for url:\s{1,3}https://(?:huggingface\.co|hf-mirror\.com)/(?:api/)?(?P<what>\S{1,200}?)\.?(?:\s|$)",
        cause="The Hub has no repository {what} that this process may see",
        remedy="Check the spelling and whether it is a data set (`repo_type`); for a private or gated one `export HF_TOKEN=` before `ray start` on every node; a local model needs "
        "an existing path",
        source="huggingface_hub errors",
        matches=(
            "Repository Not Found for url: https://huggingface.co/api/models/NousResearch/Nous-Hermes-2-Mistral-7B/revision/main.\nPlease make sure you specified the correct `repo_id` and `repo_type`.",
        ),
        differs=("Entry Not Found for url: https://huggingface.co/x/y/resolve/main/adapter_config.json.",),
    ),
    KnownError(
        name="hub-rate-limit",
        marker="429 Client Error",
        pattern=r"429 Client Error: Too Many Requests\s{1,3}for url: https://huggingface\.co/(?P<what>\S{1,200})",
        cause="The Hub limits the number of requests, and too many processes (or nodes behind one address) asked it at once",
        remedy="Download once to a shared directory before the job and run it with `HF_HUB_OFFLINE=1` and that `HF_HOME` (or path); `export HF_TOKEN=` raises the limit; "
        "the block ends after some minutes",
        source="requests' HTTPError, in public logs",
        matches=(
            "huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/datasets/physical-intelligence/x",
        ),
        differs=("requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://api.openai.com/v1/chat",),
    ),
    KnownError(
        name="hub-tls-failed",
        marker="HTTPSConnectionPool(host='",
        pattern=r"HTTPSConnectionPool\(host='(?P<host>(?:[\w.-]{0,40}\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn|wandb\.ai))', port=443\): (?:Max retries exceeded[^\n]{0,400}?)?"
        r"(?:SSLError|SSLCertVerificationError|\(Caused by SSLError)",
        cause="The encrypted connection to {host} failed on that node: a proxy or firewall breaks it, or its certificate is not trusted there",
        remedy="`curl -sv https://{host} -o /dev/null` on that node shows the reason: for a company proxy set `REQUESTS_CA_BUNDLE` to its certificate and `HTTPS_PROXY`; `date` must be right; "
        "or use local files with `HF_HUB_OFFLINE=1` (wandb: `WANDB_MODE=offline`)",
        source="urllib3's text, in public logs",
        matches=(
            "requests.exceptions.SSLError: (MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /Qwen/Qwen3-ASR-0.6B/resolve/main/config.json "
            "(Caused by SSLError(SSLEOFError(8, '[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol (_ssl.c:1010)')))\"), '(Request ID: 3cbd)')",
        ),
        differs=(
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /x (Caused by NameResolutionError(\"x\"))",
        ),
    ),
    KnownError(
        name="hub-connection-failed",
        marker="HTTPSConnectionPool(host='",
        pattern=r"HTTPSConnectionPool\(host='(?P<host>(?:[\w.-]{0,40}\.)?(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn|wandb\.ai))', port=443\):\s{1,3}(?:Max retries exceeded|Read timed out)",
        cause="That node has no working connection to {host}",
        remedy="`curl -sI https://{host}` on that node: without network, put the files on a shared disk and run with `HF_HUB_OFFLINE=1` (wandb: `WANDB_MODE=offline`); behind a proxy set "
        "`HTTPS_PROXY` before `ray start`; a mirror: `export HF_ENDPOINT=https://hf-mirror.com`; slow: `HF_HUB_DOWNLOAD_TIMEOUT=60`",
        source="urllib3's text, in public logs",
        matches=(
            "urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /openai/whisper-tiny/resolve/main/tokenizer.json "
            "(Caused by NameResolutionError(\"<urllib3.connection.HTTPSConnection object at 0x7fd3a00cc080>: Failed to resolve 'huggingface.co'\"))",
            "ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read timed out. (read timeout=10)\")",
        ),
        differs=(
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='10.0.0.2', port=443): Max retries exceeded with url: /reward",
        ),
        is_general=True,
    ),
    KnownError(
        name="hub-download-incomplete",
        marker="Consistency check failed: file should be of size",
        pattern=r"Consistency check failed: file should be of size (?P<want>\d{1,15}) but has size\s{1,3}(?P<have>\d{1,15}) \((?P<file>[^)\n]{1,120})\)",
        cause="The download of {file} was cut off: {have} of {want} bytes",
        remedy="Check the disk (`df -h $HF_HOME`), then download it once again before the job: `hf download` with `--force-download` for that model; behind a proxy or mirror, "
        "try another one",
        source="huggingface_hub file_download.py",
        matches=(
            "OSError: Consistency check failed: file should be of size 4227858712 but has size 2290365199 (model-00045-of-00061.safetensors).\nWe are sorry for the inconvenience.",
        ),
        differs=("INFO consistency check failed over to the mirror",),
    ),
    KnownError(
        name="dataset-not-on-hub",
        marker="doesn't exist on the Hub or cannot be accessed",
        pattern=r"Dataset '(?P<dataset>[^'\n]{1,300})' doesn't exist on the Hub or cannot be accessed",
        cause="{dataset} is neither a local path on that node nor a data set on the Hub that this process may see",
        remedy="A path: `ls '{dataset}'` on that node; a Hub name: check its spelling, `export HF_TOKEN=` for a private or gated one (before `ray start`), and `HF_ENDPOINT` or "
        "`HF_HUB_OFFLINE` if the node has no direct network",
        source="datasets load.py",
        matches=("datasets.exceptions.DatasetNotFoundError: Dataset 'qm9' doesn't exist on the Hub or cannot be accessed.",),
        differs=("the model doesn't exist on the Hub or cannot be accessed by this account",),
    ),
    KnownError(
        name="dataset-generation-wrapper",
        marker="An error occurred while generating the dataset",
        pattern=r"DatasetGeneration(?:Cast)?Error: An error occurred while generating the dataset",
        cause="The data set could not be made from its files",
        remedy="The exception above it (`The above exception was the direct cause`) is the real error: usually files with different columns or types, or a damaged file",
        source="datasets builder.py",
        matches=("datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset",),
        differs=("alert: An error occurred while generating the dataset.",),
        is_consequence=True,
    ),
    KnownError(
        name="verl-data-column-missing",
        marker="KeyError: '",
        pattern=r"KeyError: '(?P<column>reward_model|data_source|ground_truth)'",
        cause="The rows of the data have no field {column}, which the reward computation reads",
        remedy='Print the columns: `python -c "import pandas, sys; print(pandas.read_parquet(sys.argv[1]).iloc[0])"` with the file; veRL needs `prompt` (list of messages), `data_source` and '
        "`reward_model` with `ground_truth`: convert the data with a script like examples/data_preprocess/gsm8k.py",
        source="verl-project/verl issue 758; ISEEKYAN/Megatron-LM pull request 116",
        matches=("KeyError: 'reward_model'", "KeyError: 'data_source'"),
        differs=("KeyError: 'reward_model_name'", "omegaconf.errors.ConfigKeyError: Key 'reward_model' is not in struct"),
    ),
    KnownError(
        name="verl-train-data-empty",
        marker="dataloader is empty!",
        pattern=r"AssertionError: (?P<which>Train|Validation) dataloader is empty!",
        cause="Not one batch could be made of the data ({which}): there are fewer samples than a batch, or all prompts were filtered out",
        remedy="Lower `data.train_batch_size` below the number of rows, raise `data.max_prompt_length` (with `data.filter_overlong_prompts=True` longer ones are dropped), and check that "
        "`data.train_files` / `data.val_files` have rows",
        source="veRL ray_trainer.py",
        matches=("AssertionError: Train dataloader is empty!", "AssertionError: Validation dataloader is empty!"),
        differs=("WARNING: train dataloader is empty! skipping epoch",),
    ),
    KnownError(
        name="prompt-longer-than-engine",
        marker="is longer than the maximum model length of",
        pattern=r"prompt \(length (?P<length>\d{1,9})\) is longer than the maximum model length of (?P<limit>\d{1,9})",
        cause="A prompt has {length} tokens, and the inference engine was started for at most {limit}",
        remedy="Filter such prompts (veRL `data.filter_overlong_prompts=True data.truncation=left`, OpenRLHF `--prompt_max_len`), or raise the limit: veRL `actor_rollout_ref.rollout.max_model_len`, "
        "vLLM `--max-model-len`; it must hold prompt plus response; images count as tokens",
        source="vLLM engine",
        matches=(
            "ValueError: The decoder prompt (length 12324) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.",
        ),
        differs=("Token indices sequence length is longer than the specified maximum sequence length for this model (9000 > 8192)",),
    ),
    KnownError(
        name="verl-sequence-too-long",
        marker="is larger than max_length=",
        pattern=r"NotImplementedError: sequence_length=(?P<length>\d{1,9}) is larger than max_length=(?P<limit>\d{1,9})",
        cause="A prompt of {length} tokens is longer than the allowed {limit}, and truncation is set to error",
        remedy="`data.filter_overlong_prompts=True` drops such prompts; or `data.truncation=left` (or right) cuts them; or raise `data.max_prompt_length`",
        source="veRL utils/torch_functional.py",
        matches=("NotImplementedError: sequence_length=1843 is larger than max_length=1024",),
        differs=("RuntimeError: Received an input that its embedding is larger than max_length=1024.",),
    ),
    KnownError(
        name="prompt-longer-than-limit",
        marker="RuntimeError: Prompt length ",
        pattern=r"RuntimeError: Prompt length (?P<length>\d{1,9}) is longer than (?P<limit>\d{1,9})",
        cause="A prompt of {length} tokens is longer than max_prompt_length ({limit}), and truncation is set to error",
        remedy="`data.filter_overlong_prompts=True` drops such prompts; or `data.truncation=left` (or right, middle) cuts them; or raise `data.max_prompt_length`; with images the placeholders "
        "are counted after they are expanded",
        source="veRL and EasyR1 utils/dataset",
        matches=("RuntimeError: Prompt length 5120 is longer than 4096.",),
        differs=("WARNING Prompt length 5120 is longer than 4096, truncating",),
    ),
    KnownError(
        name="chat-template-missing",
        marker="tokenizer.chat_template is not set",
        pattern=r"ValueError: Cannot use (?:chat template functions|apply_chat_template\(\)) because\s{1,3}tokenizer\.chat_template is not set",
        cause="The tokenizer has no chat template (as is usual for base models), and the code asks for one",
        remedy="Use the Instruct version, or give a template: veRL `actor_rollout_ref.model.custom_chat_template`, vLLM/SGLang `--chat-template`; OpenRLHF: without `--apply_chat_template` and with "
        "`--input_template`; a saved checkpoint may lack chat_template.jinja: copy it from the base model",
        source="transformers tokenization_utils_base.py; sgl-project/sglang issue 3385",
        matches=(
            "ValueError: Cannot use chat template functions because tokenizer.chat_template is not set and no template argument was passed!",
        ),
        differs=(
            "No chat template is defined for this tokenizer - using the default template. If the default is not appropriate, please set `tokenizer.chat_template`",
        ),
    ),
    KnownError(
        name="wandb-not-logged-in",
        marker="api_key not configured (no-tty)",
        pattern=r"api_key not configured \(no-tty\)",
        cause="wandb has no API key in the process that logs, and cannot ask for one without a terminal",
        remedy="`export WANDB_API_KEY=` with your key before `ray start` (or in the job's runtime environment: env_vars), or `export WANDB_MODE=offline`; veRL: `trainer.logger=['console']`; "
        "`wandb login` on your own node does not reach Ray's workers on others",
        source="wandb errors, in public logs",
        matches=(
            "wandb.errors.errors.UsageError: api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
            "wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])",
        ),
        differs=("wandb: Currently logged in as: me (team). Use `wandb login --relogin` to force relogin",),
    ),
    KnownError(
        name="wandb-init-timeout",
        marker="Run initialization has timed out",
        pattern=r"CommError: Run initialization has timed out after (?P<seconds>[\d.]{1,8}) sec",
        cause="wandb did not reach its server within {seconds} seconds",
        remedy="`curl -sI https://api.wandb.ai` on the node of the driver: without network `export WANDB_MODE=offline` (and `wandb sync` later), behind a proxy `HTTPS_PROXY`, before `ray start`; "
        "if it is only slow: `export WANDB_INIT_TIMEOUT=300`",
        source="wandb errors, in public logs",
        matches=("wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec.",),
        differs=("wandb: WARNING Run initialization is slow",),
    ),
    KnownError(
        name="wandb-refused",
        marker="CommError: ",
        pattern=r"wandb\.errors\.(?:errors\.)?CommError: (?P<reason>(?:Error uploading run: |failed to upsert bucket: )?(?:returned error (?:401|403|404)[^\n]{0,120}|project not found|entity [^\n]{1,100}))",
        cause="The wandb server refused the run: {reason}",
        remedy="Check the entity and the project (veRL `trainer.project_name`, `WANDB_ENTITY`, OpenRLHF `--wandb_org`) and that the key of WANDB_API_KEY belongs to a member with write access; "
        "`export WANDB_MODE=offline` to train without it",
        source="wandb errors, in public logs; wandb/wandb issue 8609",
        matches=(
            'wandb.errors.errors.CommError: Error uploading run: returned error 403\n{"message":"permission denied","path":["upsertBucket"]}',
            "wandb.errors.errors.CommError: project not found",
        ),
        differs=("wandb.errors.errors.CommError: Error uploading run: net/http: request canceled",),
    ),
    KnownError(
        name="checkpoint-shape-mismatch",
        marker="copying a param with shape",
        pattern=r"size mismatch for (?P<name>\S{1,200}): copying a param with shape torch\.Size\(\[(?P<saved>[\d, ]{0,80})\]\) from checkpoint,\s{1,3}the shape in current model is "
        r"torch\.Size\(\[(?P<model>[\d, ]{0,80})\]\)",
        cause="The checkpoint does not fit the model: {name} has the shape [{saved}] in the checkpoint and [{model}] in the model",
        remedy="Use the model, tensor parallel size and LoRA rank that the checkpoint was saved with; only embed_tokens/lm_head differ: the vocabulary was resized, take the tokenizer and config of the "
        "checkpoint; to start afresh: another output directory (veRL `trainer.resume_mode=disable`)",
        source="torch nn.Module.load_state_dict",
        matches=(
            "\tsize mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([131384, 1792]) from checkpoint, the shape in current model is torch.Size([131392, 1792]).",
        ),
        differs=(
            "Some weights of the model were not initialized: score.weight: found shape torch.Size([2, 896]) in the checkpoint and torch.Size([1, 896]) in the model instantiated",
        ),
    ),
    KnownError(
        name="deepspeed-loss-scale-minimum",
        marker="Current loss scale already at minimum",
        pattern=r"Exception: Current loss scale already at minimum - cannot decrease scale anymore",
        cause="With fp16 the gradients overflowed at every step until DeepSpeed's loss scale reached its minimum: they are inf or nan",
        remedy="Train with bf16 (OpenRLHF `--bf16`, DeepSpeed `bf16.enabled`); on GPUs without bf16 lower the learning rate and clip gradients; if it happens at once, look for nan in the data or "
        "in the loaded weights",
        source="DeepSpeed runtime/fp16/loss_scaler.py",
        matches=("Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",),
        differs=("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",),
    ),
    KnownError(
        name="model-file-missing",
        marker="does not appear to have a file named",
        pattern=r"OSError: (?P<model>\S{1,300}) does not appear to have a file named (?P<file>[^\n]{1,200}?)\.(?: Checkout|\s|$)",
        cause="The model {model} has no {file}",
        remedy="A path: `ls -l {model}` on that node; a checkpoint of a trainer often lacks config and tokenizer: copy them from the base model, or convert it to "
        "Hugging Face format first. A name on the Hub: delete the incomplete download in `HF_HOME`, and load it again",
        source="transformers utils/hub.py",
        matches=(
            "OSError: /data/ckpt/global_step_100/actor does not appear to have a file named config.json. Checkout "
            "'https://huggingface.co//data/ckpt/global_step_100/actor/tree/main' for available files.",
        ),
        differs=(
            "[2026-05-14 09:44:58] Failed to load generation config for BAAI/x: BAAI/x does not appear to have a file named generation_config.json.",
        ),
    ),
    KnownError(
        name="gated-repository-refused",
        marker="Cannot access gated repo for url",
        pattern=r"Cannot access gated repo for url https://huggingface\.co/(?:api/models/)?(?P<repository>[\w.-]{1,100}/[\w.-]{1,100})",
        cause="{repository} is gated, and this process has no token of an account that was granted access",
        remedy="Ask for access at https://huggingface.co/{repository}, then `export HF_TOKEN=` with a token of that account before `ray start` on every node (or "
        "`hf auth login`), or download it once and give the local path",
        source="huggingface_hub utils/_http.py (GatedRepoError)",
        matches=(
            "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-6)\n\nCannot access gated repo for url "
            "https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.\nAccess to model meta-llama/Llama-3.1-8B is restricted.",
        ),
        differs=("OSError: You are trying to access a gated repo.",),
        is_general=True,
    ),
    KnownError(
        name="data-file-missing",
        marker="FileNotFoundError: Unable to find '",
        pattern=r"FileNotFoundError: Unable to find '(?P<path>[^'\n]{1,500})'",
        cause="The data file {path} did not exist on the node where this process ran",
        remedy="`ls -l '{path}'` on that node: under Ray the driver may run on another node than yours, so put the data on a disk that all nodes share, copy it to each, "
        "or correct the path (`data.train_files`, `data.val_files`)",
        source="datasets data_files.py",
        matches=("FileNotFoundError: Unable to find '/home/ray/data/gsm8k/train.parquet'",),
        differs=("FileNotFoundError: [Errno 2] No such file or directory: '/home/ray/data/gsm8k/train.parquet'",),
    ),
    KnownError(
        name="tokenizer-class-unknown",
        marker="does not exist or is not currently imported",
        pattern=r"Tokenizer class (?P<name>\w{1,100}) does not exist or is not currently imported",
        cause="The installed transformers has no tokenizer class {name}, which the model's tokenizer_config.json names",
        remedy="Use the transformers version for which the model was saved (TokenizersBackend: `python -m pip install 'transformers>=5'` if the engine allows it, "
        "`python -m pip check`); a tokenizer of the model's own code needs trust_remote_code; on all nodes",
        source="transformers models/auto/tokenization_auto.py",
        matches=("ValueError: Tokenizer class TokenizersBackend does not exist or is not currently imported.",),
        differs=("ValueError: Unrecognized configuration class for this kind of AutoTokenizer.",),
    ),
)
