"""Where presets lie: the user's folder, the ready-made ones that come with cockpit, and files anywhere."""

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
from cockpit.presets.script import explain_script, find_script
from cockpit.text import explain_os_error
from cockpit.trust import why_not_ours

DEMO_FOLDER: Final = "COCKPIT_DEMO_PRESETS"
"""The environment variable by which a demo names the folder of its own presets to the screen that it opens."""
READY_MADE: Final = Path(__file__).with_name("shipped")
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_URI: Final = r"(?i)[a-z][a-z0-9+.-]*://"


class PresetError(InputError):
    """A preset that can't be read: its name, its file, and the sentence."""

    def __init__(self, path: Path, error: InputError) -> None:
        super().__init__(str(error))
        self.path = path
        self.name = path.stem


def presets_folder() -> Path:
    """`$XDG_CONFIG_HOME/cockpit/presets`."""
    return platformdirs.user_config_path("cockpit") / "presets"


def is_shared(path: Path) -> bool:
    """Whether it is a preset of no particular folder: one of the user's, or a ready-made one."""
    return path.absolute().parent in (presets_folder(), READY_MADE)


def is_path(text: str) -> bool:
    """Whether that means a file, and not a preset by its name."""
    return "/" in text or text.endswith(ENDINGS)


def is_uri(working_dir: str) -> bool:
    """Whether Ray fetches it itself: s3://, https://, gcs://, and the like."""
    return re.match(_URI, working_dir.lstrip()) is not None


def resolve_beside(path: Path, written: str) -> Path:
    """A folder that the preset of this path names: beside it, or, of a preset of no particular folder, from here. Raises `InputError`."""
    try:
        base = Path.cwd() if is_shared(path) else path.absolute().parent
        return (base / Path(written).expanduser()).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # our own folder is gone; nobody's home, links in a circle; a null byte
        raise InputError(f"can't be resolved: {getattr(error, 'strerror', None) or error}") from error


def presets() -> list[Preset | PresetError]:
    """Those of a demo, the user's, then the ready-made ones; of two with one name the first. One that can't be read hides no other."""
    paths: dict[str, Path] = {}
    for path in (*_demo_files(), *_files(presets_folder()), *_files(READY_MADE)):
        paths.setdefault(path.stem, path)
    return [_read(path) for path in paths.values()]


def find_preset(name_or_path: str) -> Preset:
    """By its name, or by the path of its file: what has a slash in it or ends in .yaml. Raises `InputError`."""
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
    """One that nobody has named by its file: another user's is not taken for ours. Raises `InputError`."""
    if path.parent != READY_MADE and (reason := why_not_ours(path)) is not None:
        raise InputError(f"{abbreviate_home(path)}: {reason}; give its path if you mean this file")
    return read_preset(path)


class UnknownPresetError(InputError):
    """No preset has that name."""


def copy_preset(name: str) -> Path:
    """A ready-made preset, as it stands with its comments, into the user's folder. Raises `UnknownPresetError`, `InputError`."""
    source = READY_MADE / f"{name}.yaml"
    if not re.fullmatch(_NAME, name) or not source.is_file():
        raise UnknownPresetError(f"no ready-made preset is named {name}; ready-made: {', '.join(path.stem for path in _files(READY_MADE))}")
    return write_preset(read_text(source), name)


def write_preset(text: str, name: str) -> Path:
    """A new file in the user's folder, whole or not at all, for its owner alone; one that is there is left alone. Raises `InputError`."""
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
        _write(path, text)
    except FileExistsError as error:
        raise InputError(f"{abbreviate_home(path)}: already exists; not overwritten") from error
    except OSError as error:
        raise InputError(f"{abbreviate_home(path)}: {explain_os_error(error)}") from error
    return path


def _write(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)  # unlike a rename it never goes over a file
    finally:
        with suppress(OSError):
            os.unlink(name)


def _demo_files() -> Iterator[Path]:
    if folder := os.environ.get(DEMO_FOLDER):
        yield from _files(Path(folder))


def demo_env() -> Mapping[str, str]:
    """The variables of a demo's Ray, for presets that are made of it: by its mark what they start goes with the demo. None elsewhere."""
    starts = [read_preset(path).ray for path in _demo_files()]
    return next((start.env for start in starts if start is not None), {})


def _files(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in folder.iterdir() if path.suffix in ENDINGS and not path.name.startswith("."))


def _read(path: Path) -> Preset | PresetError:
    try:
        return _read_named(path)
    except InputError as error:
        return PresetError(path, error)
