"""What keeps Argo CD and Flux from delivering, by the state of their objects."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from gpupool.generators import delivery
from tests.live.drift.fake_cluster import Cluster, Object, kinds
from tests.live.drift.test_delivered_repairs import delivered

_NAMES = {"argocd": "gpupool-trial", "flux": "gpupool-trial-machines"}


def started(engine: str, more: str = "") -> Cluster:
    """A cluster with the engine's objects, all of which deliver."""
    cluster = delivered(engine, more)
    for body in delivery.delivering(cluster.bundle):
        cluster.add(deepcopy(dict(body)))
    return cluster


def own(cluster: Cluster, engine: str) -> Object:
    return next(
        row for held in cluster.objects.values() for (_, name), row in held.items() if name == _NAMES[engine]
    )


def _no_automation(body: Object) -> None:
    del body["spec"]["syncPolicy"]["automated"]


def _automation_off(body: Object) -> None:
    body["spec"]["syncPolicy"]["automated"]["enabled"] = False


def _suspended(body: Object) -> None:
    body["spec"]["suspend"] = True


def _status(**status: Any) -> Callable[[Object], None]:
    def change(body: Object) -> None:
        body["status"] = status

    return change


def _retrying(body: Object) -> None:
    body["operation"] = {"sync": {}}
    body["status"] = {"operationState": {"phase": "Running", "retryCount": 2, "message": "no such weight"}}


def _ended(body: Object) -> None:
    """Of an operation that somebody has ended the last state stays."""
    _retrying(body)
    del body["operation"]


def _ready(status: str, reason: str) -> Callable[[Object], None]:
    return _status(
        conditions=[{"type": "Ready", "status": status, "reason": reason, "message": "no such weight"}]
    )


_FAILED = {"operationState": {"phase": "Failed", "message": "no such weight"}}
CASES: dict[str, tuple[str, Callable[[Object], None], list[tuple[str, str]]]] = {
    "automation was taken out": ("argocd", _no_automation, [("delivery-suspended", "warning")]),
    "automation is off": ("argocd", _automation_off, [("delivery-suspended", "warning")]),
    "a sync is tried again": ("argocd", _retrying, [("delivery-retrying", "settling")]),
    "the attempts were ended": ("argocd", _ended, []),
    "a sync failed": (
        "argocd",
        _status(**_FAILED, sync={"status": "OutOfSync"}),
        [("delivery-failing", "drift")],
    ),
    "one that failed was followed": ("argocd", _status(**_FAILED, sync={"status": "Synced"}), []),
    "it can't be compared": (
        "argocd",
        _status(conditions=[{"type": "ComparisonError", "message": "no such weight"}]),
        [("delivery-failing", "drift")],
    ),
    "a warning": ("argocd", _status(conditions=[{"type": "OrphanedResourceWarning", "message": "a"}]), []),
    "a step is suspended": ("flux", _suspended, [("delivery-suspended", "warning")]),
    "a step is refused": ("flux", _ready("False", "ReconciliationFailed"), [("delivery-failing", "drift")]),
    "a step waits for another": ("flux", _ready("False", "DependencyNotReady"), []),
    "a step is under way": ("flux", _ready("Unknown", "Progressing"), []),
    "a step is ready": ("flux", _ready("True", "ReconciliationSucceeded"), []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_deliver_is_listed_with_the_way_out(case: str) -> None:
    engine, change, expected = CASES[case]
    cluster = started(engine)
    assert cluster.examine() == ()
    change(own(cluster, engine))
    drifts = cluster.examine()
    assert kinds(drifts) == expected
    for drift in drifts:
        assert drift.object.endswith(_NAMES[engine])
        assert ("no such weight" in drift.what) == (drift.code != "delivery-suspended")
        namespace = {"argocd": "argocd", "flux": "flux-system"}[engine]
        assert f"kubectl -n {namespace} " in drift.remediation


@pytest.mark.parametrize("engine", _NAMES)
def test_an_engine_that_was_given_nothing_is_started(engine: str) -> None:
    cluster = started(engine)
    for body in delivery.delivering(cluster.bundle):
        cluster.objects[body["apiVersion"], body["kind"]] = {}
    (drift,) = cluster.examine()
    assert (drift.code, drift.category.value) == ("not-started", "warning")
    assert drift.remediation == delivery.start(cluster.plan.delivery, "rendered/trial")


def test_automation_that_the_file_does_not_want_is_not_missed() -> None:
    cluster = started("argocd", "argocd: {automated: false}")
    assert cluster.examine() == ()


def test_nothing_is_said_of_argo_cd_in_another_cluster() -> None:
    cluster = started("argocd", "argocd: {destination: {name: far}}")
    assert delivery.delivering(cluster.bundle) == ()
    assert cluster.examine() == ()
