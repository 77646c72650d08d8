"""Colours: the files in themes/ become Textual's themes, and a mistake in one is named with its file, line and key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from textual.app import App
from textual.color import Color, ColorParseError
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.theme import BUILTIN_THEMES, Theme

from cockpit.config.document import Document, InputError, abbreviate_home
from cockpit.config.themes import find_theme_file, shipped_folder, user_folder
from cockpit.text import clean

DEFAULT_THEME: Final = "midnight"
COLORS: Final = ("primary", "secondary", "accent", "foreground", "background", "surface", "panel", "success", "warning", "error")
OWN_VARIABLES: Final = ("faint", "heat-low", "heat-mid", "heat-high", "kill-line", "reserved", "stale")
"""The variables that are ours; Textual's own may be set as well."""
_ANSI: Final = ("ansi_bright_black", "ansi_cyan", "ansi_green", "ansi_yellow", "ansi_magenta", "ansi_magenta", "ansi_bright_black")
_SHADE: Final = re.compile(r"(?P<color>.+?)(?: (?:100|\d{1,2})%)?")
_WORDS_OF_STYLE: Final = {"none", "not", "bold", "dim", "italic", "underline", "reverse", "strike"}
_EXPECTED: Final = {"dark": "true or false", "ansi": "true or false", "colors": "names with colours", "variables": "names with colours"}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    colors: dict[str, Any]
    dark: bool = True
    ansi: bool = False
    variables: dict[str, Any] = {}


MIDNIGHT: Final = Theme(
    name=DEFAULT_THEME,
    primary="#5fafff",
    secondary="#3d7ab8",
    accent="#ffb86b",
    foreground="#c8d0dc",
    background="#0b0e14",
    surface="#11161f",
    panel="#1a212d",
    success="#7fd962",
    warning="#ffb454",
    error="#f4727e",
    variables={
        "text-muted": "#98a4b5",
        "faint": "#66748a",
        "heat-low": "#4f9fd8",
        "heat-mid": "#7fd962",
        "heat-high": "#ffb454",
        "kill-line": "#ff5c8a",
        "reserved": "#b794f6",
        "stale": "#8a8fa3",
        "text-success": "#7fd962",
        "text-warning": "#ffb454",
        "text-error": "#f4727e",
        "block-cursor-background": "#24466b",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": "#1d2a3b",
        "block-cursor-blurred-foreground": "#dce4ee",
    },
)
"""What themes/midnight.yaml says, which is there to be copied: to read it took a twentieth of the start."""


def load_theme(path: Path) -> Theme:
    """Raises `InputError`, one sentence that names file, line and key."""
    try:
        document = Document.read(path)
    except FileNotFoundError as error:
        raise InputError(f"{abbreviate_home(path)}: not found") from error
    file = document.convert(_File, _EXPECTED)
    colors = _check_values(document, "colors", file.colors, frozenset(COLORS))
    allowed = frozenset((*_variable_names(ansi=False), *_variable_names(ansi=True), *OWN_VARIABLES))
    variables = _check_values(document, "variables", file.variables, allowed)
    if "primary" not in colors:
        raise document.mistake("colors", "primary is missing")
    return Theme(name=path.stem, dark=file.dark, ansi=file.ansi, variables=variables, **colors)


def register_theme(app: App[Any], wanted: str) -> tuple[str, str | None]:
    """The name of the theme to use, the default where there is none of that name; and what is wrong, if anything."""
    theme, mistake = find_theme(wanted)
    if theme is not None:
        app.register_theme(theme)
    if wanted in app.available_themes:
        return wanted, None
    return (register_theme(app, DEFAULT_THEME)[0] if wanted != DEFAULT_THEME else app.theme), mistake


def expect_theme(app: App[Any], name: str) -> None:
    """Before anything is drawn: a theme that is set later has all styles read twice, a twentieth of the start.

    Textual makes itself ready for a dark theme, and for another one only when that is set.
    """
    theme = app.get_theme(name)
    if theme is not None and theme.dark and not theme.ansi:
        app.set_reactive(App.theme, name)
        app.stylesheet.set_variables(app.get_css_variables())


def register_themes(app: App[Any]) -> list[str]:
    """Register every theme for the palette; returns a sentence for each that can't be used."""
    themes, mistakes = load_themes((shipped_folder(), user_folder()))
    for theme in themes:
        if theme.name != app.theme:
            app.register_theme(theme)
    return [str(mistake) for mistake in mistakes]


def find_theme(name: str) -> tuple[Theme | None, str]:
    """The user's theme of that name, else ours; when there is none, a sentence that says why."""
    file = find_theme_file(name)
    if file is None:
        names = {file.stem for folder in (shipped_folder(), user_folder()) for file in folder.glob("*.yaml")}
        return None, f"Unknown theme {name}; themes: {', '.join(sorted(names))}"
    if name == DEFAULT_THEME and file.parent == shipped_folder():
        return MIDNIGHT, ""
    try:
        return load_theme(file), ""
    except InputError as mistake:
        return None, str(mistake)


def why_no_theme(name: str) -> str | None:
    """`None`: there is one of that name, ours, the user's or Textual's."""
    theme, mistake = find_theme(name)
    return None if theme is not None or name in BUILTIN_THEMES else mistake


def load_themes(folders: Iterable[Path]) -> tuple[tuple[Theme, ...], tuple[InputError, ...]]:
    """Every theme that can be used, and what is wrong with the others; of two with one name the later folder's counts."""
    themes, mistakes = {}, []
    for path in (path for folder in folders for path in sorted(folder.glob("*.yaml"))):
        try:
            themes[path.stem] = load_theme(path)
        except InputError as mistake:  # noqa: PERF203 one bad file hides no other
            mistakes.append(mistake)
    return tuple(themes.values()), tuple(mistakes)


@cache
def _variable_names(*, ansi: bool) -> frozenset[str]:
    """What Textual makes of a theme of this kind."""
    return frozenset(Theme(name="", primary="red", ansi=ansi).to_color_system().generate())


def variable_defaults(theme: Theme) -> dict[str, str]:
    """Our own variables for a theme that does not set them, such as Textual's built-in ones, made from its colours."""
    if theme.ansi:
        # Textual 8.2.8 leaves some of its own variables out of such a theme, and an undefined one ends the program
        left_out = _variable_names(ansi=False) - _variable_names(ansi=True)
        return {**dict.fromkeys(left_out, "ansi_default"), **dict(zip(OWN_VARIABLES, _ANSI, strict=True))}
    names = theme.to_color_system().generate()
    text, ground = Color.parse(names["foreground"]), Color.parse(names["background"])
    return {
        "faint": text.blend(ground, 0.25).hex,
        "heat-low": names["text-primary"],
        "heat-mid": names["text-success"],
        "heat-high": names["text-warning"],
        "kill-line": names["text-error"],
        "reserved": names["text-accent"],
        "stale": text.blend(ground, 0.15).hex,
    }


def _check_values(document: Document, section: str, values: Mapping[str, Any], allowed: frozenset[str]) -> dict[str, Any]:
    for name, value in values.items():
        where = f"{section}.{clean(str(name))}"
        if name not in allowed:
            near = get_close_matches(str(name), sorted(allowed), 1)
            raise document.mistake(where, "no such name" + (f"; perhaps {near[0]}" if near else ""))
        if value is None:
            raise document.mistake(where, "has no value; put a colour that begins with # in quotes")
        if not isinstance(value, str) or not _is_valid(name, value):
            raise document.mistake(where, f"{clean(str(value))[:40]} is not a {'style' if '-style' in name else 'colour'}")
    return dict(values)


def _is_valid(name: str, value: str) -> bool:
    """Whether Textual's CSS will take the value: what it can't read ends the program."""
    if "-style" in name:  # also link-style-hover
        return bool(value) and _WORDS_OF_STYLE.issuperset(value.split())
    match = _SHADE.fullmatch(value)
    if match is None or (match["color"] == "auto" and name in COLORS):
        return False
    try:
        return match["color"] in ("auto", "initial") or bool(Color.parse(match["color"]))
    except ColorParseError:
        return False


class PlainScrollBar(ScrollBarRender):
    """Without the signs that Textual draws the ends with."""

    VERTICAL_BARS = HORIZONTAL_BARS = [ScrollBarRender.BLANK_GLYPH] * 8


def choose_signs(app: App[Any], *, ascii: bool) -> None:
    """Borders by the class `ascii` of the app; scrollbars for all of this program, as Textual has one kind for all."""
    app.set_class(ascii, "ascii")
    ScrollBar.renderer = PlainScrollBar if ascii else ScrollBarRender
