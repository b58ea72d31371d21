"""The verdict as Prometheus reads it: text exposition, a file for the textfile collector, a Pushgateway.

Names and labels are a contract with alert rules and dashboards (docs/assert.md). Every layer has a value,
zero included, so that the end of an alert is visible. Nothing here judges.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Gauge, generate_latest, pushadd_to_gateway

from gpupool.findings import Category, GpupoolError, UsageError
from gpupool.live.drift.check import DriftCheck
from gpupool.live.drift.drift import LAYERS

JOB = "gpupool_assert"
_PUSH_SECONDS = 10.0


def registry(outcome: DriftCheck) -> CollectorRegistry:
    """The figures of one comparison."""
    made = CollectorRegistry()
    known = ("environment", "layer", "kind")
    titles = {
        Category.drift: "Differences between the cluster and the file that do not resolve themselves.",
        Category.settling: "Differences that a change in progress explains.",
        Category.warning: "As the file says, but worth checking.",
    }
    for category, title in titles.items():
        gauge = Gauge(f"gpupool_assert_{category}", title, known, registry=made)
        found = Counter((drift.layer, drift.code) for drift in outcome.of(category))
        silent = {layer: "" for layer in LAYERS if not any(layer == row[0] for row in found)}
        for (layer, kind), count in [*found.items(), *((row, 0) for row in silent.items())]:
            gauge.labels(outcome.environment, layer, kind).set(count)
    for name, title, value in (
        ("clean", "1 if the cluster matches the environment file.", float(outcome.clean)),
        (
            "last_run_timestamp_seconds",
            "When the cluster was compared, Unix time.",
            outcome.taken.timestamp(),
        ),
        ("duration_seconds", "How long the check took.", outcome.seconds),
        ("objects", "Objects that were compared.", float(outcome.objects)),
    ):
        Gauge(f"gpupool_assert_{name}", title, ("environment",), registry=made).labels(
            outcome.environment
        ).set(value)
    return made


def text(outcome: DriftCheck) -> str:
    """The figures in Prometheus' text format (version 0.0.4)."""
    return generate_latest(registry(outcome)).decode()


def write(content: str, path: Path) -> None:
    """Write `content` in one step, as the textfile collector wants it. Raises GpupoolError."""
    try:
        folder = path.absolute().parent
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(content)
            os.chmod(aside, 0o644)  # the collector runs as somebody else
            os.replace(aside, path)
        except BaseException:
            os.unlink(aside)
            raise
    except OSError as error:
        raise GpupoolError(f"{path}: {error.strerror}; choose a writable file") from error


def push(outcome: DriftCheck, url: str) -> None:
    """Give the figures to a Pushgateway, replacing those of the environment's last comparison.

    Raises UsageError for an invalid URL, GpupoolError when the gateway does not accept them.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"{url}: not the address of a Pushgateway; write it as http://host:9091")
    key = {"environment": outcome.environment}
    try:
        pushadd_to_gateway(url, JOB, registry(outcome), grouping_key=key, timeout=_PUSH_SECONDS)
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise GpupoolError(f"the Pushgateway at {url} rejects the metrics: {reason}") from error
