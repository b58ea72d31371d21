"""The verdict as metrics: what is counted, and how it reaches a file and a Pushgateway."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpupool.findings import Category, GpupoolError, UsageError
from gpupool.live.drift import LAYERS, Drift, metrics
from gpupool.live.drift.check import DriftCheck

TAKEN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def outcome(*drifts: Drift) -> DriftCheck:
    return DriftCheck("prod", drifts, TAKEN, 0.5, 22, 1500)


def drift(layer: str = "nodes", kind: str = "label", category: Category = Category.drift) -> Drift:
    return Drift(layer=layer, code=kind, object="Node a", what="r", remediation="c", category=category)


def values(text: str) -> dict[tuple[str, str, str], float]:
    return {
        (sample.name, sample.labels.get("layer", ""), sample.labels.get("kind", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_kind_is_counted_and_every_layer_has_a_value() -> None:
    found = values(
        metrics.text(
            outcome(drift(), drift(), drift("slices", "mig-failed"), drift(category=Category.settling))
        )
    )
    assert found["gpupool_assert_drift", "nodes", "label"] == 2
    assert found["gpupool_assert_drift", "slices", "mig-failed"] == 1
    assert found["gpupool_assert_settling", "nodes", "label"] == 1
    silent = set(LAYERS) - {"nodes", "slices"}
    assert all(found["gpupool_assert_drift", layer, ""] == 0 for layer in silent)
    assert found["gpupool_assert_clean", "", ""] == 0
    assert found["gpupool_assert_last_run_timestamp_seconds", "", ""] == TAKEN.timestamp()
    assert values(metrics.text(outcome()))["gpupool_assert_clean", "", ""] == 1
    assert (
        values(metrics.text(outcome(drift(category=Category.warning))))["gpupool_assert_clean", "", ""] == 1
    )


def test_a_file_is_written_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "gpupool.prom"
    path.write_text("old")
    metrics.write("new\n", path)
    assert path.read_text() == "new\n"
    assert [one.name for one in tmp_path.iterdir()] == ["gpupool.prom"]
    assert path.stat().st_mode & 0o044, "the collector runs as somebody else"
    with pytest.raises(GpupoolError, match="choose a writable file"):
        metrics.write("new", tmp_path / "none" / "gpupool.prom")


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A server that takes what a Pushgateway takes, and what it was given."""
    given: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            given.append((self.command, self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", given
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_pushgateway_gets_the_figures(gateway: tuple[str, list[tuple[str, str, bytes]]]) -> None:
    url, given = gateway
    metrics.push(outcome(drift()), url)
    ((verb, path, body),) = given
    assert (verb, path) == ("POST", "/metrics/job/gpupool_assert/environment/prod")
    assert values(body.decode())["gpupool_assert_drift", "nodes", "label"] == 1


def test_a_missing_gateway_is_reported() -> None:
    with pytest.raises(GpupoolError, match="rejects the metrics"):
        metrics.push(outcome(), "http://127.0.0.1:1")
    with pytest.raises(UsageError, match="write it as http://host:9091"):
        metrics.push(outcome(), "gateway:9091")
