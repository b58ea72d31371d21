"""Messages for a field with a wrong type or value: what is wrong, what would be right.

Words only. The types are `gpupool.environment.spec`, the places `gpupool.environment.spec.yaml_source`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gpupool.environment.spec.environment import API_VERSION, SHARING_VARIANTS, Environment
from gpupool.environment.spec.field_types import Hint
from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import Loc, YamlSource
from gpupool.environment.web_addresses import REMEDY
from gpupool.findings.address_secrets import without_user


@dataclass(frozen=True, slots=True)
class _File:
    source: YamlSource
    shape: type[BaseModel]


def describe(
    error: Mapping[str, Any], loc: Loc, source: YamlSource, shape: type[BaseModel] = Environment
) -> tuple[str, str]:
    """Message and remediation for one pydantic error at `loc` of `source`, of the fields of `shape`."""
    file = _File(source, shape)
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    field = loc[-1] if loc else ""
    modes = list(SHARING_VARIANTS)
    if kind == "extra_forbidden":
        return f'unknown field "{field}"', _known_fields(loc, file)
    if kind == "missing":
        return f'field "{field}" is missing', f"add it: {_description(loc, file)}"
    if kind == "union_tag_not_found":
        return 'field "mode" is missing', f"add mode: {', '.join(modes[:-1])} or {modes[-1]}"
    if kind == "union_tag_invalid":
        close = get_close_matches(str(context["tag"]), modes, 1, 0.5)
        return f"mode {context['tag']} does not exist", _did_you_mean(close) + f"one of {', '.join(modes)}"
    if isinstance(value, Unclear):
        return _unclear(kind, value, loc, file)
    return _wrong_value(kind, value, context, loc, file)


def _unclear(kind: str, value: Unclear, loc: Loc, file: _File) -> tuple[str, str]:
    if kind.startswith(("int", "float")):
        return (
            f"{value} means different numbers, or text, to different YAML parsers",
            "write plain digits",
        )
    if kind.startswith("datetime"):
        return f"{value} is not a time in UTC", "write it as 2027-01-31T11:30Z"
    if kind.startswith("date"):
        return f"{value} is not a date", "write year-month-day, such as 2027-03-31"
    if kind.startswith("bool"):
        return f"{value} is not a boolean to every YAML parser", "write true or false"
    if kind == "literal_error":
        return _not_among(str(value), loc, file)
    return f"{value} is a number, date or boolean to some YAML parsers", _in_quotes(str(value), loc, file)


def _in_quotes(text: str, loc: Loc, file: _File) -> str:
    """To quote `text`, where the field takes it then; else what the field takes."""
    forms = list(_forms(_field(loc, file)))
    if all(re.search(pattern, text) for pattern, _ in forms):
        return f'quote it: "{text}"'
    return f"write {forms[-1][1]}"


def _wanted(pattern: str, loc: Loc, file: _File) -> str:
    """What to write instead of what does not match `pattern`, of the field at `loc` or of keys in it."""
    hints = (remediation for form, remediation in _forms(_field(loc, file), keys=True) if form == pattern)
    return next(hints, "other text")


def _forms(part: Any, keys: bool = False) -> Iterator[tuple[str, str]]:
    """(pattern, remediation) of a field's text; of a mapping's values, and with `keys` of its keys."""
    if isinstance(part, FieldInfo):
        yield from _own_forms(part.metadata)
        yield from _forms(part.annotation, keys)
        return
    yield from _own_forms(getattr(part, "__metadata__", ()))
    arguments = get_args(part)
    for argument in arguments if keys or get_origin(part) is not dict else arguments[1:]:
        yield from _forms(argument, keys)


def _own_forms(rules: Sequence[Any]) -> Iterator[tuple[str, str]]:
    remediation = next((rule.text for rule in rules if isinstance(rule, Hint)), "")
    yield from ((found, remediation) for rule in rules if (found := getattr(rule, "pattern", None)))


def _wrong_value(kind: str, value: Any, context: Mapping[str, Any], loc: Loc, file: _File) -> tuple[str, str]:
    shown = _shown(value)
    match kind:
        case "string_type":
            plain = isinstance(value, bool | int | float)
            return (
                f"{shown} is {_kind(value)}, not text",
                _in_quotes(file.source.written(loc) or shown, loc, file) if plain else _purpose(loc, file),
            )
        case "int_type" | "int_from_float":
            return f"{shown} is {_kind(value)}, not a whole number", "write plain digits without quotes"
        case "float_type" | "finite_number":
            return f"{shown} is {_kind(value)}, not a number", "write a number without quotes"
        case "bool_type":
            return f"{shown} is {_kind(value)}, not a boolean", "write true or false without quotes"
        case "list_type" | "tuple_type":
            return (
                f"{shown} is {_kind(value)}, not a list",
                "write a list: [a, b], or one item per line after '- '",
            )
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"{shown} is {_kind(value)}, not a mapping", "write a mapping of fields to values"
        case "greater_than_equal" | "greater_than" | "less_than_equal" | "less_than":
            word = {
                "greater_than_equal": "at least",
                "greater_than": "more than",
                "less_than_equal": "at most",
            }
            bound = next(iter(context.values()))
            return f"{shown} is out of range", f"it must be {word.get(kind, 'less than')} {bound:.15g}"
        case "literal_error":
            return _not_among(value, loc, file)
        case "string_pattern_mismatch":
            return f"{shown} can't be used here", f"write {_wanted(context['pattern'], loc, file)}"
        case "duration_too_long":
            return (
                f"{shown} is longer than Kubernetes supports",
                f"use at most {context['longest']}",
            )
        case "network":
            form = "an address and its prefix length, without host bits, such as 10.0.0.0/8"
            return f"{shown} is not a network", f"write {form}"
        case "web_address":
            return str(context["problem"]), REMEDY
        case "reserved_address":
            return (
                f"{shown} is link-local or serves credentials, so it is never called",
                "name the address of the service itself",
            )
        case "mig_profiles":
            return str(context["problem"]), "write the profiles as printed by nvidia-smi mig -lgip and -lgipp"
        case "secret_in_address":
            return (
                f"the address contains a secret ({context['part']}), which must not be in this file",
                f"remove it; {_purpose(loc, file)}",
            )
        case "string_too_long":
            return f"{shown} has {len(value)} characters", f"use at most {context['max_length']}"
        case "string_too_short":
            return "the text is empty", _purpose(loc, file)
        case "too_short":
            return f"the {'mapping' if isinstance(value, dict) else 'list'} is empty", _purpose(loc, file)
        case "too_long":
            return f"{len(value)} entries are too many for this field", f"use at most {context['max_length']}"
        case _ if kind.startswith("datetime"):
            return f"{shown} is not a time in UTC", "write it as 2027-01-31T11:30Z"
        case _ if kind.startswith("date"):
            return f"{shown} is not a date", "write year-month-day, such as 2027-03-31"
        case _:
            return f"{shown} can't be used here", _purpose(loc, file)


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "{...}" if isinstance(value, dict) else "[...]"
    text = without_user(str(value))
    return repr(text if len(text) <= 60 else text[:57] + "...") if isinstance(value, str) else text[:60]


_KINDS = {
    type(None): "empty",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a value")


def _not_among(value: Any, loc: Loc, file: _File) -> tuple[str, str]:
    if loc == ("apiVersion",):
        return f"apiVersion {_shown(value)} is not supported", f"write {API_VERSION}"
    field = _field(loc, file)
    choices = [str(choice) for choice in _literals(field.annotation)] if field else []
    close = get_close_matches(str(value), choices, 1, 0.5)
    return f"{_shown(value)} is not one of the choices", f"{_did_you_mean(close)}one of {', '.join(choices)}"


def _literals(annotation: Any) -> Iterator[Any]:
    for argument in get_args(annotation):
        if isinstance(argument, str):
            yield argument
        else:
            yield from _literals(argument)


def _did_you_mean(close: list[str]) -> str:
    return f'did you mean "{close[0]}"? ' if close else ""


def _known_fields(loc: Loc, file: _File) -> str:
    model = _model_of(loc[:-1], file)
    names = [info.alias or name for name, info in model.model_fields.items()] if model else []
    close = get_close_matches(str(loc[-1]), names, 1, 0.6)
    return f"{_did_you_mean(close)}known fields: {', '.join(names)}"


def _purpose(loc: Loc, file: _File) -> str:
    return f"this field is: {_description(loc, file)}"


def _description(loc: Loc, file: _File) -> str:
    field = _field(loc, file)
    description = field.description if field and field.description else "a value"
    # The first word keeps its capitals where it is an abbreviation, such as GPU or USD.
    rest = description[1:].rstrip(".")
    return (description[0] if rest[:1].isupper() else description[0].lower()) + rest


def _field(loc: Loc, file: _File) -> FieldInfo | None:
    """The field that `loc` names, or the one whose items it names."""
    while loc and isinstance(loc[-1], int):
        loc = loc[:-1]
    model = _model_of(loc[:-1], file) if loc else None
    while loc and model is None:
        loc = loc[:-1]
        model = _model_of(loc[:-1], file) if loc else None
    if model is None or not loc:
        return None
    return next((info for name, info in model.model_fields.items() if loc[-1] in (info.alias, name)), None)


def _model_of(loc: Loc, file: _File) -> type[BaseModel] | None:
    """The model of the mapping at `loc` of the file; of `sharing`, of the mode that it has there."""
    return _variant(loc, file) or _model(loc, file.shape)


def _variant(loc: Loc, file: _File) -> type[BaseModel] | None:
    """The model that the `mode` of the mapping at `loc` chooses; None where there is no such choice."""
    if loc[-1:] != ("sharing",):
        return None
    value = file.source.data
    for part in loc:
        value = value[part]
    mode = value.get("mode") if isinstance(value, dict) else None
    return SHARING_VARIANTS.get(mode) if isinstance(mode, str) else None


def _model(loc: Loc, shape: type[BaseModel]) -> type[BaseModel] | None:
    """The model of the mapping at `loc`; of a union its first variant."""
    model: type[BaseModel] | None = shape
    for part in loc:
        if model is None:
            return None
        if isinstance(part, int):
            continue
        info = next((info for name, info in model.model_fields.items() if part in (info.alias, name)), None)
        model = next(_models(info.annotation), None) if info else None
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
