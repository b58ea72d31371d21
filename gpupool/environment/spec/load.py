"""An environment file to an Environment: finds it, checks its shape, and says everything that is wrong.

Only the shape is judged here, field by field. What the fields mean together is
`gpupool.environment.plan.checks`; so that one run reports both, a file with broken parts still yields an
Environment of its sound ones (`gpupool.environment.spec.gaps`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpupool.environment.project import environments_folder
from gpupool.environment.spec.environment import SHARING_VARIANTS, Environment
from gpupool.environment.spec.gaps import Gaps, Place
from gpupool.environment.spec.messages import describe
from gpupool.environment.spec.tenants import PROJECT_FORMS, UP_TO_FORMS
from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import (
    Loc,
    Unread,
    YamlSource,
    display_path,
    path_text,
    read_source,
    value_at,
)
from gpupool.findings import Finding, UsageError
from gpupool.findings.finding import INVALID_FILE

_NAMES = ("name", "namespace")
_NAMED = ("pools", "tenants", "priorities")
_FREE: tuple[Loc, ...] = (
    ("gpuOperator", "values"),
    ("karpenter", "values"),
    ("queue", "chart", "values"),
)
"""Mappings with any values in them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What could be read of a file, and what could not."""

    environment: Environment | None
    """None where too little is sound to check anything else."""
    source: YamlSource
    findings: tuple[Finding, ...]
    """Findings about the file's shape, in no order."""
    gaps: Gaps
    """What is not in `environment`, or has a neutral value there."""

    def finding(self, loc: Loc, what: str, remediation: str, code: str = INVALID_FILE) -> Finding:
        """A finding at `loc`, which counts list items as `environment` does."""
        return self.source.finding(self.gaps.place(loc), what, remediation, code)

    def named(self, section: str) -> set[str]:
        """Every name that the file gives in `section`, broken items included."""
        items = self.source.data.get(section) if isinstance(self.source.data, dict) else None
        mappings = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        names = [item.get("name") for item in mappings]
        # A name without its quotes is a finding; that others refer to it is none.
        return {str(name) for name in names if isinstance(name, str | int | float | Unclear)}


def environment_names() -> list[str]:
    """Names of all environments of the project, sorted."""
    return sorted(path.stem for path in environments_folder().glob("*.yaml"))


def find_environment(env: str) -> Path:
    """The file that ENV, a name or a path, means. Raises UsageError with the names there are."""
    if env.endswith((".yaml", ".yml")) or "/" in env:
        path = Path(env)
        if path.is_file() or path.is_symlink():  # reading it says where a link doesn't lead to a file
            return path
        what = "no such file" if not path.exists() else "a folder" if path.is_dir() else "not a file"
        raise UsageError(f"{env}: {what}; name an environment ({_known()}) or the path of a file")
    path = environments_folder() / f"{env}.yaml"
    if os.path.lexists(path):
        return path
    raise UsageError(f"no environment {env!r} in {display_path(path.parent)}; there are: {_known()}")


def _known() -> str:
    return ", ".join(environment_names()) or "none"


def load(path: Path) -> Loaded:
    """Read `path`. Raises SpecError where reading had to stop; all else is in the result's findings."""
    return check_shape(read_source(path))


def check_shape(source: YamlSource) -> Loaded:
    """Turn values into an Environment, cutting out what is broken until the rest is sound."""
    data, findings, gaps = source.data, list(source.findings), Gaps()
    for place in source.unread:
        gaps.add(place)
    if not isinstance(data, dict):
        message = "the file is empty" if data is None else f"the document is {_kind(data)}, not a mapping"
        remediation = "start with apiVersion: gpupool.dev/v1alpha1 and kind: Environment"
        finding = source.finding((), message, remediation)
        if data is None:  # a document that is only begun has its place after the last line
            finding = replace(finding, line=1, column=1)
        return Loaded(None, source, tuple(findings) or (finding,), gaps)
    reported: set[Place] = set()
    while True:
        try:
            environment = Environment.model_validate(data)
            return Loaded(_as_named(environment, source, gaps), source, tuple(findings), gaps)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        located = [(item, _strip_tags(item["type"], item["loc"])) for item in errors]
        for item, loc in located:
            place = gaps.place(loc)
            if place not in reported and not _is_reported(item, place, gaps):
                reported.add(place)
                findings.append(source.finding(place, *describe(item, place, source)))
        if any(loc[0] in ("apiVersion", "kind") for _, loc in located):
            # Another kind of file: its fields can't be interpreted.
            return Loaded(None, source, tuple(findings), gaps)
        data = gaps.cut(data, [("key" if _is_key(item) else item["type"], loc) for item, loc in located])


def _is_reported(error: Mapping[str, Any], place: Place, gaps: Gaps) -> bool:
    """Whether `error` is no more than what became of a finding that there is already."""
    if error["type"] == "missing":
        # Cut out in an earlier round, or left out with a merge key that merges nothing.
        return place in gaps.broken or (*place[:-1], "<<") in gaps.broken
    return isinstance(error["input"], Unread)


def _as_named(environment: Environment, source: YamlSource, gaps: Gaps) -> Environment:
    """`environment` with names as the file has them where they got neutral ones, or else after their place:
    none is like another by that, and findings name what can be found."""
    if not gaps.broken:
        return environment
    update: dict[str, Any] = {}
    for section in _NAMED:
        items = list(getattr(environment, section))
        for index, item in enumerate(items):
            place = gaps.place((section, index))
            names = {
                name: written
                if isinstance(written := value_at(source.data, (*place, name)), str)
                else path_text(place)
                for name in _NAMES
                if hasattr(item, name) and gaps.covers((section, index, name))
            }
            items[index] = item.model_copy(update=names)
        update[section] = items
    if gaps.covers(("metadata", "name")):
        update["metadata"] = environment.metadata.model_copy(update={"name": Path(source.file).stem})
    return environment.model_copy(update=update)


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", Unclear: "text"}.get(type(value), "a single value")


def _strip_tags(kind: str, loc: Loc) -> Loc:
    """Without what pydantic puts in between: the union tag after `sharing`, those after a project's index
    and `upTo`,
    `[key]` after a mapping's key, and inside free values the kind of each container."""
    for path in _FREE:
        if loc[: len(path)] == path:
            loc = loc[: len(path) + 1] + loc[len(path) + 2 :: 2]
    parts = list[str | int]()
    for at, part in enumerate(loc):
        variant = loc[at - 1 : at] == ("sharing",) and part in SHARING_VARIANTS
        form = at > 1 and loc[at - 2] == "projects" and part in PROJECT_FORMS
        form = form or (loc[at - 1 : at] == ("upTo",) and part in UP_TO_FORMS)
        if not (variant or form):
            parts.append(part)
    # An unknown field may itself be called "[key]".
    return tuple(parts[:-1] if parts[-1:] == ["[key]"] and kind != "extra_forbidden" else parts)


def _is_key(error: Mapping[str, Any]) -> bool:
    """Whether `error` is about a mapping's key and not about what it stands for."""
    return bool(error["loc"][-1:] == ("[key]",)) and error["type"] != "extra_forbidden"
