"""Which cases of an exhaustive test a run takes: a few drawn by a seed, or all of an area.

GPUPOOL_TESTS names the areas that are run whole, `all` for every one (`make test-all`). CI runs those whole
that the files changed since a commit belong to (`python -m tests.sampling COMMIT`). The seed is printed at
the head of a run and is the day, so that runs come around to every case; GPUPOOL_SEED repeats one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

Case = TypeVar("Case")

AREAS = {
    "drift": ("gpupool/drift/", "tests/cluster/drift/"),
    "kills": ("infra/", "gpupool/pulumi_plugins/", "tests/cluster/pulumi/"),
    "differential": ("vapcheck/", "tests/cluster/policies/"),
}
"""Area -> folders whose changes call for all of its cases."""
WHOLE = frozenset(
    AREAS if os.environ.get("GPUPOOL_TESTS") == "all" else os.environ.get("GPUPOOL_TESTS", "").split(",")
)
"""Areas of which this run takes every case."""
SEED = int(os.environ.setdefault("GPUPOOL_SEED", str(datetime.now(UTC).toordinal())))
"""Workers inherit it from the process that starts them."""


def drawn(area: str, cases: Sequence[Case], count: int) -> list[Case]:
    """`count` of `cases`, in their order; all of them where the area is run whole."""
    assert area in AREAS, area
    if area in WHOLE or count >= len(cases):
        return list(cases)
    numbers = random.Random(SEED).sample(range(len(cases)), count)
    return [cases[number] for number in sorted(numbers)]


def called_for(changed: Sequence[str]) -> list[str]:
    """The areas that these files belong to."""
    return [area for area, folders in AREAS.items() if any(path.startswith(folders) for path in changed)]


if __name__ == "__main__":
    command = ["git", "diff", "--name-only", sys.argv[1]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(",".join(called_for(done.stdout.splitlines())))
