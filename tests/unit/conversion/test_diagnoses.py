"""What is said of pools that gpupool can't have, and of labels that look like somebody else's."""

from __future__ import annotations

import pytest
import yaml

from conversion.convert import Conversion, convert
from conversion.documents import parse_documents
from conversion.draft import Choices

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
    text = POOL.replace("LABELS", labels).replace("GROUP", group).replace("KIND", kind)
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
    assert any(f"its machines are {whose}" in entry.why for entry in result.leftovers)
    assert not any("not a GPU pool" in entry.why for entry in result.leftovers)


def test_labels_and_taints_that_a_site_may_set_are_kept() -> None:
    (pool,) = yaml.safe_load(converted("node.kubernetes.io/workload-type: gpu").text)["pools"]
    assert pool["labels"] == {"node.kubernetes.io/workload-type": "gpu"}
    assert pool["taints"] == [{"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}]
    assert converted("node.kubernetes.io/workload-type: gpu").findings == ()
