"""Every theme can be read by everybody, and a mistake in one is named."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme
from textual.widgets import Label

from cockpit.config.document import InputError
from cockpit.config.settings import default_file
from cockpit.config.themes import shipped_folder, user_folder
from cockpit.ui.styles import TONE_CSS
from cockpit.ui.theme import COLORS, DEFAULT_THEME, MIDNIGHT, OWN_VARIABLES, find_theme, load_theme, load_themes, variable_defaults

SHIPPED = {theme.name: theme for theme in load_themes([shipped_folder()])[0]}
NUMERIC = [theme for theme in SHIPPED.values() if not theme.ansi]
"""All but `ansi`, which has only the terminal's own colours: what they look like is the terminal's to say."""
STATUS = ("text-success", "text-warning", "text-error")
HEAT = ("heat-low", "heat-mid", "heat-high", "kill-line", "reserved", "stale")
TEXT = ("foreground", "text-muted", "text-accent", "accent", *STATUS, *HEAT)
GROUNDS = ("background", "surface", "panel")

# Severity 1.0 of Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009).
BLINDNESS = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
Triple = tuple[float, float, float]


def variables(theme: Theme) -> dict[str, str]:
    """What the style sheet sees, put together as Textual does."""
    return {**variable_defaults(theme), **theme.to_color_system().generate(), **theme.variables}


def linear(color: str) -> Triple:
    r, g, b = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in Color.parse(color).normalized)
    return r, g, b


def times(matrix: tuple[Triple, ...], vector: Triple) -> Triple:
    r, g, b = (sum(a * x for a, x in zip(row, vector, strict=True)) for row in matrix)
    return r, g, b


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it: 1 to 21."""
    low, high = sorted(sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear(color), strict=True)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Triple) -> Triple:
    xyz = times(((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041)), rgb)
    white = (0.95047, 1.0, 1.08883)
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (max(0.0, a) / w for a, w in zip(xyz, white, strict=True)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: str, other: str, matrix: tuple[Triple, ...]) -> float:
    """Delta E (CIE 1976) of two colours as that eye sees them; 2.3 is just noticeable."""
    seen = [lab(times(matrix, linear(color))) for color in (one, other)]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


def test_seven_themes_are_shipped_and_every_one_is_right() -> None:
    themes, errors = load_themes([shipped_folder()])
    assert not errors
    assert {theme.name for theme in themes} == {"midnight", "daylight", "contrast", "colorblind", "ember", "moss", "ansi"}
    assert not SHIPPED["daylight"].dark


@pytest.mark.parametrize("theme", SHIPPED.values(), ids=SHIPPED)
def test_a_theme_sets_every_colour_and_every_variable_of_ours(theme: Theme) -> None:
    assert all(getattr(theme, name) for name in COLORS)
    assert set(OWN_VARIABLES) <= set(theme.variables)


@pytest.mark.parametrize("theme", NUMERIC, ids=lambda theme: theme.name)
@pytest.mark.parametrize("ground", GROUNDS)
def test_text_can_be_read_and_lines_and_tracks_can_be_seen(theme: Theme, ground: str) -> None:
    seen = variables(theme)
    found = {name: contrast(seen[name], seen[ground]) for name in TEXT}
    assert min(found.values()) >= 4.5, found
    assert contrast(seen["faint"], seen[ground]) >= 3


def test_what_tables_write_with_is_text_that_can_be_read() -> None:
    """But for the tracks of bars and the branches of trees, which are faint; and what the header draws in reverse."""
    upright = [rule for rule in TONE_CSS.split("}") if "reverse" not in rule]
    written = set(re.findall(r"color: \$([a-z-]+)", "".join(upright))) - {"panel", "block-cursor-background", "block-cursor-foreground"}
    assert written == {*TEXT, "faint"} - {"foreground", "accent"}


@pytest.mark.parametrize("theme", NUMERIC, ids=lambda theme: theme.name)
def test_the_cursor_can_be_read_and_seen(theme: Theme) -> None:
    seen = variables(theme)
    for cursor in ("block-cursor", "block-cursor-blurred"):
        assert contrast(seen[f"{cursor}-foreground"], seen[f"{cursor}-background"]) >= 4.5
        assert contrast(seen[f"{cursor}-background"], seen["background"]) >= 1.2


@pytest.mark.parametrize("eye", BLINDNESS)
@pytest.mark.parametrize("names", [STATUS, ("heat-low", "heat-mid", "heat-high")], ids=["status", "heat"])
def test_the_colorblind_theme_keeps_its_colours_apart(eye: str, names: tuple[str, ...]) -> None:
    seen = variables(SHIPPED["colorblind"])
    found = {pair: difference(seen[pair[0]], seen[pair[1]], BLINDNESS[eye]) for pair in combinations(names, 2)}
    assert min(found.values()) >= 25, found


def test_red_and_green_are_too_near_for_some_eyes_so_the_measure_is_not_blind() -> None:
    assert difference("#a05030", "#707030", BLINDNESS["none"]) > 25 > difference("#a05030", "#707030", BLINDNESS["deuteranopia"])


def test_the_ansi_theme_holds_only_the_colours_of_the_terminal() -> None:
    ansi = SHIPPED["ansi"]
    assert ansi.ansi
    seen = variables(ansi)
    odd = {name: value for name, value in seen.items() if not value.startswith("ansi_") and value != "transparent"}
    assert all("-style" in name for name in odd), odd
    mixed = {name: value for name, value in seen.items() if "%" in value}
    assert not mixed


@pytest.mark.parametrize("theme", BUILTIN_THEMES.values(), ids=BUILTIN_THEMES)
def test_textuals_own_themes_get_our_variables(theme: Theme) -> None:
    made = variable_defaults(theme)
    assert set(OWN_VARIABLES) <= set(made)
    if not theme.ansi:
        grounds = variables(theme)["background"]
        assert min(contrast(color, grounds) for color in made.values()) >= 3


class Shown(App[None]):
    CSS = "\n".join(f"#a{number} {{ color: ${name}; }}" for number, name in enumerate((*OWN_VARIABLES, *STATUS, "text-muted")))

    def __init__(self, themes: list[Theme]) -> None:
        super().__init__()
        for theme in themes:
            self.register_theme(theme)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield Label("x", id="a0")


async def test_textual_draws_with_every_theme() -> None:
    app = Shown(list(SHIPPED.values()))
    async with app.run_test(size=(80, 24)) as pilot:
        for name in [*SHIPPED, *BUILTIN_THEMES]:
            app.theme = name
            await pilot.pause()
            expected = Color.parse(variables(app.current_theme)["faint"])
            assert app.query_one(Label).styles.color.rgb == expected.rgb, name


MISTAKES = {
    "colors: {primary: '#12345'}": ":1: colors.primary: #12345 is not a colour",
    "dark: true\ncolors:\n  primary: #123456\n": ":3: colors.primary: has no value; put a colour that begins with # in quotes",
    "colors:\n  primary: red\n  primry: red\n": ":3: colors.primry: no such name; perhaps primary",
    "colors:\n  accent: red\n": ":1: colors: primary is missing",
    "colors: {primary: 5}": ":1: colors.primary: 5 is not a colour",
    "colors: {primary: auto}": ":1: colors.primary: auto is not a colour",
    "colors: {primary: [red]}": ":1: colors.primary: ['red'] is not a colour",
    "colors: red": ":1: colors: expected names with colours, got red",
    "dark: perhaps\ncolors: {primary: red}": ":1: dark: expected true or false, got perhaps",
    "colors: {primary: red}\ncolor: {}\n": ":2: color: no such key; perhaps colors",
    "colors: {primary: red}\nvariables:\n  heat-lo: red\n": ":3: variables.heat-lo: no such name; perhaps heat-low",
    "colors: {primary: red}\nvariables:\n  faint: 'red; } * { color: red'\n": ":3: variables.faint: red; } * { color: red is not a colour",
    "colors: {primary: red}\nvariables: {link-style: loud}\n": ":2: variables.link-style: loud is not a style",
    "dark: true\n": ":1: colors is missing",
    "": ": colors is missing",
    "- a\n- b\n": ":1: expected keys with values, got a list",
    "dark: [\n": ":2: not YAML: ",
    "dark: true\ndark: false\n": ":2: dark: given twice",
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.items(), ids=lambda value: None)
def test_a_mistake_is_named_with_its_line_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        load_theme(path)
    assert f"bad.yaml{said}" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_what_is_not_text_and_what_is_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"dark: true\n# \xe9t\xe9\n")
    (tmp_path / "nowhere.yaml").symlink_to(tmp_path / "gone")
    themes, errors = load_themes([tmp_path])
    assert not themes
    assert [str(error).removeprefix(str(tmp_path)) for error in errors] == ["/latin.yaml:2: not UTF-8 text", "/nowhere.yaml: not found"]


def test_a_bad_file_does_not_hide_the_good_ones(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("colors: {}")
    (tmp_path / "good.yaml").write_text(
        "colors: {primary: red}\nvariables: {faint: red 50%, footer-background: auto 10%, link-style: bold underline}"
    )
    themes, errors = load_themes([tmp_path, tmp_path / "missing"])
    assert [theme.name for theme in themes] == ["good"]
    assert len(errors) == 1


def test_the_users_themes_lie_beside_the_config_and_come_before_shipped_ones(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "cockpit" / "themes").mkdir(parents=True)
    for name in ("mine", DEFAULT_THEME):
        (user_folder() / f"{name}.yaml").write_text("colors: {primary: red}")
    theme, mistake = find_theme(DEFAULT_THEME)
    assert (theme is not None and theme.primary, mistake) == ("red", "")
    assert [theme.primary for theme in load_themes([shipped_folder(), user_folder()])[0] if theme.name == DEFAULT_THEME] == ["red"]
    assert find_theme("nope") == (None, f"Unknown theme nope; themes: {', '.join(sorted([*SHIPPED, 'mine']))}")


def test_the_config_file_that_is_written_names_a_theme_that_there_is():
    line = next(line for line in default_file().splitlines() if "theme:" in line)
    assert line.split()[-1] in SHIPPED


def test_the_default_theme_equals_its_file() -> None:
    assert load_theme(shipped_folder() / f"{DEFAULT_THEME}.yaml") == MIDNIGHT == find_theme(DEFAULT_THEME)[0]
