"""The JSON Schema of configurations, for editors that complete and check YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from subgraft.config.directions import FILLED_BY_DIRECTIONS
from subgraft.config.experiment.presets import PRESETS, preset
from subgraft.config.settings_base import groups_in
from subgraft.data.tasks.registry import TASKS

if TYPE_CHECKING:
    from pydantic_core import core_schema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(settings: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a kind of configuration, with the description of every setting.

    The schema checks each value alone. Rules between settings, and files that do not exist, are checked on loading.
    """

    class Generator(_SchemaWithDescriptions):
        optional = _filled_by_presets(settings)

    return {"$schema": DIALECT, **settings.model_json_schema(schema_generator=Generator)}


class _SchemaWithDescriptions(GenerateJsonSchema):
    """Adds descriptions from docstrings, and makes settings that presets provide optional."""

    optional: Mapping[type[BaseModel], frozenset[str]] = {}

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        group: type[BaseModel] = schema["cls"]
        generated = super().model_schema(schema)
        introduction, meanings = descriptions(group)
        generated["description"] = introduction
        for name, meaning in meanings.items():
            if name in generated.get("properties", {}):
                generated["properties"][name]["description"] = meaning
        required = [name for name in generated.pop("required", []) if name not in self.optional.get(group, ())]
        return generated | ({"required": required} if required else {})

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        """Use anyOf, because a value that omits the discriminating field, which has a default, may match several."""
        generated = super().tagged_union_schema(schema)
        return {"anyOf": generated["oneOf"]} if "oneOf" in generated else generated


def _filled_by_presets(settings: type[BaseModel]) -> dict[type[BaseModel], frozenset[str]]:
    """The settings that every preset or the first direction provides, by group, and the family of a model."""
    by_directions = FILLED_BY_DIRECTIONS if "directions" in settings.model_fields else {}
    by_presets = set[str].intersection(*(set(preset(each)) for each in PRESETS))
    filled = {settings: frozenset(by_presets | by_directions.get("", frozenset()))}
    for name, field in settings.model_fields.items():
        names = set[str].intersection(*(set(preset(each).get(name, {})) for each in PRESETS))
        names |= {key for task in TASKS.values() for key in task.defaults.get(name, {})}
        names |= by_directions.get(name, frozenset())
        for group in groups_in(field.annotation):
            filled[group] = frozenset(names | {"family"})
    return filled


def descriptions(group: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """The introduction of a group's docstring, and the description of each setting from it and its base classes."""
    names = sorted({*group.model_fields, *group.__class_vars__, "family", "kind"})  # subclasses have the last two
    introduction, meanings = "", dict[str, str]()
    for base in reversed(group.__mro__):
        if base.__module__.startswith("subgraft."):
            introduction, own = _docstring(base, names)
            meanings |= own
    return introduction, meanings


def _docstring(group: type, names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Splits a docstring at `name: …` and `name, other: …`."""
    text = re.sub(r"\s*\n\s*", "\n", (group.__dict__.get("__doc__") or "").strip())
    known = "|".join(names)
    parts = re.split(rf"(?:^|(?<=[.\n])\s+|\n)((?:(?:{known}),\s)*(?:{known})):\s", text)
    meanings: dict[str, str] = {}
    for names_of_meaning, meaning in zip(parts[1::2], parts[2::2], strict=True):
        meanings |= dict.fromkeys(re.split(r",\s", names_of_meaning), " ".join(meaning.split()))
    return " ".join(parts[0].split()), meanings
