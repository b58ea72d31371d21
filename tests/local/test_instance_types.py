"""The machines that Karpenter may start locally are those of the catalog, with physical counts."""

from __future__ import annotations

from gpupool.environment.catalog.load import load_catalog
from gpupool.local.instance_types import (
    NOMINAL_USD_PER_GPU_HOUR,
    ZONES,
    aws_labels,
    karpenter_instance_types,
    prices,
)


def test_every_type_that_karpenter_can_start_is_there_once() -> None:
    wanted = {
        machine.name
        for model in load_catalog().models.values()
        for machine in model.instance_types
        if machine.karpenter
    }
    names = [row["name"] for row in karpenter_instance_types()]
    assert len(names) == len(set(names))
    assert set(names) == wanted


def test_physical_counts_prices_and_labels() -> None:
    row = next(row for row in karpenter_instance_types() if row["name"] == "p4de.24xlarge")
    assert row["resources"]["nvidia.com/gpu"] == "8"
    assert row["resources"]["cpu"] == "96"
    assert row["architecture"] == "amd64"
    assert len(row["offerings"]) == 2 * len(ZONES) + 1
    for offering in row["offerings"]:
        needs = {need["key"]: need["values"][0] for need in offering["Requirements"]}
        assert needs["karpenter.k8s.aws/instance-gpu-count"] == "8"
        assert needs["karpenter.k8s.aws/instance-gpu-name"] == "a100"
        assert needs["karpenter.k8s.aws/instance-gpu-memory"] == "81920"
        if needs["karpenter.sh/capacity-type"] == "on-demand":
            assert offering["Price"] == 27.44705
        else:
            assert 0 < offering["Price"] < 27.44705


def test_a_type_without_a_price_gets_the_nominal_one() -> None:
    unpriced = [
        machine
        for model in load_catalog().models.values()
        for machine in model.instance_types
        if machine.usd_per_hour is None
    ]
    for machine in unpriced:
        assert prices(machine)["on-demand"] == NOMINAL_USD_PER_GPU_HOUR * machine.gpus
        assert prices(machine)["spot"] < prices(machine)["on-demand"]


def test_labels_of_a_family_with_a_dash() -> None:
    model = load_catalog()["b200"]
    labels = aws_labels(model, model.instance_types[0])
    assert labels["karpenter.k8s.aws/instance-family"] == "p6-b200"
    assert labels["karpenter.k8s.aws/instance-category"] == "p"
    assert labels["karpenter.k8s.aws/instance-size"] == "48xlarge"
