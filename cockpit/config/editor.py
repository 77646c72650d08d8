"""Lets an editor check and complete the YAML files that cockpit writes: their first line names a JSON Schema, which lies beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from cockpit.files.atomic import ALL_READ, write_whole
from cockpit.trust import why_not_ours

SCHEMA_FOLDER: Final = "schema"
"""The folder of the schemas, inside cockpit's own folder."""
_DRAFT_07: Final = {"dependentRequired": "dependencies"}
"""Words of newer drafts, and what draft-07 has for them."""


class EditorSchema(msgspec.Struct, frozen=True):
    """The schema of one kind of file."""

    name: str
    """As `cockpit schema` knows it."""
    of: type
    title: str

    def modeline(self, folder: str) -> str:
        """Return the first line of a file. `folder`: the way from the file to cockpit's folder, such as `../`, or nothing.

        The language server of YAML reads it, in VS Code, Neovim, Emacs, Helix and others. A relative path works offline, and in whatever
        folder the files are kept.
        """
        return f"# yaml-language-server: $schema={folder}{SCHEMA_FOLDER}/{self.name}.json\n"

    def document(self) -> dict[str, Any]:
        """Return the schema in draft-07, which editors and SchemaStore ask for. `$id` is its address in SchemaStore."""
        (_,), definitions = msgspec.json.schema_components((self.of,), ref_template="#/definitions/{name}")
        whole = definitions.pop(self.of.__name__)
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": f"https://json.schemastore.org/ray-cockpit-{self.name}.json",
            **_in_draft_07(whole),
            "title": self.title,
            "definitions": _in_draft_07(definitions),
        }

    def write(self, folder: Path) -> Path:
        """Write the schema below cockpit's folder, over an older one. Raises `OSError`."""
        path = folder / SCHEMA_FOLDER / f"{self.name}.json"
        if (reason := why_not_ours(path)) is not None:
            raise PermissionError(1, reason, str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(self.document(), indent=2) + "\n", ALL_READ)
        return path

    def write_if_possible(self, folder: Path) -> None:
        """As `write`, beside a file that matters more: without its schema that file is as good as before."""
        with suppress(OSError):
            self.write(folder)


def _in_draft_07(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {_DRAFT_07.get(key, key): _in_draft_07(value) for key, value in schema.items()}
    return [_in_draft_07(each) for each in schema] if isinstance(schema, (list, tuple)) else schema
