"""A second mistake hides no finding about the first, and makes none up.

The first is that of a wrong environment in tests/golden, the others are put into it in places of their own.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import parse_source, read_source
from gpupool.findings import SpecError
from tests.examples import examples
from tests.selection import some

Data = dict[Any, Any]

FOLDER = Path(__file__).parents[1] / "golden" / "wrong_environments"


class Raw:
    """Text that goes into the file as it is, as a key too, and twice."""

    def __init__(self, text: str) -> None:
        self.text = text


def written(value: Any) -> str:
    if isinstance(value, Raw | Unclear):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{written(key)}: {written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value)


def found(name: str, data: Data) -> set[tuple[str, str]]:
    try:
        resolve(check_shape(parse_source(f"{name}.yaml", written(data).encode())))
    except SpecError as error:
        return {(finding.path, finding.what) for finding in error.findings}
    return set()


def cases() -> dict[str, Data]:
    """The wrong environments that can be read to their end and are of this version."""
    read = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        try:
            source = read_source(path)
        except SpecError:
            continue
        if isinstance(source.data, dict) and not source.findings and path.stem != "other-api-version":
            read[path.stem] = source.data
    return read


CASES = cases()


def section(data: Any, *path: str) -> Any:
    """What is at `path`, made where there is nothing."""
    for part in path:
        data = data.setdefault(part, {})
    return data


def to_each(name: str, change: Callable[[Data], None]) -> Callable[[Data], None]:
    def changed(data: Data) -> None:
        for item in data.get(name, ()):
            if isinstance(item, dict) and "name" in item and (name != "pools" or "nodes" in item):
                change(item)

    return changed


def add(name: str, item: Any) -> Callable[[Data], None]:
    return lambda data: data.setdefault(name, []).append(copy.deepcopy(item))


TYPES = {"instanceTypes": ["g4dn.xlarge"], "max": 1}
MISTAKES: dict[str, tuple[str, Callable[[Data], Any]]] = {
    "unknown section": ("bogus", lambda data: data.update(bogus=1)),
    "key twice": ("kind", lambda data: data.update({Raw('"kind"'): "Environment"})),
    "key unclear": (
        r"metadata\.annotations",
        lambda data: section(data, "metadata", "annotations").update({Raw("y"): "a"}),
    ),
    "tag": (
        r"metadata\.annotations\.tagged",
        lambda data: section(data, "metadata", "annotations").update(tagged=Raw("!mine a")),
    ),
    "merge of nothing": (
        r'metadata\.annotations\["<<"\]',
        lambda data: section(data, "metadata", "annotations").update({Raw("<<"): 3}),
    ),
    "retries": (r"queue\.retries", lambda data: section(data, "queue").update(retries=-1)),
    "aging": (r"queue\.aging", lambda data: section(data, "queue").update(aging="9999999h")),
    "interval": (
        r"monitoring\.dcgmInterval",
        lambda data: section(data, "monitoring").update(dcgmInterval=1),
    ),
    "ceiling": (r"cost\.monthlyUsdMax", lambda data: section(data, "cost").update(monthlyUsdMax="much")),
    "waiver": (
        r"policies\.waivers\[\d\]\.(owner|reason|until)",
        lambda data: (
            section(data, "policies")
            .setdefault("waivers", [])
            .append({"policy": "restricted-pods", "namespace": "else", "until": "soon"})
        ),
    ),
    "chart value": (
        r"gpuOperator\.values\.a\.b\[0\]",
        lambda data: section(data, "gpuOperator", "values").update(a={"b": [Raw("yes")]}),
    ),
    "Karpenter's value": (
        r"karpenter\.values\.a\.b\[0\]",
        lambda data: section(data, "karpenter", "values").update(a={"b": [Raw("yes")]}),
    ),
    "pool without all": (r"pools\[\d\]\.(gpu|nodes)", add("pools", {"name": "empty", "taints": []})),
    "pool of text": (r"pools\[\d\]", add("pools", "text")),
    "pool with a bad name": (
        r"pools\[\d\](\.(name|gpu|sharing|labels.+)|\.nodes(\..+)?)",
        add(
            "pools",
            {
                "name": "Bad",
                "gpu": "X",
                "sharing": {"mode": "m"},
                "nodes": TYPES,
                "labels": {"k8s.io/x": 1},
                "taints": [],
            },
        ),
    ),
    "label key": (
        r'pools\[\d\]\.labels\["a b"\]',
        to_each("pools", lambda pool: section(pool, "labels").update({"a b": "c"})),
    ),
    "label": (
        r"pools\[\d\]\.labels\.count",
        to_each("pools", lambda pool: section(pool, "labels").update(count=3)),
    ),
    "taint": (
        r"pools\[\d\]\.taints(\[\d\]\.key)?",
        to_each("pools", lambda pool: pool.setdefault("taints", []).append({"key": "a b"})),
    ),
    "description": (r"pools\[\d\]\.description", to_each("pools", lambda pool: pool.update(description=3))),
    "unknown field": (r"pools\[\d\]\.bogus", to_each("pools", lambda pool: pool.update(bogus=3))),
    "zone": (
        r"pools\[\d\]\.nodes\.zones(\[\d\])?",
        to_each("pools", lambda pool: pool["nodes"].setdefault("zones", []).append(3)),
    ),
    "most unavailable": (
        r"pools\[\d\]\.maintenance\.maxUnavailable",
        to_each("pools", lambda pool: section(pool, "maintenance").setdefault("maxUnavailable", 0)),
    ),
    "window": (
        r"pools\[\d\]\.maintenance\.window",
        to_each("pools", lambda pool: section(pool, "maintenance").setdefault("window", "never")),
    ),
    "fallback": (
        r"pools\[\d\]\.fallbackTo\[\d\]",
        to_each("pools", lambda pool: pool.setdefault("fallbackTo", []).insert(0, 3)),
    ),
    "priority": (
        r"priorities\[\d\]\.(name|level)",
        add("priorities", {"name": "a b", "value": -1000, "level": "lowest"}),
    ),
    "tenant with a bad namespace": (
        r"tenants\[\d\]\.(namespace|maxPriority)",
        add("tenants", {"name": "odd", "namespace": "N", "maxPriority": "nope"}),
    ),
    "tenant without a name": (r"tenants\[\d\]\.name", add("tenants", {"namespace": "odd"})),
    "weight": (r"tenants\[\d\]\.weight", to_each("tenants", lambda tenant: tenant.update(weight=0))),
    "grant": (
        r"tenants\[\d\]\.pools\.nope",
        to_each("tenants", lambda tenant: section(tenant, "pools").update(nope=3)),
    ),
    "project": (
        r"tenants\[\d\]\.projects\[\d\]",
        to_each("tenants", lambda tenant: tenant.setdefault("projects", []).append("a b")),
    ),
}


def with_mistakes(case: str, *names: str) -> Data:
    data = copy.deepcopy(CASES[case])
    for name in names:
        MISTAKES[name][1](data)
    return data


def judge(case: str, *names: str) -> None:
    """The last of `names` adds its own findings to those of what is before it."""
    before, after = (found(case, with_mistakes(case, *some)) for some in (names[:-1], names))
    added = after - before
    own = {path for path, _ in added}
    # Labels among which one is broken can't be counted; what is wrong with their number comes after it.
    replaced = own | {path.split(".labels")[0] + ".labels" for path in own if ".labels" in path}
    hidden = {finding for finding in before - after if finding[0] not in replaced}
    assert not hidden, names
    pattern = MISTAKES[names[-1]][0]
    assert not [path for path in own if not re.fullmatch(pattern, path)], names


@pytest.mark.parametrize("name", MISTAKES)
def test_a_second_mistake_hides_no_finding(name: str) -> None:
    for case in some("environments", list(CASES), 20):
        judge(case, name)
    assert any(found(case, with_mistakes(case, name)) - found(case, CASES[case]) for case in CASES)


@examples("environments", 200)
@given(
    st.sampled_from(sorted(CASES)),
    st.lists(st.sampled_from(sorted(MISTAKES)), min_size=2, max_size=4, unique=True),
)
def test_mistakes_hide_no_finding_about_each_other(case: str, names: list[str]) -> None:
    judge(case, *names)
