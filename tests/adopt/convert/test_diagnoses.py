"""What is said of pools that gpupool can't have, and of labels that look like somebody else's."""

from __future__ import annotations

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.catalog.load import load_catalog

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec:
  template:
    metadata: {labels: {LABELS}}
    spec:
      nodeClassRef: {group: GROUP, kind: KIND, name: default}
      taints: [{key: kubernetes.io/arch, value: arm64, effect: NoSchedule}]
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""


def converted(labels: str = "", group: str = "karpenter.k8s.aws", kind: str = "EC2NodeClass") -> Conversion:
    return read(POOL.replace("LABELS", labels).replace("GROUP", group).replace("KIND", kind))


def read(text: str) -> Conversion:
    documents, findings = parse_documents("x.yaml", text.encode())
    assert not findings
    return convert(documents, Choices())


@pytest.mark.parametrize(
    ("group", "kind", "whose"),
    [
        ("eks.amazonaws.com", "NodeClass", "those of EKS Auto Mode"),
        ("karpenter.azure.com", "AKSNodeClass", "Azure's"),
    ],
)
def test_machines_of_other_providers_are_called_by_their_name(group: str, kind: str, whose: str) -> None:
    result = converted(group=group, kind=kind)
    assert result.pools == ()
    assert any(f"its machines are {whose}" in entry.what for entry in result.leftovers)
    assert not any("not a GPU pool" in entry.what for entry in result.leftovers)


def test_labels_and_taints_that_a_site_may_set_are_kept() -> None:
    (pool,) = yaml.safe_load(converted("node.kubernetes.io/workload-type: gpu").text)["pools"]
    assert pool["labels"] == {"node.kubernetes.io/workload-type": "gpu"}
    assert pool["taints"] == [{"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}]
    assert converted("node.kubernetes.io/workload-type: gpu").findings == ()


def pool_of(requirement: str, spec: str = "", capacity_types: str = "on-demand") -> Conversion:
    """What a NodePool becomes whose machines one requirement chooses, with more of its `spec`."""
    text = POOL.replace("LABELS", "").replace("GROUP", "karpenter.k8s.aws").replace("KIND", "EC2NodeClass")
    text = text.replace(
        "{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}", requirement
    )
    return read(text.replace("[on-demand]", f"[{capacity_types}]") + spec)


def entries(result: Conversion, word: str) -> list[tuple[str, str]]:
    return [
        (entry.category, entry.what) for entry in result.leftovers if word in f"{entry.path} {entry.what}"
    ]


AWS = "karpenter.k8s.aws/instance"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{AWS}-family", "p2"),
        (f"{AWS}-family", "p3"),
        (f"{AWS}-family", "g3s"),
        (f"{AWS}-gpu-name", "k80"),
        ("node.kubernetes.io/instance-type", "p2.8xlarge"),
    ],
)
def test_retired_families_are_called_that(key: str, value: str) -> None:
    result = pool_of(f"{{key: {key}, operator: In, values: [{value}]}}")
    assert result.pools == ()
    assert len(result.left_out) == 1
    assert f"{value}: a retired family of a previous generation" in result.left_out[0]
    assert not entries(result, "not a GPU pool")
    assert not entries(result, "that the catalog knows")


def test_a_retired_family_beside_one_of_today_is_listed() -> None:
    result = pool_of(f"{{key: {AWS}-family, operator: In, values: [p3, g5]}}")
    assert result.pools == ("gpus",)
    (listed,) = [entry for entry in result.leftovers if "retired" in entry.what]
    assert (listed.value, listed.category) == ("p3", "left")


def test_the_check_of_files_calls_retired_types_that() -> None:
    assert "retired family" in load_catalog().against("p2.xlarge")
    assert load_catalog().against("p3dn.24xlarge") == ""


SIZES = "{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge, g5.12xlarge, g5.48xlarge]}"


@pytest.mark.parametrize(
    ("limits", "size", "types"),
    [
        ('nvidia.com/gpu: "8"', {"maxGpus": 8}, ["g5.xlarge", "g5.12xlarge", "g5.48xlarge"]),
        ('nvidia.com/gpu: "4"', {"maxGpus": 4}, ["g5.xlarge", "g5.12xlarge"]),
        ('nvidia.com/gpu: "18"', {"maxGpus": 18}, ["g5.xlarge", "g5.12xlarge", "g5.48xlarge"]),
        ('nvidia.com/gpu: "8", cpu: "20"', {"max": 5}, ["g5.xlarge"]),
        ("nodes: 2", {"maxGpus": 16}, ["g5.xlarge", "g5.12xlarge", "g5.48xlarge"]),
    ],
)
def test_a_limit_over_sizes_bounds_the_gpus_of_what_can_start(
    limits: str, size: dict[str, int], types: list[str]
) -> None:
    result = pool_of(SIZES, f"  limits: {{{limits}}}\n")
    (pool,) = yaml.safe_load(result.text)["pools"]
    nodes = {key: pool["nodes"].get(key) for key in ("max", "maxGpus") if key in pool["nodes"]}
    assert (nodes, pool["nodes"]["instanceTypes"]) == (size, types)
    assert bool(entries(result, ": left out")) == (len(types) < 3)


def test_a_limit_whose_meaning_depends_on_the_machine_is_listed() -> None:
    result = pool_of(SIZES, "  limits: {cpu: 400}\n")
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool["nodes"]["maxGpus"] == 16
    ((kind, why),) = entries(result, "machines differ in size")
    assert kind == "assumed"
    assert "100 nodes of g5.xlarge and 2 of g5.48xlarge" in why


@pytest.mark.parametrize("limit", ['nvidia.com/gpu: "8"', "nodes: 1"])
def test_a_limit_that_means_one_number_of_nodes_is_no_question(limit: str) -> None:
    sizes = SIZES if limit == "nodes: 1" else SIZES.replace("g5.xlarge, g5.12xlarge, ", "")
    assert not entries(pool_of(sizes, f"  limits: {{{limit}}}\n"), "machines differ")


@pytest.mark.parametrize(
    ("capacity_types", "weight", "said"),
    [
        ("on-demand", 10, ""),
        ("spot", 20, ""),
        ("on-demand", 20, "gpupool sets weight 10 to on-demand nodes"),
        ("spot, on-demand", 20, "gpupool sets weight 10 to spot or on-demand nodes"),
        ("spot, on-demand", 10, ""),
    ],
)
def test_a_weight_is_derived_where_it_is_what_gpupool_writes(
    capacity_types: str, weight: int, said: str
) -> None:
    requirement = f"{{key: {AWS}-family, operator: In, values: [g6]}}"
    result = pool_of(requirement, f'  weight: {weight}\n  limits: {{nodes: "4"}}\n', capacity_types)
    assert [(kind, why.partition(",")[0]) for kind, why in entries(result, "spec.weight")] == (
        [("left", said)] if said else []
    )
