"""What NVIDIA's own device plugin and GPU feature discovery (v0.19.0) make of what gpupool renders.

For every card of the catalog, every way to share it and every layout to which no instance can be added: the
resources that a kubelet gets are those of the plan, and the labels are those that drift, conversion and the
simulated operator reckon with.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.local.operator import plugin_config
from gpupool.local.operator.advertise import PluginFailure, advertise
from gpupool.local.operator.discovery import DiscoveryFailure, discover
from gpupool.local.operator.hardware import Hardware
from gpupool.sharing.mode import GPU_RESOURCE
from tests import sampling
from tests.nvidia.cases import GPUS, Case, every_case
from tests.nvidia.kubelet import advertised
from tests.nvidia.node import DRIVER, Cards, Ended, Node

pytestmark = pytest.mark.slow
CASES = sampling.drawn("nvidia", every_case(), 24)
UNKNOWN = ("engines.", "multiprocessors")
"""Labels of instances that the catalog may not have; the stub says 0 there."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_plugin_offers_what_the_plan_says(node: Node, case: Case) -> None:
    node.fit(case.cards, case.plugin_config)
    offers = advertised(node)
    assert {name: len(offer.devices) for name, offer in offers.items()} == case.pool.slices_per_node
    for offer in offers.values():
        assert "NVIDIA_VISIBLE_DEVICES" in offer.allocated[1]
        if case.pool.sharing.one_slice:
            assert "maximum request size for shared resources is 1; found 2" in offer.allocated[2]
        elif len(offer.devices) > 1:
            assert isinstance(offer.allocated[2], dict)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_labels_are_those_of_the_simulated_operator(node: Node, case: Case) -> None:
    node.fit(case.cards, case.plugin_config)
    assert_alike(node, case.cards, case.plugin_config, None)
    if case.pool.sharing.layout:
        return
    product = case.pool.gpu.product_labels[0] + ("-SHARED" if case.pool.sharing.one_slice else "")
    labels = node.labels()
    assert labels["nvidia.com/gpu.product"] == product
    assert labels["nvidia.com/gpu.count"] == str(GPUS)
    assert labels["nvidia.com/gpu.family"] == case.pool.gpu.architecture
    assert labels["nvidia.com/gpu.replicas"] == str(case.pool.slices_per_node[GPU_RESOURCE] // GPUS)


def assert_alike(node: Node, cards: Cards, text: str, strategy: str | None) -> None:
    """The real programs and the simulated operator say the same of the node that was fitted last."""
    hardware = Hardware(cards.model, len(cards.layouts), cards.memory, "unknown")
    config = plugin_config.parse(text)
    layouts = [None if layout is None else dict(layout) for layout in cards.layouts]
    chosen = strategy or config.mig_strategy or "none"
    real: Any
    try:
        real = {name: len(offer.devices) for name, offer in advertised(node, strategy).items()}
    except Ended:
        real = "it ends"
    simulated: Any
    try:
        offered = advertise(hardware, layouts, config, chosen)
        simulated = {name: count for name, count in offered.items() if count}
    except PluginFailure:
        simulated = "it ends"
    assert simulated == real
    try:
        known = discover(hardware, layouts, config, chosen, DRIVER)
    except DiscoveryFailure:
        with pytest.raises(Ended):
            node.labels(strategy)
        return
    assert unknown_left_out(node.labels(strategy), known) == known


def unknown_left_out(found: dict[str, str], known: dict[str, str]) -> dict[str, str]:
    """Labels but for those of which the catalog doesn't have the facts."""
    extra = {key for key in found.keys() - known.keys() if any(part in key for part in UNKNOWN)}
    return {key: value for key, value in found.items() if key not in extra}
