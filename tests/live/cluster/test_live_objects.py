"""How many GPU slices a node offers and a pod holds, and which pods are jobs on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.live.cluster.live_objects import condition, is_gpu_job, offered, requested


def container(*, sidecar: bool = False, **resources: int) -> dict[str, Any]:
    names = {"gpu": "nvidia.com/gpu", "renamed": "nvidia.com/gpu.shared", "mig": "nvidia.com/mig-1g.10gb"}
    limits = {names.get(name, name): str(count) for name, count in resources.items()}
    return {"resources": {"limits": limits}, **({"restartPolicy": "Always"} if sidecar else {})}


def pod(*containers: Any, init: Any = (), owner: str = "Job", phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"ownerReferences": [{"kind": owner}]},
        "spec": {"containers": list(containers), "initContainers": list(init)},
        "status": {"phase": phase},
    }


def test_what_a_node_no_longer_has_is_left_out() -> None:
    allocatable = {"cpu": "4", "nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/other": "1"}
    assert offered({"status": {"allocatable": allocatable}}) == {"nvidia.com/mig-1g.10gb": 7}
    assert offered({}) == {}


@pytest.mark.parametrize(
    ("given", "slices"),
    [
        (pod(container(cpu=1)), {}),
        (pod(container(gpu=0)), {}),
        (pod(container(gpu=1), container(gpu=2, mig=1)), {"nvidia.com/gpu": 3, "nvidia.com/mig-1g.10gb": 1}),
        (pod(container(renamed=2)), {"nvidia.com/gpu.shared": 2}),
        (pod(container(gpu=1), init=[container(gpu=2), container(gpu=1)]), {"nvidia.com/gpu": 2}),
    ],
)
def test_what_a_pod_holds(given: Any, slices: dict[str, int]) -> None:
    assert requested(given) == slices
    assert is_gpu_job(given) == bool(slices)


@pytest.mark.parametrize(
    ("init", "containers", "slices"),
    [
        ([container(gpu=1, sidecar=True)], [2], 3),
        ([container(gpu=4)], [2], 4),
        ([container(gpu=1)], [2], 2),
        ([container(gpu=1, sidecar=True), container(gpu=4)], [2], 5),
        ([container(gpu=4), container(gpu=1, sidecar=True)], [2], 4),
    ],
)
def test_init_containers_and_sidecars_count_as_the_scheduler_counts_them(
    init: list[Any], containers: list[int], slices: int
) -> None:
    given = pod(*(container(gpu=count) for count in containers), init=init)
    assert requested(given) == {"nvidia.com/gpu": slices}


def test_what_has_ended_or_belongs_to_a_daemon_set_is_no_job() -> None:
    assert not is_gpu_job(pod(container(gpu=1), phase="Succeeded"))
    assert not is_gpu_job(pod(container(gpu=1), owner="DaemonSet"))


def test_a_condition_that_is_missing_is_empty() -> None:
    ready = {"type": "Ready", "status": "True"}
    assert condition({"status": {"conditions": [ready]}}, "Ready") == ready
    assert condition({"status": None}, "Ready") == {}
