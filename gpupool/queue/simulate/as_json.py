"""What `simulate --format json` prints: a contract, whose version grows when a key changes its meaning.

The figures of the first run are at the top; `against`, `runs` and `sensitivity` have the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpupool.queue.simulate.assertions import Verdict
from gpupool.queue.simulate.figures import wait_times
from gpupool.queue.simulate.numbers import NUMBERS
from gpupool.queue.simulate.run import Outcome, Sensitivity, Settings
from gpupool.queue.simulate.trace import Trace

VERSION = 1


def as_json(
    trace: Trace,
    settings: Settings,
    outcomes: Sequence[Outcome],
    weak: Sequence[Sensitivity],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """The answer as plain values."""
    first, *others = outcomes
    return {
        "version": VERSION,
        **first.figures.model_dump(mode="json"),
        "trace": {"format": trace.format, "jobs": len(trace.arrivals)},
        "measured": wait_times(trace.measured).model_dump(mode="json") if trace.measured else None,
        "runs": [run.model_dump(mode="json") for run in first.runs[1:]],
        "against": [other.figures.model_dump(mode="json") for other in others],
        "sensitivity": [
            {
                "name": row.name,
                "half": row.half.model_dump(mode="json"),
                "twice": row.twice.model_dump(mode="json"),
            }
            for row in weak
        ],
        "numbers": [
            {
                "name": name, "value": settings.numbers[name], "unit": number.unit, "source": number.source,
                "weak": number.weak,
            }
            for name, number in NUMBERS.items()
        ],
        "asserts": [
            {"assert": row.expectation.text, "measured": row.measured, "holds": row.holds} for row in verdicts
        ],
    }  # fmt: skip
