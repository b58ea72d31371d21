"""The simulated operator says of a node what NVIDIA's own programs (v0.19.0) say, whatever is configured.

Every MIG strategy, sharing method and kind of layout, also those that gpupool never renders, with the wrong
ones among them: where the real plugin ends, the simulated one does, and the labels are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.sharing import maximal_layouts
from tests.nvidia import simulation
from tests.nvidia.kubelet import advertised
from tests.nvidia.node import Cards, Ended, Node

Layouts = tuple[Mapping[str, int] | None, ...]
LAYOUTS: dict[str, Layouts] = {
    "MIG off": (None, None),
    "one profile": ({"1g.10gb": 7}, {"1g.10gb": 7}),
    "as many as fit or not": ({"1g.10gb": 7}, {"1g.10gb": 2}),
    "two profiles": ({"3g.40gb": 1, "2g.20gb": 2}, {"3g.40gb": 1, "2g.20gb": 2}),
    "one profile each": ({"1g.10gb": 7}, {"7g.80gb": 1}),
    "one GPU of two": ({"1g.10gb": 7}, None),
    "empty": ({}, {}),
    "one of two empty": ({"1g.10gb": 7}, {}),
}
SHARING = {
    "exclusive": "",
    "time-sliced": "timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 3}]}",
    "renamed": "timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 3}]}",
    "sliced instances": "timeSlicing: {resources: [{name: nvidia.com/mig-1g.10gb, replicas: 2}]}",
    "mps": "mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}",
    "mps, renamed": "mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}",
}
STRATEGIES = ("none", "single", "mixed")
CASES = list(itertools.product(LAYOUTS, SHARING, STRATEGIES, (None, *STRATEGIES)))
MIXED = "version: v1\nflags: {migStrategy: mixed}\n"
VARIANTS = [
    (key, layout)
    for key, model in load_catalog().models.items()
    for layout in maximal_layouts(model)
    if any("+" in name or "-" in name for name in layout)
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_says_what_the_real_ones_say(node: Node, case: tuple[str, str, str, str | None]) -> None:
    layouts, sharing, own, given = case
    cards = Cards(load_catalog()["a100-80gb"], LAYOUTS[layouts])
    text = f"version: v1\nflags: {{migStrategy: {own}}}\nsharing: {{{SHARING[sharing]}}}\n"
    node.fit(cards, text)
    simulated = simulation.of(cards, text, given)
    offered: dict[str, int] | None
    labels: dict[str, str] | None
    try:
        offered = {name: len(offer.devices) for name, offer in advertised(node, given).items()}
    except Ended:
        offered = None
    try:
        labels = node.labels(given)
    except Ended:
        labels = None
    assert simulated.offered == offered
    assert simulated.without_unknown(labels) == simulated.labels


@pytest.mark.parametrize(("key", "layout"), VARIANTS, ids=str)
def test_variants_of_profiles_have_labels_of_their_own(
    node: Node, key: str, layout: Mapping[str, int]
) -> None:
    """Feature discovery tells apart what this release of the plugin counts together."""
    cards = Cards(load_catalog()[key], (layout,))
    node.fit(cards, MIXED)
    simulated = simulation.of(cards, MIXED, None)
    assert simulated.without_unknown(node.labels()) == simulated.labels


def test_this_release_counts_variants_with_the_plain_profile(node: Node) -> None:
    """Why releases before device plugin v0.20.0 are not offered them (plan/operator_releases.py)."""
    node.fit(Cards(load_catalog()["a100-80gb"], ({"1g.10gb": 5, "1g.10gb+me": 1},)), MIXED)
    assert {name: len(offer.devices) for name, offer in advertised(node).items()} == {
        "nvidia.com/mig-1g.10gb": 6
    }


def test_a_fabric_is_a_label(node: Node) -> None:
    """Which the simulated operator doesn't write: the catalog does not say which machines share one."""
    text = "version: v1\nflags: {migStrategy: none}\n"
    node.fit(Cards(load_catalog()["gb200"], (None,) * 4, clique=7), text)
    clique = node.labels()["nvidia.com/gpu.clique"]
    assert clique.startswith("abababab-")
    assert clique.endswith(".7")
