"""MPS as NVIDIA's control daemon (v0.19.0) has it: how many share a GPU at most, and what each gets."""

from __future__ import annotations

import pytest

from gpupool.environment.catalog.load import load_catalog
from tests.nvidia.cases import GPUS, Case, every_case
from tests.nvidia.kubelet import advertised
from tests.nvidia.mps import started
from tests.nvidia.node import Cards, Ended, Node

SHARED = [case for case in every_case() if case.pool.sharing.has_daemon]


@pytest.mark.parametrize("case", SHARED, ids=str)
def test_each_gets_an_equal_share(node: Node, case: Case) -> None:
    node.fit(case.cards, case.plugin_config)
    commands = started(node)
    per_gpu = sum(case.pool.sharing.slices_per_gpu(case.pool.gpu).values())
    share = case.pool.gpu.memory_mib // per_gpu
    limits = {f"set_default_device_pinned_mem_limit {gpu} {share}M" for gpu in range(GPUS)}
    assert limits <= set(commands)
    assert f"set_default_active_thread_percentage {100 // per_gpu}" in commands


@pytest.mark.parametrize("key", load_catalog().models)
def test_the_catalog_says_how_many_a_server_takes(node: Node, key: str) -> None:
    """The daemon's limit goes by compute capability, and is refused one above what the catalog says."""
    model = load_catalog()[key]
    text = "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}\n"
    node.fit(Cards(model, (None,)), text % model.mps_clients)
    started(node)
    node.fit(Cards(model, (None,)), text % (model.mps_clients + 1))
    with pytest.raises(Ended, match=f"maximum allowed replicas exceeded.*> {model.mps_clients}$"):
        started(node)


def test_the_plugin_does_not_share_by_mps_where_the_operator_says_mixed(node: Node) -> None:
    """It alone: with the operator's variable taken out of its container, all three work."""
    case = SHARED[0]
    node.fit(case.cards, case.plugin_config)
    with pytest.raises(Ended, match="using --mig-strategy=mixed is not supported with MPS"):
        advertised(node, "mixed")
    assert {name: len(offer.devices) for name, offer in advertised(node).items()} == case.pool.slices_per_node
    assert node.labels("mixed")["nvidia.com/mps.capable"] == "true"
    assert any("thread_percentage" in command for command in started(node, "mixed"))
