"""An environment file to an Environment: finds it, checks its shape, and says everything that is wrong.

Only the shape is judged here, field by field. What the fields mean together is `gpupool.checks`;
so that one run reports both, a file with broken parts still yields an Environment of its sound ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpupool.findings import Finding, UsageError
from gpupool.schema_messages import describe
from gpupool.spec import Environment
from gpupool.yaml_scalars import Unclear
from gpupool.yaml_source import Loc, Source, display_path, read_source

_LISTS = ("pools", "tenants", "priorities")
_CAPACITY = ("name", "gpu", "sharing", "nodes", "value", "level", "namespace")
"""Fields that other parts of the file are checked against: an item without one of them is left out whole."""
_NEEDED: tuple[Loc, ...] = (
    (),
    ("metadata",),
    ("metadata", "name"),
    ("cluster",),
    ("cluster", "platform"),
    ("cluster", "name"),
)
"""What nothing can be checked without."""
_SHARING_MODES = ("exclusive", "time-slicing", "mps", "mig")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What could be read of a file, and what could not."""

    environment: Environment | None
    """None where too little is sound to check anything else."""
    source: Source
    findings: tuple[Finding, ...]
    """Findings about the file's shape, in no order."""
    kept: dict[str, tuple[int, ...]]
    """For each top-level list, the file's index of each item that is in `environment`."""

    def finding(self, loc: Loc, message: str, hint: str) -> Finding:
        """A finding at `loc`, which counts list items as `environment` does."""
        if len(loc) > 1 and isinstance(loc[1], int) and loc[0] in self.kept:
            loc = (loc[0], self.kept[str(loc[0])][loc[1]], *loc[2:])
        return self.source.finding(loc, message, hint)

    def named(self, section: str) -> set[str]:
        """Every name that the file gives in `section`, broken items included."""
        items = self.source.data.get(section) if isinstance(self.source.data, dict) else None
        names = (
            [item.get("name") for item in items or [] if isinstance(item, dict)]
            if isinstance(items, list)
            else []
        )
        return {name for name in names if isinstance(name, str)}


def environments_folder(start: Path | None = None) -> Path:
    """The `environments` folder of the project that `start` (default: here) lies in."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "environments").is_dir():
            return folder / "environments"
    return here / "environments"


def environment_names() -> list[str]:
    """Names of all environments of the project, sorted."""
    return sorted(path.stem for path in environments_folder().glob("*.yaml"))


def find_environment(env: str) -> Path:
    """The file that ENV, a name or a path, means. Raises UsageError with the names there are."""
    if env.endswith((".yaml", ".yml")) or "/" in env:
        path = Path(env)
        if path.is_file():
            return path
        what = "no such file" if not path.exists() else "a folder" if path.is_dir() else "not a file"
        raise UsageError(f"{env}: {what}; name an environment ({_known()}) or the path of a file")
    path = environments_folder() / f"{env}.yaml"
    if path.is_file():
        return path
    raise UsageError(f"no environment {env!r} in {display_path(path.parent)}; there are: {_known()}")


def _known() -> str:
    return ", ".join(environment_names()) or "none"


def load(path: Path) -> Loaded:
    """Read `path`. Raises SpecError where the file is not YAML; all else is in the result's findings."""
    return check_shape(read_source(path))


def check_shape(source: Source) -> Loaded:
    """Turn values into an Environment, dropping what is broken until the rest is sound."""
    data, findings = source.data, list[Finding]()
    kept = {name: tuple(range(len(data[name]))) for name in _LISTS if _is_list(data, name)}
    if not isinstance(data, dict):
        message = "the file is empty" if data is None else f"the document is {_kind(data)}, not a mapping"
        finding = source.finding(
            (), message, "start with apiVersion: gpupool.dev/v1alpha1 and kind: Environment"
        )
        return Loaded(None, source, (finding,), kept)
    reported: set[Loc] = set()
    while True:
        try:
            return Loaded(Environment.model_validate(data), source, tuple(findings), kept)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        locs = [_strip_tags(item["type"], item["loc"]) for item in errors]
        for item, loc in zip(errors, locs, strict=True):
            place = _as_in_file(loc, kept)
            if place not in reported:
                reported.add(place)
                findings.append(source.finding(place, *describe(item, place, source)))
        pruned = _prune(data, kept, [(item["type"], loc) for item, loc in zip(errors, locs, strict=True)])
        if pruned is None:
            return Loaded(None, source, tuple(findings), kept)
        data, kept = pruned


def _is_list(data: Any, name: str) -> bool:
    return isinstance(data, dict) and isinstance(data.get(name), list)


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", Unclear: "text"}.get(type(value), "a single value")


def _strip_tags(kind: str, loc: Loc) -> Loc:
    """Without what pydantic puts in between: the union tag after `sharing`, `[key]` after a mapping's key,
    and inside free values the kind of each container."""
    if loc[:2] == ("gpuOperator", "values"):
        loc = loc[:3] + loc[4::2]
    parts = list[str | int]()
    for before, part in zip(("", *loc), loc, strict=False):
        if before != "sharing" or part not in _SHARING_MODES:
            parts.append(part)
    # An unknown field may itself be called "[key]".
    return tuple(parts[:-1] if parts[-1:] == ["[key]"] and kind != "extra_forbidden" else parts)


def _as_in_file(loc: Loc, kept: dict[str, tuple[int, ...]]) -> Loc:
    if len(loc) > 1 and loc[0] in kept and isinstance(loc[1], int):
        return (loc[0], kept[str(loc[0])][loc[1]], *loc[2:])
    return loc


def _prune(
    data: dict[str, Any], kept: dict[str, tuple[int, ...]], errors: Sequence[tuple[str, Loc]]
) -> tuple[dict[str, Any], dict[str, tuple[int, ...]]] | None:
    """`data` without what the errors are about: the field where nothing else depends on it, else the list
    item or section around it. None where a part that everything needs is broken."""
    pruned, dropped = dict(data), {name: set[int]() for name in kept}
    for kind, loc in errors:
        section = loc[0] if loc else ""
        if kind == "extra_forbidden":
            pruned = _without(pruned, loc)
        elif section in kept and len(loc) > 1 and isinstance(loc[1], int):
            if loc[2:3] == ("nodes",) and len(loc) > 3:
                # A pool without that field counts as unresolved, so nothing is held against its size.
                pruned = _without(pruned, loc[:4])
            elif kind == "missing" or len(loc) < 3 or loc[2] in _CAPACITY:
                dropped[section].add(loc[1])
            else:
                pruned = _without(pruned, loc[:3])
        elif loc in _NEEDED or section in ("apiVersion", "kind"):
            return None
        else:
            pruned = _without(pruned, loc[:2])
    for section, indexes in dropped.items():
        if section in pruned and indexes:
            pruned[section] = [item for index, item in enumerate(pruned[section]) if index not in indexes]
            kept = {
                **kept,
                section: tuple(at for index, at in enumerate(kept[section]) if index not in indexes),
            }
    return pruned, kept


def _without(data: Any, loc: Loc) -> Any:
    """A copy of `data` without the field at `loc`, sharing what it can."""
    if isinstance(data, dict):
        head, rest = loc[0], loc[1:]
        if not rest:
            return {key: value for key, value in data.items() if key != head}
        return {key: _without(value, rest) if key == head else value for key, value in data.items()}
    return [_without(value, loc[1:]) if index == loc[0] else value for index, value in enumerate(data)]
