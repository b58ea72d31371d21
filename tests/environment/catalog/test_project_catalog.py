"""GPUs of a project's own: files in catalog/ beside environments/, their mistakes, and what they change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from gpupool.adopt.convert.convert import convert
from gpupool.adopt.convert.documents import of_cluster
from gpupool.adopt.convert.draft import Choices
from gpupool.cli import catalog as catalog_verb
from gpupool.cli.findings.json import finding_json
from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.project import catalog_here, gpu_file, read_catalog, ready_file
from gpupool.environment.plan.resolve import findings_of, read_plan
from gpupool.environment.schema.published import CATALOG_FILE
from gpupool.findings import SpecError, ready_files
from gpupool.generators import generate
from tests.environment_files import Data, environment_data, write_environment

CARD = """\
title: NVIDIA GeForce RTX 2080
architecture: turing
computeCapability: "7.5"
memoryMib: 8192
productLabels: [NVIDIA-GeForce-RTX-2080]
"""
HALVES = """\
mig:
  slots: 2
  computeSlices: 2
  profiles:
    - {name: 1g.4gb, starts: [0, 1], size: 1, max: 2, compute: 1}
    - {name: 2g.8gb, starts: [0], size: 2, max: 1, compute: 2}
"""
EXCLUSIVE: Data = {"mode": "exclusive"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "environments").mkdir()
    (tmp_path / "catalog").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def home(
    project: Path, gpu: str = "rtx-2080", sharing: Data = EXCLUSIVE, platform: str = "static", **sections: Any
) -> Path:
    nodes: Data = {"instanceTypes": ["own.large"], "max": 1} if platform == "local" else {"names": ["n0"]}
    pools = [{"name": "cards", "gpu": gpu, "sharing": sharing, "nodes": nodes}]
    environment = environment_data(platform, name="home", pools=pools, **sections)
    return write_environment(project / "environments", environment)


def said(project: Path, text: str, name: str = "rtx-2080.yaml") -> list[str]:
    (project / "catalog" / name).write_text(text)
    return [str(finding) for finding in SpecError(read_catalog()[1]).findings]


@pytest.mark.parametrize(
    ("sharing", "slices"),
    [(EXCLUSIVE, 1), ({"mode": "time-slicing", "replicas": 4}, 4), ({"mode": "mps", "replicas": 48}, 48)],
)
def test_five_facts_are_enough_but_for_mig(project: Path, sharing: Data, slices: int) -> None:
    assert said(project, CARD) == []
    home(project, sharing=sharing)
    (pool,) = read_plan("home").pools
    assert pool.slices_per_node == {"nvidia.com/gpu": slices}
    (finding,) = findings_of(home(project, sharing={"mode": "mig", "layout": {"1g.4gb": 2}}))
    assert "catalog/rtx-2080.yaml has no MIG profiles" in finding.what
    assert "add its profiles to the file" in finding.remediation


def test_mig_profiles_of_ones_own_are_placed(project: Path) -> None:
    assert said(project, CARD + HALVES) == []
    home(project, sharing={"mode": "mig", "layout": {"1g.4gb": 2}})
    (pool,) = read_plan("home").pools
    assert pool.slices_per_node == {"nvidia.com/mig-1g.4gb": 2}
    (finding,) = findings_of(home(project, sharing={"mode": "mig", "layout": {"1g.4gb": 1, "2g.8gb": 1}}))
    assert finding.path == "pools[0].sharing.layout"


@pytest.mark.parametrize(("capability", "clients"), [("7.5", 48), ("6.1", 16)])
def test_mps_clients_follow_from_the_compute_capability(project: Path, capability: str, clients: int) -> None:
    assert said(project, CARD.replace("7.5", capability)) == []
    assert read_catalog()[0]["rtx-2080"].mps_clients == clients


def test_a_file_takes_the_place_of_a_shipped_one(project: Path) -> None:
    assert said(project, CARD.replace("8192", "24000"), "l4.yaml") == []
    catalog = catalog_here()
    assert catalog["l4"].memory_mib == 24000
    assert catalog.owner("g6.xlarge") is None, "the whole file takes its place"
    assert list(catalog.models) == list(load_catalog().models)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (
            CARD.replace('"7.5"', "7.5"),
            '3:1: computeCapability: 7.5 is a number, not text; quote it: "7.5"',
        ),
        (
            CARD.replace("turing", "touring"),
            "2:1: architecture: 'touring' is not one of the choices; did you mean",
        ),
        (
            CARD.replace("memoryMib", "memory"),
            '4:1: memory: unknown field "memory"; did you mean "memoryMib"?',
        ),
        (CARD.replace("8192", "8 GB"), "4:1: memoryMib: '8 GB' is text, not a whole number"),
        (
            CARD.replace("[NVIDIA-GeForce-RTX-2080]", "[]"),
            "5:1: productLabels: the list is empty; this field is: ",
        ),
        (
            CARD + "instanceTypes: [{name: g9 large, gpus: 1, vcpus: 4, memoryGib: 16}]\n",
            "6:18: instanceTypes[0].name: 'g9 large' can't be used here; write at most 63 letters",
        ),
        (CARD + "memoryMib: 1\n", "6:1: memoryMib: key 'memoryMib' appears twice"),
        (
            CARD + HALVES.replace("[0, 1]", "[0, 2]"),
            "6:1: mig: 1g.4gb ends at memory slice 3, and the GPU has 2",
        ),
        (CARD + HALVES.replace("max: 2", "max: 3"), "6:1: mig: 1g.4gb has max 3, and only 2 starts"),
        (CARD + HALVES.replace("2g.8gb", "1g.4gb"), "6:1: mig: 1g.4gb appears twice"),
        ("", "1:1: the file is empty; write the fields of one GPU"),
        ("- a\n", "1:1: the document is not a mapping"),
        (CARD + "---\n" + CARD, "6:1: a second document starts here; write it to a separate file"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(project: Path, wrong: str, expected: str) -> None:
    assert any(line.startswith(f"catalog/rtx-2080.yaml:{expected}") for line in said(project, wrong))
    with pytest.raises(SpecError):
        catalog_here()


def test_a_broken_file_is_no_second_mistake_in_the_environment(project: Path) -> None:
    said(project, CARD.replace("8192", "0"))
    (finding,) = findings_of(home(project))
    assert (finding.file, finding.path) == ("catalog/rtx-2080.yaml", "memoryMib")


def test_a_broken_file_leaves_nothing_to_be_judged_by_the_shipped_one(project: Path) -> None:
    said(project, CARD.replace("8192", "0"), "l4.yaml")
    (finding,) = findings_of(home(project, "l4", platform="local"))
    assert finding.file == "catalog/l4.yaml"


def test_names_of_files_are_keys(project: Path) -> None:
    (finding,) = said(project, CARD, "RTX 2080.yaml")
    assert "'RTX 2080' can't be the key of a GPU; use lowercase letters" in finding
    (project / "catalog" / "RTX 2080.yaml").unlink()
    (project / "catalog" / "notes.txt").write_text("not read")
    said(project, CARD, "rtx-2080.yaml")
    (finding,) = said(project, CARD, "rtx-2080.yml")
    assert "rtx-2080 is also described in catalog/rtx-2080.yaml; keep one of the two files" in finding


def test_an_instance_type_belongs_to_one_model(project: Path) -> None:
    machine = "instanceTypes: [{name: g6.xlarge, gpus: 1, vcpus: 4, memoryGib: 16}]\n"
    (finding,) = said(project, CARD + machine)
    assert finding.startswith(
        "catalog/rtx-2080.yaml:6:18: instanceTypes[0].name: g6.xlarge is already an instance type of "
        "the NVIDIA L4"
    )


def test_what_the_local_control_plane_does_not_simulate_is_refused(project: Path) -> None:
    assert (
        said(project, CARD + "instanceTypes: [{name: own.large, gpus: 1, vcpus: 4, memoryGib: 16}]\n") == []
    )
    (finding,) = findings_of(home(project, platform="local"))
    assert "does not simulate own.large" in finding.what


def test_an_unknown_gpu_comes_with_a_file_that_is_right_once_it_is_filled_in(project: Path) -> None:
    findings = findings_of(home(project))
    (ready,) = ready_files(findings)
    assert ready == ready_file("rtx-2080")
    assert "catalog/rtx-2080.yaml" in ready
    assert not any(isinstance(value, str) and ready in value for value in finding_json(findings[0]).values())
    blank = gpu_file("rtx-2080")
    assert ready.endswith(blank)
    unfilled = [line.split(": ")[1] for line in said(project, blank)]
    assert unfilled == ["architecture", "computeCapability", "memoryMib", "productLabels"]
    filled = yaml.safe_load(blank) | {key: yaml.safe_load(CARD)[key] for key in unfilled}
    assert said(project, yaml.safe_dump(filled)) == []
    assert findings_of(home(project)) == ()


def test_the_verb_prints_files_to_change_and_to_fill_in(project: Path) -> None:
    import typer

    app = typer.Typer()
    app.command()(catalog_verb.catalog)
    shown = CliRunner().invoke(app, ["l4", "--file"]).stdout
    assert said(project, shown, "l4.yaml") == [], "a shipped file is one that a project may have"
    # The shell empties the file that is written to before it is read.
    assert said(project, "", "l4.yaml") != []
    assert CliRunner().invoke(app, ["l4", "--file"]).stdout == shown
    (project / "catalog" / "l4.yaml").unlink()
    said(project, CARD)
    assert "catalog/rtx-2080.yaml of this project" in CliRunner().invoke(app, ["rtx-2080"]).stdout
    assert json.loads(CliRunner().invoke(app, ["rtx-2080", "--format", "json"]).stdout)["own"] is True


@pytest.mark.parametrize("text", [CARD, CARD + HALVES])
def test_the_published_schema_takes_what_is_read(text: str) -> None:
    schema = json.loads(CATALOG_FILE.read_text())
    assert list(Draft202012Validator(schema).iter_errors(yaml.safe_load(text))) == []


def test_nodes_with_the_card_are_recognised(project: Path) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-2080", "nvidia.com/gpu.count": "2"}
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "labels": labels}}
    assert convert(of_cluster([node], "cluster"), Choices(name="home")).pools == ()
    said(project, CARD)
    assert (
        yaml.safe_load(convert(of_cluster([node], "cluster"), Choices(name="home")).text)["pools"][0]["gpu"]
        == "rtx-2080"
    )


def test_the_cluster_checks_itself_with_the_same_models(project: Path) -> None:
    said(project, CARD)
    said(project, CARD, "not-used.yaml")
    home(project, monitoring={"assertion": {"image": "registry.example/gpupool:0.1.0"}})
    bodies = [manifest.body for manifest in generate(read_plan("home")).manifests]
    (data,) = [body["data"] for body in bodies if body["metadata"]["name"].startswith("gpupool-assert-")]
    assert data["gpu.rtx-2080.yaml"] == CARD
    assert "gpu.not-used.yaml" not in data
    (job,) = [body for body in bodies if body["kind"] == "CronJob"]
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    mounts = {mount["subPath"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts["gpu.rtx-2080.yaml"] == "/etc/gpupool/catalog/rtx-2080.yaml"
