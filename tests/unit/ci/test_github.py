"""The GitHub workflow: what it may do, and what its steps do in a real shell on a real project."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.ci.forge import TOKEN, Forge, serve
from tests.unit.ci.project import NOWHERE, Project, needs

ROOT = Path(__file__).parents[3]
FILE = ROOT / ".github" / "workflows" / "gpupool.yaml"
CALLERS = sorted((ROOT / "ci" / "github").glob("*.yaml"))
DRY_RUN = ROOT / "ci" / "github" / "dry-run.yaml"
"""A workflow of its own, which calls nothing."""
WORKFLOW = yaml.safe_load(FILE.read_text(encoding="utf-8"))
INPUTS = WORKFLOW[True]["workflow_call"]["inputs"]  # YAML 1.1 reads `on` as true
BOT = "github-actions[bot]"


def steps(job: str) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in WORKFLOW["jobs"][job]["steps"]}


def value(text: object, **given: str) -> str:
    """An `env` value with its expressions worked out, for a pull request with number 7 and default inputs."""
    known = {f"inputs.{name}": str(spec["default"]) for name, spec in INPUTS.items()} | {
        "github.token": TOKEN,
        "github.event.pull_request.number": "7",
        "github.event_name == 'push' && github.event.before || 'HEAD^1'": "HEAD^1",
    }
    known |= {f"inputs.{name.replace('_', '-')}": one for name, one in given.items()}
    return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: known[found[1]], str(text))


def run(
    project: Project, step: str, job: str = "check", forge: Forge | None = None, **given: str
) -> subprocess.CompletedProcess[str]:
    """Run one step as the runner would."""
    found, temp = steps(job)[step], project.folder.parent
    variables = {**WORKFLOW["jobs"][job].get("env", {}), **found.get("env", {})}
    return project.shell(
        found["run"],
        {
            "RUNNER_TEMP": str(temp),
            "GITHUB_STEP_SUMMARY": str(temp / "summary.md"),
            "GITHUB_REPOSITORY": "ml/pools",
            "GITHUB_API_URL": forge.url if forge else "",
            **{name: value(text, **given) for name, text in variables.items()},
        },
    )


@pytest.fixture
def forge() -> Iterator[Forge]:
    needs("curl", "jq")
    with serve(BOT) as found:
        yield found


CHECKS = ("Install", "Validate", "Rendered files", "Policies", "Promotion", "Report")


def test_a_change_that_is_fine_passes_every_step(project: Project) -> None:
    project.write("dev", 4)
    project.render("dev")
    project.commit("dev first")
    for step in CHECKS:
        done = run(project, step)
        assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
    summary = (project.folder.parent / "summary.md").read_text()
    assert summary == (project.folder.parent / "report.md").read_text()
    assert summary.startswith(steps("comment")["Comment"]["env"]["MARKER"])
    assert "dev" in summary


@pytest.mark.parametrize(
    ("step", "replicas", "rest", "said"),
    [
        ("Validate", 1, "", "prod.yaml:8:"),
        ("Rendered files", 4, "", "rendered/dev/index.json: changed"),
        ("Policies", 8, "cost: {monthlyUsdMax: 1}\n", "::error file=environments/dev.yaml"),
        ("Promotion", 4, "", "pools.notebooks changes in dev and prod at once"),
        ("Report", 1, "", ""),
    ],
)
def test_a_wrong_change_fails_the_step_that_is_for_it(
    project: Project, step: str, replicas: int, rest: str, said: str
) -> None:
    for name in ("dev", "prod"):
        project.write(name, replicas, rest)
    project.commit("wrong")
    done = run(project, step)
    assert done.returncode == 1
    assert said in done.stdout + done.stderr


GONE = "rendered/old: it is the rendering of environments/old.yaml, which is gone; delete the folder"


@pytest.mark.parametrize("environments", ["", "dev prod"])
def test_what_is_left_of_an_environment_that_is_gone_fails(project: Project, environments: str) -> None:
    project.write("old", 8)
    project.render("old")
    assert run(project, "Rendered files", environments=environments).returncode == 0
    project.remove("old")
    done = run(project, "Rendered files", environments=environments)
    assert done.returncode == 1
    assert GONE in done.stderr
    assert run(project, "Rendered files", environments="environments/dev.yaml").returncode == 0


def test_folders_of_others_beside_the_rendered_ones_are_left_alone(project: Project) -> None:
    project.add("rendered/site/index.json", '{"pages": []}')
    project.add("rendered/charts/values.yaml", "a: 1")
    done = run(project, "Rendered files")
    assert (done.returncode, done.stderr) == (0, "")


def test_named_environments_alone_are_checked(project: Project) -> None:
    project.write("prod", 1)
    project.commit("prod is broken")
    assert run(project, "Validate", environments="dev").returncode == 0
    assert run(project, "Policies", environments="dev").returncode == 0
    assert run(project, "Validate", environments="dev prod").returncode == 1


def test_a_branch_that_is_new_has_nothing_before_it(project: Project) -> None:
    project.commit("nothing")
    zeros = {"BASE": "0" * 40, "ENVIRONMENTS": ""}
    assert project.shell(steps("check")["Promotion"]["run"], zeros).returncode == 0


def test_findings_for_code_scanning_do_not_fail_twice(project: Project) -> None:
    project.write("dev", 8, "cost: {monthlyUsdMax: 1}\n")
    assert run(project, "Findings for code scanning").returncode == 0
    assert '"version": "2.1.0"' in (project.folder.parent / "gpupool.sarif").read_text()


def comment(project: Project, forge: Forge, report: str) -> subprocess.CompletedProcess[str]:
    marker = steps("comment")["Comment"]["env"]["MARKER"]
    (project.folder.parent / "report.md").write_text(f"{marker}\n{report}\n")
    return run(project, "Comment", "comment", forge)


def test_the_report_is_one_comment_that_is_kept_up_to_date(project: Project, forge: Forge) -> None:
    marker = steps("comment")["Comment"]["env"]["MARKER"]
    forge.write("mallory", f"{marker}\nnot ours")
    for number in range(150):
        forge.write("reviewer", f"remark {number}")
    assert "written https://" in comment(project, forge, '`$(id)` "first" \\n é').stdout
    assert "updated https://" in comment(project, forge, "second").stdout
    assert forge.writes == ["POST", "PATCH"]
    assert [one.body for one in forge.ours()] == [f"{marker}\nsecond\n"]
    assert forge.comments[0].body.endswith("not ours")
    assert comment(project, forge, '`$(id)` "first" \\n é').returncode == 0
    assert forge.ours()[0].body == f'{marker}\n`$(id)` "first" \\n é\n'


def test_a_report_that_is_too_long_is_cut(project: Project, forge: Forge) -> None:
    assert comment(project, forge, "é" * 70_000).returncode == 0
    body = forge.ours()[0].body
    assert len(body) < 65_536
    assert body.endswith("*Cut here; the run has all of it.*")


def test_a_forge_that_refuses_fails_the_step_and_the_token_is_not_shown(
    project: Project, forge: Forge
) -> None:
    forge.url += "/elsewhere"
    done = comment(project, forge, "x")
    assert done.returncode != 0
    assert "404" in done.stderr
    assert TOKEN not in done.stdout + done.stderr


def test_no_expression_goes_into_a_script() -> None:
    for job in WORKFLOW["jobs"]:
        for step in steps(job).values():
            assert "${{" not in step.get("run", "")


def test_rights_are_the_least() -> None:
    assert WORKFLOW["permissions"] == {}
    jobs = {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()}
    assert jobs == {"check": {"contents": "read"}, "comment": {"pull-requests": "write"}}
    checkout = steps("check")["Check out all of the history"]["with"]
    assert checkout == {"fetch-depth": 0, "persist-credentials": False}
    assert "head.repo.full_name == github.repository" in WORKFLOW["jobs"]["comment"]["if"]
    for step in steps("check").values():
        assert "token" not in str(step).lower()


@pytest.mark.parametrize("path", [FILE, *CALLERS], ids=lambda path: path.name)
def test_actions_are_pinned_by_digest_with_their_version(path: Path) -> None:
    used = [line for line in path.read_text(encoding="utf-8").splitlines() if " uses: " in line]
    assert used
    for line in used:
        own = line.endswith("uses: ./.github/workflows/gpupool.yaml")
        assert own or re.search(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", sorted(set(CALLERS) - {DRY_RUN}), ids=lambda path: path.name)
def test_the_examples_give_what_the_workflow_asks_for(path: Path) -> None:
    job = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]["gpupool"]
    assert set(job["with"]) <= set(INPUTS)
    asked = {name: right for one in WORKFLOW["jobs"].values() for name, right in one["permissions"].items()}
    assert job["permissions"] == asked


def test_every_check_runs_though_another_has_failed() -> None:
    for name in CHECKS[1:]:
        assert steps("check")[name]["if"].startswith("${{ !cancelled() && steps.install.outcome == 'success'")


def test_a_dry_run_asks_the_cluster_with_the_secret_and_leaves_no_file(project: Project) -> None:
    project.write_for_elsewhere("dev")
    project.add("rendered/site/index.json", "{}")
    (step,) = (s for s in yaml.safe_load(DRY_RUN.read_text())["jobs"]["dry-run"]["steps"] if "env" in s)
    variables = {"RUNNER_TEMP": str(project.folder.parent), "GPUPOOL_KUBECONFIG": NOWHERE}
    done = project.shell(step["run"], variables)
    assert done.returncode == 1
    assert "the cluster at https://127.0.0.1:1 (context nowhere) does not answer" in done.stderr
    assert "site" not in done.stderr
    assert not (project.folder.parent / "kubeconfig").exists()


def test_scripts_are_clean() -> None:
    needs("shellcheck")
    for job in WORKFLOW["jobs"]:
        for step in steps(job).values():
            if "run" in step:
                command = ["shellcheck", "--shell=bash", "-"]
                done = subprocess.run(command, input=step["run"], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{step['name']}\n{done.stdout}"
