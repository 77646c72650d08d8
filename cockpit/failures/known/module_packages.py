"""Names the package to install for modules whose package has another name, or that needs more than `pip install`."""

from __future__ import annotations

from typing import Final

from cockpit.failures.known.error import KnownError, general_error

_PACKAGES: Final = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "dotenv": "python-dotenv",
    "git": "gitpython",
    "zmq": "pyzmq",
    "google.protobuf": "protobuf",
    "hydra": "hydra-core",
    "bs4": "beautifulsoup4",
    "jwt": "pyjwt",
    "Crypto": "pycryptodome",
    "math_verify": "math-verify",
    "latex2sympy2_extended": "math-verify",
    "ring_flash_attn": "ring-flash-attn",
    "qwen_vl_utils": "qwen-vl-utils",
    "sgl_kernel": "sgl-kernel",
    "sglang_router": "sglang-router",
    "liger_kernel": "liger-kernel",
    "dateutil": "python-dateutil",
    "Levenshtein": "levenshtein",
    "hf_transfer": "hf-transfer",
    "rouge_score": "rouge-score",
}
"""The package of a module, where their names differ."""


def _missing(name: str, module: str, remedy: str) -> KnownError:
    """A row for a module that is not installed."""
    escaped = module.replace(".", r"\.")
    return general_error(
        name,
        f"No module named '{module}'",
        rf"ModuleNotFoundError: No module named '{escaped}'",
        f"The Python of this process has no module {module}",
        remedy,
        "package pages on PyPI",
        f"ModuleNotFoundError: No module named '{module}'",
        differs=f"ModuleNotFoundError: No module named '{module}.other'",
        general=False,
    )


MODULE_PACKAGES: tuple[KnownError, ...] = (
    _missing(
        "module-megatron-training",
        "megatron.training",
        "The package megatron-core holds only megatron.core: get Megatron-LM with git in the version that the framework names, and `export PYTHONPATH=/path/to/Megatron-LM:$PYTHONPATH` on all nodes before `ray start`; or use the framework's container image",
    ),
    _missing(
        "module-megatron-bridge",
        "megatron.bridge",
        "`pip install --no-deps megatron-bridge` on all nodes, in a version that fits the installed megatron-core and that the framework names, then restart Ray; veRL can also use mbridge instead",
    ),
    _missing(
        "module-megatron",
        "megatron",
        "`pip install megatron-core` in the version that the framework pins, or Megatron-LM from git on PYTHONPATH, on all nodes in the environment that starts Ray, then restart Ray; the framework's container image has all parts that fit (Transformer Engine, apex)",
    ),
    _missing(
        "module-transformer-engine",
        "transformer_engine",
        "`pip install --no-build-isolation 'transformer_engine[pytorch]'` on all nodes, in the environment that starts Ray (it is compiled against the installed torch, CUDA and cuDNN, which takes long): the framework's container image has it",
    ),
    _missing(
        "module-nemo",
        "nemo",
        "In NeMo RL its Megatron workers have an environment of their own, made from git submodules: `git submodule update --init --recursive` in its directory, then start once with NRL_FORCE_REBUILD_VENVS=true. Elsewhere: `pip install nemo-toolkit` on all nodes",
    ),
    _missing(
        "module-apex",
        "apex",
        "NVIDIA's apex is not the package apex on PyPI: build it from https://github.com/NVIDIA/apex with its CUDA extensions, or use an image of NVIDIA that has it; many frameworks run without it (Megatron: --no-gradient-accumulation-fusion)",
    ),
    *(
        _missing(
            f"module-{module.replace('.', '-').replace('_', '-').lower()}",
            module,
            f"`pip install {package}` with the Python of this process, on all nodes in the environment that starts Ray, then restart Ray; the package is called {package}"
            " (`python -m pip list` shows what is there)",
        )
        for module, package in _PACKAGES.items()
    ),
)
