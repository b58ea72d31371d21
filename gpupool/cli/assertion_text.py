"""What `assert` prints: the differences grouped by layer, each with its remediation."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.findings.terminal import BOLD, PLAIN, in_sentence
from gpupool.live.drift.check import DriftCheck
from gpupool.live.drift.drift import LAYERS, Drift


def text(outcome: DriftCheck, colour: bool) -> str:
    """The whole answer; `colour` adds colour for a terminal, without extra meaning."""
    return "".join(f"{in_sentence(line)}\n" for line in _lines(outcome, colour))


def _lines(outcome: DriftCheck, colour: bool) -> Iterator[str]:
    printed: set[str] = set()
    for layer, title in LAYERS.items():
        rows = [drift for drift in outcome.drifts if drift.layer == layer]
        if not rows:
            continue
        yield f"{BOLD}{layer}{PLAIN}: {title}" if colour else f"{layer}: {title}"
        width = max(len(row.code) for row in rows)
        for row in rows:
            yield from _row(row, width, colour, row.remediation in printed)
            printed.add(row.remediation)
        yield ""
    yield outcome.finding_report("").summary


def _row(row: Drift, width: int, colour: bool, again: bool) -> Iterator[str]:
    """`again`: another row above has the same remediation, and a second run may fail."""
    category = f"{row.category:<8}"
    shown = f"{row.severity.colour}{category}{PLAIN}" if colour else category
    yield f"  {shown}  {row.code:<{width}}  {row.object}"
    indent = " " * (width + 14)
    yield f"{indent}{row.what}"
    yield f"{indent}(fixed by the same command as above)" if again else f"{indent}$ {row.remediation}"
