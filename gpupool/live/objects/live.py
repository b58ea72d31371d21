"""A manifest against the live object: the fields that the manifest sets, and what others have added to them.

Only fields of the manifest are compared, since defaults and status are the server's; but values that the
server keeps as one, such as selectors, as a whole, because one more field changes them. A manifest of a kind
of Kubernetes itself is first put into the form in which the server writes it (quantities, empty values);
custom resources are stored as they are given. Nothing is asked of a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.live.objects.changes import MISSING, Change, Path, Step, are_items
from gpupool.live.objects.managed_fields import OwnedFields
from vapcheck import NEWEST, Kinds, as_admitted, quantity

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


def differences(
    body: Mapping[str, Any], live: Mapping[str, Any], kubernetes: str = NEWEST
) -> Iterator[Change]:
    """The fields of the manifest `body` that differ in the live object of a cluster of that version."""
    kinds = Kinds.builtin(kubernetes)
    if kinds.resource(body["apiVersion"], body["kind"]) is not None:
        form, fields = as_admitted(dict(body), kinds, operation="UPDATE"), OwnedFields.of(live)
    else:
        # What a CRD's defaults put beside ours isn't known here, so nothing is compared as one value.
        form, fields = _said(body), OwnedFields()
    for key, value in body.items():
        if key == "metadata":
            for part in sorted(set(value) - set(_NAMES)):
                form_part, live_part = (what["metadata"].get(part, MISSING) for what in (form, live))
                yield from _walk(
                    value[part], form_part, live_part, (key, part), fields.below("metadata").below(part)
                )
        elif key not in _IDENTITY:
            form_part, live_part = form.get(key, MISSING), live.get(key, MISSING)
            yield from _walk(value, form_part, live_part, (key,), fields.below(key))


def _said(value: Any) -> Any:
    """A custom resource without its empty fields: what writes it may leave those out."""
    if not isinstance(value, Mapping):
        return value
    return {key: _said(inner) for key, inner in value.items() if not (_unsaid(inner) or inner == {})}


def _walk(ours: Any, form: Any, live: Any, path: Path, fields: OwnedFields) -> Iterator[Change]:
    """`ours` as the manifest says it, `form` as the server would write it."""
    if form is MISSING:
        # The server leaves such a value out; and an empty mapping names no field that could differ.
        if live is not MISSING and live and not isinstance(ours, Mapping):
            yield Change(path, ours, live)
    elif live is MISSING and not (isinstance(ours, Mapping) and len(path) == 1):
        yield Change(path, ours, live)
    elif isinstance(ours, Mapping) and not fields.one_value:
        known = live if isinstance(live, Mapping) else {}
        inner = form if isinstance(form, Mapping) else {}
        for key, value in ours.items():
            form_part, live_part = inner.get(key, MISSING), known.get(key, MISSING)
            yield from _walk(value, form_part, live_part, (*path, key), fields.below(key))
    elif isinstance(ours, list) and path[-1] in _KEYED and isinstance(live, list):
        yield from _walk_items(ours, form, live, path, fields)
    elif not _same(form, live, path):
        yield _narrowed(path, form, live)


def _narrowed(path: Path, ours: Any, live: Any) -> Change:
    """The one place where a value differs; the whole value if it differs in several."""
    if isinstance(ours, Mapping) and isinstance(live, Mapping):
        steps: list[Step] = sorted({*ours, *live})
        pairs = [(step, ours.get(step, MISSING), live.get(step, MISSING)) for step in steps]
    elif are_items(ours) and are_items(live):
        if len(ours) != len(live):
            more = [item for item in ours if not any(_same(item, other, path) for other in live)]
            less = [item for item in live if not any(_same(item, other, path) for other in ours)]
            return Change(path, more, less) if more or less else Change(path, ours, live)
        pairs = [(place, before, after) for place, (before, after) in enumerate(zip(ours, live, strict=True))]
    else:
        return Change(path, ours, live)
    apart = [
        (step, before, after) for step, before, after in pairs if not _same(before, after, (*path, step))
    ]
    if len(apart) != 1:
        return Change(path, ours, live)
    step, before, after = apart[0]
    return _narrowed((*path, step), before, after)


def _walk_items(
    ours: list[Any], form: list[Any], live: list[Any], path: Path, fields: OwnedFields
) -> Iterator[Change]:
    there = {item.get("name"): item for item in live}
    for place, (item, inner) in enumerate(zip(ours, form, strict=True)):
        held = there.get(item.get("name"), MISSING)
        if held is MISSING:
            yield Change((*path, place), item, MISSING)
        else:
            yield from _walk(item, inner, held, (*path, place), fields.of_item(item))


def _same(ours: Any, live: Any, path: Path) -> bool:
    """Whether two values are one to the server. Lists are compared as a whole, as they are owned."""
    if isinstance(ours, Mapping) and isinstance(live, Mapping):
        return all(
            _same(ours.get(key, MISSING), live.get(key, MISSING), (*path, key)) for key in {*ours, *live}
        )
    if isinstance(ours, list) and isinstance(live, list):
        pairs = zip(ours, live, strict=False)
        return len(ours) == len(live) and all(_same(item, other, path) for item, other in pairs)
    if _unsaid(ours) or _unsaid(live):
        return _unsaid(ours) and _unsaid(live)
    if isinstance(ours, bool) or isinstance(live, bool):
        return ours is live
    if ours == live:
        return True
    if _QUANTITIES.intersection(str(step) for step in path):
        return bool(quantity(ours) == quantity(live))
    return not isinstance(ours, type(live)) and str(ours) == str(live)


def _unsaid(value: Any) -> bool:
    """Whether the server treats it as absent. An empty mapping is a value: the selector `{}`
    selects everything, and none nothing."""
    return value is MISSING or value is None or (isinstance(value, list | str) and not value)
