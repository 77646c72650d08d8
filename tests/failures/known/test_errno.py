"""Every error number of Linux is explained."""

from __future__ import annotations

import errno
import os

import pytest

from cockpit.failures import describe, find_root_error

NOT_IN_JOBS = {
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
}
NOT_IN_JOBS |= {"EBADSLT", "EBFONT", "ENOSTR", "ENOSR", "ENONET", "ENOPKG", "EADV", "ESRMNT", "ECOMM", "EMULTIHOP", "EDOTDOT", "ENOTUNIQ"}
NOT_IN_JOBS |= {"EBADFD", "EREMCHG", "ELIBACC", "ELIBBAD", "ELIBSCN", "ELIBMAX", "ELIBEXEC", "ERESTART", "ESTRPIPE", "ENOTNAM", "ENAVAIL"}
NOT_IN_JOBS |= {"EISNAM", "EMEDIUMTYPE", "EREMOTE", "ESOCKTNOSUPPORT", "EPFNOSUPPORT", "ERFKILL", "EHWPOISON", "EQFULL", "ENOTCAPABLE"}
"""Numbers of streams, floppy drives and old networks."""
AMBIGUOUS = {"EAGAIN"}
"""Its words alone do not say what was lacking: a thread, a lock, or data that has not come yet."""
NUMBERS = sorted(number for number, name in errno.errorcode.items() if name not in NOT_IN_JOBS | AMBIGUOUS)


def known_in(text: str) -> str | None:
    error = find_root_error(
        ["step 1", "Traceback (most recent call last):", '  File "/app/train.py", line 3, in <module>', "    main()", text]
    )
    return describe(error).known if error else None


@pytest.mark.parametrize("number", NUMBERS)
def test_every_error_number_is_explained_in_the_words_of_python_rust_and_java(number: int):
    words = os.strerror(number)
    texts = (
        f"OSError: [Errno {number}] {words}",
        f"OSError: [Errno {number}] {words}: '/data/x'",
        f'RuntimeError: Data processing error: I/O error: Os {{ code: {number}, kind: Uncategorized, message: "{words}" }}',
        f"RuntimeError: {words} (os error {number})",
        f"java.io.IOException: {words}",
    )
    assert [text for text in texts if known_in(text) is None] == []
