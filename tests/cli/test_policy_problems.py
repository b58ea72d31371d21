"""`gpupool policy check` where something is missing or can't be read: code, place, and the form of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests import command
from tests.cli.test_policy import OWNED, POLICY, ROOT, UNOWNED, gpupool

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
BROKEN = "kind: ValidatingAdmissionPolicy\nmetadata: [\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an environment, and manifests of others."""
    (tmp_path / "environments").mkdir()
    shutil.copy(ROOT / "environments" / "homelab.yaml", tmp_path / "environments")
    (tmp_path / "policies").mkdir()
    (tmp_path / "k8s").mkdir()
    (tmp_path / "k8s" / "owned.yaml").write_text(OWNED)
    return tmp_path


def findings(*arguments: str, folder: Path) -> list[dict[str, Any]]:
    found = json.loads(gpupool("check", *arguments, "-o", "json", folder=folder).stdout)["findings"]
    return [finding for finding in found if finding["category"] != "audit"]


# Files that can't be read


def test_a_broken_file_among_the_projects_policies_is_a_denial(project: Path) -> None:
    (project / "policies" / "mine.yaml").write_text(BROKEN)
    done = gpupool("check", "k8s", folder=project)
    assert done.returncode == 1
    assert "deny  unreadable  policies/mine.yaml:" in done.stdout.replace("         ", "  ")


@pytest.mark.parametrize("output", ["text", "json", "sarif", "junit", "github"])
@pytest.mark.parametrize("broken", ["policies/mine.yaml", "environments/homelab.yaml"])
def test_what_keeps_an_environment_from_being_judged_is_a_finding(
    project: Path, broken: str, output: str
) -> None:
    (project / broken).write_text(BROKEN)
    done = gpupool("check", "homelab", "-o", output, folder=project)
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{broken}" in done.stdout
    if output == "json":
        answer = json.loads(done.stdout)
        keys = ["denied", "summary", "targets", "policiesFrom", "policies", "findings"]
        assert (list(answer), answer["denied"], answer["summary"]["deny"]) == (keys, True, 1)
        (finding,) = answer["findings"]
        assert (finding["origin"], finding["file"]) == ("document", broken)
        assert finding["line"] >= 2
        assert finding["remediation"]
    if output == "sarif":
        (result,) = json.loads(done.stdout)["runs"][0]["results"]
        assert result["level"] == "error"
        assert result["locations"][0]["physicalLocation"]["region"]["startLine"] >= 2
    if output == "junit":
        assert ElementTree.fromstring(done.stdout).get("failures") == "1"
    if output == "github":
        assert done.stdout.startswith(f"::error file={broken},line=")


def test_other_environments_are_judged_beside_a_broken_one(project: Path) -> None:
    (project / "environments" / "broken.yaml").write_text(BROKEN)
    done = gpupool("check", "homelab", "broken", "-o", "json", folder=project)
    answer = json.loads(done.stdout)
    assert answer["summary"]["objects"] > 10
    assert [one["file"] for one in answer["findings"] if one["category"] == "deny"] == [
        "environments/broken.yaml"
    ]


def test_files_of_other_tools_in_a_folder_are_warnings(project: Path) -> None:
    (project / "k8s" / "values.yaml").write_text("replicas: 2\n")
    (project / "guards.yaml").write_text(POLICY)
    done = gpupool("check", "k8s", "--policies", "guards.yaml", "-o", "json", folder=project)
    assert done.returncode == 0
    (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["category"] != "audit"]
    assert (finding["category"], finding["code"], finding["file"]) == (
        "warn",
        "not-kubernetes",
        "k8s/values.yaml",
    )
    named = gpupool("check", "k8s/values.yaml", "--policies", "guards.yaml", folder=project)
    assert named.returncode == 1, "who names a file means it as a manifest"


def test_files_of_other_tools_beside_given_policies_are_warnings(project: Path) -> None:
    (project / "guards").mkdir()
    (project / "guards" / "kustomization.yaml").write_text("resources: [owners.yaml]\n")
    done = gpupool("check", "k8s", "--policies", "guards", folder=project)
    assert done.returncode == 2, "there is no policy among them"
    (project / "guards" / "owners.yaml").write_text(POLICY)
    done = gpupool("check", "k8s", "--policies", "guards", folder=project)
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["warn", "not-kubernetes"])
    named = gpupool("check", "k8s", "--policies", "guards/kustomization.yaml", folder=project)
    assert named.returncode == 1, "who names a file means it as policies"


def test_a_key_that_stands_twice_is_a_warning_and_the_last_counts(project: Path) -> None:
    twice = OWNED.replace("owner: ann", "owner: ''").replace("metadata:", "metadata: {}\nmetadata:")
    (project / "k8s" / "twice.yaml").write_text(twice)
    (project / "guards.yaml").write_text(POLICY)
    done = gpupool("check", "k8s/twice.yaml", "--policies", "guards.yaml", "-o", "json", folder=project)
    found = {one["code"]: one for one in json.loads(done.stdout)["findings"]}
    assert {rule: one["category"] for rule, one in found.items()} == {
        "duplicate-key": "warn",
        "owners": "deny",
    }
    assert found["duplicate-key"]["line"] == 4
    (project / "k8s" / "twice.yaml").write_text(twice.replace("''", "ann"))
    done = gpupool("check", "k8s/twice.yaml", "--policies", "guards.yaml", folder=project)
    assert done.returncode == 0


# Nothing to judge, nothing to judge by


@pytest.mark.parametrize("target", ["nothing", "empty.yaml", "-", "foreign"])
@pytest.mark.parametrize("beside", [[], ["k8s"]], ids=["alone", "beside manifests"])
def test_a_target_without_manifests_is_wrong_use(project: Path, target: str, beside: list[str]) -> None:
    (project / "nothing").mkdir()
    (project / "empty.yaml").write_text("# nothing\n---\n")
    (project / "foreign").mkdir()
    (project / "foreign" / "values.yaml").write_text("replicas: 2\n")
    done = gpupool("check", target, *beside, folder=project, text="")
    assert (done.returncode, done.stdout) == (2, "")
    said = "standard input" if target == "-" else target
    assert done.stderr == f"{said}: nothing to check; name files or folders with manifests\n"


def test_an_empty_target_is_wrong_use(project: Path) -> None:
    done = gpupool("check", "", folder=project)
    assert done.returncode == 2
    assert "gpupool policy check '': the last argument is empty" in done.stderr


def test_policies_alone_are_compiled(project: Path) -> None:
    (project / "guards").mkdir()
    (project / "guards" / "owners.yaml").write_text(POLICY)
    done = gpupool("check", "guards", folder=project)
    assert done.returncode == 0
    assert done.stdout.startswith("passed: 0 objects; 1 policy compiles (")
    assert json.loads(gpupool("check", "guards", "-o", "json", folder=project).stdout)["findings"] == []
    (project / "guards" / "more.yaml").write_text(POLICY.replace("owners", "more"))
    assert "passed: 0 objects; 2 policies compile (" in gpupool("check", "guards", folder=project).stdout
    (project / "guards" / "more.yaml").write_text(POLICY.replace("owners", "more").replace("!= ''", "!="))
    assert gpupool("check", "guards", folder=project).returncode == 1


def test_a_folder_of_policies_that_holds_none_is_wrong_use(project: Path) -> None:
    (project / "given").mkdir()
    (project / "given" / "namespace.yaml").write_text(NAMESPACE)
    done = gpupool("check", "k8s", "--policies", "given", folder=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("no ValidatingAdmissionPolicy in given; ")
    assert gpupool("check", "homelab", "k8s", "--policies", "given", folder=project).returncode == 0
    (project / "k8s" / "policy.yaml").write_text(POLICY)
    assert gpupool("check", "k8s", "--policies", "given", folder=project).returncode == 0
    (project / "k8s" / "policy.yaml").unlink()
    (project / "given" / "broken.yaml").write_text(BROKEN)
    done = gpupool("check", "k8s", "--policies", "given", folder=project)
    assert done.returncode == 1, "what can't be read may have been the policy"


# Where findings about an environment are


@pytest.mark.parametrize("beside", [[], ["k8s"]], ids=["alone", "beside manifests"])
def test_what_is_wrong_with_a_projects_policy_is_reported_once_and_in_its_file(
    project: Path, beside: list[str]
) -> None:
    text = "# mine\n" + POLICY.replace("variables.owner != ''", "variables.ovner != ''")
    (project / "policies" / "owners.yaml").write_text(text)
    (project / "policies" / "bound.yaml").write_text(
        POLICY.replace("owners", "bound")
        .replace("[Deny]}", "[Deny], matchResourcs: {}}")
        .replace("configmaps", "endpoints")
    )
    said = findings("homelab", *beside, folder=project)
    found = {one["code"]: one for one in said}
    assert len(said) == len(found)
    wrong, binding = found["invalid-policy"], found["invalid-binding"]
    line = text[: text.index("- expression: variables.ovner")].count("\n") + 1
    assert (wrong["file"], wrong["line"]) == ("policies/owners.yaml", line)
    assert wrong["column"] > 1
    assert binding["file"] == "policies/bound.yaml"
    assert "matchResourcs" in binding["path"] + binding["message"]


def test_a_policy_that_matched_nothing_is_named_and_is_no_finding(project: Path) -> None:
    (project / "policies" / "owners.yaml").write_text(POLICY.replace("[pods, configmaps]", "[podtemplates]"))
    answer = json.loads(gpupool("check", "homelab", "-o", "json", folder=project).stdout)
    idle = {row["name"]: row["notApplied"] for row in answer["policies"]}
    assert idle["owners"].startswith("matched no object")
    assert not any("owners" in one["object"] for one in answer["findings"])


def test_an_expired_waiver_is_reported_on_its_line(project: Path) -> None:
    path = project / "environments" / "homelab.yaml"
    waivers = (
        "policies:\n  waivers:\n"
        "  - {policy: pin-images, owner: ops, reason: later, until: 2999-01-01}\n"
        "  - policy: gpu-jobs-end\n    owner: ops\n    reason: soon\n    until: 2020-01-01\n"
    )
    text = path.read_text()
    assert "\npolicies:" not in text
    path.write_text(text + waivers)
    (finding,) = [one for one in findings("homelab", folder=project) if one["code"] == "expired-waiver"]
    lines = path.read_text().splitlines()
    assert finding["file"] == "environments/homelab.yaml"
    assert lines[finding["line"] - 1] == "    until: 2020-01-01"
    assert finding["column"] == 5


# A rendering beside its environment


def test_what_an_environment_consists_of_is_judged_once(project: Path) -> None:
    assert command.gpupool("render", "homelab", "-o", "rendered", folder=project).returncode == 0

    def objects(*targets: str) -> int:
        answer = json.loads(gpupool("check", *targets, "-o", "json", folder=project).stdout)
        return int(answer["summary"]["objects"])

    alone = objects("homelab")
    assert objects("homelab", "rendered") == alone
    assert objects("homelab", "rendered", "k8s") == alone + 1
    changed = next((project / "rendered").rglob("namespace-*.yaml"))
    changed.write_text(changed.read_text().replace("metadata:\n", "metadata:\n  generateName: x\n", 1))
    assert objects("homelab", "rendered") == alone + 1, "what differs is not the environment's"
    (project / "k8s" / "stray.yaml").write_text(UNOWNED)
    assert objects("homelab", "k8s") == alone + 2
