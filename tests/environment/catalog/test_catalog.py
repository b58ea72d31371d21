"""The catalog's files against their schema, each other, and the facts that users trip over."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel, OtherVendorError
from gpupool.environment.schema.published import CATALOG_FILE, text
from gpupool.environment.sharing.placement import masks
from tests.required_programs import require_module

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "gpupool/environment/catalog"
FILES = sorted(FOLDER.glob("*.yaml"))
SCHEMA = json.loads(CATALOG_FILE.read_text())
MODELS = list(load_catalog().models.values())
WITH_MIG = [model for model in MODELS if model.mig]

PROMISED = {
    *("t4", "a10g", "l4", "l40s", "v100", "a30", "a100-40gb", "a100-80gb", "h100-80gb", "h100-nvl"),
    *("gh200-96gb", "gh200-144gb", "h200", "b200", "gb200", "b300", "gb300"),
    *("rtx-pro-6000", "rtx-4070-ti-super", "rtx-4090"),
    *("rtx-pro-4500", "rtx-pro-5000", "a10", "a40", "a16", "a2", "l40", "h20", "h100-96gb", "v100-32gb"),
    *("p100", "p40", "p4", "rtx-3060", "rtx-3090", "rtx-4080", "rtx-5090", "rtx-a6000", "rtx-6000-ada"),
}
SHIPPED_FIELDS = {"driver", "mpsClients", "sources"}
"""Fields that a project may leave out of its own files, and gpupool may not."""


def by_key(model: GpuModel) -> str:
    return model.key


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_follows_the_schema(file: Path) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    errors = list(Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(file.read_text())))
    assert not errors, [f"{error.json_path}: {error.message}" for error in errors]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_names_the_schema_to_editors(file: Path) -> None:
    assert file.read_text().startswith("# yaml-language-server: $schema=../schema/catalog.schema.json\n")


def test_the_schema_is_what_the_module_prints() -> None:
    assert text("catalog") == CATALOG_FILE.read_text(), "run: make schema"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_shipped_files_say_what_a_project_may_leave_out(file: Path) -> None:
    found = yaml.safe_load(file.read_text())
    assert set(found) >= SHIPPED_FIELDS
    assert "instanceTypes" not in found or "spotRatio" in found
    assert all("usdPerHour" in machine for machine in found.get("instanceTypes", ()))
    assert "mig" not in found or "driverMinimum" in found["mig"]


def test_the_schema_refuses_what_it_should() -> None:
    good = yaml.safe_load((FOLDER / "a100-80gb.yaml").read_text())
    validator = Draft202012Validator(SCHEMA)
    for broken in (
        {**good, "memory": 1},
        {**good, "memoryMib": 0},
        {**good, "mig": {**good["mig"], "profiles": [{"name": "3g"}]}},
        {key: value for key, value in good.items() if key != "productLabels"},
    ):
        assert not validator.is_valid(broken)


def test_every_field_of_the_schema_is_described() -> None:
    def fields(node: object, path: str = "$") -> list[str]:
        if not isinstance(node, dict):
            return []
        bare = []
        for name, field in node.get("properties", {}).items():
            bare += [f"{path}.{name}"] if "description" not in field else []
            bare += fields(field, f"{path}.{name}") + fields(field.get("items"), f"{path}.{name}[]")
        return bare

    assert fields(SCHEMA) == []
    assert [bare for part in SCHEMA["$defs"].values() for bare in fields(part)] == []


def test_the_promised_models_are_there() -> None:
    assert set(load_catalog().models) >= PROMISED


@pytest.mark.parametrize("model", WITH_MIG, ids=by_key)
def test_profiles_stay_on_the_gpu_and_differ(model: GpuModel) -> None:
    assert model.mig is not None
    names = [name for profile in model.mig.profiles for name in (profile.name, *profile.aliases)]
    assert len(names) == len(set(names))
    ids = [profile.nvml_id for profile in model.mig.profiles if profile.nvml_id is not None]
    assert len(ids) == len(set(ids))
    for profile in model.mig.profiles:
        assert max(masks(profile)) < 1 << model.mig.slots
        assert profile.max_count <= len(profile.starts)
        assert profile.name.startswith(f"{profile.compute_slices}g.")
        assert profile.name.endswith(profile.attribute or "gb")
        assert (profile.engines is None) == (model.mig.engine_budget is None)


@pytest.mark.parametrize("model", WITH_MIG, ids=by_key)
def test_the_largest_profile_is_the_whole_gpu(model: GpuModel) -> None:
    assert model.mig is not None
    whole = model.mig.profile(max(model.mig.profiles, key=lambda profile: profile.size).name)
    assert (whole.size, whole.compute_slices) == (model.mig.slots, model.mig.compute_slices)
    # NVIDIA derives the number in the name from the whole memory in GiB, rounded (go-nvlib, mig_profile.go).
    assert abs(int(whole.name.split(".")[1].split("gb")[0]) - model.memory_mib / 1024) <= 1.5


def test_mps_clients_are_those_that_the_daemon_takes() -> None:
    """The device plugin's daemon does not start with more replicas, whatever CUDA itself would serve."""
    source = require_module("device-plugin", "github.com/NVIDIA/k8s-device-plugin")
    text = (source / "cmd/mps-control-daemon/mps/device.go").read_text()
    (from_there,) = re.findall(r'semver.Canonical\("v(\d+)\.(\d+)"\)', text)
    newer, older = (int(count) for count in re.findall(r"return (\d+)\n", text))
    for model in MODELS:
        version = [int(part) for part in model.compute_capability.split(".")]
        daemon = newer if version >= [int(part) for part in from_there] else older
        assert model.mps_clients == daemon, model.key


def test_an_instance_type_belongs_to_one_model() -> None:
    names = [one.name for model in MODELS for one in model.instance_types]
    assert len(names) == len(set(names))
    assert not set(names) & set(load_catalog().unusable)


@pytest.mark.parametrize("model", MODELS, ids=by_key)
def test_sources_back_the_facts_that_vary(model: GpuModel) -> None:
    backed = {fact for source in model.sources for fact in source.facts}
    assert {"mpsClients", "productLabels", "memoryMib"} <= backed
    assert any(fact.startswith("driver") for fact in backed)
    if model.instance_types:
        assert "instanceTypes" in backed
        assert any(one.spot_ratio for one in model.instance_types) == ("spotRatio" in backed)
    if model.mig:
        assert any(fact.startswith("mig.profiles") for fact in backed)
    if model.mig and model.mig.placements_inferred:
        starts = [source for source in model.sources if "mig.profiles.starts" in source.facts]
        assert starts
        assert all(source.inferred for source in starts)


@pytest.mark.parametrize(
    ("instance_type", "key", "gpus", "mib"),
    [
        ("p4d.24xlarge", "a100-40gb", 8, 40960),  # not the 80 GB card
        ("p4de.24xlarge", "a100-80gb", 8, 81920),
        ("g6.48xlarge", "l4", 8, 22888),  # not the L40S
        ("g6e.48xlarge", "l40s", 8, 45776),
        ("g5.16xlarge", "a10g", 1, 22888),  # larger than 12xlarge, yet one GPU
        ("p5e.48xlarge", "h200", 8, 144384),
        ("g7e.12xlarge", "rtx-pro-6000", 2, 98304),
        ("p3dn.24xlarge", "v100", 8, 32768),
        ("g7.12xlarge", "rtx-pro-4500", 2, 32768),  # not g7e, which carries the RTX PRO 6000
    ],
)
def test_types_that_are_mistaken(instance_type: str, key: str, gpus: int, mib: int) -> None:
    owner = load_catalog().owner(instance_type)
    assert owner is not None
    assert owner.key == key
    found = owner.instance_type(instance_type)
    assert (found.gpus, found.gpu_memory_mib) == (gpus, mib)


def test_fractional_types_are_unusable_for_a_reason() -> None:
    catalog = load_catalog()
    assert catalog.owner("g6f.xlarge") is None
    assert "0 GPUs" in catalog.unusable["g6f.xlarge"]


def test_spot_price_is_the_ratio_of_the_on_demand_price() -> None:
    p4de = load_catalog()["a100-80gb"].instance_type("p4de.24xlarge")
    assert p4de.spot_usd_per_hour == pytest.approx(27.44705 * 0.34, abs=1e-4)
    assert load_catalog()["h200"].instance_type("p5e.48xlarge").spot_usd_per_hour is None
    assert load_catalog()["h100-80gb"].instance_type("p5.4xlarge").spot_usd_per_hour is None


@pytest.mark.parametrize(
    ("key", "vendor"),
    [
        *[(key, "AMD") for key in ("mi300x", "MI210", "amd-instinct-mi250x", "mi325x-288gb", "radeon-vii")],
        *[(key, "Intel") for key in ("gaudi3", "Gaudi-2", "max-1550", "arc-a770", "flex-170")],
    ],
)
def test_gpus_of_other_vendors_are_refused_by_their_name(key: str, vendor: str) -> None:
    with pytest.raises(OtherVendorError, match=f"is a {vendor} GPU, but gpupool supports NVIDIA GPUs only"):
        load_catalog()[key]


@pytest.mark.parametrize("key", ["migx", "rtx-1", "max", "mi"])
def test_other_names_may_be_nvidias(key: str) -> None:
    with pytest.raises(CatalogError, match="in the catalog"):
        load_catalog()[key]


def test_unknown_names_come_with_close_ones() -> None:
    with pytest.raises(CatalogError, match="a100-40gb or a100-80gb"):
        load_catalog()["a100"]
    with pytest.raises(CatalogError, match="did you mean rtx-4070-ti-super"):
        load_catalog()["RTX4070Ti"]
    with pytest.raises(CatalogError, match="'quadro-q9' is not in the catalog; gpupool catalog lists"):
        load_catalog()["quadro-q9"]
    with pytest.raises(CatalogError, match=r"p4de\.24xlarge"):
        load_catalog()["a100-80gb"].instance_type("p4d.24xlarge")
    mig = load_catalog()["gb200"].mig
    assert mig is not None
    assert mig.profile("1g.24gb").name == "1g.23gb"
    with pytest.raises(CatalogError, match=r"did you mean 3g\.93gb"):
        mig.profile("3g.90gb")


def test_adding_a_model_is_adding_a_file(tmp_path: Path) -> None:
    (tmp_path / "t5.yaml").write_text((FOLDER / "t4.yaml").read_text().replace("g4dn", "g9"))
    catalog = load_catalog(tmp_path)
    assert list(catalog.models) == ["t5"]
    owner = catalog.owner("g9.xlarge")
    assert owner is not None
    assert owner.key == "t5"


LOADING = """
import pathlib, sys, time, yaml
from gpupool.environment.catalog.load import load_catalog
start = time.process_time()
list(load_catalog().models.values())
read = time.process_time()
for path in pathlib.Path(sys.argv[1]).glob("*.yaml"):
    yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
print((read - start) / (time.process_time() - read))
"""


def test_loading_everything_costs_little_more_than_reading_it() -> None:
    """In its own process, because this one has read the catalog already. It is part of every command's start;
    PyYAML's own parser alone takes seven times as long as the one in C.
    """
    command = [sys.executable, "-c", LOADING, str(FOLDER)]
    runs = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3)
    ]
    assert min(runs) < 4
