"""What NVIDIA's own device plugin and GPU feature discovery (v0.19.0) make of what gpupool renders.

For every card of the catalog, every way to share it and every layout to which no instance can be added: the
resources that a kubelet gets are those of the plan, and the labels are those that drift, conversion and the
simulated operator reckon with.
"""

from __future__ import annotations

import pytest

from gpupool.environment.sharing.mode import GPU_RESOURCE
from tests.nvidia import simulation
from tests.nvidia.cases import GPUS, Case, every_case
from tests.nvidia.kubelet import advertised
from tests.nvidia.node import Node

CASES = every_case()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_offers_and_labels_are_those_of_the_plan(node: Node, case: Case) -> None:
    node.fit(case.cards, case.plugin_config)
    offers, labels = advertised(node), node.labels()
    counts = {name: len(offer.devices) for name, offer in offers.items()}
    assert counts == case.pool.slices_per_node
    for offer in offers.values():
        assert "NVIDIA_VISIBLE_DEVICES" in offer.allocated[1]
        if case.pool.sharing.one_slice:
            assert "maximum request size for shared resources is 1; found 2" in offer.allocated[2]
        elif len(offer.devices) > 1:
            assert isinstance(offer.allocated[2], dict)
    simulated = simulation.of(case.cards, case.plugin_config, None)
    assert simulated.offered == counts
    assert simulated.without_unknown(labels) == simulated.labels
    if not case.pool.sharing.layout:
        shared = "-SHARED" if case.pool.sharing.one_slice and GPU_RESOURCE in counts else ""
        assert labels["nvidia.com/gpu.product"] == case.pool.gpu.product_labels[0] + shared
        assert labels["nvidia.com/gpu.replicas"] == str(sum(counts.values()) // GPUS)
        assert labels["nvidia.com/gpu.count"] == str(GPUS)
