"""mig-parted's entries for single GPUs of a node, by index, and those that switch MIG off."""

from __future__ import annotations

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: research}
spec:
  limits: {nodes: "2"}
  template:
    metadata: {labels: {nvidia.com/mig.config: night}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""
SEVENTHS = "mig-enabled: true, mig-devices: {1g.10gb: 7}"
HALVES = "mig-enabled: true, mig-devices: {3g.40gb: 2}"
OFF = "mig-enabled: false"
ONE_LAYOUT = "the file has one layout for all GPUs of a pool"


def parted(*entries: str) -> str:
    rows = "".join(f"    - {{{entry}}}\n" for entry in entries)
    return f"version: v1\nmig-configs:\n  night:\n{rows}"


def converted(*texts: str) -> Conversion:
    documents, findings = parse_documents("x.yaml", "---\n".join(texts).encode())
    assert not findings
    return convert(documents, Choices())


def listed(result: Conversion, kind: str) -> list[str]:
    return [str(entry) for entry in result.leftovers if entry.category == kind]


@pytest.mark.parametrize("pool", [POOL, ""])
@pytest.mark.parametrize(
    "entries",
    [
        (f"devices: [0, 1, 2, 3], {SEVENTHS}", f"devices: [4, 5, 6, 7], {HALVES}"),
        (f"devices: [0], {SEVENTHS}", f"devices: [1, 2, 3, 4, 5, 6, 7], {OFF}"),
        (f"devices: [0], {SEVENTHS}",),
    ],
)
def test_layouts_by_index_are_left_and_not_wrong(pool: str, entries: tuple[str, ...]) -> None:
    result = converted(*filter(None, (pool, parted(*entries))))
    assert result.pools == ()
    assert ONE_LAYOUT in result.left_out[0]
    assert not listed(result, "wrong")
    said = [entry for entry in listed(result, "left") if ONE_LAYOUT in entry]
    assert len(said) == (2 if pool else 1)
    assert not any("correct" in entry for entry in said)


def test_equal_entries_for_all_gpus_are_one_layout() -> None:
    result = converted(
        POOL, parted(f"devices: [4, 5, 6, 7], {SEVENTHS}", f"devices: [0, 1, 2, 3], {SEVENTHS}")
    )
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool["sharing"] == {"mode": "mig", "layout": {"1g.10gb": 7}}
    assert not any("mig-configs" in entry.path for entry in result.leftovers)


@pytest.mark.parametrize("entries", [("devices: all",), ("devices: [0, 1, 2, 3]", "devices: [4, 5, 6, 7]")])
def test_nodes_without_mig_have_whole_gpus(entries: tuple[str, ...]) -> None:
    result = converted(POOL, parted(*(f"{entry}, {OFF}" for entry in entries)))
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert "sharing" not in pool
    assert not any("mig-configs" in entry.path for entry in result.leftovers)


@pytest.mark.parametrize("entries", [("devices: all",), ("devices: [0]", "devices: [1]")])
def test_a_configuration_that_switches_mig_off_is_said_to(entries: tuple[str, ...]) -> None:
    result = converted(parted(*(f"{entry}, {OFF}" for entry in entries)))
    assert not listed(result, "wrong")
    assert result.left_out == ()
    (said,) = [entry for entry in result.leftovers if "mig-configs" in entry.path]
    assert said.what == "it disables MIG, as gpupool does for every pool of whole GPUs"


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ((f"devices: all, {SEVENTHS}", f"devices: [1], {HALVES}"), "several include the same GPU"),
        ((f"devices: [0, 1], {SEVENTHS}", f"devices: [1], {HALVES}"), "several include the same GPU"),
        ((f"devices: some, {SEVENTHS}",), "devices is neither all nor a list of indices of GPUs"),
        ((SEVENTHS,), "devices is neither all nor a list of indices of GPUs"),
        (("devices: all, mig-enabled: true",), "enabled without instances"),
    ],
)
def test_what_is_wrong_stays_wrong(entries: tuple[str, ...], why: str) -> None:
    result = converted(POOL, parted(*entries))
    assert result.pools == ()
    assert any(why in entry and "mig-configs" in entry for entry in listed(result, "wrong"))
