"""Finds, reads and writes preset files: in the user's folder, among the ready-made ones, or at any path."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import platformdirs

from cockpit.config.document import InputError, abbreviate_home, expand_home, read_text
from cockpit.presets.preset import ENDINGS, Preset, read_preset
from cockpit.presets.schema import EDITOR_SCHEMA
from cockpit.presets.script import explain_script, find_script
from cockpit.text import explain_os_error
from cockpit.trust import why_not_ours

DEMO_FOLDER: Final = "COCKPIT_DEMO_PRESETS"
"""The environment variable with the folder of a demo's presets; the demo sets it for the screen that it opens."""
READY_MADE: Final = Path(__file__).with_name("shipped")
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_URI: Final = r"(?i)[a-z][a-z0-9+.-]*://"


class PresetError(InputError):
    """A preset can't be read. It has the preset's name and file."""

    def __init__(self, path: Path, error: InputError) -> None:
        super().__init__(str(error))
        self.path = path
        self.name = path.stem


def presets_folder() -> Path:
    """`$XDG_CONFIG_HOME/cockpit/presets`."""
    return platformdirs.user_config_path("cockpit") / "presets"


def is_shared(path: Path) -> bool:
    """Return whether the preset belongs to no project folder: it is one of the user's, or a ready-made one."""
    return path.absolute().parent in (presets_folder(), READY_MADE)


def is_path(text: str) -> bool:
    """Return whether the text is a path, not the name of a preset."""
    return "/" in text or text.endswith(ENDINGS)


def is_uri(working_dir: str) -> bool:
    """Return whether it is a URI, which Ray fetches itself: s3://, https://, gcs://, and the like."""
    return re.match(_URI, working_dir.lstrip()) is not None


def resolve_beside(path: Path, written: str) -> Path:
    """Return a folder that the preset at `path` names. It is relative to the preset's folder. Raises `InputError`.

    If the preset belongs to no project folder, it is relative to the current folder.
    """
    try:
        base = Path.cwd() if is_shared(path) else path.absolute().parent
        return (base / Path(written).expanduser()).resolve()
    # OSError: the current folder is gone. RuntimeError: ~ of an unknown user, or links in a circle. ValueError: a null byte.
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"can't be resolved: {getattr(error, 'strerror', None) or error}") from error


def presets() -> list[Preset | PresetError]:
    """Return the presets of a demo, the user's, and the ready-made ones. If two have the same name, the first is used."""
    paths: dict[str, Path] = {}
    for path in (*_demo_files(), *_files(presets_folder()), *_files(READY_MADE)):
        paths.setdefault(path.stem, path)
    return [_read_or_error(path) for path in paths.values()]


def _read_or_error(path: Path) -> Preset | PresetError:
    try:
        return _read_named(path)
    except InputError as error:
        return PresetError(path, error)


def find_preset(name_or_path: str) -> Preset:
    """Read a preset by its name, or by its path (it contains a slash or ends in .yaml). Raises `InputError`."""
    if is_path(name_or_path):
        return read_preset(expand_home(name_or_path))
    paths = {path.stem: path for path in (*_files(READY_MADE), *_files(presets_folder()), *_demo_files())}
    if name_or_path in paths:
        return _read_named(paths[name_or_path])
    beside = Path(f"{name_or_path}.yaml")
    if os.path.isfile(beside):
        raise InputError(f"no preset is named {name_or_path}; the file here is ./{beside}")
    if (script := find_script(Path(name_or_path))) is not None:
        raise InputError(explain_script(name_or_path, script))
    near = get_close_matches(name_or_path, paths, 1)
    raise InputError(
        f"no preset is named {name_or_path}; {f'perhaps {near[0]}' if near else f'presets are in {abbreviate_home(presets_folder())}'}"
    )


def _read_named(path: Path) -> Preset:
    """Read a preset that was given by its name: another user's file is refused. Raises `InputError`."""
    if path.parent != READY_MADE and (reason := why_not_ours(path)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason}; give its path if you mean this file")
    return read_preset(path)


class UnknownPresetError(InputError):
    """No preset has that name."""


def copy_preset(name: str) -> Path:
    """Copy a ready-made preset with its comments into the user's folder. Raises `UnknownPresetError`, `InputError`."""
    source = READY_MADE / f"{name}.yaml"
    if not re.fullmatch(_NAME, name) or not source.is_file():
        raise UnknownPresetError(f"no ready-made preset is named {name}; ready-made: {', '.join(path.stem for path in _files(READY_MADE))}")
    return write_preset(read_text(source), name)


def write_preset(text: str, name: str) -> Path:
    """Write a new file into the user's folder, atomically and readable only by its owner. Raises `InputError`, also if it exists.

    Its first line names the schema of presets, which is written into the folder above.
    """
    if not re.fullmatch(_NAME, name):
        raise InputError(f"{name!r} can't be the name of a preset; use letters, digits and . _ -")
    path = presets_folder() / f"{name}.yaml"
    if (reason := why_not_ours(path.parent)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason} (under sudo, use sudo -H)")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: can't create its folder: {explain_os_error(error)}") from error
    try:
        _write(path, f"{EDITOR_SCHEMA.modeline('../')}{text}")
    except FileExistsError as error:
        raise InputError(f"{abbreviate_home(path)}: already exists; not overwritten") from error
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: {explain_os_error(error)}") from error
    EDITOR_SCHEMA.write_if_possible(path.parent.parent)
    return path


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")  # with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)  # unlike a rename it never replaces a file
    finally:
        with suppress(OSError):
            os.unlink(name)


def _demo_files() -> Iterator[Path]:
    if folder := os.environ.get(DEMO_FOLDER):
        yield from _files(Path(folder))


def demo_env() -> Mapping[str, str]:
    """Return the variables of a demo's Ray; empty if there is no demo.

    A preset that is saved from the demo gets them: with the demo's mark, everything that it starts ends with the demo.
    """
    starts = [read_preset(path).ray for path in _demo_files()]
    return next((start.env for start in starts if start is not None), {})


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and not path.name.startswith("."))
