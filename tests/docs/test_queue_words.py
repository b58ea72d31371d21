"""One word for one thing: docs/queue.md has those of the API and the events, and nothing uses others."""

from __future__ import annotations

import re
from pathlib import Path

from gpupool.queue.api.answers import JobBody
from gpupool.queue.records import JobState, Level

ROOT = Path(__file__).parents[2]
QUEUE = ROOT / "gpupool" / "queue"
SHOWN = (
    *(QUEUE / "web" / "templates").glob("*.j2"),
    *(ROOT / "gpupool" / "cli" / "queue" / "jobs").glob("*.py"),
    QUEUE / "domain" / "reasons.py",
)
REPLACED = ("accepted", "decided")
"""What enqueued and dispatched were called as well."""


def event_types() -> set[str]:
    """As the newest revision of the database that names them has them."""
    revisions = sorted((QUEUE / "store" / "migrations" / "versions").glob("*.sql"))
    lists = [re.search(r"'enqueued', [^)]*", file.read_text(encoding="utf-8")) for file in revisions]
    return set(re.findall(r"'(\w+)'", [found[0] for found in lists if found][-1]))


def test_every_state_event_and_time_is_explained() -> None:
    page = (ROOT / "docs" / "queue.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"`(\w+)`", page[page.index("## The words") : page.index("## Limits")]))
    times = {name for name in JobBody.model_fields if name.endswith("_at")}
    assert len(times) == 5
    words = (
        {state.value for state in JobState} | event_types() | times | {level.name.lower() for level in Level}
    )
    assert words - explained == set()


def test_people_are_shown_no_other_words() -> None:
    other = [
        f"{file.name}: {line.strip()}"
        for file in SHOWN
        for line in file.read_text(encoding="utf-8").splitlines()
        if any(word in line.lower() for word in REPLACED)
    ]
    assert not other
