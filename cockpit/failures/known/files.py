"""Errors of files, disks and file systems: full, unreadable, missing, corrupt or locked."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

FILES: tuple[KnownError, ...] = (
    KnownError(
        name="disk-full-at-path",
        marker="No space left on device: '",
        pattern=r"No space left on device: '(?P<path>[^'\n/]{0,200}/?[^'\n/]{1,200}/[^'\n]{1,400})'",
        cause="The file system that holds {path} is full (or has no free inodes)",
        remedy="`d=$(dirname '{path}'); df -h $d; df -i $d` on that node shows which of the two; delete old checkpoints, caches and dead Ray sessions there, "
        "or write to another disk",
        source="Antergos/Cnchi issue 1031, casualsnek/waydroid_script issue 39 (the form with a path); Python's OSError",
        matches=(
            "OSError: [Errno 28] No space left on device: '/data/checkpoints/global_step_100/actor'",
            "OSError: [Errno 28] No space left on device: '/tmp/ray/session_2026-11-01/logs/x.out' -> '/tmp/x'",
        ),
        differs=(
            "OSError: [Errno 28] No space left on device",
            "OSError: [Errno 28] No space left on device: '/psm_7a0b12'",
        ),
        action="clean",
        look_up="disk",
    ),
    KnownError(
        name="disk-full",
        marker="No space left on device",
        pattern=r"No space left on device(?!\.\s{1,3}joblib)(?! \(inotify)",
        cause="A write failed because a file system of that node is full; the log does not say which one",
        remedy="`df -h; df -i` on that node: look at the checkpoint directory, /tmp, /dev/shm and the home directory; delete old checkpoints and dead Ray "
        "sessions, or point the output, `TMPDIR` and `HF_HOME` to another disk",
        source="hiyouga/LlamaFactory issue 5155 (safetensors); ray-project/ray issue 32481",
        matches=(
            "OSError: [Errno 28] No space left on device",
            'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })',
            "RuntimeError: I/O error: No space left on device (os error 28)",
        ),
        differs=(
            "joblib/_multiprocessing_helpers.py:46: UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode",
            "OSError: [Errno 122] Disk quota exceeded",
        ),
        action="clean",
        look_up="disk",
        is_general=True,
    ),
    KnownError(
        name="disk-quota-exceeded",
        marker="Disk quota exceeded",
        pattern=r"\[Errno 122\][^\n]{0,10}Disk quota exceeded|Disk quota exceeded(?: \(os error 122\)|: '|$)",
        cause="The user's (or the project's) quota on that file system is used up, although the disk may have free space",
        remedy="`quota -s` (Lustre: `lfs quota -h -u $USER $HOME`) shows blocks and number of files; delete files there, ask for more, or move checkpoints, "
        "`HF_HOME`, `TRITON_CACHE_DIR` and `TMPDIR` off that file system",
        source="open-mmlab/mmdetection issue 12069",
        matches=(
            "OSError: [Errno 122] Disk quota exceeded",
            "OSError: [Errno 122] Disk quota exceeded: '/home/u/ckpt/step_14.pt'",
            "cp: error writing '/home/u/a': Disk quota exceeded",
        ),
        differs=("OSError: [Errno 28] No space left on device", "WARNING: Disk quota exceeded soft limit soon: 90 %"),
        look_up="disk",
    ),
    KnownError(
        name="torch-save-write-failed",
        marker="inline_container.cc",
        pattern=r"enforce fail at inline_container\.cc:\d{1,5}\] \. ?(?:PytorchStreamWriter failed writing file|unexpected pos \d{1,20} vs \d{1,20})",
        cause="torch.save could not write its file to the end: the file system refused a write (disk full, quota used up, or a network disk that failed)",
        remedy="`df -h; df -i; quota -s` on that node for the checkpoint directory; free space, keep fewer checkpoints "
        "(veRL: `trainer.max_actor_ckpt_to_keep=2`), delete the incomplete checkpoint, then resume from the one before it",
        source="verl-project/verl issue 3346; hkust-nlp/simpleRL-reason issue 19; meta-pytorch/torchforge issue 568; zai-org/ChatGLM-6B issue 1166",
        matches=(
            "RuntimeError: [enforce fail at inline_container.cc:857] . PytorchStreamWriter failed writing file data/37: file write failed",
            "RuntimeError: [enforce fail at inline_container.cc:659] .unexpected pos 2387758464 vs 2387758376",
            "RuntimeError: [enforce fail at inline_container.cc:664] . unexpected pos 704 vs 598",
        ),
        differs=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "RuntimeError: [enforce fail at inline_container.cc:257] . file in archive is not in a subdirectory: model.pt",
        ),
        look_up="disk",
    ),
    KnownError(
        name="torch-file-incomplete",
        marker="PytorchStreamReader failed",
        pattern=r"PytorchStreamReader failed (?P<what>reading zip archive: (?:failed finding central directory|not a ZIP archive|"
        r"invalid header or archive is corrupted)|reading file [^\n:]{1,120}: file read failed)",
        cause="A .pt/.bin file is incomplete or corrupt ({what})",
        remedy="Compare its size with its siblings (`ls -l`): saving or downloading was cut off, or a job still writes it; resume from the previous checkpoint "
        "(veRL: `trainer.resume_mode=resume_path trainer.resume_from_path=` with the older global_step directory), or download it again",
        source="CompVis/stable-diffusion issue 93, SadTalker issue 217; PyTorch caffe2/serialize/inline_container.cc",
        matches=(
            "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
            "RuntimeError: PytorchStreamReader failed reading file data/12: file read failed",
        ),
        differs=(
            "PytorchStreamReader failed locating file constants.pkl: file not found",
            "RuntimeError: [enforce fail at inline_container.cc:445] . PytorchStreamWriter failed writing file data/5: file write failed",
        ),
    ),
    KnownError(
        name="torch-load-weights-only",
        marker="WeightsUnpickler error: Unsupported",
        pattern=r"WeightsUnpickler error: Unsupported (?:global: GLOBAL|class) (?P<object>\S{1,150})",
        cause="torch.load refuses the checkpoint, since it holds an object ({object}) that is not plain weights (since torch 2.6 this is the default)",
        remedy="If you trust the file: `export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1` for the job (works where the code does not pass weights_only itself), "
        "or load it with `weights_only=False` or `torch.serialization.add_safe_globals`",
        source="torch/_weights_only_unpickler.py 2.6, in public logs",
        matches=(
            "_pickle.UnpicklingError: Weights only load failed.\n"
            "\tWeightsUnpickler error: Unsupported global: GLOBAL ultralytics.nn.tasks.DetectionModel was not an allowed global by default. "
            "Please use `torch.serialization.add_safe_globals([DetectionModel])`",
        ),
        differs=("FutureWarning: You are using `torch.load` with `weights_only=False` (the current default value)",),
    ),
    KnownError(
        name="torch-load-not-a-checkpoint",
        marker="invalid load key, '",
        pattern=r"UnpicklingError: invalid load key, '(?P<key>[^'\n]{1,8})'",
        cause="The file that was loaded is not a checkpoint: it begins with the character {key}",
        remedy="Look at its first bytes with `head -c 200`: `version https://git-lfs` is a Git LFS pointer (run `git lfs pull` in that repository), "
        "`<` is a web page that was saved instead of the file; otherwise it is damaged: download it again",
        source="CPython's pickle, in public logs of Git LFS pointers",
        matches=("_pickle.UnpicklingError: invalid load key, 'v'.", "UnpicklingError: invalid load key, '<'."),
        differs=("_pickle.UnpicklingError: Weights only load failed.", "ValueError: invalid load key in the config"),
    ),
    KnownError(
        name="safetensors-incomplete",
        marker="Error while deserializing header",
        pattern=r"(?:SafetensorError: |^[^\n]{0,200})Error while deserializing header: (?P<what>MetadataIncompleteBuffer|[Hh]eader ?[Tt]oo ?[Ll]arge|"
        r"[Hh]eader ?[Tt]oo ?[Ss]mall|InvalidHeader\w{0,20}|[Ii]nvalid [^\n]{1,80}|[Ii]ncomplete [^\n]{1,80})",
        cause="A .safetensors file is incomplete or is not a safetensors file ({what})",
        remedy="`ls -l` in the model's directory: a file of about 130 bytes is a Git LFS pointer (`git lfs pull`), a shorter one than on the Hub was cut off "
        "(delete it and download again); if a job just saved it, look for a full disk and use the previous checkpoint",
        source="lyogavin/airllm issue 137; smthemex/ComfyUI_YuE issue 28; safetensors issue 668; vllm-project/vllm issue 15445 (title)",
        matches=(
            "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
            "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
            "safetensors_rust.SafetensorError: Error while deserializing header: header too large",
            "safetensors_rust.SafetensorError: Error while deserializing header: InvalidHeaderDeserialization",
        ),
        differs=(
            'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })',
            "std::cerr: Error while deserializing header: bad tag",
        ),
    ),
    KnownError(
        name="stale-file-handle-compile-cache",
        marker="Stale file handle: '",
        pattern=r"Stale file handle: '(?P<path>[^'\n]{0,300}(?:/\.triton/|torchinductor|/\.cache/vllm/)[^'\n]{0,300})'",
        cause="The cache of compiled kernels lies on a network disk, where several ranks or nodes replace its files at the same time ({path})",
        remedy="Put the caches on a local disk of each node: `export TRITON_CACHE_DIR=/tmp/triton-$USER TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$USER "
        "VLLM_CACHE_ROOT=/tmp/vllm-$USER` before `ray start`, then start again",
        source="pytorch/pytorch issue 173679",
        matches=("OSError: [Errno 116] Stale file handle: '/home/user/.triton/cache/ABC/cuda_utils.cpython-310-x86_64-linux-gnu.so'",),
        differs=("OSError: [Errno 116] Stale file handle: '/mnt/nfs/ckpt/optimizer.pt'",),
    ),
    KnownError(
        name="stale-file-handle",
        marker="Stale file handle",
        pattern=r"(?:\[Errno 116\]|errno = 116|os error 116)[^\n]{0,60}Stale file handle|Stale file handle \(os error 116\)",
        cause="A file on a network file system was deleted or replaced, or the export was remounted, while this process had it open",
        remedy="Check that no other rank, node or clean-up job deletes or rewrites that file (caches: one directory per node on a local disk, "
        "`HF_DATASETS_CACHE`, `TRITON_CACHE_DIR`); if every path of the mount fails, remount it; then resume from the last checkpoint",
        source="huggingface/transformers issue 9732; modelscope/ms-swift issue 6695; h5py/h5py issue 2346",
        matches=(
            "OSError: [Errno 116] Stale file handle",
            "OSError: [Errno 116] Stale file handle: '/mnt/nfs/cache/indices.arrow'",
            "OSError: [Errno 116] Unable to synchronously create file (unable to fstat file, errno = 116, error message = 'Stale file handle')",
        ),
        differs=("INFO retrying after stale file handle on server", "OSError: [Errno 5] Input/output error"),
        is_general=True,
    ),
    KnownError(
        name="permission-denied-cache",
        marker="[Errno 13] Permission denied: '",
        pattern=r"\[Errno 13\] Permission denied: '(?P<path>[^'\n]{0,300}(?:/huggingface|/\.cache/|/\.triton|torchinductor|/hub/\.locks)[^'\n]{0,300})'",
        cause="The user of this process may not write to the cache file {path}",
        remedy="`ls -ld '{path}'; id` on that node: it was made by another user (often root in a container); use caches of your own: "
        "`export HF_HOME=/tmp/hf-$USER TRITON_CACHE_DIR=/tmp/triton-$USER TORCHINDUCTOR_CACHE_DIR=/tmp/inductor-$USER`, or give the directory to this user",
        source="Python 3.11 PermissionError; cache paths in huggingface/huggingface_hub issue 2543, pytorch issue 173679",
        matches=(
            "PermissionError: [Errno 13] Permission denied: '/data/huggingface/hub/.locks/models--Qwen--Qwen3-8B/ab.lock'",
            "PermissionError: [Errno 13] Permission denied: '/home/user/.triton/cache'",
        ),
        differs=("PermissionError: [Errno 13] Permission denied: '/data/checkpoints/run1'",),
    ),
    KnownError(
        name="permission-denied-path",
        marker="[Errno 13] Permission denied: '",
        pattern=r"PermissionError: \[Errno 13\] Permission denied: '(?P<path>[^'\n]{1,500})'",
        cause="The user of this process may not open or create {path}",
        remedy="`ls -ld '{path}' \"$(dirname '{path}')\"; id` on that node shows owner and user (a container or Ray on another node may run as another user); "
        "change the owner, or choose a path that this user may write to",
        source="Python 3.11 PermissionError",
        matches=("PermissionError: [Errno 13] Permission denied: '/data/models/finetuned-model/'",),
        differs=("bash: ./run.sh: Permission denied", "PermissionError: [Errno 1] Operation not permitted"),
        is_general=True,
    ),
    KnownError(
        name="read-only-file-system",
        marker="Read-only file system: '",
        pattern=r"\[Errno 30\] Read-only file system: '(?P<path>[^'\n]{1,500})'",
        cause="{path} lies on a file system that is mounted read-only on that node",
        remedy="`findmnt -T \"$(dirname '{path}')\"` shows the mount: write to another directory, or mount it writable (Docker: without `:ro`; Kubernetes: "
        "`readOnly: false`); if it should be writable, `dmesg | grep -iE 'remount|I/O error'` shows a disk error",
        source="Python's OSError 30",
        matches=("OSError: [Errno 30] Read-only file system: '/app/datasets'",),
        differs=("OSError: [Errno 13] Permission denied: '/app/datasets'", "mounting as read-only file system: ok"),
        is_general=True,
    ),
    KnownError(
        name="io-error-at-path",
        marker="Input/output error: '",
        pattern=r"\[Errno 5\] Input/output error: '(?P<path>[^'\n]{1,500})'",
        cause="The kernel could not read or write {path}: its disk or its network mount failed",
        remedy="On that node: `dmesg | tail -50` (disk errors, nfs/lustre messages), `findmnt -T '{path}'` and `ls -l '{path}'`; if other nodes can read it, "
        "drain this one and start again; if none can, the storage is down",
        source="Python's OSError 5",
        matches=("OSError: [Errno 5] Input/output error: '/mnt/lustre/data/train.parquet'",),
        differs=("OSError: [Errno 5] Input/output error",),
    ),
    KnownError(
        name="io-error",
        marker="[Errno 5] Input/output error",
        pattern=r"OSError: \[Errno 5\] Input/output error(?!: ')",
        cause="The kernel reported an input/output error: a disk or network mount failed, or the terminal or pipe of the output was gone",
        remedy="The traceback above shows which: `print`, `write` or `flush` on stdout means the terminal was closed (start with `nohup`, tmux or "
        "`ray job submit`, and write to a file); otherwise `dmesg | tail -50` on that node shows disk or mount errors",
        source="Python's OSError 5, in public logs",
        matches=("OSError: [Errno 5] Input/output error",),
        differs=("OSError: [Errno 5] Input/output error: '/mnt/lustre/data/train.parquet'", "HTTP 502: Input/output error"),
        is_general=True,
    ),
    KnownError(
        name="fuse-mount-died",
        marker="Transport endpoint is not connected: '",
        pattern=r"\[Errno 107\] Transport endpoint is not connected: '(?P<path>[^'\n]{1,500})'",
        cause="The mount that holds {path} has died on that node (a FUSE or network file system without its process)",
        remedy="`findmnt -T '{path}'` shows the mount point; unmount it with `fusermount -uz` or `umount -l` and mount it again, then restart the job; "
        "look for an out-of-memory kill of the mount's process in `dmesg`",
        source="Python's OSError 107, in public logs",
        matches=("OSError: [Errno 107] Transport endpoint is not connected: '/data'",),
        differs=("OSError: [Errno 107] Transport endpoint is not connected",),
    ),
    KnownError(
        name="symlink-loop",
        marker="Too many levels of symbolic links",
        pattern=r"\[Errno 40\] Too many levels of symbolic links: '(?P<path>[^'\n]{1,500})'",
        cause="{path} is a symbolic link that leads back to itself",
        remedy="`namei -l '{path}'` on that node shows the loop: delete the wrong link and make it again with an absolute target",
        source="Python 3.11.7 on Linux",
        matches=("OSError: [Errno 40] Too many levels of symbolic links: '/data/latest'",),
        differs=("RuntimeError: Symlink loop from '/p/a'",),
    ),
    KnownError(
        name="nfs-file-busy",
        marker="Device or resource busy: '.nfs",
        pattern=r"\[Errno 16\] Device or resource busy: '\.nfs[0-9a-f]{0,40}",
        cause="A temporary directory on a network disk could not be deleted, since a process still has a file in it open; this alone seldom ends a job",
        remedy="Look for the real error above it; `export TMPDIR=/tmp` (a local disk) for the job avoids the message",
        source="Python's OSError 16 on NFS, in public logs",
        matches=("OSError: [Errno 16] Device or resource busy: '.nfs0000000008a6084a00000089'",),
        differs=("OSError: [Errno 16] Device or resource busy: '/dev/nvidia0'",),
        is_warning=True,
    ),
    KnownError(
        name="ray-socket-path-too-long",
        marker="AF_UNIX path length cannot exceed",
        pattern=r"AF_UNIX path length cannot exceed (?P<limit>\d{1,4}) bytes",
        cause="The temporary directory of Ray has too long a path: its socket would need more than {limit} bytes",
        remedy="Use a short directory: `export RAY_TMPDIR=/tmp/r-$USER` (or `ray start --head --temp-dir=/tmp/r-$USER`); a long `TMPDIR` of the scheduler causes "
        "this as well",
        source="ray 2.60 _private/utils.py line 1761",
        matches=(
            "OSError: validate_socket_filename failed: AF_UNIX path length cannot exceed 107 bytes: "
            "/var/tmp/pbs.5513403/ray/session_2025-07-14_05-22-38_664188_503911/sockets/plasma_store",
        ),
        differs=("OSError: AF_UNIX path too long", "OSError: [Errno 36] File name too long: 'x'"),
    ),
    KnownError(
        name="model-weights-missing",
        marker="found in directory",
        pattern=r"Error no file named (?P<names>[^\n]{5,200}?),? found in directory (?P<path>\S{1,400}?)\.?(?:\s|$)",
        cause="The model directory {path} has no weights that transformers can read",
        remedy="`ls -l {path}` on that node: copy or download the missing *.safetensors; a veRL FSDP checkpoint must be merged first: "
        "`python -m verl.model_merger merge --backend fsdp --local_dir {path} --target_dir {path}/hf`",
        source="transformers modeling_utils.py",
        matches=(
            "OSError: Error no file named pytorch_model.bin, model.safetensors, tf_model.h5, model.ckpt.index or flax_model.msgpack found in directory /data/ckpt/global_step_100/actor.",
            "OSError: Error no file named model.safetensors, or pytorch_model.bin, found in directory /data/models/Qwen3-8B.",
        ),
        differs=("INFO: no file named chat_template.jinja found in directory /data/models/Qwen3-8B",),
    ),
    KnownError(
        name="vllm-no-weights",
        marker="Cannot find any model weights with",
        pattern=r"Cannot find any model weights with `(?P<model>[^`\n]{1,400})`",
        cause="vLLM (or SGLang) found no weight files for {model} on that node",
        remedy="`ls -lL {model}` there: the download is incomplete or only on another node, or the files are in a format that the load format excludes; "
        "copy or download the *.safetensors; a training checkpoint must first be converted to Hugging Face format",
        source="vLLM model loader",
        matches=("RuntimeError: Cannot find any model weights with `/data/dolphin-2.5-mixtral-8x7b`",),
        differs=("WARNING: Cannot find any model weights in the draft folder",),
    ),
    KnownError(
        name="parquet-not-parquet",
        marker="Parquet magic bytes not found in footer",
        pattern=r"Parquet magic bytes not found in footer",
        cause="A data file is not a Parquet file, or is incomplete",
        remedy="Check each file of `data.train_files` and `data.val_files`: `tail -c 4` of a good one prints PAR1; a file of about 130 bytes is a Git LFS pointer "
        "(`git lfs pull`); otherwise make or download it again, and do not start while it is still being written",
        source="NVlabs/Tool-N1 issue 4; huggingface/datasets issue 4077; zilliztech/VectorDBBench issue 199",
        matches=(
            "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.",
            "pyarrow.lib.ArrowInvalid: Could not open Parquet input source '<Buffer>': Parquet magic bytes not found in footer. "
            "Either the file is corrupted or this is not a parquet file.",
        ),
        differs=("pyarrow.lib.ArrowInvalid: JSON parse error: Column() changed from object to string in row 0",),
    ),
    KnownError(
        name="file-lock-timeout",
        marker="could not be acquired",
        pattern=r"The file lock '(?P<path>[^'\n]{1,500})' could not be acquired",
        cause="Another process held the lock file {path} for longer than this one waited",
        remedy="`fuser -v '{path}'` on the nodes that share it shows who holds it; wait for that process or end it; if there is none, a dead process left it: "
        "delete it, then start again",
        source="filelock 4.2.11 _error.py",
        matches=(
            "filelock._error.Timeout: The file lock '/home/u/.cache/huggingface/hub/.locks/models--x/ab.lock' could not be acquired.",
            "Timeout: The file lock '/tmp/compile/.lock' could not be acquired.",
        ),
        differs=("INFO the advisory lock could not be acquired, going on without it",),
    ),
    KnownError(
        name="hf-download-lock-wait",
        marker="still waiting to acquire lock on",
        pattern=r"[Ss]till waiting to acquire lock on (?P<path>\S{1,500}\.lock)",
        cause="The download waits for the lock file {path}, which another process holds or which a dead process left",
        remedy="`fuser -v {path}` on the nodes that share it: let that download finish; if nobody holds it, delete it and start again; better download once "
        "before the job, and run with `HF_HUB_OFFLINE=1`",
        source="huggingface/huggingface_hub issue 2543 and pull request 3944",
        matches=(
            "still waiting to acquire lock on /home/u/.cache/huggingface/hub/.locks/models--NousResearch--Meta-Llama-3.1-8B-Instruct/fc1c.lock",
        ),
        differs=("Attempting to acquire lock 140386484514192 on /cache/x.lock",),
        is_warning=True,
    ),
    KnownError(
        name="program-missing",
        marker="[Errno 2] No such file or directory: '",
        pattern=r"\[Errno 2\] No such file or directory: '(?P<program>ninja|nvcc|gcc|g\+\+|cc|c\+\+|git|nvidia-smi|ssh|srun|pdsh|hdfs|ffmpeg|ldconfig|ptxas)'",
        cause="The program {program} is not on the PATH of the process on that node",
        remedy="`which {program}` on that node; install it there (ninja: `python -m pip install ninja`; compilers: `apt-get install -y build-essential`), or add its "
        "directory to PATH before `ray start` (a virtual environment that is not activated: its bin directory)",
        source="Python's FileNotFoundError, in public logs of vLLM and SGLang without ninja",
        matches=(
            "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",
            "RuntimeError: Worker failed with error '[Errno 2] No such file or directory: 'ninja''",
        ),
        differs=("FileNotFoundError: [Errno 2] No such file or directory: '/opt/bin/ninja.json'",),
    ),
    KnownError(
        name="file-missing",
        marker="[Errno 2] No such file or directory: '",
        pattern=r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^'\n]{1,500})'",
        cause="{path} did not exist on the node where this process ran",
        remedy="`ls -ld '{path}'` on that node: give an absolute path on a disk that all nodes share, and check its spelling; a relative path starts at the job's "
        "working directory (under Ray: a copy in /tmp/ray/session_latest/runtime_resources)",
        source="Python 3.11.7 FileNotFoundError",
        matches=("FileNotFoundError: [Errno 2] No such file or directory: '/data/gsm8k/train.parquet'",),
        differs=(
            "python3: can't open file '/tmp/nothere.py': [Errno 2] No such file or directory",
            "ls: cannot access '/data': No such file or directory",
        ),
        is_general=True,
    ),
    KnownError(
        name="is-a-directory",
        marker="[Errno 21] Is a directory: '",
        pattern=r"IsADirectoryError: \[Errno 21\] Is a directory: '(?P<path>[^'\n]{1,500})'",
        cause="{path} is a directory, but the program needs a file there",
        remedy="Name a file inside it (`ls -l '{path}'` shows them), or use the option that takes a directory; if a container made the directory in place of a missing "
        "file to mount, delete it and mount the file",
        source="Python 3.11.7 IsADirectoryError",
        matches=("IsADirectoryError: [Errno 21] Is a directory: '/data/models/Qwen3-8B'",),
        differs=("cp: -r not specified; omitting directory '/data'",),
        is_general=True,
    ),
    KnownError(
        name="triton-cache-race",
        marker=".triton/cache/",
        pattern=r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^'\n]{0,300}\.triton/cache/[^'\n]{1,200}(?:\.tmp\.pid_\d{1,9}_\w{1,40}|/__grp__[^'\n]{1,100}))'",
        cause="Processes that wrote the same Triton cache at the same time took a file of it from each other: {path}",
        remedy="Start the job again: what is compiled stays. Lasting: a cache of its own for each process on a local disk (`export TRITON_CACHE_DIR=/tmp/triton_$RANK`, not on NFS), and a newer Triton",
        source="vllm-project/vllm issue 6276",
        matches=(
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/user/.triton/cache/de758c429c9ff1f18930bbd9c3004506/fused_moe_kernel.json.tmp.pid_1528_587007'",
        ),
        differs=("FileNotFoundError: [Errno 2] No such file or directory: '/data/gsm8k/train.parquet'",),
    ),
    KnownError(
        name="user-id-unknown",
        marker="getpwuid(): uid not found",
        pattern=r"getpwuid\(\): uid not found: (?P<uid>\d{1,10})",
        cause="The process runs as user id {uid}, which has no entry in /etc/passwd, and a library (torch's compile cache, getpass) asked for its name",
        remedy="Set `USER`, `LOGNAME`, `HOME` (writable) and `TORCHINDUCTOR_CACHE_DIR` in the container, or mount /etc/passwd into it (`-v /etc/passwd:/etc/passwd:ro`), or use a user that the image has",
        source="CPython Modules/pwdmodule.c; vllm-project/vllm issue 19504",
        matches=("KeyError: 'getpwuid(): uid not found: 1001'",),
        differs=("KeyError: \"getpwnam(): name not found: 'ray'\"",),
    ),
    KnownError(
        name="file-exists",
        marker="[Errno 17] File exists: '",
        pattern=r"FileExistsError: \[Errno 17\] File exists: '(?P<path>[^'\n]{1,500})'",
        cause="{path} exists already, and the code wanted to make it: it is left from an earlier run, or two processes made it at the same time",
        remedy="`ls -ld '{path}'`: remove or rename what is left over, or give each run (and rank) a directory of its own; in your own code os.makedirs(..., exist_ok=True)",
        source="CPython",
        matches=("FileExistsError: [Errno 17] File exists: '/data/out'",),
        differs=("mkdir: cannot create directory '/data/out': File exists",),
        is_general=True,
    ),
    KnownError(
        name="not-a-directory",
        marker="[Errno 20] Not a directory: '",
        pattern=r"NotADirectoryError: \[Errno 20\] Not a directory: '(?P<path>[^'\n]{1,500})'",
        cause="A part of the path {path} is a file, not a directory",
        remedy="`namei -l '{path}'` shows which part: correct the path, or move that file away",
        source="CPython",
        matches=("NotADirectoryError: [Errno 20] Not a directory: '/data/file/x'",),
        differs=("[Errno 21] Is a directory: '/data'",),
        is_general=True,
    ),
    KnownError(
        name="pickle-file-empty",
        marker="EOFError: Ran out of input",
        pattern=r"EOFError: Ran out of input",
        cause="A file that holds pickled data (a checkpoint, a cache) is empty or was cut off",
        remedy="The traceback names where it is read: remove the cache, or write the checkpoint again; a full disk or a kill while it was written leaves such files (`df -h`)",
        source="CPython Modules/_pickle.c",
        matches=("EOFError: Ran out of input",),
        differs=("EOFError: EOF when reading a line",),
    ),
    KnownError(
        name="text-encoding",
        marker="codec can't decode byte",
        pattern=r"UnicodeDecodeError: '(?P<codec>[\w-]{1,20})' codec can't decode byte (?P<byte>0x[0-9a-f]{2}) in position (?P<position>\d{1,12})",
        cause="A file or stream was read as {codec} text, and its byte {byte} at {position} is none: it is binary, compressed or in another encoding",
        remedy="`file PATH` for the file that the traceback names; give the right encoding or reader (parquet is not json), and set `LANG=C.UTF-8` (or PYTHONUTF8=1) in containers without a locale",
        source="CPython",
        matches=("UnicodeDecodeError: 'utf-8' codec can't decode byte 0x80 in position 0: invalid start byte",),
        differs=("UnicodeEncodeError: 'ascii' codec can't encode character",),
    ),
    KnownError(
        name="fsdp-checkpoint-other-world-size",
        marker="model_world_size_",
        pattern=r"No such file or directory: '(?P<path>[^'\n]{1,400}/(?:model|optim|extra_state)_world_size_(?P<now>\d{1,6})_rank_\d{1,6}\.pt)'",
        cause="The checkpoint has no file for a run with {now} GPUs: it was saved by another number of GPUs, or not on a disk that this node sees",
        remedy="`ls` that directory: the number after world_size must be that of this run; resume with as many GPUs as it was saved with, or merge it into one model (`python -m verl.model_merger merge --backend fsdp`) and start from that",
        source="verl utils/checkpoint/fsdp_checkpoint_manager.py",
        matches=("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/global_step_10/actor/model_world_size_16_rank_0.pt'",),
        differs=("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/model.pt'",),
    ),
)
