"""Promotion: the environment that changes come from exists, chains have no loops, paths name fields.

Reads the environments beside this one as far as the chain goes, and nothing where there are none. They are
not searched for here: they may be of another state than the one on disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, Siblings, closest
from gpupool.environment.spec.yaml_source import Loc, parse_source, read_source
from gpupool.findings import SpecError

_SCHEMA = Path(__file__).parents[2] / "schema" / "environment.schema.json"
_NAMED = ("pools", "priorities")
"""Sections whose items a path calls by name."""


def origin(context: CheckContext) -> Iterator[PlanProblem]:
    """`from` names another environment of the project, and following it comes to an end."""
    promotion = context.environment.promotion
    if promotion is None:
        return
    if promotion.from_ is None:
        remediation = "add from: with the environment where changes are tried first"
        yield PlanProblem(("promotion",), "promotion has no source environment", remediation)
        return
    loc, own, siblings = ("promotion", "from"), context.environment.metadata.name, context.siblings
    if promotion.from_ == own:
        yield PlanProblem(loc, f"{own!r} can't be promoted from itself", "name another environment")
    elif siblings is not None and promotion.from_ not in siblings:
        known = sorted(name for name in siblings if name != own)
        yield PlanProblem(
            loc, f"environment {promotion.from_!r} does not exist", closest(promotion.from_, known)
        )
    elif siblings is not None:
        chain = [own, promotion.from_]
        while (before := _origin_of(siblings, chain[-1])) and before not in chain:
            chain.append(before)
        if before == own:
            shown = " <- ".join([*chain, own])
            yield PlanProblem(
                loc, f"promotions form a cycle: {shown}", "remove promotion from the first environment"
            )


def paths(context: CheckContext) -> Iterator[PlanProblem]:
    """Every path names a field, of a pool or priority that there is; none is both kept and followed."""
    promotion = context.environment.promotion
    if promotion is None:
        return
    named: list[tuple[Loc, str]] = [
        *((("promotion", "keep", at), path) for at, path in enumerate(promotion.keep)),
        *((("promotion", "follow", at), path) for at, path in enumerate(promotion.follow)),
        *((("promotion", "exceptions", at, "path"), one.path) for at, one in enumerate(promotion.exceptions)),
    ]
    known = _names(context) if named else {}
    for loc, path in named:
        section, *rest = path.split(".")
        problem = _unknown(path)
        if problem:
            yield PlanProblem(loc, f"{path!r} is not a field of an environment: {problem}", _hint(section))
        elif section in known and rest and rest[0] != "*" and rest[0] not in known[section]:
            what = "pool" if section == "pools" else "priority"
            message = (
                f"{what} {rest[0]!r} is not defined here or in {promotion.from_ or 'the source environment'}"
            )
            yield PlanProblem(loc, message, closest(rest[0], sorted(known[section])))
        elif loc[1] == "follow" and path in promotion.keep:
            yield PlanProblem(loc, f"{path!r} is in both keep and follow", "remove one of them")


def _hint(section: str) -> str:
    example = f"{section}.*.nodes.max" if section == "pools" else section
    return f"write the path as in the file, with names of items or * for all, such as {example}"


def _origin_of(siblings: Siblings, name: str) -> str | None:
    """`promotion.from` of that environment, as far as it can be read; its errors are reported there."""
    section = _read(siblings, name).get("promotion")
    origin = section.get("from") if isinstance(section, dict) else None
    return origin if isinstance(origin, str) else None


def _read(siblings: Siblings, name: str) -> Mapping[str, Any]:
    found = siblings.get(name)
    if found is None:
        return {}
    try:
        data = (read_source(found) if isinstance(found, Path) else parse_source(name, found)).data
    except SpecError:
        return {}
    return data if isinstance(data, dict) else {}


def _names(context: CheckContext) -> Mapping[str, set[str]]:
    """Pools and priorities by name, of this environment and of the one before; nothing where that is not
    known."""
    given, siblings = context.environment.promotion, context.siblings
    before = _read(siblings, given.from_) if siblings and given and given.from_ else {}
    if not before:
        return {}
    found = {section: set(context.named[section]) for section in _NAMED}
    for section, names in found.items():
        items = before.get(section)
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                names.add(item["name"])
    return found


@cache
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    return loaded


def _unknown(path: str) -> str:
    """Why `path` names no field of the published schema; empty where it does."""
    nodes, above = [_schema()], ""
    for part in path.split("."):
        nodes = [branch for node in nodes for branch in _branches(node)]
        # A mapping with names of the user's own.
        if any(not {"properties", "items"} & node.keys() and node.get("type") == "object" for node in nodes):
            return ""
        inner = [node["items"] for node in nodes if "items" in node]
        inner += [node["properties"][part] for node in nodes if part in node.get("properties", ())]
        if not inner:
            fields = sorted({name for node in nodes for name in node.get("properties", ())})
            return f"{part!r} is not one of {', '.join(fields)}" if fields else f"{above!r} has no fields"
        nodes, above = inner, part
    return ""


def _branches(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What `node` may be, references followed."""
    if "$ref" in node:
        yield from _branches(_schema()["$defs"][node["$ref"].rpartition("/")[2]])
        return
    choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    for choice in choices:
        yield from _branches(choice)
    if not choices:
        yield dict(node)
