"""Reads theme files, checks them, and makes Textual themes of them."""

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
"""Variables of cockpit. A theme file may set Textual's variables too."""
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
"""The default theme, as themes/midnight.yaml has it for copying. To read that file takes 10 to 20 ms of the start."""


def load_theme(path: Path) -> Theme:
    """Read a theme file. Raises `InputError`, one sentence with file, line and key."""
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
    """Register a theme. Returns the name of the theme to use, the default if the wanted one can't be used, and what is wrong with it."""
    theme, mistake = find_theme(wanted)
    if theme is not None:
        app.register_theme(theme)
    if wanted in app.available_themes:
        return wanted, None
    return (register_theme(app, DEFAULT_THEME)[0] if wanted != DEFAULT_THEME else app.theme), mistake


def apply_before_start(app: App[Any], name: str) -> None:
    """Set the theme before the app runs. Set later, it makes Textual read all styles twice: 15 ms of the start.

    Not for light themes and themes of the terminal's own colours: Textual prepares itself for a dark one.
    """
    theme = app.get_theme(name)
    if theme is not None and theme.dark and not theme.ansi:
        app.set_reactive(App.theme, name)
        app.stylesheet.set_variables(app.get_css_variables())


def register_themes(app: App[Any]) -> list[str]:
    """Register every theme for the palette. Returns a sentence for each that can't be used."""
    themes, mistakes = load_themes((shipped_folder(), user_folder()))
    for theme in themes:
        if theme.name != app.theme:
            app.register_theme(theme)
    return [str(mistake) for mistake in mistakes]


def find_theme(name: str) -> tuple[Theme | None, str]:
    """The user's theme of that name, else cockpit's; without one, a sentence that says why."""
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
    """Why there is no theme of that name; `None`: the user, cockpit or Textual has one."""
    theme, mistake = find_theme(name)
    return None if theme is not None or name in BUILTIN_THEMES else mistake


def load_themes(folders: Iterable[Path]) -> tuple[tuple[Theme, ...], tuple[InputError, ...]]:
    """All themes that can be used, and the mistakes in the others. Of two themes with one name the one in the later folder is used."""
    themes, mistakes = {}, []
    for path in (path for folder in folders for path in sorted(folder.glob("*.yaml"))):
        try:
            themes[path.stem] = load_theme(path)
        except InputError as mistake:  # noqa: PERF203 one bad file must not hide the others
            mistakes.append(mistake)
    return tuple(themes.values()), tuple(mistakes)


@cache
def _variable_names(*, ansi: bool) -> frozenset[str]:
    """Names of the variables that Textual derives from such a theme."""
    return frozenset(Theme(name="", primary="red", ansi=ansi).to_color_system().generate())


def variable_defaults(theme: Theme) -> dict[str, str]:
    """Values for cockpit's variables in themes that don't set them, such as Textual's, made from the theme's colours."""
    if theme.ansi:
        # Textual 8.2.8 does not define all its variables for such a theme, and an undefined variable ends the program.
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
    """Whether Textual's CSS accepts the value. A value that it does not accept would end the program."""
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
    """A scroll bar without the partial blocks that Textual draws at its ends."""

    VERTICAL_BARS = HORIZONTAL_BARS = [ScrollBarRender.BLANK_GLYPH] * 8


def choose_signs(app: App[Any], *, ascii: bool) -> None:
    """Set the class `ascii` of the app for borders, and the renderer of scroll bars, which Textual has once for the whole program."""
    app.set_class(ascii, "ascii")
    ScrollBar.renderer = PlainScrollBar if ascii else ScrollBarRender
