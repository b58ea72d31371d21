"""What `assert` prints: the differences grouped by layer, each with its reason and its repair."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.drift.check import DriftCheck
from gpupool.drift.drift import LAYERS, Drift, Severity
from gpupool.terminal import BOLD, CYAN, PLAIN, RED, YELLOW, in_sentence

_COLOURS = {"drift": RED, "settling": YELLOW, "warning": CYAN}


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
        width = max(len(row.kind) for row in rows)
        for row in rows:
            yield from _row(row, width, colour, row.repair in printed)
            printed.add(row.repair)
        yield ""
    yield _summary(outcome)


def _row(row: Drift, width: int, colour: bool, again: bool) -> Iterator[str]:
    """`again`: another row above has the same repair, and a second run may fail."""
    level = f"{row.level:<8}"
    shown = f"{_COLOURS[row.level]}{level}{PLAIN}" if colour else level
    yield f"  {shown}  {row.kind:<{width}}  {row.object}"
    indent = " " * (width + 14)
    yield f"{indent}{row.reason}"
    yield f"{indent}(fixed by the same command as above)" if again else f"{indent}$ {row.repair}"


def _summary(outcome: DriftCheck) -> str:
    drifts, settling, warnings = (len(outcome.of(level)) for level in Severity)
    text = f"{drifts} difference{'s' if drifts != 1 else ''}" if drifts else "the cluster matches the file"
    text += f", {settling} settling" if settling else ""
    text += f", {warnings} warning{'s' if warnings != 1 else ''}" if warnings else ""
    return f"{outcome.environment}: {text} ({outcome.objects} objects, {outcome.seconds:.1f} s)"
