"""Facts of clouds: each has a source and a date, and who is refused because of one reads both."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gpupool.environment.plan import cloud_facts
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.machines import RootVolume
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import SpecError
from tests.environment_files import environment_data, plan_of

ROOT = Path(__file__).parents[3]
FILE: dict[str, dict[str, Any]] = yaml.safe_load(Path(cloud_facts.__file__).with_suffix(".yaml").read_text())


def test_every_fact_has_a_source_and_a_date() -> None:
    rows = [row for section in FILE.values() for row in section.values()]
    assert len(rows) >= 7
    for row in rows:
        assert row["source"]
        assert isinstance(row["date"], date)


def test_every_type_of_volume_has_its_bounds() -> None:
    assert set(cloud_facts.volumes()) == set(get_args(RootVolume.model_fields["type"].annotation))


def environment(**volume: Any) -> dict[str, Any]:
    nodes = {"instanceTypes": ["g6.xlarge"], "max": 2, "rootVolume": volume}
    return environment_data("eks", pools=[{"name": "pool", "gpu": "l4", "nodes": nodes}])


@pytest.mark.parametrize(
    "volume",
    [
        {"size": "500Gi", "iops": 40000, "throughput": 2000},
        {"size": "160Gi", "iops": 80000, "throughput": 2000},
        {"size": "58Ti"},
        {"size": "17Ti", "type": "io2", "iops": 256000},
    ],
)
def test_what_ebs_makes_is_taken(volume: dict[str, Any]) -> None:
    assert plan_of(environment(**volume)).pools[0].machine.root_volume.size == volume["size"]


@pytest.mark.parametrize(
    "volume",
    [
        {"size": "159Gi", "iops": 80000},
        {"size": "500Gi", "iops": 3000, "throughput": 751},
        {"size": "17Ti", "type": "io1", "iops": 100},
    ],
)
def test_a_bound_that_refuses_says_where_it_is_from(volume: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as refused:
        plan_of(environment(**volume))
    (finding,) = refused.value.findings
    fact = cloud_facts.volumes()[volume.get("type", "gp3")]
    assert fact.source in finding.remediation
    assert fact.date.isoformat() in finding.remediation


@pytest.mark.parametrize(
    "file",
    [*sorted((ROOT / "environments").glob("*.yaml")), *sorted((ROOT / "examples").rglob("*.yaml"))],
    ids=lambda file: file.name,
)
def test_shipped_files_pin_their_machine_image(file: Path) -> None:
    if "kind: Environment" not in file.read_text():
        return
    loaded = check_shape(parse_source(file.name, file.read_bytes())).environment
    assert loaded is not None
    if loaded.cluster.platform == "eks":
        assert loaded.karpenter.ami_alias == cloud_facts.pinned_image()
