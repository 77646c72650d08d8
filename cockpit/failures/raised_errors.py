"""Finds the raised errors in the lines of a log: tracebacks, lines of remote calls, and crashes of native code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from cockpit.failures.known import Match
from cockpit.failures.log_lines import LogLine

MAX_BLOCK_LINES: Final = 12
"""The text of an error has at most so many lines, beginning with the line that names it."""
MAX_STRAY_LINES: Final = 30
"""After so many other lines within a traceback, its error is no longer expected."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_FRAME: Final = re.compile(r'\s{0,12}File "([^"\n]{1,400})", line (\d{1,7})(?:, in (\S{1,200}))?')
_RAY_CALL: Final = re.compile(r"(?:^|: |, )\s{0,8}ray::[^\n(]{1,200}\(\) \(pid=(\d{1,10})(?:, ip=([\w.:\-]{1,100}))?")
"""Begins the stack of a remote call: `ray::WorkerDict.fit() (pid=12, ip=10.0.0.2, actor_id=…)` (ray/exceptions.py: RayTaskError)."""
_SGLANG_RANK: Final = re.compile(r"\[[^\]\n]{0,60}\bTP(\d{1,4})[^\]\n]{0,20}\]")
"""SGLang's logger writes it only before the first line: `[2025-01-01 12:00:00 TP0] Scheduler hit an exception: Traceback …`."""
_NAMED: Final = re.compile(
    r"(?!(?:Message|Arguments|Call stack):)(?P<name>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{0,80})(?:\([\w.]{1,80}\))?(?P<end>: |:$|$|:)"
)
"""The line that names an exception. The three words belong to a logger that failed."""
_NCCL_NAME: Final = re.compile(r"nccl[A-Z]\w{1,40}: ")
"""torch writes NCCL's own name of an error below the line of the exception: `ncclSystemError: `."""
_EXCEPTION: Final = re.compile(
    r"Error$|Exception$|\..{0,80}(?:Exit|Interrupt|Timeout|Fault|Refused|Unavailable|Died|Crashed|Full|Empty|Expired|BrokenProcessPool|BadZipFile|BadGzipFile)$|(?:^|\.)(?:struct|zlib|re)\.error$|(?:^|[._])exceptions\.[A-Z]\w{1,80}$|"
    r"socket\.(?:gai|h)error$"
)
"""These names are an exception even without a traceback above them."""
_NATIVE: Final = re.compile(
    r"(?:\[[EF]\S{0,20} [^\]\n]{0,120}\] |.{1,400}?(?=terminate called after throwing an instance of))?"
    r"(?P<text>(?:\[[^\]\n]{1,80}\] ){0,2}Watchdog caught collective operation timeout|"
    r"terminate called after throwing an instance of|Fatal Python error: |\*\*\* SIG[A-Z]{2,5} (?:received at time|\(@0x))"
)
"""NCCL's watchdog, C++ and signals report these errors; no Python exception does."""
_OTHER_LINE: Final = re.compile(
    r"Process \S{1,60}:$|[\[(]?\d{4}-\d\d-\d\d[ T]|(?:INFO|WARNING|ERROR|DEBUG)\b|\[?[IWEF]\d{3,4} |"
    r"Set the environment variable HYDRA_FULL_ERROR|Error executing job with overrides|"
    r"\d{8}-\d\d:\d\d:\d\d|(?:/|<)\S{0,300}:\d{1,7}: \w{0,40}Warning: |Ran \d{1,6} tests? in |Call stack:$|wandb: |"
    r"\S{1,100}: line \d{1,6}: |(?:srun|slurmstepd): |Killed$|.{0,80}\d%\|"
)
"""A line that belongs to no error: of a logger, a warning, multiprocessing, Hydra, a test, a shell, Slurm, or a progress bar."""
_SEPARATOR: Final = re.compile(r"[-=*#_]{10}")
_DIRECT: Final = "The above exception was the direct cause of the following exception:"
_DURING: Final = "During handling of the above exception, another exception occurred:"
_NOT_SOURCE: Final = (_TRACEBACK, _DIRECT, _DURING)
_HARMLESS: Final = ("Exception ignored in", "Exception ignored on")
"""A line that begins so stands before a traceback that ends nothing."""
_LOGGER_FAILED: Final = "Call stack:"
"""This line follows the error of a logger that could not write its line, which ends nothing either (logging/__init__.py: handleError)."""
_WRAPPER: Final = re.compile(
    r"(?:[\w.]{0,80}\.)?(?:RayTaskError|RayActorError|ActorDiedError|ActorUnavailableError|WorkerCrashedError|TaskUnschedulableError|ChildFailedError|"
    r"CalledProcessError|ProcessRaisedException|ProcessExitedException|EngineDeadError|SystemExit|KeyboardInterrupt|CancelledError|JobException|"
    r"EOFError|BrokenPipeError|BackendCompilerFailed)\b"
)
"""Exceptions that only report that something else has failed."""
_ENGINE_WRAPPER: Final = re.compile(
    r"RuntimeError: (?:Engine core initialization failed|Engine process failed to start|Engine core proc \S{1,60} died)|"
    r"Exception: (?:WorkerProc|EngineCore) \S{0,20} ?(?:initialization )?failed|Failed core proc|terminate called after throwing|"
    r"Fatal Python error: Aborted|\*\*\* SIG(?:ABRT|TERM) received at time|"
    r"[\w.]{1,120}: Caught \w{1,80} in (?:DataLoader worker process|pin memory thread|replica) "
)
_REPORT: Final = re.compile(
    r"[\w.]{1,120}: [^\n]{0,120}\b(?:"
    r"(?:process|server|worker|engine|subprocess|scheduler|router|child)\b[^\n]{0,60} "
    r"(?:exited|terminated|died|(?:has |have )?stopped|crashed)\b(?: with| unexpectedly| before|[.!]?$)"
    r"|(?:server|engine|process|worker)s? (?:launch|start(?:up)?|initiali[sz]ation) failed"
    r"|failed to (?:start|launch)(?: the| a)? (?:\w{1,30} )?(?:server|engine|process|worker)\b(?![^\n]{0,20}: \S)"
    r"|exited with (?:exit |non-zero |nonzero )?(?:exit )?(?:code|status) -?\d"
    r"|see (?:the )?(?:stack ?trace|traceback|root cause|errors?|logs?)\b[^\n]{0,30}\babove"
    r"|check (?:the )?(?:\w{1,20} ){0,2}logs?\b)",
    re.IGNORECASE,
)
"""Such a message says only that another process ended: `Server process exited with code 1. Check server logs for errors.`"""


class RaisedError(msgspec.Struct):
    """An error that was raised."""

    line: LogLine
    text: str
    lines: Sequence[LogLine]
    """Its traceback and its message."""
    lines_after: int
    """The number of lines that the same process wrote after it."""
    is_harmless: bool = False
    """Whether Python only reports it, and goes on."""
    raised_at: str | None = None
    source: str = ""
    """The line of code that raised it. The condition of an `assert` shows what was wrong."""
    cause: RaisedError | None = None
    """The error that was handled when this one was raised."""
    is_direct: bool = False
    """Whether the program itself names the other error as the cause."""
    known: Match | None = None

    @property
    def begin(self) -> int:
        """The number of its first line."""
        return self.lines[0].number

    @property
    def end(self) -> int:
        """The number of its last line."""
        return self.lines[-1].number

    @property
    def first_line(self) -> str:
        """The line that names it."""
        return self.text.partition("\n")[0]

    @property
    def is_certain(self) -> bool:
        """Whether the table knows it as a cause."""
        return self.known is not None and self.known.error.is_certain

    @property
    def is_wrapper(self) -> bool:
        """Whether it is an exception that only reports that something else has failed."""
        return is_wrapper_text(self.text)

    @property
    def is_abort(self) -> bool:
        """Whether it only says that a process ended itself. Then the earlier lines have the reason."""
        return self.text.startswith(("Fatal Python error: Aborted", "*** SIGABRT received at time"))

    @property
    def is_consequence(self) -> bool:
        """Whether it only reports that something else has failed."""
        if self.known is None or self.known.error.explains_only_kind:
            return self.is_wrapper
        return self.known.error.is_symptom


def is_wrapper_text(text: str) -> bool:
    """Whether this text of an error only reports that something else has failed."""
    return any(pattern.match(text) is not None for pattern in (_WRAPPER, _ENGINE_WRAPPER, _REPORT))


def raised_errors(lines: Sequence[LogLine]) -> Iterator[RaisedError]:
    """All errors that were raised, by stream; a traceback of one process may be cut into pieces by lines of others."""
    streams: dict[object, list[LogLine]] = {}
    for line in lines:
        streams.setdefault(line.stream, []).append(line)
    for stream in streams.values():
        yield from _errors_of_stream(stream)


def _errors_of_stream(lines: Sequence[LogLine]) -> Iterator[RaisedError]:
    opened = 0
    """Tracebacks whose error has not come yet. If there are several, several processes write at the same time."""
    begin: int | None = None
    """The place of the first of them."""
    frame: str | None = None
    source = ""
    caller: LogLine | None = None
    """The remote process whose stack is being read."""
    before: RaisedError | None = None
    link = ""
    is_harmless = is_in_stack = False
    strays = at = 0
    while at < len(lines):
        line = lines[at]
        text = line.text
        at += 1
        if _TRACEBACK in text:
            begin = at - 1 if begin is None else begin
            opened, frame, source, is_in_stack, strays = opened + 1, None, "", False, 0
            rank = _SGLANG_RANK.match(text)
            caller = replace(line, rank=int(rank[1])) if rank else None
            continue
        if text.startswith(_HARMLESS):
            is_harmless = True
            continue
        if text.startswith((_DIRECT, _DURING)):
            link = _DIRECT if text.startswith(_DIRECT) else _DURING
            continue
        if (call := _RAY_CALL.search(text)) is not None:
            begin = at - 1 if begin is None else begin
            opened, frame, caller = max(opened, 1), None, replace(line, pid=int(call[1]), ip=call[2] or line.ip)
            continue
        if (stack := _FRAME.match(text)) is not None:
            frame = f"{stack[1].rpartition('/')[2]}:{stack[2]}{f' in {stack[3]}' if stack[3] else ''}"
            is_in_stack, strays = True, 0
            has_source = at < len(lines) and not text[0].isspace() and not _names_error(lines[at].text, False)
            if has_source and not lines[at].text.startswith(("File ", *_NOT_SOURCE)):
                # Copied logs have lost their indentation: the line of code looks like any other line.
                source = lines[at].text
                at += 1
            continue
        if not text or text[0].isspace() or text.startswith(("^", "|", "+")):
            source = text.strip() if frame is not None and text.strip(" ^~") else source
            continue
        native = _NATIVE.match(text)
        if native is None and not _names_error(text, opened > 0 and is_in_stack):
            strays += 1
            if strays > MAX_STRAY_LINES:
                opened, begin, frame, caller = 0, None, None, None
            is_in_stack, is_harmless, link = False, False, link if opened else ""
            continue

        # The line that names the error, and the lines of its message.
        named = at - 1
        block = [text if native is None else text[native.start("text") :]]
        while at < len(lines) and len(block) < MAX_BLOCK_LINES and _continues(lines[at], line):
            block.append(lines[at].text)
            at += 1
        is_harmless = is_harmless or (at < len(lines) and lines[at].text.startswith(_LOGGER_FAILED))
        place = line if caller is None else replace(caller, number=line.number, text=text, times=line.times)
        own_lines = lines[named if begin is None else begin : at]
        error = RaisedError(place, "\n".join(block).rstrip(), own_lines, len(lines) - at, is_harmless)
        if opened < 2 and native is None:
            error.raised_at, error.source = frame, source
        if link:
            error.cause, error.is_direct = before, link == _DIRECT
        yield error
        before = before if is_harmless else error
        opened = max(0, opened - 1)
        begin, frame, source, caller, link, is_harmless, is_in_stack = None, None, "", None, "", False, opened > 0


def _names_error(text: str, is_after_stack: bool) -> bool:
    """Whether a line names an exception. After a stack any name is one: not all of them end with `Error`."""
    named = _NAMED.match(text)
    return named is not None and ((is_after_stack and named["end"] != ":") or _EXCEPTION.search(named["name"]) is not None)


def _continues(line: LogLine, error: LogLine) -> bool:
    """Whether a line belongs to the message of the error before it."""
    text = line.text
    begins_other = (
        (line.is_dated and not error.is_dated)
        or line.logged_at != error.logged_at
        or _TRACEBACK in text
        or text.startswith((_DIRECT, _DURING, *_HARMLESS))
        or (_names_error(text, False) and _NCCL_NAME.match(text) is None)
        or _NATIVE.match(text) is not None
        or _RAY_CALL.search(text) is not None
        or (_FRAME.match(text) is not None and _NATIVE.match(error.text) is None)
        or _OTHER_LINE.match(text) is not None
        # torchrun's error has its whole message below: `ChildFailedError:` and a table.
        or (_SEPARATOR.match(text) is not None and not error.text.rstrip().endswith(":"))
    )
    return not begins_other
