"""The picture of a job's states, docs/job-states.svg. What leads where after an attempt is asked of
`gpupool.queue.domain.attempt_end` itself; what leads to an attempt is written here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from html import escape

from gpupool.queue.domain.attempt_end import Attempt, end_of
from gpupool.queue.records import JobState, Outcome

ATTEMPT = Attempt(
    started=True, capacity_type="on-demand", rate_micro=0, hold_micro=0, gpu_micro=0, run_limit_s=60,
    weight=1.0, retries=1, failures=0, disruptions=0, unstarted=0, budget_limit_micro=None, spent_micro=0,
)  # fmt: skip
OUTCOMES = {
    "succeeded": Outcome("succeeded"),
    "failed, retries left": Outcome("failed"),
    "failed, none left": Outcome("failed", retry=False),
    "timeout": Outcome("timeout"),
    "preempted, or given back": Outcome("preempted"),
    "node lost": Outcome("disrupted"),
    "cancelled": Outcome("cancelled"),
}
"""How an attempt ends, in a few words."""
BOXES = {
    JobState.QUEUED: (20, 70),
    JobState.SCHEDULED: (240, 70),
    JobState.RUNNING: (460, 70),
    JobState.SUCCEEDED: (700, 20),
    JobState.FAILED: (700, 80),
    JobState.CANCELLED: (700, 140),
    JobState.EXPIRED: (240, 190),
}
"""Where a state stands; pixels."""
WIDE, HIGH = 130, 36
_FONT = 'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="12"'


def endings() -> dict[JobState, list[str]]:
    """State after an attempt -> how the attempt ended."""
    after: dict[JobState, list[str]] = {}
    for words, outcome in OUTCOMES.items():
        after.setdefault(end_of(ATTEMPT, outcome, timedelta(1), (10, 600)).state, []).append(words)
    return after


def svg() -> str:
    """The whole picture; ends with a line break."""
    drawn = [
        '<svg style="background: #fff; color: #000" xmlns="http://www.w3.org/2000/svg" role="img" '
        'width="850" height="330" viewBox="0 0 850 330" aria-labelledby="title">',
        '<title id="title">The states of a job, and what leads from one to the next</title>',
        '<defs><marker id="end" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>',
        f'<g fill="none" stroke="#000" {_FONT}>',
        *(_box(state.value, *place) for state, place in BOXES.items()),
        *_arrows(),
        "</g>",
        "</svg>",
    ]
    return "\n".join(drawn) + "\n"


def _box(name: str, x: int, y: int) -> str:
    return f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="4"/>{_text(x + 12, y + 22, name)}'


def _text(x: int, y: int, words: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#000" stroke="none">{escape(words)}</text>'


def _arrows() -> Iterator[str]:
    yield _line("M150 88H240") + _text(157, 82, "a round")
    yield _line("M370 88H460") + _text(377, 82, "container")
    after = endings()
    for state in (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED):
        x, y = BOXES[state]
        yield _line(f"M590 88C640 88 650 {y + 18} {x} {y + 18}")
    words = [
        f"{state.value}: {', '.join(how)}" for state, how in after.items() if state is not JobState.QUEUED
    ]
    yield from (_text(460, 235 + 17 * number, line) for number, line in enumerate(words))
    yield _line("M525 70V30H85V70") + _text(95, 24, f"again: {', '.join(after[JobState.QUEUED])}")
    yield _line("M85 106V208H240") + _text(92, 202, "deadline_at is past")
    yield _line("M60 106V300H790V176") + _text(
        70, 294, "cancelled while it waits, or for a job that it comes after"
    )


def _line(path: str) -> str:
    return f'<path d="{path}" marker-end="url(#end)"/>'
