"""The envelope of events: subjects as consumers subscribe to them, JSON as its schema says."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

import gpupool.environment.schema
from gpupool.queue.events.envelope import encoded, envelope
from gpupool.queue.records import JobEvent, new_id

SCHEMA = json.loads((Path(gpupool.environment.schema.__file__).parent / "job-event.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=FormatChecker())
TYPES = (
    *("enqueued", "dispatched", "started", "requeued", "preempted", "idle", "priority_changed"),
    *("succeeded", "failed", "cancelled", "expired"),
)
PREFIX = "mlops.gpu.jobs"
AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


def event(type: str = "enqueued", **changes: Any) -> JobEvent:
    fields: dict[str, Any] = {
        "id": new_id(),
        "job": new_id(),
        "seq": 1,
        "type": type,
        "tenant": "vision",
        "project": None,
        "pool": None,
        "at": AT,
        "data": {},
    }
    return JobEvent(**fields | changes)


def read(event: JobEvent) -> dict[str, Any]:
    """What a consumer reads from the bus."""
    return dict(json.loads(encoded(envelope("local", PREFIX, event)).decode("ascii")))


@pytest.mark.parametrize(
    ("type", "data", "subject"),
    [
        ("enqueued", {}, "mlops.gpu.jobs.enqueued"),
        ("dispatched", {"key": "t4", "isolation": "shared"}, "mlops.gpu.jobs.dispatched.t4.shared"),
        ("dispatched", {"key": "t4", "isolation": "exclusive"}, "mlops.gpu.jobs.dispatched.t4.exclusive"),
        ("dispatched", {"key": "mig", "isolation": "exclusive"}, "mlops.gpu.jobs.dispatched.mig"),
        ("dispatched", {}, "mlops.gpu.jobs.dispatched"),
        ("succeeded", {"key": "t4", "isolation": "shared"}, "mlops.gpu.jobs.succeeded"),
    ],
)
def test_subjects(type: str, data: dict[str, str], subject: str) -> None:
    made = envelope("local", PREFIX, event(type, data=data))
    assert made["type"] == subject


def test_the_whole_envelope() -> None:
    one = event("dispatched", project="ocr", pool="notebooks", data={"key": "t4", "isolation": "shared"})
    assert read(one) == {
        "specversion": "1.0",
        "id": one.id,
        "source": "gpupool/local",
        "type": "mlops.gpu.jobs.dispatched.t4.shared",
        "subject": one.job,
        "time": "2026-03-01T12:00:00.000005Z",
        "datacontenttype": "application/json",
        "tenant": "vision",
        "project": "ocr",
        "pool": "notebooks",
        "seq": 1,
        "data": {"key": "t4", "isolation": "shared"},
    }


def test_times_are_in_utc() -> None:
    there = AT.astimezone(timezone(timedelta(hours=2)))
    assert read(event(at=there))["time"] == "2026-03-01T12:00:00.000005Z"


def test_the_schema_is_a_schema_and_describes_every_property() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert sorted(SCHEMA["required"]) == sorted(SCHEMA["properties"])
    assert all(one.get("description") for one in SCHEMA["properties"].values())


texts = st.text(max_size=20)


@given(st.sampled_from(TYPES), st.none() | texts, st.dictionaries(texts, texts | st.integers(), max_size=3))
def test_every_event_is_as_the_schema_says(type: str, project: str | None, data: dict[str, Any]) -> None:
    one = event(type, project=project, data={**data, "isolation": "shared"})
    sent = read(one)
    VALIDATOR.validate(sent)
    assert sent["data"] == dict(one.data)


@pytest.mark.parametrize("broken", [{"seq": 0}, {"tenant": None}, {"type": "mlops..x"}, {"id": "x"}])
def test_what_is_no_event_is_refused(broken: dict[str, Any]) -> None:
    sent = read(event())
    assert VALIDATOR.is_valid(sent)
    assert not VALIDATOR.is_valid({**sent, **broken})
