"""Whether a change takes a new object, and what of an object's inputs somebody else has changed.

Pure functions over plain values. Which fields can't change in place is data (replace.yaml).
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from gpupool.objects.changes import MISSING, Path
from gpupool.objects.managed_fields import OwnedFields


@cache
def _replace_rules() -> dict[str, list[list[str]]]:
    rows = yaml.safe_load(pathlib.Path(__file__).with_name("replace.yaml").read_text())["replace"]
    return {kind: [path.split(".") for path in paths] for kind, paths in rows.items()}


def replaces(path: Path, kind: str) -> bool:
    """Whether a change of the field at `path` can't be made in place on an object of `kind`; empty for an
    object of which its kind does not decide."""
    rules = [*_replace_rules()["*"], *_replace_rules().get(kind, [])]
    return any(_matches(path, rule) for rule in rules)


def _matches(path: Path, rule: list[str]) -> bool:
    """A rule covers its field, everything below it, and any change that removes a parent of it."""
    return all(want in ("*", str(have)) for have, want in zip(path, rule, strict=False))


def drifted_inputs(inputs: Any, before: Any, now: Any) -> Any:
    """`inputs` with every field that somebody else has changed or removed since the last read.

    `before` is the object as it was then, `now` as it is. Comparing the two and not `inputs` with
    `now` keeps the server's own rewriting (1000m becomes 1) from looking like drift. Fields beside ours are
    somebody else's, except in what the server keeps as one value: there they change ours.
    """
    return _drifted(inputs, before, now, OwnedFields.of(now))


def _drifted(inputs: Any, before: Any, now: Any, fields: OwnedFields | None) -> Any:
    """`fields` are those of this place; None for a part of what is one value."""
    known = None if fields is None or fields.one_value else fields
    if isinstance(inputs, Mapping) and isinstance(now, Mapping) and isinstance(before, Mapping):
        result = {}
        for key, value in inputs.items():
            if key in now:
                inner = known and known.below(key)
                result[key] = _drifted(value, before.get(key, MISSING), now[key], inner)
            elif key not in before:
                result[key] = value
        if known is None:
            added = {key: now[key] for key in now if key not in inputs}
            result.update((key, value) for key, value in added.items() if value != before.get(key, MISSING))
        return result
    if before is MISSING:
        # The server leaves out what is empty, so there was nothing. Keys of a mapping are added beside ours.
        filled = now and not inputs and not (known is not None and isinstance(now, Mapping))
        return now if filled else inputs
    if before == now:
        return inputs
    lists = isinstance(inputs, list) and isinstance(now, list) and isinstance(before, list)
    if lists and len(inputs) == len(before) == len(now):
        return [
            _drifted(ours, then, there, known and known.of_item(ours))
            for ours, then, there in zip(inputs, before, now, strict=True)
        ]
    return now
