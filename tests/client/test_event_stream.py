"""Server-sent events: what each line does, wherever a stream breaks off."""

from __future__ import annotations

import json

from gpupool.client.event_stream import Frame, FrameReader, Lines
from gpupool.client.values import Event, event_of


def event(frame: Frame | None) -> Event:
    assert frame is not None
    return event_of(frame.data, frame.position)


def lines(position: int, seq: int) -> list[str]:
    envelope = {
        "id": f"e{position}",
        "type": "mlops.gpu.jobs.enqueued",
        "subject": "j",
        "seq": seq,
        "tenant": "vision",
        "time": "2026-03-01T12:00:00.000005Z",
        "data": {"state": "queued"},
        "new": 1,
    }
    text = json.dumps(envelope)
    return [f"id: {position}", "event: enqueued", f"data: {text}", ""]


def test_an_event_has_its_position_and_its_change() -> None:
    reader = FrameReader()
    (frame,) = [frame for line in lines(7, 1) if (frame := reader.feed(line))]
    found = event(frame)
    assert (found.position, found.job, found.seq, found.tenant) == (7, "j", 1, "vision")
    assert found.change == {"state": "queued"}
    assert found.data["new"] == 1
    assert found.time is not None
    assert found.time.isoformat() == "2026-03-01T12:00:00.000005+00:00"


def test_heartbeats_and_retry_are_no_events_but_an_id_alone_is_a_position() -> None:
    reader = FrameReader()
    assert [reader.feed(line) for line in ("retry: 2000", "id: 5", ": events after 5", "", ": heartbeat", "")]
    assert reader.position == 5


def test_an_event_that_breaks_off_is_not_passed() -> None:
    reader = FrameReader(6)
    for line in lines(7, 1)[:-1]:
        assert reader.feed(line) is None
    assert reader.position == 6


def test_data_may_have_several_lines_and_no_space() -> None:
    reader = FrameReader()
    text = lines(1, 1)[2].removeprefix("data: ")
    middle = text.index(",") + 1
    for line in (f"data:{text[:middle]}", f"data: {text[middle:]}"):
        assert reader.feed(line) is None
    assert event(reader.feed("")).id == "e1"


def test_a_line_feed_alone_ends_a_line() -> None:
    """Progress bars and what else people print have every other line break within their lines."""
    text = "".join(map(chr, range(10))) + "\n1 %\r2 %\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029é\n\nlast"
    for size in (1, 2, 3, 1000):
        reader, content = Lines(), text.encode()
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        found = [line for piece in pieces for line in reader.feed(piece)]
        assert [*found, reader.rest()] == text.split("\n")
