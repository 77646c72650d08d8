"""What programs print that only work on their words, on what they are given, and on files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from cockpit.budget.shell.sums import UNKNOWN, reckon

Read = Callable[[str], "str | None"]


def printed(name: str, words: list[str], given: str | None, read: Read) -> str | None:
    """What one of `PRINTERS` prints; `None`: that can't be known."""
    if name == "echo":
        return _echo(words)
    if name in {"cat", "tee"} and not (words and name == "cat"):
        return given
    if any(UNKNOWN in word for word in words) or (given is not None and UNKNOWN in given):
        return None
    said = PRINTERS[name](words, given, read)
    return None if said is None or UNKNOWN in said else said


def formatted(words: list[str]) -> str | None:
    """`printf`, as far as it has `%s` and `%d` and is gone through once."""
    form, *values = words
    signs = re.findall(r"%.", form)
    if not set(signs) <= {"%s", "%d"} or len(signs) < len(values) or re.search(r"\\[^nt]", form) or any(UNKNOWN in word for word in words):
        return None
    values += [""] * (len(signs) - len(values))
    if any(sign == "%d" and not re.fullmatch(r"-?(?:0|[1-9]\d*)", value) for sign, value in zip(signs, values, strict=True)):
        return None
    pieces = re.split(r"%.", form.replace("\\n", "\n").replace("\\t", "\t"))
    return pieces[0] + "".join(value + piece for value, piece in zip(values, pieces[1:], strict=True))


def _echo(words: list[str]) -> str | None:
    end = "" if words[:1] == ["-n"] else "\n"
    words = words[1:] if words[:1] == ["-n"] else words
    return None if words[:1] and re.fullmatch(r"-[neE]+", words[0]) else " ".join(words) + end


def _cat(words: list[str], _: str | None, read: Read) -> str | None:
    texts = [None if word.startswith("-") else read(word) for word in words]
    return None if None in texts else "".join(each or "" for each in texts)


def _seq(words: list[str], _: str | None, _read: Read) -> str | None:
    if not 1 <= len(words) <= 2 or not all(re.fullmatch(r"-?\d{1,4}", word) for word in words):
        return None
    first, last = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    return "".join(f"{number}\n" for number in range(first, last + 1))


def _tr(words: list[str], given: str | None, _: Read) -> str | None:
    plain = [word.replace("\\n", "\n") for word in words]
    if given is None or len(plain) != 2:
        return None
    if plain[0] == "-d" and re.fullmatch(r"[^\[\]\\-]+", plain[1], re.DOTALL):
        return given.translate({ord(sign): None for sign in plain[1]})
    return None if any(len(word) != 1 for word in plain) else given.replace(plain[0], plain[1])


def _wc(words: list[str], given: str | None, _: Read) -> str | None:
    if given is None or words not in (["-l"], ["-w"]):
        return None
    return f"{len(given.split()) if words == ['-w'] else given.count(chr(10))}\n"


def _awk(words: list[str], given: str | None, _: Read) -> str | None:
    """How many fields each line has, as devices are counted; or a sum."""
    alone = re.fullmatch(r"\s*BEGIN\s*\{\s*print\s*\(?([\d\s+*-]+)\)?\s*;?\s*\}\s*", words[0]) if len(words) == 1 else None
    if alone:
        return reckon(alone[1], lambda _: UNKNOWN) + "\n"
    found = re.fullmatch(r"-F ?([,;:])\{ ?print NF;? ?\}", "".join(words))
    if given is None or not found:
        return None
    return "".join(f"{len(line.split(found[1])) if line else 0}\n" for line in given.splitlines())


def _grep(words: list[str], given: str | None, read: Read) -> str | None:
    """Lines in which a plain text stands, or doesn't, or how many; or each place of it."""
    flags = "".join(sorted(word[1:] for word in words if word.startswith("-")))
    asked = [word for word in words if not word.startswith("-")]
    given = read(asked[1]) if len(asked) == 2 else given
    plain = asked and re.fullmatch(r"\^?[\w,:;#=/ -]*\$?|\.", asked[0])
    if given is None or not plain or flags not in {"", "c", "v", "o", "cv"}:
        return None
    if flags == "o":
        return "".join(f"{found}\n" for line in given.splitlines() for found in re.findall(asked[0], line) if found)
    lines = [line for line in given.splitlines() if bool(re.search(asked[0], line)) is ("v" not in flags)]
    return f"{len(lines)}\n" if "c" in flags else "".join(f"{line}\n" for line in lines)


def _head(words: list[str], given: str | None, read: Read) -> str | None:
    found = re.fullmatch(r"-(?:n ?)?(\d{1,5})(?: ([^ -]\S*))?", " ".join(words))
    given = read(found[2]) if found and found[2] else given
    return None if given is None or not found else "".join(given.splitlines(keepends=True)[: int(found[1])])


def _cut(words: list[str], given: str | None, _: Read) -> str | None:
    found = re.fullmatch(r"-d ?(.) ?-f ?(\d{1,3})", " ".join(words))
    if given is None or not found:
        return None
    lines = [line.split(found[1]) for line in given.splitlines()]
    return "".join(f"{(line[int(found[2]) - 1 :] or [''])[0] if len(line) > 1 else line[0]}\n" for line in lines)


def _sorted(words: list[str], given: str | None, _: Read) -> str | None:
    """Only its number of lines is sure to be the same anywhere; so signs that all sort alike."""
    if given is None or words not in ([], ["-u"]) or not re.fullmatch(r"(?:[a-z]+\d*\n)*", given):
        return None
    lines = given.splitlines()
    return "".join(f"{line}\n" for line in sorted(set(lines) if words else lines))


def _bc(words: list[str], given: str | None, _: Read) -> str | None:
    if given is None or words not in ([], ["-q"]) or not re.fullmatch(r"[\d\s()+*/-]+\n", given) or given.count("\n") != 1:
        return None
    return reckon(given.strip(), lambda _: UNKNOWN) + "\n"


def _python(words: list[str], _: str | None, _read: Read) -> str | None:
    """`print(…)` of a sum of whole numbers."""
    found = re.fullmatch(r"print\((int\()?([\d\s()+*/]+?)(?(1)\))\)", words[1].strip()) if len(words) == 2 and words[0] == "-c" else None
    if not found or re.search(r"(?<!/)/(?!/)", found[2]) is not None:
        return None
    return reckon(found[2].replace("//", "/"), lambda _: UNKNOWN) + "\n"


PRINTERS: dict[str, Callable[[list[str], str | None, Read], str | None]] = {
    "echo": lambda words, *_: _echo(words),
    "printf": lambda words, *_: formatted(words) if words else None,
    "cat": _cat,
    "tee": lambda _, given, _read: given,
    "seq": _seq,
    "tr": _tr,
    "wc": _wc,
    "awk": _awk,
    "grep": _grep,
    "head": _head,
    "cut": _cut,
    "sort": _sorted,
    "bc": _bc,
    "python": _python,
    "python3": _python,
    "dirname": lambda words, *_: (posixpath.dirname(words[0]) or ".") + "\n" if len(words) == 1 else None,
    "basename": lambda words, *_: posixpath.basename(words[0]) + "\n" if len(words) == 1 else None,
    "expr": lambda words, *_: reckon(" ".join(words), lambda _: UNKNOWN) + "\n",
}
