"""Objects and files of other tools that hold a chart's values: what is in them, as documents of their own.

The tools and their fields are in `wrappers.yaml`; this is its only reader. What the values say is for the
readers of Helm values. It renders nothing: what only the tool can put together is named, with what to do.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.documents import Document, inner_document
from gpupool.adopt.convert.embedded import is_operator_values
from gpupool.adopt.convert.karpenter_values import is_karpenter_values
from gpupool.adopt.convert.operator_values import CHART as OPERATOR_CHART
from gpupool.adopt.convert.plugin_values import SECTION as PLUGIN_CHART
from gpupool.adopt.convert.plugin_values import values_loc as plugin_values_loc
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.spec.yaml_source import Loc, path_text, value_at

_CHARTS = (OPERATOR_CHART, PLUGIN_CHART, "karpenter", "gpu-feature-discovery")
_ITS_VALUES = "write the chart's values to a file, and convert that file"
_INSTALLS = "gpupool installs the chart, unless others do (install: false)"


@dataclass(frozen=True, slots=True)
class Wrapped:
    """One set of values in an object."""

    loc: Loc
    """Of the values in the object."""
    root: Loc
    """Of what says chart and version, and has more values elsewhere."""
    values: Document
    namespace: str
    """Where the tool installs the chart; empty where the object does not say it."""
    namespace_loc: Loc = ()


@functools.cache
def _tables() -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "wrappers.yaml").read_bytes())
    return tables


def wrapped(document: Document) -> Iterator[Wrapped]:
    """The values of GPU charts in `document`."""
    for row in _rows("opened", document):
        for root in _roots(row, document):
            chart = _chart(row, root, document)
            for loc in _places(row, root, document):
                values = _values(document, loc)
                if values is not None and _concerns_gpus(chart, values.data):
                    version = _word(document, (*root, *row["version"])) if "version" in row else ""
                    place = _namespace(row, root, document)
                    own = replace(values, chart=chart, chart_version=version)
                    yield Wrapped(loc, root, own, _word(document, place), place)
                    break


def account(part: Part, sets: Sequence[Wrapped]) -> list[str]:
    """Mark what is read of a wrapper, and list what is not; what to say of values that were not read."""
    unread = []
    part.named("namespace")
    for row in _rows("opened", part.document):
        for item in sets:
            for path in row["chart"]:
                part.at(*item.root, *path).used()
            if item.values.chart == OPERATOR_CHART and fits("version", item.values.chart_version):
                part.at(*item.root, *row["version"]).used()
            part.at(*item.loc).used()
            if item.namespace and item.values.chart == OPERATOR_CHART:
                part.at(*item.namespace_loc).used()
            for path in row.get("elsewhere", ()):
                place = (*item.root, *path)
                if place != item.loc and (more := part.at(*place)):
                    why = "these values of the chart are not read here"
                    more.left(why, "write all values to one file, and convert that file", "todo")
                    unread.append(f"{part.document.title}: {'.'.join(map(str, place))}: {why}")
    part.rest_left(_INSTALLS)
    return unread


def named(document: Document) -> tuple[str, str] | None:
    """Why nothing is read of an object that starts GPUs, and what to do; None for other objects."""
    for row in _rows("named", document):
        words, fields = row.get("words", ()), row.get("fields", ())
        text = json.dumps(document.data, default=str) if words else ""
        if words and not any(word in text for word in words):
            continue
        if not fields or any(document.data.get(name) for name in fields):
            return row["what"], row["remediation"]
    return None


def gpu_chart(document: Document) -> tuple[str, str] | None:
    """Why nothing is read of a wrapper that installs a GPU chart, and what to do; None where it does not."""
    for row in _rows("opened", document):
        for root in _roots(row, document):
            if (chart := _chart(row, root, document)) in _CHARTS:
                places = (*row.get("values", ()), *row.get("text", ()), *row.get("elsewhere", ()))
                there = [path for path in places if value_at(document.data, (*root, *path))]
                if not there:
                    return f"it installs the chart {chart}, but has no values for it", _ITS_VALUES
                fields = ", ".join(path_text((*root, *path)) for path in dict.fromkeys(map(tuple, there)))
                return (
                    f"it installs the chart {chart}, whose values in {fields} can't be read here",
                    _ITS_VALUES,
                )
    return None


def _chart(row: Mapping[str, Any], root: Loc, document: Document) -> str:
    """The name of the chart, without its repository; empty where none is named."""
    names = (_word(document, (*root, *path)) for path in row["chart"])
    return next(filter(None, names), "").rpartition("/")[2]


def _namespace(row: Mapping[str, Any], root: Loc, document: Document) -> Loc:
    """What says where the chart is installed; beside the chart's name, or of the whole object."""
    for path in row.get("namespace", ()):
        for loc in ((*root, *path), tuple(path)):
            if _word(document, loc):
                return loc
    return ()


def operator_namespaces(sets: Iterable[Wrapped]) -> list[str]:
    """Where the GPU Operator's chart is installed, by what installs it."""
    return [item.namespace for item in sets if item.namespace and item.values.chart == OPERATOR_CHART]


def _rows(table: str, document: Document) -> Iterator[Mapping[str, Any]]:
    return (row for row in _tables()[table] if _is(document, row))


def _is(document: Document, row: Mapping[str, Any]) -> bool:
    """Whether it is what the row is about: by its kind, or by its fields where it has none."""
    if "kind" in row:
        group = document.api_version.rpartition("/")[0]
        return (row["group"], row["kind"]) == (group, document.kind)
    fields = document.data.keys() if isinstance(document.data, dict) and not document.kind else ()
    return set(row["with"]) <= set(fields)


def _roots(row: Mapping[str, Any], document: Document) -> Iterator[Loc]:
    for path in row.get("in", ([],)):
        value = value_at(document.data, path)
        if isinstance(value, list):
            yield from ((*path, index) for index in range(len(value)))
        elif value is not None:
            yield tuple(path)


def _places(row: Mapping[str, Any], root: Loc, document: Document) -> Iterator[Loc]:
    for path in (*row.get("values", ()), *row.get("text", ())):
        if value_at(document.data, (*root, *path)) is not None:
            yield (*root, *path)


def _values(document: Document, loc: Loc) -> Document | None:
    """The values at `loc`, fields or text, as a document; None where they are neither."""
    value, key = value_at(document.data, loc), ".".join(map(str, loc))
    if isinstance(value, dict):
        return replace(document, data=value, base=(*document.base, *loc), within=document, key=key)
    inner = inner_document(document, loc)
    return replace(inner, key=key) if inner is not None and isinstance(inner.data, dict) else None


def _concerns_gpus(chart: str, values: Any) -> bool:
    ours = is_operator_values(values) or is_karpenter_values(values) or plugin_values_loc(values) is not None
    return chart in _CHARTS or ours


def _word(document: Document, loc: Loc) -> str:
    value = value_at(document.data, loc)
    return value if isinstance(value, str) else ""
