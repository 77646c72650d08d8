"""Explains kinds of errors that no other row knows: what every `KeyError` or every bare `assert` has in common, and how to find the rest."""

from __future__ import annotations

from typing import Final

from cockpit.failures.known.error import KnownError

_ERROR: Final = r"(?:[A-Za-z_]\w{0,60}\.){0,8}(?!CUDA)(?:[A-Z]\w{0,60})?(?:Error|Exception|Invalid): "
"""The name of an exception. Names such as `torch.AcceleratorError` are included, words of a logger are not."""
_VERSIONS: Final = "`python -m pip list`"


def _advice(name: str, marker: str, opening: str, text: str, differs: str, before: str = "") -> KnownError:
    """A row for messages that say themselves what to do, in words that begin with `opening`; `before`: what must stand before these."""
    return KnownError(
        name=name,
        marker=marker,
        pattern=rf"^(?P<message>{_ERROR}[^\n]{{0,700}}?{before}(?P<advice>\b{opening}[^\n]{{8,480}}))",
        cause="{message}",
        remedy='Its message says what to do: "{advice}"',
        source="messages of TRL, accelerate, transformers, vLLM and LLaMA-Factory",
        matches=(text,),
        differs=(differs,),
        is_general=True,
        explains_only_kind=True,
    )


ERROR_KINDS: tuple[KnownError, ...] = (
    _advice(
        "message-says-install",
        "pip install ",
        r"(?:[Pp]lease )?(?:(?:[Ii]nstall|[Rr]un|[Uu]pgrade|[Tt]ry)\b[^\n]{0,80})?[`'\"]?pip install ",
        "ImportError: Using the `SentencePiece` tokenizer requires sentencepiece. Please install it with `pip install sentencepiece`",
        "WARNING liger is missing: pip install liger-kernel",
    ),
    _advice(
        "message-says-please",
        "lease ",
        r"[Pp]lease (?!report|file|open|submit|contact|note|refer|see|raise an|create an|let us|check (?:the )?(?:stack|logs?))",
        "ValueError: Please use scripts/pissa_init.py to initialize PiSSA in DeepSpeed ZeRO-3.",
        "RuntimeError: Unexpected state. Please report a bug to PyTorch.",
    ),
    _advice(
        "message-says-you-can",
        "ou ",
        r"[Yy]ou (?:can|should|must|need to|have to|may want to|might want to|could) (?!not\b|only\b)",
        "ValueError: --load_best_model_at_end is not possible here. You should set save_strategy to the value of eval_strategy.",
        "ValueError: You cannot use both options at once",
    ),
    _advice(
        "message-says-try",
        "ry ",
        r"[Tt]ry (?!again|later)",
        "ValueError: The buffer has no room for one sequence. Try increasing `max_num_batched_tokens` or decreasing `max_model_len`.",
        "ValueError: the server is busy. Try again later",
        r"(?:[.;,:] |\bor )",
    ),
    _advice(
        "message-says-make-sure",
        "sure ",
        r"(?:[Mm]ake|[Bb]e) sure ",
        "RuntimeError: No adapter weights were found. Make sure the path holds adapter_config.json and adapter_model.safetensors.",
        "INFO make sure that the port is open",
    ),
    _advice(
        "message-says-consider",
        "onsider ",
        r"[Cc]onsider (?!passing CUDA_LAUNCH_BLOCKING|filing|reporting|opening)",
        "ValueError: The sequence of 9000 tokens fits no micro batch. Consider raising max_token_len_per_gpu or filtering long samples.",
        "RuntimeError: CUDA kernel errors might be asynchronously reported. For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    ),
    _advice(
        "message-says-set",
        "et ",
        r"(?:[Ss]et|[Uu]se|[Ee]nable|[Dd]isable|[Ii]ncrease|[Dd]ecrease|[Rr]educe) [`'\"-]{0,3}\w",
        "ValueError: The model does not fit the limit of this engine; set max_model_len to 4096 or less.",
        "ValueError: settings differ between ranks",
        r"(?:[.;,:] |\bor )",
    ),
    KnownError(
        name="value-is-none",
        marker="NoneType",
        pattern=r"^(?P<message>(?:AttributeError|TypeError): [^\n]{0,120}?(?:'NoneType'(?: object | and | is not |$)|, not NoneType)[^\n]{0,200})",
        cause="A value is None where the code needs one: {message}",
        remedy="The line that the traceback names shows which value: an option or a data column that is not set, or the result of a step that failed earlier "
        "(look for warnings and errors above); print it there, or set the option",
        source="CPython Objects/object.c; gensyn-ai/rl-swarm issue 176",
        matches=(
            "TypeError: 'NoneType' object is not iterable",
            "TypeError: unsupported operand type(s) for *: 'int' and 'NoneType'",
            "TypeError: must be real number, not NoneType",
            "AttributeError: 'NoneType' object has no attribute 'result'",
        ),
        differs=(
            "WARNING 'NoneType' object has no attribute 'x' (ignored)",
            "AttributeError: 'Qwen2Model' object has no attribute 'result'",
        ),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="builtin-value-unexpected",
        marker="object has no attribute '",
        pattern=r"^AttributeError: '(?P<kind>str|list|dict|tuple|set|int|float|bool|bytes|generator|function|builtin_function_or_method|method|coroutine)' "
        r"object has no attribute '(?P<name>\w{1,100})'",
        cause="The code expects an object that has {name}, and got a {kind}",
        remedy="The line that the traceback names shows where the value comes from: data, a configuration or an answer of another form than expected, or a caller "
        f"from another version; print it there, and compare {_VERSIONS} with what the framework pins",
        source="CPython Objects/object.c; huggingface/trl issue 2292",
        matches=("AttributeError: 'str' object has no attribute 'shape'", "AttributeError: 'list' object has no attribute 'keys'"),
        differs=("AttributeError: 'Qwen2Model' object has no attribute 'result'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="object-attribute-missing",
        marker="object has no ",
        pattern=r"^AttributeError: (?:property '(?P<property>\w{1,100})' of )?'(?P<kind>[\w.]{1,100})' object has no (?P<what>attribute '\w{1,100}'|setter)",
        cause="The code uses {what} of an object of the class {kind}, which has none",
        remedy=f"Mostly the installed versions do not fit each other: compare {_VERSIONS} with what the framework pins, on all nodes; "
        "if they fit, an object of another class was passed, or the attribute was never set, at the line that the traceback names",
        source="CPython Objects/object.c; huggingface/trl issues 2161 and 3257; hiyouga/LlamaFactory issue 2164",
        matches=(
            "AttributeError: 'AutoModelForCausalLMWithValueHead' object has no attribute 'warnings_issued'",
            "AttributeError: property 'tokenizer' of 'OnlineDPOTrainer' object has no setter",
        ),
        differs=("AttributeError: module 'reward_function' has no attribute 'compute_score'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="attribute-read-only",
        marker="AttributeError: ",
        pattern=r"^AttributeError: (?P<what>can't (?:set|delete) attribute(?: '\w{1,100}')?|(?:property|attribute) '\w{1,100}' (?:of '\w{1,100}' objects? )?is (?:not writable|read-only))",
        cause="The code sets an attribute that is read-only in this version of its class: {what}",
        remedy=f"The line that the traceback names shows which: install the version of the package that the code was written for (compare {_VERSIONS} with its requirements), or leave "
        "that line out or set what the attribute is computed from",
        source="CPython Objects/descrobject.c; CannyLab/summary_loop issue 1",
        matches=("AttributeError: can't set attribute",),
        differs=("AttributeError: 'X' object has no attribute 'y'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="module-attribute-missing",
        marker="AttributeError: module '",
        pattern=r"^AttributeError: module '(?P<module>[\w.]{1,150})' has no attribute '(?P<name>\w{1,100})'",
        cause="The imported module {module} has no {name}",
        remedy='`python -c "import {module}; print({module})"` from the job\'s directory shows which file was imported: a file of yours with the same name hides a package; '
        "otherwise its version has no {name} (yet, or any more), or a part of it could not be imported",
        source="CPython Objects/moduleobject.c",
        matches=("AttributeError: module 'reward_function' has no attribute 'compute_score'",),
        differs=("AttributeError: 'Qwen2Model' object has no attribute 'result'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="call-with-other-arguments",
        marker="TypeError: ",
        pattern=r"^TypeError: (?P<function>[\w.<>]{1,150})\(\) (?P<what>takes [^\n]{1,60}positional arguments?[^\n]{1,60} given|"
        r"missing \d{1,2} required (?:positional|keyword-only) arguments?: [^\n]{1,200}|got multiple values for argument '\w{1,100}')",
        cause="{function} was called with other arguments than it has: it {what}",
        remedy=f"A function of your own (such as a reward function): give it the arguments that the framework's documentation names. A function of a package: the versions "
        f"do not fit each other, compare {_VERSIONS} with what the framework pins",
        source="CPython Python/ceval.c; gensyn-ai/rl-swarm issue 304",
        matches=(
            "TypeError: RewardManager._get_sampler() takes 1 positional argument but 2 were given",
            "TypeError: compute_score() missing 1 required positional argument: 'ground_truth'",
        ),
        differs=("TypeError: compute_score() got an unexpected keyword argument 'reward_router_address'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="value-of-other-form",
        marker="TypeError: ",
        pattern=r"^TypeError: (?P<what>(?:list|tuple|string) indices must be integers[^\n]{0,60}|can only concatenate [^\n]{1,60}|"
        r"unsupported operand type\(s\) for [^\n]{1,80}|'\w{1,60}' object is not (?:subscriptable|iterable|callable)|"
        r"unhashable type: '\w{1,60}'|can't multiply sequence [^\n]{1,60}|sequence item \d{1,6}: expected str[^\n]{1,60}|"
        r"expected string or bytes-like object[^\n]{0,40}|(?:cannot unpack non-iterable|object of type) [^\n]{1,80})",
        cause="A value has another type than the code at that line expects: {what}",
        remedy="Print the value at the line that the traceback names, and follow it back: a data column, a configuration value (a number written as text?) or an answer of "
        "another form than expected, such as a prompt that is a list of messages instead of text",
        source="CPython Objects/abstract.c; THUDM/slime issue 1829; huggingface/course issue 1005",
        matches=('TypeError: can only concatenate list (not "str") to list', "TypeError: list indices must be integers or slices, not str"),
        differs=("TypeError: compute_score() got an unexpected keyword argument 'reward_router_address'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="key-missing",
        marker="KeyError: ",
        pattern=r"^KeyError: (?P<key>['\"][^'\"\n]{1,150}['\"]|[\w.-]{1,100})$",
        cause="The code looks up the key {key}, which is not there",
        remedy="The line that the traceback names shows where it looks: for a data set, compare its columns; for a configuration, the names of its version; for weights or a "
        "checkpoint, whether they belong to this model and version; print the keys there",
        source="CPython Objects/dictobject.c",
        matches=("KeyError: 'total_iters'",),
        differs=("WARNING KeyError: 'x' was ignored",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="check-failed",
        marker="assert ",
        pattern=r"^\s{0,12}assert (?P<check>[^\n]{1,250})\nAssertionError:?\s{0,5}$",
        cause="The program asserts {check}, which does not hold",
        remedy="The program says no more than that: print the values of the check at the line that the traceback names. If the line is in a package, its version, an option "
        f"or the data is outside what it supports: compare {_VERSIONS} with what the framework pins",
        source="CPython Python/bytecodes.c; verl-project/verl issues 4057 and 5205",
        matches=(
            'Traceback (most recent call last):\n  File "/opt/flash_attn/cross_entropy.py", line 165, in forward\n'
            "    assert labels.shape == (n_rows,)\nAssertionError",
        ),
        differs=("assert actor_world_size % args.vllm_num_engines == 0\nValueError: x",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="name-not-defined",
        marker=" is not defined",
        pattern=r"^NameError: name '(?P<name>\w{1,100})' is not defined",
        cause="The code uses the name {name}, which nothing has defined",
        remedy="In your own code: import or define {name} before that line. In a package: it mostly stands for an optional import that failed or is not installed there: look for a "
        "warning about it above, or try that import by hand with `python -c`",
        source="CPython Python/ceval.c",
        matches=("NameError: name 'flash_attn_varlen_func' is not defined. Did you mean: 'flash_attn_func'?",),
        differs=("jinja2.exceptions.UndefinedError: 'tools' is not defined",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="local-value-unset",
        marker="UnboundLocalError: ",
        pattern=r"^UnboundLocalError: (?:cannot access )?local variable '(?P<name>\w{1,100})' (?:referenced before assignment|where it is not associated with a value)",
        cause="The code uses {name} before any branch has given it a value",
        remedy="The lines above the one that the traceback names show the branches: none of them fitted, often since an option, a model type or the data is not among those that this "
        f"version knows; compare {_VERSIONS} with what the framework pins",
        source="CPython Python/ceval.c",
        matches=("UnboundLocalError: cannot access local variable 'loss' where it is not associated with a value",),
        differs=("NameError: name 'loss' is not defined",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="sequence-too-short",
        marker="IndexError: ",
        pattern=r"^IndexError: (?P<what>(?:list|tuple|string|pop from empty|list assignment) ?(?:index out of range|list)|index -?\d{1,10} is out of bounds for [^\n]{1,80})",
        cause="The code takes an element that a sequence does not have: {what}",
        remedy="Print the sequence and its length at the line that the traceback names: an empty answer, file or batch, a text that does not have the expected form, or fewer "
        "devices or workers than the code counts on",
        source="CPython Objects/listobject.c",
        matches=("IndexError: list index out of range",),
        differs=("IndexError: index out of range in self",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="operation-not-built",
        marker="INTERNAL ASSERT FAILED",
        pattern=r"RuntimeError: (?P<what>[^\n]{0,150}?) ?INTERNAL ASSERT FAILED at [\x22'](?P<file>[^\x22'\n]{1,200})[\x22']:(?P<line>\d{1,6})",
        cause="A check inside torch failed ({what}, {file} line {line})",
        remedy="torch itself, or an extension that does not fit it, is at fault: look for an earlier CUDA or driver error above, compare `python -m pip list` with the versions that the "
        "framework pins, and try the next torch version; an issue of torch with the same file and line often names the way around",
        source="pytorch/pytorch c10/util/Exception.h",
        matches=('RuntimeError: b.nodes INTERNAL ASSERT FAILED at "x.cpp":12, please report a bug to PyTorch.',),
        differs=('RuntimeError: device >= 0 && device < num_gpus, ASSERT FAILED at "x.cpp":12',),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="class-attribute-missing",
        marker="AttributeError: type object '",
        pattern=r"^AttributeError: type object '(?P<kind>[\w.]{1,100})' has no attribute '(?P<name>\w{1,100})'",
        cause="The installed version of the class {kind} has no {name}",
        remedy=f"A class of a package: the versions mostly do not fit each other: compare {_VERSIONS} with what the framework pins, on all nodes, and restart Ray. A class of your own: its name or spelling at the line that the traceback names",
        source="CPython Objects/typeobject.c",
        matches=("AttributeError: type object 'LLM' has no attribute 'collective_rpc'",),
        differs=("AttributeError: 'LLM' object has no attribute 'collective_rpc'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="values-to-unpack",
        marker="values to unpack (expected ",
        pattern=r"^ValueError: (?P<what>too many|not enough) values to unpack \(expected (?P<count>(?:at least )?\d{1,4})",
        cause="A call or a row gave {what} values: the code expects {count}",
        remedy="The line that the traceback names shows which: a function that returns more or fewer values in another version, a reward function that returns another form, or a text "
        "that splits into other parts than expected; print the value there",
        source="CPython Python/ceval.c",
        matches=("ValueError: too many values to unpack (expected 2)", "ValueError: not enough values to unpack (expected 3, got 2)"),
        differs=("ValueError: too many values",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="abstract-part-missing",
        marker="TypeError: Can't instantiate abstract class",
        pattern=r"^TypeError: Can't instantiate abstract class (?P<kind>\w{1,100}) (?:with|without an implementation for) abstract methods? (?P<methods>[^\n]{1,200})",
        cause="{kind} lacks methods that its base class asks for: {methods}",
        remedy="Its package and the package of the base class are of versions that do not fit each other: install the ones that the framework pins; a class of your own: define these methods",
        source="CPython Objects/typeobject.c",
        matches=("TypeError: Can't instantiate abstract class MyWorker without an implementation for abstract method 'load_weights'",),
        differs=("TypeError: MyWorker() takes no arguments",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="cuda-error-other",
        marker="CUDA ",
        pattern=r"(?:RuntimeError|AcceleratorError): CUDA (?:driver )?error(?: \(\d{1,3}\))?: (?P<what>[^\n]{1,120})",
        cause="A call of CUDA failed: {what}",
        remedy="The traceback may name a later call than the one that failed: run once with CUDA_LAUNCH_BLOCKING=1 to see the right one; `nvidia-smi` and `dmesg -T | grep -i xid` on that node "
        "show whether the GPU or its driver is at fault",
        source="pytorch/pytorch c10/cuda/CUDAException.cpp",
        matches=("RuntimeError: CUDA error: unknown error",),
        differs=("INFO CUDA error: none",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="part-not-written",
        marker="NotImplementedError",
        pattern=r"^NotImplementedError:?\s{0,5}$",
        cause="The program came to a part that this version does not have (NotImplementedError)",
        remedy="The line that the traceback names shows for what: a kind of data, model, reward or device that no branch there handles: choose one that it has, write that part (such as a "
        "reward function of your own), or take a newer version",
        source="CPython Lib/exceptions; Jiayi-Pan/TinyZero (default reward function)",
        matches=("NotImplementedError",),
        differs=("NotImplementedError: Unknown strategy", "WARNING NotImplementedError"),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="iterator-ended",
        marker="StopIteration",
        pattern=r"^(?:StopIteration|RuntimeError: generator raised StopIteration):?\s{0,5}$",
        cause="The code asked for one more element, and there was none (StopIteration)",
        remedy="The line that the traceback names shows of what: mostly a data loader without a full batch (fewer samples than the batch size, with drop_last), or one that was resumed at its "
        "end: lower the batch size, add data, or start a new epoch",
        source="CPython Objects/iterobject.c",
        matches=(
            'Traceback (most recent call last):\n  File "/opt/torchdata/sampler.py", line 163, in load_state_dict\n    next(self.iterator)\nStopIteration',
        ),
        differs=("StopAsyncIteration", "WARNING StopIteration"),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="divided-by-zero",
        marker="ZeroDivisionError",
        pattern=r"^ZeroDivisionError: (?P<what>[^\n]{1,80})",
        cause="A number is divided by zero ({what})",
        remedy="The line that the traceback names shows by what: mostly a count that is 0: no samples after filtering, fewer samples than one batch (so no step in an epoch), no valid token, "
        "or a world size or batch size that an integer division made 0",
        source="CPython Objects/longobject.c",
        matches=("ZeroDivisionError: division by zero",),
        differs=("WARNING ZeroDivisionError: ignored",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="sequence-empty",
        marker="empty sequence",
        pattern=r"^(?:ValueError|IndexError): (?P<what>(?:min|max)\(\) (?:arg|iterable argument) is an? empty(?: sequence)?|Cannot choose from an empty sequence)",
        cause="A list that should have elements is empty: {what}",
        remedy="Print it at the line that the traceback names: all samples were filtered out, a file or an answer is empty, or nothing was collected in this step",
        source="CPython Python/bltinmodule.c",
        matches=("ValueError: max() arg is an empty sequence",),
        differs=("WARNING max() arg is an empty sequence",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="import-refused",
        marker="ImportError: ",
        pattern=r"^(?P<message>ImportError: [^\n]{5,250})",
        cause="{message}",
        remedy="A package, or a part of one, is not there or does not fit. The last File line names the import: try it by hand with that node's `python -c`; if it fails there too, install the missing package or the "
        f"version that its importer asks for ({_VERSIONS}), on all nodes",
        source="CPython Python/import.c",
        matches=("ImportError: attempted relative import with no known parent package",),
        differs=("ModuleNotFoundError: No module named 'trl'",),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="message-names-a-rule",
        marker=": ",
        pattern=r"^(?P<message>(?:[A-Za-z_]\w{0,60}\.){0,8}(?:ValueError|AssertionError|NotImplementedError|ValidationError|[A-Z]\w{0,40}(?:Config|Argument|Configuration)\w{0,20}Error): "
        r"[^\n]{0,250}?(?:\b(?:[Mm]ust|[Ss]hould|[Rr]equires?|[Rr]equired|[Cc]annot|[Cc]an't|[Cc]an not|[Uu]nsupported|[Ii]ncompatible|[Mm]ismatch\w{0,4}|"
        r"[Uu]nknown|[Uu]nkown|[Uu]nrecognized|[Ii]nvalid|divisible|at least|at most|greater than|less than|larger than|smaller than|exceeds?)\b|"
        r"not (?:supported|allowed|implemented|found|available|registered|enabled|divisible|equal|match|in the list|valid|a valid|recognized|set|specified)|"
        r"only supports?|is only|[Oo]nly \w{1,60} (?:is|are) |does(?:n't| not) (?:support|match|exist|have|contain)|do not match|[Nn]o \w{1,60} (?:found|specified|given|provided)|"
        r"[Ee]xpected|!=|[Gg]ot )[^\n]{0,600})$",
        cause="{message}",
        remedy="A check of the program's settings, versions or data failed. Change what the message names (an option, a version, the GPU or the data); the line that the traceback names shows which values it compares, and the "
        "configuration that is printed at the start of the log shows what is set",
        source="messages of verl, TRL, slime, SkyRL, NeMo RL, OpenRLHF and vLLM",
        matches=(
            "ValueError: Reward manager 'dapo2' is not registered",
            "AssertionError: max_tokens_per_gpu must be set when use_dynamic_batch_size is set",
            "NotImplementedError: Context parallelism is not supported for reward models",
        ),
        differs=("ValueError: math domain error", "WARNING it must be set", "RuntimeError: CUDA error: invalid argument"),
        is_general=True,
        explains_only_kind=True,
    ),
    KnownError(
        name="message-names-a-limit",
        marker=": ",
        pattern=r"^(?P<message>(?:[A-Za-z_]\w{0,60}\.){0,8}(?:RuntimeError|Exception|TypeError|OSError|ImportError|ModuleNotFoundError): (?!CUDA|NCCL|\[|cuda)"
        r"[^\n]{0,250}?\b(?:requires?|must (?:be|have|not)|should (?:be|have|not)|(?:is|are) (?:not|un)supported|not supported|unsupported|incompatible|"
        r"not compatible|mismatch|do(?:es)? not match|only supports?|is not (?:installed|implemented|available|enabled))\b[^\n]{0,600})$",
        cause="{message}",
        remedy="Change what the message names (an option, a version, the GPU or the data); the line that the traceback names shows which values it looks at, `python -m pip list` the versions, and "
        "the configuration that is printed at the start of the log what is set",
        source="messages of flash-attn, vLLM, unsloth and torch; VITA-Group/LLaGA issue 16; unslothai/unsloth issue 1894",
        matches=(
            "RuntimeError: FlashAttention backward for head dim > 64 requires A100 or H100 GPUs as the implementation needs a large amount of shared memory.",
            "RuntimeError: the engine should not be pickled!",
        ),
        differs=("RuntimeError: CUDA error: operation not supported", "WARNING it must be set", "RuntimeError: the disk said no"),
        is_general=True,
        explains_only_kind=True,
    ),
)
