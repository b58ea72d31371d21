"""The stand-in's waiting: deletion held by finalizers, and what is said when time is up."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from gpupool.cluster.kube_api import ApiError, KubeApi
from gpupool.findings import GpupoolError
from gpupool.pulumi_plugins.objects import Objects
from tests.cluster.kube import PATIENCE_SECONDS


@pytest.fixture
def objects(control_plane: Any, cluster: Any) -> Objects:
    return Objects(KubeApi.connect(control_plane.kubeconfig))


def config_map(**metadata: Any) -> dict[str, Any]:
    named = {"name": "held", "namespace": "default", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"a": "1"}}


def test_a_deletion_waits_for_finalizers_and_names_them(objects: Objects, cluster: Any) -> None:
    body = config_map(finalizers=["example.com/hold"])
    objects.create(body, "gpupool", patch=False, dry_run=False)
    with pytest.raises(GpupoolError, match=r"still being deleted after 1 s, held by example.com/hold"):
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


def test_cancelling_ends_the_waiting(objects: Objects, cluster: Any) -> None:
    body = config_map(finalizers=["example.com/hold"])
    objects.create(body, "gpupool", patch=False, dry_run=False)
    threading.Timer(0.5, objects.cancelled.set).start()
    with pytest.raises(GpupoolError, match="cancelled while it is being deleted"):
        objects.delete(body, PATIENCE_SECONDS)
    objects.cancelled.clear()
    cluster.api.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, "default")
    objects.delete(body, PATIENCE_SECONDS)


def test_fields_of_others_are_a_conflict_unless_forced(objects: Objects, cluster: Any) -> None:
    objects.create(config_map(), "gpupool", patch=False, dry_run=False)
    cluster.api.patch("v1", "ConfigMap", "held", {"data": {"a": "theirs"}}, "default")
    changed = {**config_map(), "data": {"a": "2"}}
    with pytest.raises(ApiError, match=r"conflict.*\.data\.a"):
        objects.update(changed, "gpupool", dry_run=False)
    objects.force = True
    assert objects.update(changed, "gpupool", dry_run=True)["data"] == {"a": "2"}
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "theirs"}, "that was a dry run"
    objects.update(changed, "gpupool", dry_run=False)
    assert cluster.get("v1", "ConfigMap", "held", "default")["data"] == {"a": "2"}
    objects.delete(config_map(), PATIENCE_SECONDS)
