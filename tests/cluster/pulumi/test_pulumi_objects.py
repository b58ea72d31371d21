"""The stand-in's waiting: readiness, deletion held by finalizers, and what is said when time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.pulumi_plugins.objects import NotReadyError, Objects
from tests.cluster.kube import PATIENCE_SECONDS


@pytest.fixture
def objects(control_plane: Any, cluster: Any) -> Objects:
    return Objects(KubeApi.connect(control_plane.kubeconfig))


def deployment(selector: dict[str, str]) -> dict[str, Any]:
    labels = {"app": "web"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": selector,
            "containers": [{"name": "web", "image": "registry.example/web:1"}],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    }


def test_a_deployment_is_waited_for(objects: Objects, make_node: Callable[..., str]) -> None:
    make_node("plain-0", labels={"role": "web"})
    web = deployment({"role": "web"})
    live = objects.create(web, "gpupool", patch=False, dry_run=False, timeout=PATIENCE_SECONDS)
    assert live["status"]["availableReplicas"] == 2
    objects.delete(deployment({}), PATIENCE_SECONDS)
    assert objects.read("apps/v1", "Deployment", "default", "web") is None


def test_one_that_does_not_become_ready_is_reported_with_its_state(objects: Objects, cluster: Any) -> None:
    nowhere = deployment({"role": "none"})
    with pytest.raises(NotReadyError, match="Deployment default/web was applied but is not ready: "):
        objects.create(nowhere, "gpupool", patch=False, dry_run=False, timeout=0.1)
    cluster.wait(
        "its controller has seen it",
        lambda: cluster.get("apps/v1", "Deployment", "web", "default")["status"].get("observedGeneration"),
    )
    with pytest.raises(NotReadyError, match="is not ready: 0 of 2 replicas available") as reported:
        objects.update(nowhere, "gpupool", dry_run=False, timeout=0.1)
    assert reported.value.live["metadata"]["uid"], "the state must know the object that is there"
    skipped = deployment({"role": "none"})
    skipped["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    assert objects.update(skipped, "gpupool", dry_run=False, timeout=1.0)


def config_map(**metadata: Any) -> dict[str, Any]:
    named = {"name": "held", "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"a": "1"}}


def test_a_deletion_waits_for_finalizers_and_names_them(objects: Objects, cluster: Any) -> None:
    body = config_map(finalizers=["example.com/hold"])
    objects.create(body, "gpupool", patch=False, dry_run=False, timeout=PATIENCE_SECONDS)
    with pytest.raises(NotReadyError, match=r"still being deleted after 1 s, held by example.com/hold"):
        objects.delete(body, 1.0)

    def release() -> None:
        time.sleep(0.5)
        cluster.api.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, "default")

    thread = threading.Thread(target=release)
    thread.start()
    objects.delete(body, PATIENCE_SECONDS)
    thread.join()
    assert objects.read("v1", "ConfigMap", "default", "held") is None
    objects.delete(body, 1.0)  # what is gone already is fine


def test_cancelling_ends_the_waiting(objects: Objects) -> None:
    threading.Timer(0.5, objects.cancelled.set).start()
    nowhere = deployment({"role": "none"})
    with pytest.raises(NotReadyError, match="cancelled while waiting"):
        objects.create(nowhere, "gpupool", patch=False, dry_run=False, timeout=PATIENCE_SECONDS)
    objects.cancelled.clear()
    objects.delete(deployment({}), PATIENCE_SECONDS)


def test_fields_of_others_are_a_conflict_unless_forced(objects: Objects, cluster: Any) -> None:
    objects.create(config_map(), "gpupool", patch=False, dry_run=False, timeout=PATIENCE_SECONDS)
    cluster.api.patch("v1", "ConfigMap", "held", {"data": {"a": "theirs"}}, "default")
    changed = {**config_map(), "data": {"a": "2"}}
    with pytest.raises(ApiError, match=r"conflict.*\.data\.a"):
        objects.update(changed, "gpupool", dry_run=False, timeout=PATIENCE_SECONDS)
    objects.force = True
    assert objects.update(changed, "gpupool", dry_run=True, timeout=PATIENCE_SECONDS)["data"] == {"a": "2"}
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "theirs"}, "that was a dry run"
    objects.update(changed, "gpupool", dry_run=False, timeout=PATIENCE_SECONDS)
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "2"}
    objects.delete(config_map(), PATIENCE_SECONDS)
