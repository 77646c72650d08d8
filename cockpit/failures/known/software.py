"""Errors of the installed software: missing or mismatched packages, libraries, compilers and kernels."""

from __future__ import annotations

from cockpit.failures.known.error import KnownError

SOFTWARE: tuple[KnownError, ...] = (
    KnownError(
        name="python-lacks-module",
        marker=": No module named ",
        pattern=r"(?<!\S)(?P<python>/[^\s:]{1,250}/python[\d.]{0,6}): (?:Error while finding module specification for '[^'\n]{1,200}' "
        r"\(ModuleNotFoundError: )?No module named '?(?P<module>[A-Za-z_][\w.]{0,100})'?\)?$",
        cause="{python} has no module {module}",
        remedy="Install it for exactly that Python on every node (`{python} -m pip list` shows what it has), or start the job with the Python of the right "
        "environment: activate it before `ray start`, since Ray's workers use the Python that started Ray",
        source="Python 3.11.7 (`python3 -m verl.trainer.main_ppo` without verl)",
        matches=(
            "/usr/bin/python3: No module named verl",
            "/opt/conda/bin/python3.10: Error while finding module specification for 'verl.trainer.main_ppo' (ModuleNotFoundError: No module named 'verl')",
        ),
        differs=("ModuleNotFoundError: No module named 'verl'", "WARNING importing tensorboard failed: No module named tensorboard"),
        is_general=True,
    ),
    KnownError(
        name="flash-attn-missing",
        marker="No module named 'flash_attn",
        pattern=r"ModuleNotFoundError: No module named 'flash_attn(?:_2_cuda)?(?:\.[\w.]{1,60})?'",
        cause="The package flash-attn is not installed (or not completely) in the Python of this process",
        remedy="`python -m pip install flash-attn --no-build-isolation` on every node, in the environment that starts Ray, or a wheel for exactly its torch, CUDA and "
        "Python from the releases page of flash-attention; or choose `attn_implementation=sdpa` where the framework has the option",
        source="OpenRLHF/OpenRLHF issue 538 (import chain)",
        matches=("ModuleNotFoundError: No module named 'flash_attn'", "ModuleNotFoundError: No module named 'flash_attn_2_cuda'"),
        differs=(
            "WARNING: flash_attn is not installed, using sdpa (No module named 'flash_attn')",
            "ModuleNotFoundError: No module named 'flash_attn_interface_tools'",
        ),
    ),
    KnownError(
        name="vllm-compiled-part-missing",
        marker="No module named 'vllm._",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>vllm\._[A-Za-z]\w{0,60})'",
        cause="Python imports a vLLM without its compiled part ({module}), such as a source directory named vllm",
        remedy='`python -c "import vllm; print(vllm.__file__)"` from the job\'s working directory: if that is not site-packages, start elsewhere or rename that directory; '
        "otherwise install vLLM again: `python -m pip install --force-reinstall --no-deps vllm` with the same version",
        source="vllm-project/vllm issue 1367 (source directory shadows the package)",
        matches=("ModuleNotFoundError: No module named 'vllm._C'",),
        differs=("WARNING [_custom_ops.py:20] Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")",),
    ),
    KnownError(
        name="submodule-missing",
        marker="ModuleNotFoundError: No module named '",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>(?P<package>vllm|sglang|transformers|trl|torch|deepspeed|megatron|ray|peft|triton|verl|openrlhf)"
        r"\.[\w.]{1,120})'",
        cause="The installed {package} has no module {module}: its version does not fit the code that imports it",
        remedy="`python -m pip show {package}` on that node, and install the version that the framework's requirements name; also check with "
        '`python -c "import {package}; print({package}.__path__)"` that no directory named {package} hides the package',
        source="KeplerC/robo2VLM issue 3 (a module that moved between vLLM versions)",
        matches=("ModuleNotFoundError: No module named 'vllm.inputs.data'",),
        differs=("ModuleNotFoundError: No module named 'vllm'", "INFO No module named 'vllm.plugins' yet, skipping"),
        is_general=True,
    ),
    KnownError(
        name="module-missing",
        marker="ModuleNotFoundError: No module named '",
        pattern=r"ModuleNotFoundError: No module named '(?P<module>[A-Za-z_][\w.]{0,120})'",
        cause="The Python of this process has no module {module}",
        remedy="Install its package on every node in the environment that starts Ray (`python -m pip list`; the package's name can differ from the module's), then "
        "restart Ray; if {module} is your own code: add its directory to PYTHONPATH or ship it with `ray job submit --working-dir .`",
        source="Python 3.11.7 ModuleNotFoundError",
        matches=("ModuleNotFoundError: No module named 'openrlhf'", "ModuleNotFoundError: No module named 'datasets'"),
        differs=(
            "WARNING [_custom_ops.py:20] Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")",
            "flash_attn: No module named 'flash_attn', falling back",
        ),
        is_general=True,
    ),
    KnownError(
        name="triton-torch-mismatch",
        marker="cannot import name 'triton_key'",
        pattern=r"cannot import name 'triton_key' from 'triton\.compiler\.compiler'",
        cause="The installed triton does not fit the installed torch",
        remedy="`python -m pip show torch triton`, then reinstall torch with the triton that it asks for: `python -m pip install --force-reinstall` with the same torch "
        "version and without pinning triton",
        source="FoundationVision/Infinity issue 31",
        matches=(
            "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler' (/opt/conda/lib/python3.10/site-packages/triton/compiler/compiler.py)",
        ),
        differs=("ImportError: cannot import name 'triton_kernels' from 'vllm'",),
    ),
    KnownError(
        name="circular-import",
        marker="from partially initialized module",
        pattern=r"cannot import name '(?P<name>[^'\n]{1,100})' from partially initialized module '(?P<module>[^'\n]{1,150})'",
        cause="Python imports {module} while it is still being imported: two modules import each other, or a file or directory of yours is named like the package",
        remedy="The path in brackets shows which file was taken: if it lies in your directory, rename it (or do not start from there, and leave it out of "
        "`--working-dir`); otherwise the packages' versions do not fit each other",
        source="vllm-project/vllm issues 1367 and 475",
        matches=(
            "ImportError: cannot import name 'cuda_utils' from partially initialized module 'vllm' (most likely due to a circular import) (/work/vllm/__init__.py)",
        ),
        differs=("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)",),
    ),
    KnownError(
        name="import-unknown-location",
        marker="(unknown location)",
        pattern=r"cannot import name '(?P<name>[^'\n]{1,100})' from '(?P<module>[^'\n]{1,150})' \(unknown location\)",
        cause="Python took a plain directory for {module}: it has no __init__.py, so it is not the package",
        remedy='`python -c "import {module}; print({module}.__path__)"` from the job\'s directory: if it is a source or data directory, start from elsewhere or rename it; '
        "if it lies in site-packages, the package is not completely installed: install it again",
        source="vllm-project/vllm issues 618 and 4554; vllm-project/vllm-ascend issue 527",
        matches=("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)",),
        differs=("ImportError: cannot import name 'LLM' from 'vllm' (/usr/lib/python3.10/site-packages/vllm/__init__.py)",),
    ),
    KnownError(
        name="import-name-missing",
        marker="ImportError: cannot import name '",
        pattern=r"ImportError: cannot import name '(?P<name>[^'\n]{1,100})' from '(?P<module>(?P<package>[A-Za-z_]\w{0,60})[\w.]{0,120})' \((?!unknown location)(?P<path>[^)\n]{1,300})\)",
        cause="The installed {package} has no {name} in {module}: its version does not fit the code that imports it",
        remedy="`python -m pip show {package}`: install the version that the importing package (the line before it in the traceback) asks for; do it on all nodes, "
        "then restart Ray; {path} shows which copy was taken",
        source="OpenBMB/MiniCPM issue 236; nlpxucan/WizardLM issue 248; vllm-project/vllm issue 14401",
        matches=(
            "ImportError: cannot import name 'SamplerOutput' from 'vllm.sequence' (/root/miniconda3/lib/python3.11/site-packages/vllm/sequence.py)",
            "ImportError: cannot import name 'LogitsWarper' from 'transformers.generation.logits_process' "
            "(/usr/local/lib/python3.12/dist-packages/transformers/generation/logits_process.py)",
        ),
        differs=(
            "WARNING could not import: cannot import name 'foo' from 'bar'",
            "ImportError: cannot import name 'LLM' from 'vllm' (unknown location)",
        ),
        is_general=True,
    ),
    KnownError(
        name="flash-attn-abi",
        marker="undefined symbol",
        pattern=r"(?P<path>flash_attn_2_cuda|flash_attn_3_cuda|rotary_emb|dropout_layer_norm|fused_dense_lib)\.[^\s:]{1,100}\.so: undefined symbol",
        cause="flash-attn ({path}) was built for another torch than the one installed",
        remedy="`python -m pip uninstall -y flash-attn`, then a wheel for exactly this torch, CUDA, Python and C++ ABI, or build it against the installed torch: "
        "`FLASH_ATTENTION_FORCE_BUILD=TRUE python -m pip install flash-attn --no-build-isolation --no-cache-dir`; on all nodes",
        source="OpenRLHF/OpenRLHF issue 418; Dao-AILab/flash-attention issues 1612, 1832; neurips-llm-efficiency-challenge issue 12",
        matches=(
            "ImportError: /usr/local/lib/python3.10/dist-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
            "/opt/lib/python3.12/site-packages/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocation",
        ),
        differs=(
            "ImportError: /opt/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c105ErrorC2E",
            "ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /x/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so)",
        ),
    ),
    KnownError(
        name="torch-nccl-mismatch",
        marker="undefined symbol: nccl",
        pattern=r"libtorch_cuda\.so: undefined symbol: (?P<symbol>nccl\w{1,60})",
        cause="torch needs a newer NCCL than the libnccl that was loaded (it lacks {symbol})",
        remedy="Look for another NCCL in front: `env | grep -E 'LD_LIBRARY_PATH|LD_PRELOAD'` and try `unset LD_LIBRARY_PATH LD_PRELOAD`; if another package downgraded it (`python -m pip list | grep nccl`), reinstall torch with its own NCCL: `python -m pip install --force-reinstall` with the same torch version",
        source="glibc's text for a missing symbol, in public logs of torch",
        matches=("ImportError: /root/.venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",),
        differs=("NCCL WARN Cannot find symbol ncclCommResume",),
    ),
    KnownError(
        name="nvjitlink-mismatch",
        marker="undefined symbol: __nvJitLink",
        pattern=r"libcusparse\.so\.\d{1,3}: undefined symbol: (?P<symbol>__nvJitLink\w{1,60})",
        cause="torch's CUDA libraries are mixed with an older libnvJitLink (it lacks {symbol}), often that of a CUDA toolkit in LD_LIBRARY_PATH",
        remedy="`echo $LD_LIBRARY_PATH`: try `unset LD_LIBRARY_PATH` (before `ray start`, too); if that does not help, `python -m pip install --upgrade nvidia-nvjitlink-cu12` "
        "(cu13 for torch with CUDA 13), or reinstall torch in a fresh environment",
        source="glibc's text for a missing symbol, in public logs of torch",
        matches=(
            "ImportError: /venv/lib/python3.10/site-packages/torch/lib/../../nvidia/cusparse/lib/libcusparse.so.12: undefined symbol: __nvJitLinkComplete_12_4, version libnvJitLink.so.12",
        ),
        differs=("ImportError: /venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommResume",),
    ),
    KnownError(
        name="driver-library-too-old",
        marker="undefined symbol: cuTensorMapEncodeTiled",
        pattern=r"ImportError: [^\n]{1,300}\.so: undefined symbol: cuTensorMapEncodeTiled",
        cause="The NVIDIA driver library that the process sees is missing or older than CUDA 12, which the compiled part of vLLM needs",
        remedy="`nvidia-smi` in the same place shows the driver and its CUDA version: run on nodes with a newer driver, or a vLLM build for that CUDA version; in a container, "
        "start it with `--gpus all`",
        source="glibc's text for a missing symbol, in public logs of vLLM",
        matches=("ImportError: /usr/local/lib/python3.10/dist-packages/vllm/_C.abi3.so: undefined symbol: cuTensorMapEncodeTiled",),
        differs=(
            "ImportError: /usr/local/lib/python3.10/dist-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c1013MessageLoggerC1ENS_14SourceLocationEib",
        ),
        look_up="driver",
    ),
    KnownError(
        name="torch-abi",
        marker="undefined symbol: _ZN",
        pattern=r"(?<!\S)(?P<path>/[^\s:]{1,250}): undefined symbol: (?P<symbol>_ZN[KR]?(?:2at|3c10|5torch|2c10)\S{1,200})",
        cause="{path} was built for another version of torch than the one installed (it lacks the symbol {symbol})",
        remedy="`python -m pip list | grep -iE 'torch|vllm|sglang|flash|deepspeed|apex|transformer'`: install the torch that this package was built for, or install "
        "the package again for the present torch (`--no-build-isolation --no-cache-dir --force-reinstall --no-deps`); on all nodes",
        source="Dao-AILab/flash-attention issues 867, 1832 (the same symbols); vllm-project/vllm issue 431 (ABI)",
        matches=(
            "ImportError: /opt/lib/python3.12/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib",
            "ImportError: /usr/local/lib/python3.8/dist-packages/transformer_engine_extensions.so: undefined symbol: _ZN2at4_ops5zeros4callE",
        ),
        differs=(
            "ImportError: /usr/lib/libx.so: undefined symbol: cublasLtGetVersion",
            "WARNING Failed to import from vllm._C with ImportError('/usr/local/lib64/python3.11/site-packages/vllm/_C.abi3.so: undefined symbol: _ZN3c108ListType3getERKNSt7')",
        ),
        is_general=True,
    ),
    KnownError(
        name="undefined-symbol",
        marker=": undefined symbol: ",
        pattern=r"(?<!\S)(?P<path>/[^\s:]{1,250}): undefined symbol: (?P<symbol>[^\s,]{1,200})",
        cause="{path} needs the symbol {symbol}, which the libraries that were loaded lack: two libraries of different versions are mixed",
        remedy="`ldd {path}` on that node shows which libraries it loads; a CUDA or NCCL of the system in LD_LIBRARY_PATH often hides torch's own: try the job with "
        "`unset LD_LIBRARY_PATH`, then reinstall the package that owns the file",
        source="Dao-AILab/flash-attention issue 723 (form of the line)",
        matches=(
            "ImportError: /opt/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: cudaGetDriverEntryPointByVersion, version libcudart.so.12",
        ),
        differs=("/usr/bin/ld: x.o: undefined reference to `foo'", "INFO checked: no undefined symbol: ok"),
        is_general=True,
    ),
    KnownError(
        name="libstdcxx-too-old",
        marker="not found (required by",
        pattern=r"version `(?P<version>(?:GLIBCXX|CXXABI)_[\d.]{1,12})' not found \(required by (?P<path>[^)\n]{1,300})\)",
        cause="The C++ library libstdc++.so.6 that was loaded is older than {version}, which {path} needs",
        remedy="Use a newer one before the job and `ray start`: in conda `conda install -y -c conda-forge libstdcxx-ng` and "
        "`export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$LD_LIBRARY_PATH`; otherwise a container with a newer system",
        source="vllm-project/vllm issue 12946; Dao-AILab/flash-attention issue 1428",
        matches=(
            "ImportError: /usr/lib64/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by /usr/local/lib/python3.9/site-packages/flash_attn_2_cuda.cpython-39-x86_64-linux-gnu.so)",
        ),
        differs=("ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /x/flash_attn_2_cuda.so)",),
    ),
    KnownError(
        name="glibc-too-old",
        marker="not found (required by",
        pattern=r"version `(?P<version>GLIBC_[\d.]{1,10})' not found \(required by (?P<path>[^)\n]{1,300})\)",
        cause="The C library of that system is older than {version}, which {path} needs (`ldd --version` shows it)",
        remedy="The C library cannot be replaced alone: use a container with a newer system (Ubuntu 22.04 has 2.35), or build that package on this system; for flash-attn: "
        "`FLASH_ATTENTION_FORCE_BUILD=TRUE python -m pip install flash-attn --no-build-isolation --no-cache-dir`",
        source="Dao-AILab/flash-attention issues 1708, 1762; vllm-project/vllm issue 28612",
        matches=(
            "ImportError: /lib64/libc.so.6: version `GLIBC_2.32' not found (required by /venvs/openrlhf/lib/python3.12/site-packages/flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so)",
        ),
        differs=("ImportError: /usr/lib64/libstdc++.so.6: version `GLIBCXX_3.4.26' not found (required by /x.so)",),
    ),
    KnownError(
        name="cuda-library-missing",
        marker=".so.",
        pattern=r"(?P<library>lib(?:cudart|cudnn\w{0,30}|nccl|cublas\w{0,4}|cusparse\w{0,4}|cufft\w{0,4}|curand|cusolver\w{0,4}|nvrtc\S{0,20}|nvJitLink|cupti|cufile|nvshmem\w{0,10}"
        r")\.so\.\d{1,3}): cannot open shared object file",
        cause="The CUDA library {library} is not found: a package was built for this CUDA version, but the environment has another or none",
        remedy='`python -c "import torch; print(torch.version.cuda)"`: install the build of the failing package for that CUDA version, or the library\'s pip package '
        "(such as `nvidia-cuda-runtime-cu12`), whose directory must be found through LD_LIBRARY_PATH; on all nodes",
        source="glibc's text for a library that is missing, in public logs",
        matches=(
            "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "OSError: libnccl.so.2: cannot open shared object file: No such file or directory",
        ),
        differs=(
            "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
            "ImportError: libGL.so.1: cannot open shared object file",
        ),
    ),
    KnownError(
        name="shared-library-missing",
        marker=": cannot open shared object file: No such file or directory",
        pattern=r"(?:ImportError|OSError|shared libraries): (?P<library>[\w.+/-]{1,200}): cannot open shared object file: No such file or directory",
        cause="The shared library {library} is missing on that node (or not on its library path)",
        remedy="Install the system package that has it (libGL.so.1: `apt-get install -y libgl1`), in the container's image too; if it exists, add its directory to "
        "LD_LIBRARY_PATH before `ray start`: `ldconfig -p` lists what is found",
        source="glibc's text for a library that is missing, in public logs",
        matches=(
            "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
            "raylet: error while loading shared libraries: libxml++-2.6.so.1: cannot open shared object file: No such file or directory",
        ),
        differs=(
            "W tensorflow: Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory",
        ),
        is_general=True,
    ),
    KnownError(
        name="c-compiler-missing",
        marker="Failed to find C compiler",
        pattern=r"Failed to find C compiler\. Please specify via CC environment variable",
        cause="Triton compiles a small C program at run time, and that node has no C compiler on its PATH",
        remedy="`apt-get install -y build-essential python3-dev` on every node (or in the image), or `export CC=$(which gcc)` before `ray start` if gcc is there under "
        "another path",
        source="vllm-project/vllm issues 2997, 15329; apple/ml-cross-entropy issue 5",
        matches=("RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",),
        differs=("RuntimeError: Failed to find CUDA compiler",),
    ),
    KnownError(
        name="python-headers-missing",
        marker="fatal error: Python.h: No such file or directory",
        pattern=r"fatal error: Python\.h: No such file or directory",
        cause="A C extension (often Triton's) could not be compiled, since the header files of Python are not installed on that node",
        remedy="Install them for the Python of the job: `apt-get install -y python3-dev` (or python3.12-dev and the like; RPM: python3-devel), on every node; "
        "Pythons of conda and uv bring them along",
        source="gcc's text, in public logs of Triton",
        matches=("/tmp/tmpab/main.c:5:10: fatal error: Python.h: No such file or directory",),
        differs=("fatal error: cuda.h: No such file or directory",),
    ),
    KnownError(
        name="ninja-missing",
        marker="Ninja is required to load C++ extensions",
        pattern=r"RuntimeError: Ninja is required to load C\+\+ extensions",
        cause="torch compiles an extension at run time, and the program ninja is not on the PATH of that process",
        remedy="`python -m pip install ninja` in that environment on every node; if it is installed, put the environment's bin directory on PATH before `ray start` "
        "(calling its python by an absolute path does not do that)",
        source="torch.utils.cpp_extension",
        matches=("RuntimeError: Ninja is required to load C++ extensions",),
        differs=("ninja: build stopped: subcommand failed.",),
    ),
    KnownError(
        name="numpy-abi",
        marker="size changed, may indicate binary incompatibility",
        pattern=r"ValueError: numpy\.\w{1,20} size changed, may indicate binary incompatibility\. Expected (?P<expected>\d{1,5}) from C header, got (?P<found>\d{1,5})",
        cause="A compiled package was built for another NumPy major version than the one installed",
        remedy="`python -m pip show numpy`, then fit them: `python -m pip install 'numpy<2'` if the package is older, or reinstall the package that the traceback names "
        "(pandas, scipy, scikit-learn …) with `--force-reinstall --no-cache-dir`; on all nodes",
        source="Cython's text, in public logs of pandas",
        matches=(
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject",
        ),
        differs=("RuntimeWarning: numpy.dtype size changed, may indicate binary incompatibility. Expected 96, got 88",),
    ),
    KnownError(
        name="numpy-2-warning",
        marker="A module that was compiled using NumPy 1.x cannot be run in",
        pattern=r"A module that was compiled using NumPy 1\.x cannot be run in\s{1,3}NumPy (?P<version>2[\w.]{1,15})",
        cause="A package built for NumPy 1 runs with NumPy {version}; it may fail at its first use of arrays",
        remedy="`python -m pip install 'numpy<2'` in that environment on all nodes, or upgrade the package named in the traceback below the message; without another "
        "error it is only a warning",
        source="NumPy 2's own text, in public logs",
        matches=(
            "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.2.3 as it may crash. To support both 1.x and 2.x\nversions of NumPy, modules must be compiled with NumPy 2.0.",
        ),
        differs=(
            "ValueError: numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject",
        ),
        is_warning=True,
    ),
    KnownError(
        name="tokenizer-attribute-transformers-5",
        marker="all_special_tokens_extended",
        pattern=r"AttributeError: '(?P<tokenizer>\w{1,80})' object has no attribute 'all_special_tokens_extended'",
        cause="The code (usually vLLM) asks the tokenizer for all_special_tokens_extended, which transformers 5 no longer has: it needs transformers 4",
        remedy="`python -m pip install 'transformers<5'` on all nodes (or a vLLM that supports transformers 5), then restart Ray",
        source="CPython's AttributeError, in public logs of vLLM with transformers 5",
        matches=("AttributeError: 'Qwen2Tokenizer' object has no attribute 'all_special_tokens_extended'",),
        differs=("AttributeError: 'Qwen2Tokenizer' object has no attribute 'foo'",),
    ),
    KnownError(
        name="vllm-ops-not-loaded",
        marker="'_OpNamespace' '_C",
        pattern=r"'_OpNamespace' '_C\w{0,20}' object has no attribute '(?P<name>\w{1,100})'",
        cause="vLLM's compiled kernels could not be loaded ({name} is missing): vLLM and torch do not fit each other",
        remedy="`python -m pip show vllm torch`: install the torch that this vLLM requires (`python -m pip install vllm` in a fresh environment does it), and install "
        "flash-attn after it; an earlier `Failed to import from vllm._C` warning shows the reason",
        source="verl-project/verl issue 1084",
        matches=("AttributeError: '_OpNamespace' '_C' object has no attribute 'rms_norm'",),
        differs=("AttributeError: '_OpNamespace' 'aten' object has no attribute 'foo'",),
    ),
    KnownError(
        name="model-config-attribute",
        marker="Config' object has no attribute '",
        pattern=r"AttributeError: '(?P<config>[A-Z]\w{1,80}Config)' object has no attribute '(?P<name>\w{1,100})'",
        cause="The code reads {name} from {config}, which the installed version of that class does not have: versions of transformers, vLLM and the framework do not fit",
        remedy="`python -m pip show transformers vllm` and take the versions that the framework pins (a newer transformers if the model is new, an older one if the "
        "framework is old); for a model with code of its own, update its files",
        source="QwenLM/Qwen3 issue 724",
        matches=("AttributeError: 'Qwen2MoeConfig' object has no attribute 'mlp_only_layers'",),
        differs=(
            "omegaconf.errors.ConfigAttributeError: Key 'actor' is not in struct",
            "AttributeError: 'NoneType' object has no attribute 'config'",
        ),
        is_general=True,
    ),
    KnownError(
        name="package-attribute",
        marker="AttributeError: module '",
        pattern=r"AttributeError: module '(?P<module>(?P<package>vllm|sglang|transformers|torch|triton|deepspeed|trl|peft|ray|flash_attn|numpy|megatron|verl)[\w.]{0,100})' has no attribute "
        r"'(?P<name>\w{1,100})'",
        cause="The imported {module} has no {name}: another version of {package} than the code expects, or a directory with that name hides the package",
        remedy="`python -c \"import {package}; print({package}.__path__, getattr({package}, '__version__', None))\"` from the job's directory: if it is not in site-packages, start "
        "elsewhere; otherwise install the version that the framework pins",
        source="vllm-project/vllm issue 4554",
        matches=(
            "AttributeError: module 'vllm' has no attribute '__version__'",
            "AttributeError: module 'torch.library' has no attribute 'register_fake'",
        ),
        differs=("AttributeError: module 'reward_function' has no attribute 'compute_score'",),
        is_general=True,
    ),
    KnownError(
        name="transformers-too-old-for-model",
        marker="does not recognize this architecture",
        pattern=r"model type `(?P<type>[^`\n]{1,60})` but Transformers does not recognize this architecture",
        cause="The installed transformers does not know the model type {type}",
        remedy="`python -m pip install --upgrade transformers` to a version that supports {type} (the model card names it) and that vLLM or SGLang allows "
        "(`python -m pip check`); if the model brings its own code, allow trust_remote_code; on all nodes",
        source="transformers configuration_auto.py",
        matches=(
            "ValueError: The checkpoint you are trying to load has model type `qwen3_vl` but Transformers does not recognize this architecture. "
            "This could be because of an issue with the checkpoint, or because your version of Transformers is out of date.",
        ),
        differs=(
            "You are using a model of type qwen2_vl to instantiate a model of type qwen2_5_vl. This is not supported for all configurations of models and can yield errors.",
        ),
    ),
    KnownError(
        name="architecture-not-supported",
        marker="are not supported for now",
        pattern=r"Model architectures \[?'?(?P<name>[^'\]\n]{1,80})'?\]? are not supported for now",
        cause="The installed inference engine (vLLM or SGLang) does not know the model architecture {name}",
        remedy="Upgrade vLLM or SGLang to a version whose list of supported models has it (`python -m pip show vllm sglang` shows yours), on all nodes; also check "
        "`architectures` in the model's config.json",
        source="vLLM registry.py; vllm-project/vllm troubleshooting page",
        matches=(
            "ValueError: Model architectures ['DbrxForCausalLM'] are not supported for now. Supported architectures: ['AquilaModel', 'BaiChuanForCausalLM']",
            "(APIServer pid=352089)   Value error, Model architectures ['DeepseekOCRForCausalLM'] are not supported for now. Supported architectures: dict_keys(['ApertusForCausalLM'])",
        ),
        differs=("LoRA adapters are not supported for now",),
    ),
    KnownError(
        name="remote-code-not-allowed",
        marker="trust_remote_code=True",
        pattern=r"Please pass the argument `trust_remote_code=True` to allow custom code to be run|set the option `trust_remote_code=True` to remove this error",
        cause="The model (or data set) has code of its own, which is only run if trust_remote_code is set",
        remedy="If you trust it: veRL `actor_rollout_ref.model.trust_remote_code=True data.trust_remote_code=True` (critic: `critic.model.trust_remote_code=True`), vLLM/SGLang "
        "`--trust-remote-code`; or use a transformers version that has this model built in",
        source="transformers dynamic_module_utils.py",
        matches=(
            "ValueError: The repository nvidia/x contains custom code which must be executed to correctly load the model. You can inspect the repository content at "
            "https://hf.co/nvidia/x.\nPlease pass the argument `trust_remote_code=True` to allow custom code to be run.",
            "ValueError: Loading moonshotai/Kimi-K2.5 requires you to execute the configuration file in that repo on your local machine. Make sure you have read the code there to avoid "
            "malicious use, then set the option `trust_remote_code=True` to remove this error.",
        ),
        differs=("UserWarning: `trust_remote_code=True` is not supported anymore, and will be ignored.",),
    ),
    KnownError(
        name="flash-attention-2-unusable",
        marker="FlashAttention2 has been toggled on, but it cannot be used",
        pattern=r"FlashAttention2 has been toggled on, but it cannot be used\s{1,3}due to the\s{1,3}following error:\s{1,3}(?P<reason>[^\n.]{1,200})",
        cause="The model was asked for FlashAttention 2, which does not work here: {reason}",
        remedy="`python -m pip install flash-attn --no-build-isolation` on all nodes if it is not installed; otherwise choose another attention: "
        "veRL `+actor_rollout_ref.model.override_config.attn_implementation=sdpa`, OpenRLHF without `--flash_attn`",
        source="transformers modeling_utils.py",
        matches=(
            "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: the package flash_attn seems to be not installed. Please refer to the documentation",
            "ValueError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: Flash Attention 2 is not available on CPU. Please make sure torch can access a CUDA device.",
        ),
        differs=("You are attempting to use Flash Attention 2.0 with a model not initialized on GPU.",),
    ),
    KnownError(
        name="protobuf-descriptors",
        marker="Descriptors cannot be created directly",
        pattern=r"TypeError: Descriptors cannot be created directly",
        cause="The installed protobuf is newer than the generated code of a package (often wandb, tensorboard or an old onnx) allows",
        remedy="Upgrade the package that the traceback names, or `python -m pip install 'protobuf<=3.20.3'`, or as a workaround (slow) "
        "`export PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python` before `ray start`",
        source="protobuf's own text, in public logs of wandb",
        matches=(
            "TypeError: Descriptors cannot be created directly.\nIf this call came from a _pb2.py file, your generated code is out of date and must be regenerated with protoc >= 3.19.0.",
        ),
        differs=("UserWarning: Protobuf gencode version 5.27.2 is exactly one major version older than the runtime version 6.31.1",),
    ),
    KnownError(
        name="package-version-required",
        marker="is required for a normal functioning of this module, but found",
        pattern=r"(?<![\w.-])(?P<want>[\w.-]{1,40}[<>=!~][^\s]{1,150}) is required for a normal functioning of this module, but found (?P<have>\S{1,60}?)\.?(?:\s|$)",
        cause="A package needs {want}, and {have} is installed",
        remedy="`python -m pip install '{want}'` on all nodes, unless another package pins the old version (`python -m pip check` shows that): then change the package that asks",
        source="transformers utils/versions.py",
        matches=(
            "ImportError: tokenizers>=0.21,<0.22 is required for a normal functioning of this module, but found tokenizers==0.20.3.",
            "ImportError: peft>=0.17.0 is required for a normal functioning of this module, but found peft==0.15.2.\nTry: `pip install transformers -U`",
        ),
        differs=("INFO accelerate is required for a normal functioning of this module, but found none, skipping",),
    ),
    KnownError(
        name="python-too-old-for-unions",
        marker="unsupported operand type(s) for |: 'type' and 'NoneType'",
        pattern=r"TypeError: unsupported operand type\(s\) for \|: 'type' and 'NoneType'",
        cause="The code writes types as `X | None`, which needs Python 3.10 or newer, and this process has an older Python",
        remedy="`python --version` on that node; use an environment with Python 3.10 or newer on all nodes (the same version for Ray everywhere), or an older version of the package",
        source="CPython's TypeError, in public logs of transformers",
        matches=("TypeError: unsupported operand type(s) for |: 'type' and 'NoneType'",),
        differs=(
            "TypeError: unsupported operand type(s) for |: 'dict' and 'list'",
            "TypeError: unsupported operand type(s) for +: 'int' and 'NoneType'",
        ),
    ),
    KnownError(
        name="git-dubious-ownership",
        marker="detected dubious ownership in repository at",
        pattern=r"fatal: detected dubious ownership in repository at '(?P<path>[^'\n]{1,400})'",
        cause="git refuses to work in {path}, since another user owns it",
        remedy="`git config --global --add safe.directory '{path}'` for the user of the job (in a container too), or give the directory to that user",
        source="git's own text, in public logs",
        matches=("fatal: detected dubious ownership in repository at '/root/verl'",),
        differs=("fatal: not a git repository (or any of the parent directories): .git",),
    ),
    KnownError(
        name="transformers-import-wrapper",
        marker="because of the following error (look up to see its traceback)",
        pattern=r"RuntimeError: Failed to import (?P<module>(?:transformers|trl)[\w.]{1,120}) because of the following error \(look up to see its traceback\):\s{1,4}(?P<reason>[^\n]{1,250})",
        cause="{module} could not be imported: {reason}",
        remedy="The line after it is the real error: fix that package (an undefined symbol or a missing name means that it was built for, or is, another version)",
        source="Dao-AILab/flash-attention issues 1612, 867; vllm-project/vllm issue 431",
        matches=(
            "RuntimeError: Failed to import transformers.models.clip.modeling_clip because of the following error (look up to see its traceback):\noperator torchvision::nms does not exist",
        ),
        differs=("ERROR Failed to import transformers.models: no such module",),
        is_consequence=True,
    ),
    KnownError(
        name="inductor-wrapper",
        marker="raised:",
        pattern=r"BackendCompilerFailed: backend='(?P<backend>[^'\n]{1,40})' raised:\s{1,4}(?P<reason>[^\n]{1,250})",
        cause="torch.compile failed ({backend}): {reason}",
        remedy="That reason is the real error; to go on without compiling: `export TORCHDYNAMO_DISABLE=1`, vLLM `enforce_eager` (veRL `actor_rollout_ref.rollout.enforce_eager=True`), "
        "veRL `actor_rollout_ref.actor.use_torch_compile=False`",
        source="FoundationVision/Infinity issue 31; triton-lang/triton issue 3708",
        matches=(
            "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nRuntimeError: Cannot find a working triton installation.",
        ),
        differs=("WARNING backend='inductor' was chosen",),
        is_consequence=True,
    ),
    KnownError(
        name="inductor-error",
        marker="torch._inductor.exc.InductorError",
        pattern=r"torch\._inductor\.exc\.InductorError: (?P<reason>[^\n]{1,250})",
        cause="torch.compile failed: {reason}",
        remedy="That reason is the real error; if it names a file of a cache: `rm -rf ~/.triton/cache /tmp/torchinductor_$USER` and a local cache per node; to go on without compiling: "
        "`export TORCHDYNAMO_DISABLE=1`, or `enforce_eager` in vLLM",
        source="pytorch/pytorch issue 173679; vllm-project/vllm issue 24751 (title)",
        matches=("torch._inductor.exc.InductorError: CalledProcessError: Command 'gcc' returned non-zero exit status 1.",),
        differs=('File "/x/torch/_inductor/compile_fx.py", line 1019, in _compile_fx_inner',),
        is_consequence=True,
    ),
    KnownError(
        name="extension-build-failed",
        marker="Error building extension '",
        pattern=r"Error building extension '(?P<extension>[\w.-]{1,100})'",
        cause="The compiled extension {extension} could not be built on that node; the compiler's own error stands above or below",
        remedy="Look for `error:` or `fatal` in the lines around it: a header or nvcc that is missing, a toolkit that does not fit torch, a compiler that is too old "
        "(`gcc --version`, `nvcc --version`); after a build that was cut off: `rm -rf ~/.cache/torch_extensions`",
        source="torch/utils/cpp_extension.py",
        matches=("RuntimeError: Error building extension 'fused_adam'",),
        differs=("Building extension module fused_adam...",),
        is_consequence=True,
    ),
    KnownError(
        name="flash-attention-dtype",
        marker="FlashAttention only support fp16 and bf16",
        pattern=r"FlashAttention only support fp16 and bf16 data type",
        cause="FlashAttention got tensors in float32, and it computes in fp16 and bf16 only",
        remedy="Load and train the model in bf16 (OpenRLHF `--bf16`, TRL `bf16=True`, veRL `actor_rollout_ref.actor.fsdp_config.model_dtype=bf16`), or use another attention: "
        "`attn_implementation=sdpa`",
        source="flash-attention csrc/flash_attn/flash_api.cpp",
        matches=("RuntimeError: FlashAttention only support fp16 and bf16 data type",),
        differs=("RuntimeError: FlashAttention only supports Ampere GPUs or newer.",),
    ),
)
