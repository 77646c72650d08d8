"""Rows for services outside of the cluster: object storage, model hubs beside Hugging Face's own rows, experiment trackers, git."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

_CREDENTIALS = "Every node of Ray needs them: `export AWS_ACCESS_KEY_ID=…`, AWS_SECRET_ACCESS_KEY and AWS_DEFAULT_REGION before `ray start`, or a role of the machine or pod"

SERVICES: tuple[KnownError, ...] = (
    # Object storage.
    KnownError(
        name="aws-no-credentials",
        marker="NoCredentialsError",
        pattern=r"botocore\.exceptions\.NoCredentialsError: Unable to locate credentials",
        cause="The process has no credentials for S3 (or another service of AWS)",
        remedy=f"{_CREDENTIALS}; `aws sts get-caller-identity` there tests it",
        source="botocore exceptions.py",
        matches=("botocore.exceptions.NoCredentialsError: Unable to locate credentials",),
        differs=("botocore.exceptions.PartialCredentialsError: Partial credentials found in env",),
    ),
    KnownError(
        name="aws-call-refused",
        marker="An error occurred (",
        pattern=r"An error occurred \((?P<code>\w{1,60})\) when calling the (?P<call>\w{1,60}) operation(?: \(reached max retries: \d{1,3}\))?: (?P<why>[^\n]{1,160})",
        cause="AWS (or a storage that speaks S3) refused {call} with {code}: {why}",
        remedy="403, AccessDenied: the account has no right to that bucket or key (`aws sts get-caller-identity` shows which it is). ExpiredToken: renew the credentials on all nodes. 404, NoSuchBucket, NoSuchKey: name, region or AWS_ENDPOINT_URL. SlowDown: fewer requests",
        source="botocore exceptions.py (ClientError)",
        matches=(
            "botocore.exceptions.ClientError: An error occurred (403) when calling the HeadObject operation: Forbidden",
            "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the PutObject operation: The provided token has expired.",
        ),
        differs=("An error occurred (see above) when calling",),
    ),
    KnownError(
        name="aws-endpoint-not-reachable",
        marker="Could not connect to the endpoint URL",
        pattern=r"Could not connect to the endpoint URL: \"(?P<url>[^\"\s]{1,250})\"",
        cause="That node has no connection to the storage at {url}",
        remedy="`curl -sI {url}` on that node: a wrong AWS_ENDPOINT_URL or region, no network, or a proxy (`echo $https_proxy $no_proxy`)",
        source="botocore exceptions.py (EndpointConnectionError)",
        matches=(
            'botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "https://s3.eu-west-9.amazonaws.com/"',
        ),
        differs=('Connect timeout on endpoint URL: "https://s3.amazonaws.com/"',),
    ),
    KnownError(
        name="arrow-s3-refused",
        marker="AWS Error ",
        pattern=r"(?:in|for) bucket '(?P<bucket>[^'\n]{1,100})': AWS Error (?P<code>[A-Z_]{3,40})(?: \(HTTP status \d{3}\))? during (?P<call>\w{1,60}) operation: (?P<why>[^\n]{1,120})",
        cause="S3 refused {call} in the bucket {bucket} with {code}: {why}",
        remedy=f"ACCESS_DENIED: no credentials, expired ones, or no right to the bucket. {_CREDENTIALS} (pyarrow cannot use EKS Pod Identity)",
        source="Apache Arrow filesystem/s3fs.cc; ray-project/ray issues 24184, 44881 and 50823",
        matches=(
            "OSError: When initiating multiple part upload for key 'exp/checkpoint_000001/model.pt' in bucket 'my-bucket': AWS Error ACCESS_DENIED during CreateMultipartUpload operation: Access Denied",
            "OSError: When listing objects under key 'lora/' in bucket 'air-example-data': AWS Error ACCESS_DENIED during ListObjectsV2 operation: Access Denied",
        ),
        differs=("AWS Error: see the console",),
    ),
    KnownError(
        name="arrow-without-s3",
        marker="The pyarrow installation is not built with support for",
        pattern=r"The pyarrow installation is not built with support for '(?P<what>\w{1,60})'",
        cause="The installed pyarrow was built without {what}, which the code (Ray Train, datasets) uses",
        remedy="`pip install --force-reinstall pyarrow` in that environment takes the build from PyPI, which has it; on a system's own module of Arrow, ask for one with S3",
        source="ray-project/ray issue 48187",
        matches=("ImportError: The pyarrow installation is not built with support for 'S3FileSystem'",),
        differs=("ImportError: cannot import name 'S3FileSystem' from 'pyarrow'",),
    ),
    KnownError(
        name="google-no-credentials",
        marker="DefaultCredentialsError",
        pattern=r"google\.auth\.exceptions\.DefaultCredentialsError: ",
        cause="The process has no credentials for Google Cloud",
        remedy="On every node of Ray: `export GOOGLE_APPLICATION_CREDENTIALS=/path/key.json` before `ray start` (the file must exist there), `gcloud auth application-default login`, or a service account of the machine or pod",
        source="google-auth _default.py",
        matches=(
            "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not found. To set up Application Default Credentials, see https://cloud.google.com/docs/authentication/external/set-up-adc",
        ),
        differs=("google.auth.exceptions.RefreshError: ('invalid_grant')",),
    ),
    # Model hubs.
    KnownError(
        name="hub-xet-failed",
        marker="CAS service error",
        pattern=r"Data processing error: CAS service error",
        cause="A download from the Hub through its Xet storage failed: that node has no good connection to cas-server.xethub.hf.co, which HF_ENDPOINT does not replace",
        remedy="`export HF_HUB_DISABLE_XET=1` (before `ray start` on all nodes) downloads in the old way; behind a proxy or a firewall allow *.xethub.hf.co, or copy the model to a disk that all nodes have",
        source="huggingface/xet-core issue 407, meta-pytorch/torchforge pull request 109",
        matches=("RuntimeError: Data processing error: CAS service error : ReqwestMiddleware Error: Request failed after 5 retries",),
        differs=("RuntimeError: Data processing error: File reconstruction error",),
    ),
    KnownError(
        name="modelscope-not-found",
        marker="www.modelscope.cn/api/v1/",
        pattern=r"404 Client Error: [^\n]{0,60}for url: https?://www\.modelscope\.cn/api/v1/(?P<kind>models|datasets)/(?P<what>[^/\s]{1,80}/[^/\s?]{1,120})",
        cause="ModelScope has no {what} (in its {kind}) that this process may see: names there often differ from those on Hugging Face",
        remedy="Look the name up on www.modelscope.cn (meta-llama models are under LLM-Research there), or take it from Hugging Face: `unset VERL_USE_MODELSCOPE VLLM_USE_MODELSCOPE USE_MODELSCOPE_HUB`",
        source="modelscope/modelscope issue 864",
        matches=(
            "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://www.modelscope.cn/api/v1/models/meta-llama/Meta-Llama-3-8B/revisions",
        ),
        differs=("404 Client Error: Not Found for url: https://huggingface.co/api/models/x/y",),
    ),
    # Experiment trackers.
    KnownError(
        name="wandb-key-length",
        marker="API key must be 40 characters long, yours was",
        pattern=r"API key must be 40 characters long, yours was (?P<length>\d{1,6})",
        cause="The installed wandb takes only keys of 40 characters, and this key has {length}: newer keys are longer (86), and need wandb 0.22.3 or newer",
        remedy="`pip install -U 'wandb>=0.22.3'` in the environment of the process that logs; with another length the key was copied incompletely or WANDB_API_KEY holds something else",
        source="wandb/server issue 163, wandb/wandb issue 11728",
        matches=(
            "ValueError: API key must be 40 characters long, yours was 86",
            "wandb: ERROR API key must be 40 characters long, yours was 86",
        ),
        differs=("wandb: ERROR api_key not configured (no-tty).",),
    ),
    KnownError(
        name="mlflow-not-reachable",
        marker="API request to ",
        pattern=r"MlflowException: API request to (?P<url>https?://[^/\s]{1,120})\S{0,200} failed with exception (?P<why>[^\n]{1,200})",
        cause="The MLflow server {url} did not answer the process that logs",
        remedy="`curl -s {url}/health` on that node: start the server, or correct MLFLOW_TRACKING_URI (localhost is the node of the worker, not yours); to train without it, take mlflow out of the loggers (veRL `trainer.logger=['console']`)",
        source="mlflow/mlflow issue 12154",
        matches=(
            "mlflow.exceptions.MlflowException: API request to http://localhost:5000/api/2.0/mlflow/experiments/get-by-name failed with exception HTTPConnectionPool(host='localhost', port=5000): Max retries exceeded",
        ),
        differs=("mlflow.exceptions.RestException: RESOURCE_DOES_NOT_EXIST: Run 'abc' not found",),
    ),
    KnownError(
        name="mlflow-refused",
        marker="mlflow.exceptions.RestException: ",
        pattern=r"mlflow\.exceptions\.RestException: (?P<code>[A-Z_]{4,40}): (?P<why>[^\n]{1,200})",
        cause="The MLflow server refused a request ({code}): {why}",
        remedy="RESOURCE_DOES_NOT_EXIST: the run or experiment was deleted, or is on another server (`echo $MLFLOW_TRACKING_URI`). PERMISSION_DENIED: token or rights. INVALID_PARAMETER_VALUE: a name or value that was logged twice with other contents, or is too long",
        source="mlflow exceptions.py",
        matches=("mlflow.exceptions.RestException: RESOURCE_DOES_NOT_EXIST: Run 'abc' not found",),
        differs=("mlflow.exceptions.MlflowException: API request to http://localhost:5000 failed",),
    ),
    KnownError(
        name="tracker-key-missing",
        marker="API key",
        pattern=r"ValueError: Comet\.ml requires an API key|swanlab\.error\.KeyFileError|swanlab[^\n]{0,80}api[ _]?key not configured",
        cause="The tracker (Comet or SwanLab) has no API key in the process that logs",
        remedy="`export COMET_API_KEY=…` or `export SWANLAB_API_KEY=…` before `ray start` on all nodes, or in the job's env_vars; `SWANLAB_MODE=local` trains without the service",
        source="51N84D/Virtual-Try-On issue 17; SwanLab's documentation",
        matches=(
            "ValueError: Comet.ml requires an API key. Please provide as the first argument to Experiment(api_key) or as an environment variable named COMET_API_KEY",
        ),
        differs=("ValueError: API key must be 40 characters long, yours was 86",),
    ),
    # git.
    KnownError(
        name="git-host-unreachable",
        marker="fatal: unable to access '",
        pattern=r"fatal: unable to access '(?P<url>[^'\n]{1,250})': (?P<why>[^\n]{1,160})",
        cause="git has no connection to {url}: {why}",
        remedy="`curl -sI {url}` on that node: no network, or a proxy is needed (`export https_proxy=http://HOST:PORT`); on nodes without the Internet install from a wheel or a local copy",
        source="git remote-curl.c",
        matches=("fatal: unable to access 'https://github.com/volcengine/verl.git/': Could not resolve host: github.com",),
        differs=("fatal: could not read Username for 'https://github.com': No such device or address",),
    ),
    KnownError(
        name="http-client-closed",
        marker="Cannot send a request, as the client has been closed",
        pattern=r"RuntimeError: Cannot send a request, as the client has been closed",
        cause="A request was made with an HTTP client (httpx) that was closed before, as huggingface_hub 1.x does after an earlier error or in a forked process",
        remedy="An error above it (connection, proxy, offline mode) is the reason; if there is none, `pip install -U huggingface_hub transformers datasets` on all nodes, and make clients inside the process that uses them",
        source="httpx _client.py; huggingface_hub utils/_http.py 1.x",
        matches=("RuntimeError: Cannot send a request, as the client has been closed.",),
        differs=("RuntimeError: Event loop is closed",),
        is_consequence=True,
    ),
    KnownError(
        name="wandb-service-not-started",
        marker="ServiceStart",
        pattern=r"ServiceStart(?:TimeoutError|ProcessError|PortError): (?P<why>[^\n]{1,160})",
        cause="wandb's own helper process did not start: {why}",
        remedy="`export WANDB__SERVICE_WAIT=300` gives it more time (slow disk, many ranks); only one rank should log; check /tmp (`df -h /tmp`) and the limit of processes (`ulimit -u`). `export WANDB_MODE=offline` does not avoid it, WANDB_MODE=disabled does",
        source="wandb sdk/service/service.py (its texts)",
        matches=(
            "wandb.sdk.service.service.ServiceStartTimeoutError: Timed out waiting for wandb service to start after 30.0 seconds. Try increasing the timeout with the `_service_wait` setting.",
        ),
        differs=("wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",),
    ),
)
