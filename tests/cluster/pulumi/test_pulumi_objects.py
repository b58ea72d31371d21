"""The stand-in's waiting: readiness, deletion held by finalizers, and what is said when time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from infra.kube_api import ApiError, KubeApi
from infra.local.pulumi_objects import NotReadyError, Objects


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
    live = objects.create(deployment({"role": "web"}), "gpupool", patch=False, dry_run=False, timeout=30)
    assert live["status"]["availableReplicas"] == 2
    objects.delete(deployment({}), 30)
    assert objects.read("apps/v1", "Deployment", "default", "web") is None


def test_one_that_does_not_become_ready_is_told_with_its_state(objects: Objects) -> None:
    with pytest.raises(
        NotReadyError, match="Deployment default/web was applied but is not ready: 0 of 2"
    ) as told:
        objects.create(deployment({"role": "none"}), "gpupool", patch=False, dry_run=False, timeout=1.0)
    assert told.value.live["metadata"]["uid"], "the state must know the object that is there"
    skipped = deployment({"role": "none"})
    skipped["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    assert objects.update(skipped, "gpupool", dry_run=False, timeout=1.0)


def config_map(**metadata: Any) -> dict[str, Any]:
    named = {"name": "held", "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"a": "1"}}


def test_a_deletion_waits_for_finalizers_and_names_them(objects: Objects, cluster: Any) -> None:
    body = config_map(finalizers=["example.com/hold"])
    objects.create(body, "gpupool", patch=False, dry_run=False, timeout=5)
    with pytest.raises(NotReadyError, match=r"still being deleted after 1 s, held by example.com/hold"):
        objects.delete(body, 1.0)

    def release() -> None:
        time.sleep(0.5)
        cluster.api.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, "default")

    thread = threading.Thread(target=release)
    thread.start()
    objects.delete(body, 20)
    thread.join()
    assert objects.read("v1", "ConfigMap", "default", "held") is None
    objects.delete(body, 1.0)  # what is gone already is fine


def test_cancelling_ends_the_waiting(objects: Objects) -> None:
    threading.Timer(0.5, objects.cancelled.set).start()
    started = time.monotonic()
    with pytest.raises(NotReadyError, match="cancelled"):
        objects.create(deployment({"role": "none"}), "gpupool", patch=False, dry_run=False, timeout=60)
    assert time.monotonic() - started < 5
    objects.cancelled.clear()
    objects.delete(deployment({}), 30)


def test_fields_of_others_are_a_conflict_unless_forced(objects: Objects, cluster: Any) -> None:
    objects.create(config_map(), "gpupool", patch=False, dry_run=False, timeout=5)
    cluster.api.patch("v1", "ConfigMap", "held", {"data": {"a": "theirs"}}, "default")
    changed = {**config_map(), "data": {"a": "2"}}
    with pytest.raises(ApiError, match=r"conflict.*\.data\.a"):
        objects.update(changed, "gpupool", dry_run=False, timeout=5)
    objects.force = True
    assert objects.update(changed, "gpupool", dry_run=True, timeout=5)["data"] == {"a": "2"}
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "theirs"}, "that was a dry run"
    objects.update(changed, "gpupool", dry_run=False, timeout=5)
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "2"}
    objects.delete(config_map(), 5)
