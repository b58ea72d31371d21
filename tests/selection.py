"""Which tests a run takes, as tests/selection.yaml says: contracts, whole areas, or all.

GPUPOOL_TESTS lists what runs besides the tests that no area claims: `contracts` (`make test`), names of areas
(`python -m tests.selection COMMIT` prints those of the files changed since that commit), or `all`
(`make test-all`). Where it is not set, as in `pytest PATH`, every test runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

Case = TypeVar("Case")

ROOT = Path(__file__).parents[1]
SELECTION: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "selection.yaml").read_text(encoding="utf-8"))
BUDGET: float = SELECTION["budget"]
"""Minutes that whole areas may add to a run."""
CONTRACTS: tuple[str, ...] = tuple(test for tests in SELECTION["contracts"].values() for test in tests)
ONLY_IN_ALL: tuple[str, ...] = tuple(SELECTION["only in test-all"])


@dataclass(frozen=True)
class Area:
    """Tests that take long, and the code whose changes call for all of them."""

    minutes: float
    code: tuple[str, ...]
    """Beginnings of paths of files."""
    tests: tuple[str, ...]
    """Beginnings of test ids."""


def _area(minutes: float, code: list[Any], tests: list[str]) -> Area:
    paths = [*_flat(code), *(test.split("::")[0] for test in tests)]
    if any(test.startswith("tests/cluster/") for test in tests):
        paths += SELECTION["shared code"]["clusters"]
    return Area(minutes, tuple(paths), tuple(tests))


def _flat(paths: list[Any]) -> Iterator[str]:
    for one in paths:
        yield from [one] if isinstance(one, str) else one


AREAS = {name: _area(**area) for name, area in SELECTION["areas"].items()}
ALL, ALL_CONTRACTS = "all", "contracts"
_NAMES = frozenset(os.environ.get("GPUPOOL_TESTS", ALL).split(","))
EVERYTHING = ALL in _NAMES
WITH_CONTRACTS = ALL_CONTRACTS in _NAMES
WHOLE = frozenset(AREAS) if EVERYTHING else _NAMES & AREAS.keys()
"""Areas of which this run takes everything."""
LONG = os.environ.get("GPUPOOL_TESTS") == ALL
"""Whether tests that repeat something do it hundreds of times: where every test was asked for by name."""


def runs(test: str) -> bool:
    """Whether this run takes the test of this id."""
    if EVERYTHING or (WITH_CONTRACTS and is_contract(test)):
        return True
    if test.startswith(ONLY_IN_ALL):
        return False
    areas = [name for name, area in AREAS.items() if test.startswith(area.tests)]
    return not areas or not WHOLE.isdisjoint(areas)


def is_contract(test: str) -> bool:
    return test.startswith(CONTRACTS)


def some(area: str, cases: Sequence[Case], count: int) -> list[Case]:
    """`count` of `cases` at equal distances, in their order; all of them where the area is run whole."""
    assert area in AREAS, area
    if area in WHOLE or count >= len(cases):
        return list(cases)
    return [cases[number * len(cases) // count] for number in range(count)]


def called_for(changed: Sequence[str]) -> list[str]:
    """The areas that these files belong to."""
    return [name for name, area in AREAS.items() if any(path.startswith(area.code) for path in changed)]


def affordable(areas: Sequence[str]) -> list[str]:
    """Those of `areas` that fit into the budget, in their order."""
    taken: list[str] = []
    left = BUDGET
    for name in areas:
        if AREAS[name].minutes <= left:
            left -= AREAS[name].minutes
            taken.append(name)
    return taken


if __name__ == "__main__":
    done = subprocess.run(
        ["git", "diff", "--name-only", sys.argv[1]], capture_output=True, text=True, check=False
    )
    called = called_for(done.stdout.splitlines())
    taken = affordable(called)
    if left_out := [name for name in called if name not in taken]:
        print(f"not run whole, over {BUDGET} minutes (make test-all): {', '.join(left_out)}", file=sys.stderr)
    print(",".join([ALL_CONTRACTS, *taken]))
