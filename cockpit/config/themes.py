"""Finds the files of themes."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def shipped_folder() -> Path:
    """Return the folder of cockpit's own themes: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "themes"
    return inside if inside.is_dir() else package.parent / "themes"


def user_folder() -> Path:
    """Return the folder of the user's themes, `$XDG_CONFIG_HOME/cockpit/themes`. It may not exist."""
    return platformdirs.user_config_path("cockpit") / "themes"


def find_theme_file(name: str) -> Path | None:
    """Return the file of a theme, the user's or else cockpit's own; `None` if there is none."""
    files = (folder / f"{name}.yaml" for folder in (user_folder(), shipped_folder()))
    return next((file for file in files if file.is_file()), None)
