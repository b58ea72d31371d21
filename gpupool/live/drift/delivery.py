"""Whether Argo CD or Flux can deliver what comes next, by the state of their own objects in the cluster.

Where Argo CD runs in another cluster than the environment's, nothing is known of it here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.findings import Category
from gpupool.generators import delivery
from gpupool.generators.delivery_halt import Halt, HaltCause
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput

_LEVELS = {
    HaltCause.suspended: Category.warning,
    HaltCause.retrying: Category.settling,
    HaltCause.failing: Category.drift,
}


def check(inputs: DriftInput) -> Iterator[Drift]:
    """What does not deliver, and an engine that has not been started."""
    expected = delivery.delivering(inputs.bundle)
    known = [body for body in expected if (body["apiVersion"], body["kind"]) in inputs.snapshot.known]
    live_bodies = [body for body in map(inputs.live, known) if body is not None]
    if known and not live_bodies:
        yield _not_started(inputs)
    for body in live_bodies:
        halt = delivery.halt(inputs.plan.delivery, body)
        if halt is not None:
            yield _halted(inputs, body, halt)


def _not_started(inputs: DriftInput) -> Drift:
    path = inputs.plan.delivery.path
    return Drift(
        layer="others",
        code="not-started",
        object=f"environment {inputs.plan.environment}",
        what=f"{inputs.plan.delivery.by.title} delivers it according to the file, but is not set up yet: "
        "commits do not reach the cluster",
        remediation=delivery.start(inputs.plan.delivery, path) or "",
        category=Category.warning,
    )


def _halted(inputs: DriftInput, body: dict[str, Any], halt: Halt) -> Drift:
    engine = inputs.plan.delivery.by.title
    sentence = {
        HaltCause.suspended: f"{engine} is suspended here: nothing is delivered or restored",
        HaltCause.retrying: f"{engine} retries a failed commit before any newer one; to deliver "
        "its revert immediately, push the revert and end the retries",
        HaltCause.failing: f"{engine} can't deliver this; what depends on it waits, and manual changes stay",
    }[halt.cause]
    return Drift(
        layer="others",
        code=f"delivery-{halt.cause}",
        object=f"{body['kind']} {body['metadata']['name']}",
        what=f"{sentence}: {halt.message}" if halt.message else sentence,
        remediation=halt.command
        or f"correct it in the repository, or, if the error was temporary: {inputs.restore()}",
        category=_LEVELS[halt.cause],
    )
