"""Which installed distributions one needs, directly and by way of others: gpupool with an extra, for example.

Read from what is installed here, as `make setup` did: nothing is downloaded.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement


def normal(name: str) -> str:
    """A distribution's name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(requirement: str) -> set[str]:
    """The distributions that are there after `pip install REQUIREMENT`."""
    reached: set[tuple[str, ...]] = set()
    waiting = [Requirement(requirement)]
    while waiting:
        looked_at = waiting.pop()
        key = (normal(looked_at.name), *sorted(looked_at.extras))
        if key in reached:
            continue
        try:
            further = [Requirement(text) for text in requires(looked_at.name) or ()]
        except PackageNotFoundError:  # for another platform or Python
            continue
        reached.add(key)
        for other in further:
            marker, extras = other.marker, ("", *looked_at.extras)
            if marker is None or any(marker.evaluate({"extra": name}) for name in extras):
                waiting.append(other)
    return {name for name, *_ in reached}
