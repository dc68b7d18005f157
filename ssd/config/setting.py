"""The list of all settings: their names, limits and defaults, read off the model."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ssd.config.ssd_config import SsdConfig

ENVIRONMENT_PREFIX: str = SsdConfig.model_config["env_prefix"]
ENVIRONMENT_DELIMITER = SsdConfig.model_config["env_nested_delimiter"] or ""

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that can be configured."""

    section: str
    name: str
    description: str
    limit: str
    """What is accepted, fit to follow the words "must be"."""
    default: object
    is_nullable: bool
    is_list: bool

    @property
    def key(self) -> str:
        return f"{self.section}.{self.name}"

    @property
    def environment_name(self) -> str:
        return environment_name(self.key)


def environment_name(key: str) -> str:
    """The variable that sets a key: verifier.max_rows is SSD_VERIFIER__MAX_ROWS."""
    return ENVIRONMENT_PREFIX + key.replace(".", ENVIRONMENT_DELIMITER).upper()


@cache
def settings() -> Mapping[str, Setting]:
    """All settings by key, in the order of the model."""
    schema = SsdConfig.model_json_schema()
    every = (
        _setting(section, name, described, definitions=schema["$defs"])
        for section, reference in schema["properties"].items()
        for name, described in _resolve(reference, schema["$defs"])["properties"].items()
    )
    return {setting.key: setting for setting in every}


def section_descriptions() -> Mapping[str, str]:
    """What each section is about, in the order of the model."""
    return {
        name: (field.annotation.__doc__ or "") if field.annotation else ""
        for name, field in SsdConfig.model_fields.items()
    }


def nearest_key(key: str) -> str | None:
    """What an unknown key was meant to be: its name in another section, else a similar key."""
    known = list(settings())
    namesakes = [each for each in known if each.endswith("." + key.rpartition(".")[2])]
    nearest = difflib.get_close_matches(key, namesakes, n=1, cutoff=0.0)
    return next(iter(nearest or difflib.get_close_matches(key, known, n=1)), None)


def _setting(section: str, name: str, described: Schema, *, definitions: Schema) -> Setting:
    choices = [_resolve(each, definitions) for each in described.get("anyOf", [described])]
    values = [each for each in choices if each.get("type") != "null"]
    is_nullable = len(values) < len(choices)
    return Setting(
        section=section,
        name=name,
        description=described["description"],
        limit=" or ".join([*map(_limit, values), *(["null"] if is_nullable else [])]),
        default=described["default"],
        is_nullable=is_nullable,
        is_list=any(each.get("type") == "array" for each in values),
    )


def _resolve(schema: Schema, definitions: Schema) -> Schema:
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema


def _limit(schema: Schema) -> str:
    """A JSON schema in words."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    match schema["type"]:
        case "boolean":
            return "true or false"
        case "array":
            return "a list of " + schema["items"].get("title", "text")
        case "integer":
            return "a whole number" + _range(schema)
        case "number":
            return "a number" + _range(schema)
        case _:
            if "examples" in schema:
                return "text such as " + " or ".join(schema["examples"])
            return "some text" if "minLength" in schema else "text"


def _range(schema: Schema) -> str:
    words = {
        "exclusiveMinimum": "greater than",
        "minimum": "at least",
        "maximum": "at most",
    }
    bounds = [f"{said} {schema[bound]}" for bound, said in words.items() if bound in schema]
    return " " + " and ".join(bounds) if bounds else ""
