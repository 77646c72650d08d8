"""An editor finds the schema of a file that cockpit writes, and the schema takes what cockpit takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator, ValidationError

from cockpit.config.editor import EditorSchema
from cockpit.config.settings import EDITOR_SCHEMA, config_text, default_file, load
from cockpit.presets.schema import EDITOR_SCHEMA as PRESET_SCHEMA

SCHEMAS = [EDITOR_SCHEMA, PRESET_SCHEMA]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_schema_has_what_schemastore_demands(schema: EditorSchema):
    document = schema.document()
    Draft7Validator.check_schema(document)
    assert document["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert document["$id"] == f"https://json.schemastore.org/ray-cockpit-{schema.name}.json"
    assert document["title"]
    assert document["description"]
    assert document["additionalProperties"] is False
    text = json.dumps(document)
    assert not [word for word in ("$defs", "dependentRequired", "prefixItems", "unevaluatedProperties") if word in text], "not in draft-07"


def test_the_default_file_and_the_printed_config_are_valid_also_with_every_comment_removed():
    check = Draft7Validator(EDITOR_SCHEMA.document())
    bare = "\n".join(
        line[2:] for line in default_file().splitlines() if line.startswith("# ") and not line.startswith(("# cockpit", "# yaml-"))
    )
    for text in (bare, config_text(load({"hosts": "head,w1"}, {}))):
        check.validate(yaml.safe_load(text))
    with pytest.raises(ValidationError, match="intervall"):
        check.validate({"intervall": 5})


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_the_modeline_leads_to_the_schema_that_is_written(schema: EditorSchema, tmp_path: Path):
    (tmp_path / "presets").mkdir()
    written = schema.write(tmp_path)
    for folder, way in ((tmp_path, ""), (tmp_path / "presets", "../")):
        marker, _, named = schema.modeline(way).strip().partition("$schema=")
        assert marker == "# yaml-language-server: "
        assert (folder / named).resolve() == written
    assert json.loads(written.read_text()) == schema.document()


def test_an_older_schema_is_replaced_and_no_link_is_followed(tmp_path: Path):
    path = EDITOR_SCHEMA.write(tmp_path)
    path.write_text("{}")
    EDITOR_SCHEMA.write(tmp_path)
    assert json.loads(path.read_text()) == EDITOR_SCHEMA.document()

    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    path.unlink()
    os.symlink(elsewhere, path)
    with pytest.raises(OSError, match="not a regular file"):
        EDITOR_SCHEMA.write(tmp_path)
    EDITOR_SCHEMA.write_if_possible(tmp_path)
    assert elsewhere.read_text() == "mine"
