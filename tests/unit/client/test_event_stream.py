"""Server-sent events: what each line does, wherever a stream breaks off."""

from __future__ import annotations

import json

from gpupool.client.event_stream import EventReader


def lines(position: int, seq: int) -> list[str]:
    event = {
        "id": f"e{position}",
        "type": "mlops.gpu.jobs.enqueued",
        "subject": "j",
        "seq": seq,
        "tenant": "vision",
        "time": "2026-03-01T12:00:00.000005Z",
        "data": {"state": "queued"},
        "new": 1,
    }
    text = json.dumps(event)
    return [f"id: {position}", "event: enqueued", f"data: {text}", ""]


def test_an_event_has_its_position_and_its_change() -> None:
    reader = EventReader()
    found = [event for line in lines(7, 1) if (event := reader.feed(line))]
    (event,) = found
    assert (event.position, event.job, event.seq, event.tenant) == (7, "j", 1, "vision")
    assert event.change == {"state": "queued"}
    assert event.data["new"] == 1
    assert event.time is not None
    assert event.time.isoformat() == "2026-03-01T12:00:00.000005+00:00"


def test_heartbeats_and_retry_are_no_events_but_an_id_alone_is_a_position() -> None:
    reader = EventReader()
    assert [reader.feed(line) for line in ("retry: 2000", "id: 5", ": events after 5", "", ": heartbeat", "")]
    assert reader.position == 5


def test_an_event_that_breaks_off_is_not_passed() -> None:
    reader = EventReader(6)
    for line in lines(7, 1)[:-1]:
        assert reader.feed(line) is None
    assert reader.position == 6


def test_data_may_have_several_lines_and_no_space() -> None:
    reader = EventReader()
    text = lines(1, 1)[2].removeprefix("data: ")
    middle = text.index(",") + 1
    for line in (f"data:{text[:middle]}", f"data: {text[middle:]}"):
        assert reader.feed(line) is None
    event = reader.feed("")
    assert event is not None
    assert event.id == "e1"
