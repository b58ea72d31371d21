"""docs/job-states.svg shows every state of a job, and what the queue's own code makes of an attempt's end."""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.queue.records import JobState
from tests.docs.job_states import BOXES, OUTCOMES, endings, svg

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "job-states.svg"


def test_the_picture_is_what_the_code_does() -> None:
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        PICTURE.write_text(svg(), encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == svg(), "make golden writes it again"
    assert "](job-states.svg)" in (ROOT / "docs" / "queue.md").read_text(encoding="utf-8")


def test_every_state_is_drawn_and_every_end_leads_somewhere() -> None:
    assert set(BOXES) == set(JobState)
    after = endings()
    assert sum(map(len, after.values())) == len(OUTCOMES)
    assert after[JobState.QUEUED] == ["failed, retries left", "preempted, or given back", "node lost"]
    assert JobState.EXPIRED not in after
