"""A manifest against the live object: the fields that the manifest sets, and what others have added to them.

Only fields of the manifest are compared, since defaults and status are the server's; but values that the
server keeps as one, such as selectors, as a whole, because one more field changes them. A manifest of a kind
of Kubernetes itself is first put into the form in which the server writes it (quantities, empty values);
custom resources are stored as they are given. Nothing is asked of a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpupool.cluster.managed_fields import Fields, is_key_of, name_of, rows_of
from gpupool.pulumi_plugins.diff import MISSING, Path, Step
from infra.field_changes import are_items
from vapcheck import Kinds
from vapcheck.server.admission_view import as_admitted
from vapcheck.server.canonical_text import quantity

_KEYED = frozenset(
    {"containers", "initContainers", "variables", "matchConditions", "volumes", "volumeMounts"}
)
"""Lists whose items the server identifies by name (x-kubernetes-list-type: map; Kubernetes 1.36): others may
add items, and the order means nothing."""
SETS = frozenset({"validationActions"})
"""Lists in which the server keeps what each manager has put in (x-kubernetes-list-type: set): applying ours
again takes nothing of theirs away."""
_QUANTITIES = frozenset({"limits", "hard", "capacity", "requests", "defaultRequest", "default", "max", "min"})
"""Mappings whose values are quantities: 1000m and 1 are one value."""
_IDENTITY = ("apiVersion", "kind")
_NAMES = ("name", "namespace")


class Difference(NamedTuple):
    """One field that differs from the manifest."""

    path: Path
    wanted: Any
    """The manifest's value; MISSING if it sets none."""
    found: Any
    """The live value; MISSING if there is none."""


def differences(body: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Difference]:
    """The fields of the manifest `body` that differ in the live object."""
    if Kinds.builtin().resource(body["apiVersion"], body["kind"]) is not None:
        form, fields = as_admitted(dict(body), Kinds.builtin(), operation="UPDATE"), Fields.of(live)
    else:
        # What a CRD's defaults put beside ours isn't known here, so nothing is compared as one value.
        form, fields = _said(body), Fields()
    for key, value in body.items():
        if key == "metadata":
            for part in sorted(set(value) - set(_NAMES)):
                wanted, there = (what["metadata"].get(part, MISSING) for what in (form, live))
                yield from _walk(
                    value[part], wanted, there, (key, part), fields.below("metadata").below(part)
                )
        elif key not in _IDENTITY:
            wanted, there = form.get(key, MISSING), live.get(key, MISSING)
            yield from _walk(value, wanted, there, (key,), fields.below(key))


def _said(value: Any) -> Any:
    """A custom resource without its empty fields: what writes it may leave those out."""
    if not isinstance(value, Mapping):
        return value
    return {key: _said(inner) for key, inner in value.items() if not (_unsaid(inner) or inner == {})}


def _walk(ours: Any, form: Any, live: Any, path: Path, fields: Fields) -> Iterator[Difference]:
    """`ours` as the manifest says it, `form` as the server would write it."""
    if form is MISSING:
        # The server leaves such a value out; and an empty mapping names no field that could differ.
        if live is not MISSING and live and not isinstance(ours, Mapping):
            yield Difference(path, ours, live)
    elif live is MISSING and not (isinstance(ours, Mapping) and len(path) == 1):
        yield Difference(path, ours, live)
    elif isinstance(ours, Mapping) and not fields.one_value:
        known = live if isinstance(live, Mapping) else {}
        inner = form if isinstance(form, Mapping) else {}
        for key, value in ours.items():
            wanted, there = inner.get(key, MISSING), known.get(key, MISSING)
            yield from _walk(value, wanted, there, (*path, key), fields.below(key))
    elif isinstance(ours, list) and path[-1] in _KEYED and isinstance(live, list):
        yield from _walk_items(ours, form, live, path, fields)
    elif not _same(form, live, path):
        yield _narrowed(path, form, live)


def _narrowed(path: Path, wanted: Any, found: Any) -> Difference:
    """The one place where a value differs; the whole value if it differs in several."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        steps: list[Step] = sorted({*wanted, *found})
        pairs = [(step, wanted.get(step, MISSING), found.get(step, MISSING)) for step in steps]
    elif are_items(wanted) and are_items(found):
        if len(wanted) != len(found):
            more = [item for item in wanted if not any(_same(item, other, path) for other in found)]
            less = [item for item in found if not any(_same(item, other, path) for other in wanted)]
            return Difference(path, more, less) if more or less else Difference(path, wanted, found)
        pairs = [(place, one, other) for place, (one, other) in enumerate(zip(wanted, found, strict=True))]
    else:
        return Difference(path, wanted, found)
    apart = [(step, one, other) for step, one, other in pairs if not _same(one, other, (*path, step))]
    if len(apart) != 1:
        return Difference(path, wanted, found)
    step, one, other = apart[0]
    return _narrowed((*path, step), one, other)


def _walk_items(
    ours: list[Any], form: list[Any], live: list[Any], path: Path, fields: Fields
) -> Iterator[Difference]:
    there = {item.get("name"): item for item in live}
    for place, (item, inner) in enumerate(zip(ours, form, strict=True)):
        found = there.get(item.get("name"), MISSING)
        if found is MISSING:
            yield Difference((*path, place), item, MISSING)
        else:
            yield from _walk(item, inner, found, (*path, place), fields.of_item(item))


def _same(wanted: Any, found: Any, path: Path) -> bool:
    """Whether two values are one to the server. Lists are compared as a whole, as they are owned."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            _same(wanted.get(key, MISSING), found.get(key, MISSING), (*path, key))
            for key in {*wanted, *found}
        )
    if isinstance(wanted, list) and isinstance(found, list):
        pairs = zip(wanted, found, strict=False)
        return len(wanted) == len(found) and all(_same(one, other, path) for one, other in pairs)
    if _unsaid(wanted) or _unsaid(found):
        return _unsaid(wanted) and _unsaid(found)
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if wanted == found:
        return True
    if _QUANTITIES.intersection(str(step) for step in path):
        return bool(quantity(wanted) == quantity(found))
    return not isinstance(wanted, type(found)) and str(wanted) == str(found)


def _unsaid(value: Any) -> bool:
    """Whether the server treats it as absent. An empty mapping is a value: the selector `{}`
    selects everything, and none nothing."""
    return value is MISSING or value is None or (isinstance(value, list | str) and not value)


class Ownership:
    """Which manager set which field of an object, from its metadata.managedFields."""

    def __init__(self, live: Mapping[str, Any]) -> None:
        self._live = live
        self._rows = rows_of(live)

    def of(self, path: Path, but: str) -> tuple[str, str]:
        """The manager that set the field last, `but` only if no other has, and when (empty: none)."""
        holders = [row for row in self._rows if self._holds(row, path)]
        others = [row for row in holders if row.get("manager") != but] or holders
        if not others:
            return "", ""
        last = max(others, key=lambda row: str(row.get("time", "")))
        return str(last.get("manager", "")), str(last.get("time", ""))

    def _holds(self, row: Mapping[str, Any], path: Path) -> bool:
        """Whether the field, the list that it is in, or something below it is the manager's."""
        fields: Any = row.get("fieldsV1") or {}
        live: Any = self._live
        for step in path:
            if isinstance(step, int):
                item = live[step] if isinstance(live, list) and step < len(live) else {}
                keys = [key for key in fields if is_key_of(key, item)]
                if not keys:
                    return True  # the list is one value
                fields, live = fields[keys[0]], item
                continue
            if f"f:{step}" not in fields:
                return False
            fields = fields[f"f:{step}"]
            live = live.get(step) if isinstance(live, Mapping) else None
            if not fields or fields == {".": {}}:
                return True
        return True

    def added(self, body: Mapping[str, Any], ours: frozenset[str]) -> Iterator[tuple[Path, str]]:
        """Fields beside those of the manifest `body` that managers other than `ours` have set, with who."""
        seen = set()
        for row in self._rows:
            manager = str(row.get("manager"))
            if manager in ours:
                continue
            for path in _beside(row.get("fieldsV1") or {}, body, self._live, ()):
                if path not in seen:
                    seen.add(path)
                    yield path, manager


def _beside(fields: Mapping[str, Any], body: Any, live: Any, path: Path) -> Iterator[Path]:
    """Paths in `fields` (fieldsV1) that `body` does not have; metadata and status are not compared."""
    for key, inner in fields.items():
        if key == "." or (not path and key in ("f:metadata", "f:status")):
            continue
        step, mine, there = _step(key, body, live)
        if step is None or there is MISSING:
            continue
        if mine is MISSING:
            yield (*path, step)
        elif inner:
            yield from _beside(inner, mine, there, (*path, step))


def _step(key: str, body: Any, live: Any) -> tuple[Step | None, Any, Any]:
    """The step that a key of fieldsV1 stands for, and what is there in the manifest and in the object."""
    if key.startswith("f:"):
        name = key[2:]
        mine = body.get(name, MISSING) if isinstance(body, Mapping) else MISSING
        return name, mine, live.get(name, MISSING) if isinstance(live, Mapping) else MISSING
    for place, item in enumerate(live if isinstance(live, list) else ()):
        if is_key_of(key, item):
            items = body if isinstance(body, list) else []
            return place, next((row for row in items if name_of(row) == name_of(item)), MISSING), item
    return None, MISSING, MISSING
