"""What mkdocs asks for: pages made from the code, and the files for contributors, which lie at the top of the repository."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from manual.known_errors import known_errors_page
from manual.reference import commands_page, config_page, json_page, preset_page

ROOT = Path(__file__).parents[1]
MADE: Mapping[str, Callable[[], str]] = {
    "all-commands.md": commands_page,
    "config.md": config_page,
    "preset-keys.md": preset_page,
    "json.md": json_page,
    "known-errors.md": known_errors_page,
}
COPIED = ("CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/ and those that are made."""
    for name, make in MADE.items():
        files.append(File.generated(config, name, content=make()))
    for name in COPIED:
        text = _links_in_docs((ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, name.lower(), content=text))
    for picture in sorted((ROOT / "screenshots").glob("*.*g")):  # svg, and png of the browser
        files.append(File.generated(config, f"screenshots/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Pictures lie at the top of the repository, and beside the pages in what is built."""
    return markdown.replace("](../screenshots/", "](screenshots/")


def _links_in_docs(text: str) -> str:
    """Links to each other and into docs/, as they are from within it."""
    for name in COPIED:
        text = text.replace(f"]({name}", f"]({name.lower()}")
    return re.sub(r"\]\((?:docs/|README\.md)", lambda found: "](" if "docs" in found[0] else "](index.md", text)
