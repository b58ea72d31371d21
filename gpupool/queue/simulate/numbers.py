"""The numbers of the model that no environment file says, each with its source; all can be set with --set.

Weak ones are guesses, or one report: `gpupool simulate` shows what half and twice of them would change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from gpupool.environment.spec.field_types import duration_seconds
from gpupool.findings import UsageError


@dataclass(frozen=True, slots=True)
class ModelNumber:
    """One number."""

    value: float
    unit: str
    """s: seconds, also written as 90s or 5m; otherwise what a plain number counts."""
    source: str
    weak: bool = False
    most: float = 10.0**9


NUMBERS = {
    "batch": ModelNumber(1.0, "s", "Karpenter 1.14.1: a batch of pods is closed after 1 s without another"),
    "startup": ModelNumber(
        180.0, "s", "until a machine offers its GPUs, driver in the image; no known measurement", weak=True
    ),
    "consolidation": ModelNumber(
        25.0, "s", "Karpenter 1.14.1: an empty node is seen within 10 s and looked at again after 15 s"
    ),
    "stopping": ModelNumber(30.0, "s", "Kubernetes' default grace period of a pod"),
    "pod": ModelNumber(2.0, "s", "a pod on a ready node with the image; measured on the local cluster"),
    "interrupted": ModelNumber(
        0.10,
        "of spot nodes per month",
        "AWS Spot Instance Advisor's range for p4d and g6, from a secondary source",
        weak=True,
        most=0.99,
    ),
    "again": ModelNumber(
        1.0,
        "of the work",
        "an ended attempt starts from the beginning: no checkpoints; 0: no work is lost",
        most=1.0,
    ),
    "slowdown": ModelNumber(
        1.0, "times", "run time on a shared GPU relative to the trace; no published curve", weak=True
    ),
}
"""Name for --set -> the number."""


def numbers(settings: Iterable[str]) -> dict[str, float]:
    """All of them, with `name=value` of `settings`. Raises UsageError."""
    values = {name: number.value for name, number in NUMBERS.items()}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if name not in NUMBERS or not equals:
            raise UsageError(f"--set {setting}: write NAME=VALUE with one of {', '.join(NUMBERS)}")
        values[name] = _value(setting, NUMBERS[name], text)
    return values


def _value(setting: str, number: ModelNumber, text: str) -> float:
    timed = number.unit == "s" and re.fullmatch(r"([0-9]{1,9}[smhd])+", text)
    try:
        value = float(duration_seconds(text)) if timed else float(text)
    except ValueError:
        value = float("nan")
    if not 0 <= value <= number.most:
        what = "a number or a duration such as 90s" if number.unit == "s" else "a number"
        raise UsageError(f"--set {setting}: {text!r} is not {what} from 0 to {number.most:g}")
    return value
