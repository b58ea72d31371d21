"""Objects that Kubernetes would not take for their size, whatever is in them.

The bounds are data (object_limits.yaml), each with its source; here is only how each is measured. `validate`
reports them at the place in the environment file that makes the object large, which `section_of` finds.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.policy.rules.bundle import BundleObject, JudgedRelease, ObjectSet
from gpupool.policy.rules.fields import labels, mapping, text
from gpupool.policy.rules.rule import RuleViolation

_WORD = re.compile(r"[a-z0-9][-a-z0-9]*")
_TENANT_LABEL = "gpupool.dev/tenant"

Loc = tuple[str | int, ...]
Measured = tuple[str, int]
"""A path in the object, and how much is there."""


@dataclass(frozen=True, slots=True)
class ObjectLimit:
    """One row of the table."""

    measure: str
    most: int
    unit: str
    source: str
    kinds: tuple[str, ...] = ()
    engine: str = ""


@functools.cache
def object_limits() -> tuple[ObjectLimit, ...]:
    """The table, in the order of the file."""
    rows = yaml.load(
        Path(__file__).with_name("object_limits.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    return tuple(ObjectLimit(**{**row, "kinds": tuple(row.get("kinds", ()))}) for row in rows)


def _bytes(values: Mapping[str, Any]) -> int:
    """Of keys and values together, as Kubernetes counts them; nothing for what is no text."""
    return sum(
        len(str(key).encode()) + len(value.encode())
        for key, value in values.items()
        if isinstance(value, str)
    )


def _object(body: Mapping[str, Any]) -> Iterator[Measured]:
    yield "", len(json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str).encode())


def _data(body: Mapping[str, Any]) -> Iterator[Measured]:
    yield "data", _bytes(mapping(body, "data")) + _bytes(mapping(body, "binaryData"))


def _files(body: Mapping[str, Any]) -> Iterator[Measured]:
    yield "values.files", _bytes(mapping(body, "values", "files"))


def _annotations(body: Mapping[str, Any]) -> Iterator[Measured]:
    yield "metadata.annotations", _bytes(mapping(body, "metadata", "annotations"))


def _name(body: Mapping[str, Any]) -> Iterator[Measured]:
    yield "metadata.name", len(text(body, "metadata", "name"))


def _label(body: Mapping[str, Any]) -> Iterator[Measured]:
    for path in (("metadata", "labels"), ("spec", "template", "metadata", "labels")):
        for key, value in labels(body, *path).items():
            yield f"{'.'.join(path)}[{key}]", len(value)


_MEASURES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Measured]]] = {
    "object": _object,
    "data": _data,
    "files": _files,
    "annotations": _annotations,
    "name": _name,
    "label": _label,
}


def exceeded(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Every object that is beyond a bound, by the first that it is beyond, and the bundle where an engine
    can't deliver so many."""
    engine = bundle.plan.delivery.engine if bundle.plan else ""
    reported = set[str]()
    for limit in object_limits():
        if limit.engine not in ("", engine):
            continue
        if limit.measure == "resources":
            if len(bundle.objects) > limit.most:
                yield _violation(limit, None, "", len(bundle.objects))
            continue
        for item, kind, body in _bodies(bundle):
            if (limit.kinds and kind not in limit.kinds) or str(item) in reported:
                continue
            beyond = [row for row in _MEASURES[limit.measure](body) if row[1] > limit.most]
            reported |= {str(item)} if beyond else set()
            yield from (_violation(limit, item, path, number) for path, number in beyond)


def _bodies(bundle: ObjectSet) -> Iterator[tuple[BundleObject | JudgedRelease, str, Mapping[str, Any]]]:
    for item in bundle.objects:
        yield item, item.kind, item.body
    for release in bundle.releases:
        yield release, "HelmRelease", {"metadata": {"name": release.name}, "values": release.values}


def _violation(
    limit: ObjectLimit, item: BundleObject | JudgedRelease | None, path: str, number: int
) -> RuleViolation:
    message = f"{number:,} {limit.unit}; {limit.most:,} are accepted"
    return RuleViolation(message, item, path, {"number": number, "most": limit.most, "source": limit.source})


def section_of(violation: RuleViolation, plan: Plan) -> Loc:
    """The part of the environment file that makes an object as large as it is: the pool or tenant that it is
    of, or the section of which it names the most items; the whole file where it names none."""
    item = violation.object
    names: Mapping[str, list[str]] = {
        "pools": [pool.name for pool in plan.pools],
        "tenants": [tenant.namespace for tenant in plan.tenants],
        "priorities": [priority.name for priority in plan.priorities],
    }
    if item is None:
        return (max(names, key=lambda section: len(names[section])),)
    own = item.labels if isinstance(item, BundleObject) else {}
    tenants = [tenant.name for tenant in plan.tenants]
    for section, label, known in (("tenants", _TENANT_LABEL, tenants), ("pools", POOL_LABEL, names["pools"])):
        if own.get(label) in known:
            return (section, known.index(own[label]))
    body = item.body if isinstance(item, BundleObject) else item.values
    words = set(_WORD.findall(json.dumps(body, default=str)))
    counted = {section: sum(name in words for name in known) for section, known in names.items()}
    largest = max(counted, key=lambda section: counted[section])
    return (largest,) if counted[largest] else ()
