"""What a pull request must keep: `wait.p95<10m`, `saved>=40%`, `vision.to_gpu.p95<5m`."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.environment.spec.field_types import duration_seconds
from gpupool.findings import Category, Finding, FindingReport, UsageError
from gpupool.queue.simulate.figures import PLAIN, TIMES, RunFigures, named

_FORM = re.compile(r"\s*([A-Za-z0-9_.-]+?)\s*(<=|>=|<|>)\s*([0-9.]+%?|(?:[0-9]{1,9}[smhd])+)\s*")
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Expectation:
    """One --assert."""

    text: str
    name: str
    comparison: str
    value: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether it holds."""

    expectation: Expectation
    measured: float | None
    """None where the run has no such figure: nothing has started, or there is no such tenant."""

    @property
    def holds(self) -> bool:
        compare = _COMPARE[self.expectation.comparison]
        return self.measured is not None and bool(compare(self.measured, self.expectation.value))

    def __str__(self) -> str:
        measured = "no such figure" if self.measured is None else f"it is {self.measured:g}"
        return f"{'holds' if self.holds else 'does not hold'}: {self.expectation.text} ({measured})"


def expectation(text: str) -> Expectation:
    """Raises UsageError."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--assert {text!r}: write NAME, <, <=, > or >=, and a number, a share or a duration, such as "
            "'wait.p95<10m' or 'saved>=40%'"
        )
    name, comparison, value = match.groups()
    if value[-1] in "smhd":
        return Expectation(text, name, comparison, float(duration_seconds(value)))
    try:
        number = float(value.rstrip("%"))
    except ValueError as error:
        raise UsageError(f"--assert {text!r}: {value!r} is not a number") from error
    return Expectation(text, name, comparison, number / 100 if value.endswith("%") else number)


def check(expectations: Sequence[Expectation], tenants: Sequence[str]) -> None:
    """Raises UsageError for a figure that no run on an environment with these tenants has."""
    known = (*PLAIN, *TIMES, *(f"{tenant}.{name}" for tenant in tenants for name in TIMES))
    for expected in expectations:
        if expected.name not in known:
            names = ", ".join((*PLAIN, *TIMES, "and these times of a tenant, such as TENANT.wait.p95"))
            what = f"unknown figure {expected.name}"
            raise UsageError(f"--assert {expected.text!r}: {what}; figures: {names}")


def judge(expectations: Sequence[Expectation], run: RunFigures) -> list[Verdict]:
    """Each against the run."""
    known = named(run)
    return [Verdict(expected, known.get(expected.name)) for expected in expectations]


def finding_report(verdicts: Sequence[Verdict], file: str, figures: Mapping[str, Any]) -> FindingReport:
    """What does not hold for the environment at `file`; JSON has `figures` too."""
    failed = tuple(
        Finding(
            code=verdict.expectation.name,
            category=Category.failed,
            what=str(verdict),
            file=file,
            object=verdict.expectation.text,
            values={"measured": verdict.measured, "required": verdict.expectation.value},
        )
        for verdict in verdicts
        if not verdict.holds
    )
    return FindingReport(
        command="simulate",
        findings=failed,
        summary=f"{len(verdicts)} asserted, {len(failed)} failed",
        targets=(file,),
        judged={verdict.expectation.name: "" for verdict in verdicts},
        more=figures,
    )
