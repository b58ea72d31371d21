"""The order in which environments get a change: which comes from which. Knows names only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.findings import GpupoolError


class SkipError(GpupoolError):
    """A promotion that skips an environment, or does not follow the chain."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Environment -> the environment that its changes come from, None for a first one."""

    origins: Mapping[str, str | None]

    def before(self, name: str) -> tuple[str, ...]:
        """The environments that a change passes before `name`, the nearest first."""
        found: list[str] = []
        while (origin := self.origins.get(name)) and origin not in found:
            found.append(origin)
            name = origin
        return tuple(found)

    def hold(self, source: str, target: str) -> None:
        """Raises SkipError where `target` does not come straight from `source`."""
        path = self.before(target)
        if path[:1] == (source,):
            return
        if source in path:
            between = list(reversed(path[: path.index(source)]))
            steps = [source, *between, target]
            first = f"gpupool promote {steps[0]} {steps[1]}"
            raise SkipError(
                f"{source} to {target} would skip {' and '.join(between)}: {' -> '.join(steps)}; "
                f"start with: {first}, or use --skip"
            )
        if target in self.before(source):
            raise SkipError(
                f"{source} comes after {target}: {' -> '.join([*reversed(self.before(source)), source])}; "
                "promote in the other direction, or use --skip"
            )
        said = f"comes from {path[0]}" if path else "has no promotion source"
        raise SkipError(f"{target} {said}; write promotion: {{from: {source}}} in its file, or use --skip")
