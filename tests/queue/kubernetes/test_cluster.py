"""What the launcher makes of refusals: of the API server itself, of policies, webhooks and quotas."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from gpupool.environment.plan.pods import RECORDED_FINALIZER
from gpupool.live.cluster.kube_api import ApiError
from gpupool.queue.kubernetes.cluster import KubernetesCluster, ObjectRefused

JOB = {
    "kind": "Job",
    "metadata": {"name": "gp-a-1", "namespace": "team", "uid": "1", "finalizers": [RECORDED_FINALIZER]},
}


class Refusing:
    """An API server that answers everything with one error."""

    def __init__(self, status: int, message: str) -> None:
        self.error = ApiError(status, "", message)

    async def request(self, *given: Any, **more: Any) -> None:
        raise self.error


def cluster(status: int, message: str) -> KubernetesCluster:
    return KubernetesCluster(cast("Any", Refusing(status, message)))


@pytest.mark.parametrize(
    ("status", "message", "passing"),
    [
        (403, "exceeded quota: gpupool", True),
        (422, "ValidatingAdmissionPolicy 'own' with binding 'own' denied request: no", True),
        (400, 'admission webhook "validate.kyverno.svc" denied the request: no', True),
        (500, 'Internal error occurred: failed calling webhook "x": connection refused', True),
        (422, "spec.template.spec.containers[0].image: Required value", False),
    ],
)
def test_what_a_policy_or_webhook_refuses_may_pass_later(status: int, message: str, passing: bool) -> None:
    with pytest.raises(ObjectRefused) as refused:
        asyncio.run(cluster(status, message).create(JOB))
    assert refused.value.passing is passing


def test_an_error_of_the_server_itself_is_no_refusal() -> None:
    with pytest.raises(ApiError):
        asyncio.run(cluster(500, "etcdserver: request timed out").create(JOB))


def test_a_release_that_a_policy_refuses_is_not_done() -> None:
    denied = cluster(422, "ValidatingAdmissionPolicy 'own' with binding 'own' denied request: no")
    with pytest.raises(ApiError):
        asyncio.run(denied.release([JOB]))


def test_another_object_of_the_name_needs_no_release() -> None:
    another = cluster(422, 'Job "gp-a-1" is invalid: metadata.uid: Invalid value: field is immutable')
    asyncio.run(another.release([JOB]))
