"""An environment's file in a promotion: its text, its values as written, and the environment that was
read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.load import Loaded, check_shape
from gpupool.environment.spec.promotion import SECTIONS
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import SpecError
from gpupool.review.promote.rules import PromotionRules
from gpupool.review.promote.shape import NAMED, Difference, Shape, leaves, path_of


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """An environment file whose shape is valid."""

    text: str
    """The file's text, without a byte order mark."""
    loaded: Loaded

    @property
    def environment(self) -> Environment:
        assert self.loaded.environment is not None
        return self.loaded.environment

    @property
    def name(self) -> str:
        return self.environment.metadata.name

    @property
    def data(self) -> Any:
        """The values as they are written, defaults left out."""
        return self.loaded.source.data


def read_environment_file(name: str, raw: bytes) -> EnvironmentFile:
    """The environment in `raw`, the content of the file shown as `name`. Raises SpecError where its shape is
    broken; what its fields mean together is not judged."""
    loaded = check_shape(parse_source(name, raw))
    if loaded.findings or loaded.environment is None:
        raise SpecError(loaded.findings)
    return EnvironmentFile(raw.decode("utf-8-sig"), loaded)


def named(environment_file: EnvironmentFile, section: str) -> dict[str, dict[str, Any]]:
    """The items of `section` as they are written, by name."""
    return {item["name"]: item for item in environment_file.data.get(section) or ()}


def changed_that_stay(before: Shape, after: Shape, rules: PromotionRules) -> list[Difference]:
    """Fields that should stay and did not. Items that were added or removed as a whole are ignored."""
    differences: list[Difference] = []
    for section in SECTIONS:
        old, new = (
            {path_of(loc): value for loc, value in leaves(shape[section], (section,))}
            for shape in (before, after)
        )
        differences += [
            Difference(section, path, old.get(path), new.get(path))
            for path in {**old, **new}
            if old.get(path) != new.get(path) and rules.stays(path) and _on_both(before, after, path)
        ]
    return differences


def _on_both(before: Shape, after: Shape, path: str) -> bool:
    section, *rest = path.split(".")
    return section not in NAMED or all(rest[0] in shape[section] for shape in (before, after))
