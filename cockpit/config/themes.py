"""Where the files of themes lie."""

from __future__ import annotations

from pathlib import Path

import platformdirs


def shipped_folder() -> Path:
    """The folder of the themes that come with cockpit: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "themes"
    return inside if inside.is_dir() else package.parent / "themes"


def user_folder() -> Path:
    """The folder of the user's own themes, `$XDG_CONFIG_HOME/cockpit/themes`; it need not exist."""
    return platformdirs.user_config_path("cockpit") / "themes"


def find_theme_file(name: str) -> Path | None:
    """The user's theme of that name, else ours."""
    files = (folder / f"{name}.yaml" for folder in (user_folder(), shipped_folder()))
    return next((file for file in files if file.is_file()), None)
