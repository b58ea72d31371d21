"""What changed between two versions of an object, and whether that takes a new object.

Pure functions over plain values. Paths are written as Pulumi writes them: `spec.limits["a.b/c"]`,
`spec.taints[0].key`. Which fields can't change in place is data (pulumi_replace.yaml).
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

import yaml

from gpupool.cluster.managed_fields import Fields

Step = str | int
Path = tuple[Step, ...]
Kind = Literal["add", "delete", "update"]
MISSING: Any = object()


class Change(NamedTuple):
    """One field that differs."""

    path: Path
    old: Any
    """MISSING where it was not there."""
    new: Any
    """MISSING where it is no longer there."""

    @property
    def kind(self) -> Kind:
        return "add" if self.old is MISSING else "delete" if self.new is MISSING else "update"

    @property
    def text(self) -> str:
        """The path as Pulumi writes it."""
        return format_path(self.path)


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[Change]:
    """Every leaf that differs; lists are compared place by place, numbers by value."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from changes(old.get(key, MISSING), new.get(key, MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else MISSING
            after = new[index] if index < len(new) else MISSING
            yield from changes(before, after, (*path, index))
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield Change(path, old, new)


def format_path(path: Path) -> str:
    """A path as Pulumi's property paths: dots, [index], and ["key"] for keys that need quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif any(character in '."[]' for character in step):
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
        else:
            text += f".{step}" if text else step
    return text


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
    return _drifted(inputs, before, now, Fields.of(now))


def _drifted(inputs: Any, before: Any, now: Any, fields: Fields | None) -> Any:
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
