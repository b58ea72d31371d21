"""`gpupool validate | plan | render` as a user runs them: exit codes, contracts of the JSON, words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.environment.spec.load import environment_names
from tests import command
from tests.environment_files import environment_data, write_environment

GPUPOOL = Path(sys.executable).with_name("gpupool")
WRONG = "tests/golden/wrong_environments/several-at-once.yaml"
ROOT = Path(__file__).parents[2]


def gpupool(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return command.gpupool(*arguments, folder=folder)


def test_validate_all() -> None:
    done = gpupool("validate")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{', '.join(environment_names())}: valid\n"


def test_validate_prints_findings_and_exits_1() -> None:
    done = gpupool("validate", "prod", WRONG)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert len(lines) > 1
    assert all(line.startswith(f"{WRONG}:") for line in lines)


def test_validate_json() -> None:
    done = gpupool("validate", WRONG, "--format", "json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert list(answer) == ["findings"]
    assert len(answer["findings"]) > 1
    for finding in answer["findings"]:
        assert {"severity", "category", "code", "path", "message", "remediation"} <= finding.keys()
        assert finding["file"] == WRONG
        assert finding["line"] >= 1
        assert finding["column"] >= 1
    assert json.loads(gpupool("validate", "prod", "--format", "json").stdout) == {"findings": []}


def test_validate_where_there_are_no_environments(tmp_path: Path) -> None:
    done = gpupool("validate", folder=tmp_path)
    assert done.returncode == 2, "a check in the wrong folder must not pass"
    assert "no environments" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("validate", "nowhere"), "no environment 'nowhere' in environments; there are: dev, homelab"),
        (("show", "no/such.yaml"), "no such file"),
        (("show",), "Missing argument"),
        (("render", "dev"), "Missing option"),
        (("show", "dev", "--format", "xml"), "xml"),
        (("plam", "dev"), "plam"),
        (("render", "dev", "-o", ""), "gpupool render dev -o '': the last argument is empty"),
        (
            ("render", "dev", "--output=", "--check"),
            "gpupool render dev --output=: the last argument is empty",
        ),
        (("render", "", "-o", "x"), "gpupool render '': the last argument is empty"),
    ],
)
def test_wrong_use_exits_2(arguments: tuple[str, ...], said: str) -> None:
    done = gpupool(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_plan_text() -> None:
    done = gpupool("show", "prod")
    assert (done.returncode, done.stderr) == (0, "")
    pool, slices = (line for line in done.stdout.splitlines() if line.startswith("research-a100"))
    assert "time-slicing" in pool
    assert "24 gpu" in slices
    assert "\x1b" not in done.stdout, "no colour outside of a terminal"


def test_plan_and_render_say_what_the_owner_of_an_operator_has_to_set(tmp_path: Path) -> None:
    sharing = {"mode": "mig", "layout": {"3g.40gb": 2}}
    pools = [{"name": "lab", "gpu": "a100-80gb", "sharing": sharing, "nodes": {"names": ["a"]}}]
    file = write_environment(
        tmp_path, environment_data("static", gpuOperator={"install": False}, pools=pools)
    )
    lines = "  mig:\n    strategy: mixed\n"
    tolerations = "    - key: gpupool.dev/pool\n      operator: Exists\n"
    for arguments in (["show", str(file)], ["render", str(file), "-o", str(tmp_path / "out")]):
        shown = gpupool(*arguments).stdout
        assert "the owner of the GPU Operator must set these chart values:\n" in shown
        assert lines in shown
        assert tolerations in shown
    write_environment(tmp_path, environment_data("static", gpuOperator={}, pools=pools))
    assert "has to set" not in gpupool("show", str(file)).stdout


def test_plan_says_what_is_granted_more_than_once_over() -> None:
    done = gpupool("show", "docs/simulation/team.yaml")
    assert "training: tenants are granted 10 of 8 gpu (overcommit)" in done.stdout
    assert "(overcommit)" not in gpupool("show", "prod").stdout


def test_plan_as_shell_variables() -> None:
    done = gpupool("show", "local", "--format", "env")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines == sorted(lines)
    assert {"T4_SHARED_SLOTS=24", "T4_EXCLUSIVE_SLOTS=3", "GPU_RESOURCE_NAME=nvidia.com/gpu"} <= {*lines}


def test_plan_json_has_what_is_promised() -> None:
    answer = json.loads(gpupool("show", "local", "--format", "json").stdout)
    pools = {pool["name"]: pool for pool in answer["pools"]}
    promised = "name gpu mode nodesMax gpusPerNode slicesPerNode gpuEquivalents labels taints monthlyUsd"
    for pool in pools.values():
        assert set(promised.split()) <= set(pool)
        assert set(pool["monthlyUsd"]) == {"min", "max"}
    assert pools["inference-mig"]["slicesPerNode"] == {
        "nvidia.com/mig-3g.40gb": 8,
        "nvidia.com/mig-2g.20gb": 16,
    }
    assert pools["inference-mig"]["gpuEquivalents"] == {
        "nvidia.com/mig-3g.40gb": 0.5,
        "nvidia.com/mig-2g.20gb": 0.25,
    }
    assert pools["notebooks"]["slicesPerNode"] == {"nvidia.com/gpu": 8}
    for tenant in answer["tenants"]:
        assert {"name", "namespace", "quota"} <= set(tenant)
    assert answer["queue"]["slots"]


def test_plan_of_a_wrong_file_prints_findings_and_exits_1() -> None:
    done = gpupool("show", WRONG, "--format", "json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said["findings"]
    assert len(said["errors"]) == len(said["findings"])
    assert "findings; nothing changed" in done.stderr


def test_render_and_check(tmp_path: Path) -> None:
    folder = tmp_path / "dev"
    first = gpupool("render", "dev", "-o", str(folder))
    assert first.returncode == 0
    assert "files written" in first.stdout
    fresh = gpupool("render", "dev", "-o", str(folder), "--check")
    assert (fresh.returncode, fresh.stderr) == (0, "")
    assert "up to date" in fresh.stdout
    index = folder / "index.json"
    index.unlink()
    stale = gpupool("render", "dev", "-o", str(folder), "--check")
    assert stale.returncode == 1
    assert f"{index}: missing" in stale.stderr
    assert f"gpupool render dev -o {folder}" in stale.stderr
    assert not index.exists()


def test_render_json(tmp_path: Path) -> None:
    answer = json.loads(gpupool("render", "dev", "-o", str(tmp_path), "--format", "json").stdout)
    assert list(answer) == ["environment", "output", "objects", "missing", "changed", "extra", "unknown"]
    assert answer["environment"] == "dev"
    assert len(answer["missing"]) == answer["objects"] + 1
    again = json.loads(gpupool("render", "dev", "-o", str(tmp_path), "--check", "--format", "json").stdout)
    assert (again["missing"], again["changed"], again["extra"]) == ([], [], [])


def test_render_lists_unknown_files(tmp_path: Path) -> None:
    folder, command = tmp_path / "dev", ("render", "dev", "-o", str(tmp_path / "dev"))
    gpupool(*command)
    extra = folder / "cluster" / "nodepool-extra.yaml"
    extra.write_text("kind: NodePool\n")
    checked, written = gpupool(*command, "--check"), gpupool(*command)
    assert (checked.returncode, written.returncode) == (1, 0)
    for done in (checked, written):
        assert done.stderr.startswith(f"{extra}: unknown\nunknown: not in the index of {folder}")
    assert "stale" not in checked.stderr
    assert checked.stdout == ""
    for number in range(20):
        (folder / f"{number}.json").write_text("{}")
    assert "\nand 11 more\n" in gpupool(*command).stderr


def test_render_leaves_the_rendering_of_another_environment_alone(tmp_path: Path) -> None:
    gpupool("render", "homelab", "-o", str(tmp_path))
    before = sorted(tmp_path.rglob("*"))
    for more in ((), ("--check",)):
        done = gpupool("render", "dev", "-o", str(tmp_path), *more)
        assert (done.returncode, done.stdout) == (1, "")
        reported = (
            f"{tmp_path}/index.json: the folder contains the rendering of environment 'homelab', not of 'dev'"
        )
        assert done.stderr.startswith(reported)
    assert sorted(tmp_path.rglob("*")) == before


def test_render_into_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = gpupool("render", "dev", "-o", str(tmp_path / "file"))
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert "choose a writable folder" in done.stderr


@pytest.mark.parametrize("verb", ["validate", "show", "render"])
def test_help_shows_an_example(verb: str) -> None:
    done = gpupool(verb, "--help")
    assert done.returncode == 0
    assert f"Example: gpupool {verb}" in done.stdout


def test_a_closed_pipe_is_not_an_error() -> None:
    done = subprocess.run(
        f"{GPUPOOL} show prod --format json | head -c 1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("name", "command"),
    [("edge-argocd", "-f {}/delivery/argocd/start"), ("home-flux", "-k {}/delivery/flux")],
)
def test_render_says_how_argo_cd_and_flux_hear_of_it(name: str, command: str, tmp_path: Path) -> None:
    file, engine = f"tests/golden/delivery/{name}.yaml", name.rpartition("-")[2]
    command = f"kubectl apply {command.format(tmp_path)}"
    done = gpupool("render", file, "-o", str(tmp_path))
    assert f"delivered by {engine} from " in done.stdout
    runs = "Argo CD" if engine == "argocd" else "Flux"
    assert f"register it once, in the cluster where {runs} runs: {command}\n" in done.stdout
    stale = min(path for path in Path(command.rpartition(" ")[2]).iterdir() if path.suffix == ".yaml")
    stale.write_text("a: 1\n")
    done = gpupool("render", file, "-o", str(tmp_path))
    assert f"run: {command}\n" in done.stdout, "what was applied by hand has changed"
    stale.write_text("a: 1\n")
    done = gpupool("render", file, "-o", str(tmp_path), "--check")
    assert (done.returncode, f"{stale}: changed" in done.stderr) == (1, True)
