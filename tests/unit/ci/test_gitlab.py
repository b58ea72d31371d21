"""The GitLab template: what it may do, and what its scripts do in real shells on a real project."""

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
FILE = ROOT / "ci" / "gitlab" / "gpupool.yaml"
EXAMPLE = ROOT / "ci" / "gitlab" / "example.gitlab-ci.yml"
HEAD, JOBS = yaml.safe_load_all(FILE.read_text(encoding="utf-8"))
INPUTS = {name: str(spec["default"]) for name, spec in HEAD["spec"]["inputs"].items()}
CHECK, COMMENT = JOBS["gpupool:check"], JOBS["gpupool:comment"]
BOT = "project_5_bot"
SHELLS = {"bash": ("bash", "-eo", "pipefail"), "sh": ("dash", "-e")}
"""As the runner starts them: bash where the image has it, else sh."""


def interpolated(text: object, **given: str) -> str:
    known = INPUTS | {name.replace("_", "-"): one for name, one in given.items()}
    return re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: known[found[1]], str(text))


def run(
    project: Project, job: dict[str, Any], shell: str = "bash", forge: Forge | None = None, **given: str
) -> subprocess.CompletedProcess[str]:
    """Run a job as the runner would: all of its lines in one shell."""
    needs(SHELLS[shell][0])
    script = "\n".join([*job.get("before_script", ()), *job["script"]])
    variables = {name: interpolated(value, **given) for name, value in job["variables"].items()}
    gitlab = {
        "CI_COMMIT_BEFORE_SHA": "0" * 40,
        "CI_PROJECT_ID": "5",
        "CI_API_V4_URL": forge.url if forge else "",
        "GPUPOOL_TOKEN": TOKEN if forge else "",
    }
    return project.shell(script, gitlab | variables, SHELLS[shell])


@pytest.fixture
def forge() -> Iterator[Forge]:
    needs("curl")
    with serve(BOT) as found:
        yield found


def test_a_change_that_is_fine_passes(project: Project) -> None:
    project.write("dev", 4)
    project.render("dev")
    project.commit("dev first")
    done = run(project, CHECK, "sh")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rendered/prod: no such folder" in done.stdout
    marker = COMMENT["variables"]["MARKER"]
    assert (project.folder / "gpupool-report.md").read_text().startswith(marker)
    assert (project.folder / "gpupool-policies.xml").read_text().startswith("<?xml")


def test_one_run_reports_everything_that_is_wrong(project: Project) -> None:
    project.write("dev", 4)
    project.write("prod", 4, "cost: {monthlyUsdMax: 1}\n")
    project.commit("wrong in three ways")
    done = run(project, CHECK, environments="dev prod")
    assert done.returncode == 1
    assert "rendered/dev/index.json: changed" in done.stderr
    assert "pools.notebooks changes in dev and prod at once" in done.stderr
    assert "denied" in done.stdout
    assert "<failure" in (project.folder / "gpupool-policies.xml").read_text()
    assert (project.folder / "gpupool-report.md").is_file()


def test_a_dry_run_asks_the_cluster(project: Project) -> None:
    project.write_for_elsewhere("dev")
    project.add("kubeconfig", NOWHERE)
    job = {**CHECK, **JOBS["gpupool:dry-run"]}
    job["before_script"] = [*job["before_script"], "GPUPOOL_KUBECONFIG=$PWD/kubeconfig"]
    done = run(project, job, "sh")
    assert done.returncode == 1
    assert "the cluster at https://127.0.0.1:1 (context nowhere) does not answer" in done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_left_of_an_environment_that_is_gone_fails(project: Project, shell: str) -> None:
    project.write("old", 8)
    project.render("old")
    project.add("rendered/site/index.json", '{"pages": []}')
    project.commit("old")
    assert run(project, CHECK, shell).returncode == 0
    project.remove("old")
    project.commit("no old any more")
    done = run(project, CHECK, shell)
    assert done.returncode == 1
    reported = "rendered/old: it is the rendering of environments/old.yaml, which is gone; delete the folder"
    assert reported in done.stderr
    assert "rendered/site" not in done.stderr
    assert run(project, CHECK, shell, rendered="").returncode == 0


def with_report(forge: Forge, report: bytes | None) -> None:
    """A merge request whose check has left this report, and one that has had no pipeline yet."""
    forge.merge_requests = {
        "/projects/5/merge_requests": [{"iid": 8}, {"iid": 7}],
        "/projects/5/merge_requests/8": {"head_pipeline": None},
        "/projects/5/merge_requests/7": {"head_pipeline": {"id": 70}},
        "/projects/5/pipelines/70/jobs": [{"id": 9, "name": "other"}, {"id": 700, "name": "gpupool:check"}],
    }
    if report is not None:
        forge.merge_requests["/projects/5/jobs/700/artifacts/gpupool-report.md"] = report


@pytest.mark.parametrize("shell", list(SHELLS))
def test_the_report_is_one_note_that_is_kept_up_to_date(project: Project, forge: Forge, shell: str) -> None:
    marker = COMMENT["variables"]["MARKER"]
    forge.write("mallory", f"{marker}\nnot ours")
    for number in range(150):
        forge.write("reviewer", f"remark {number}")
    for text in ("first & 50 % + é\n", '`$(id)` "second" = \\n\n'):
        with_report(forge, f"{marker}\n{text}".encode())
        done = run(project, COMMENT, shell, forge)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [one.body for one in forge.ours()] == [f"{marker}\n{text}"]
        assert TOKEN not in done.stdout + done.stderr
    assert forge.writes == ["POST", "PUT"]
    assert forge.comments[0].body.endswith("not ours")


@pytest.mark.parametrize("shell", list(SHELLS))
def test_a_report_is_hostile_text(project: Project, forge: Forge, shell: str) -> None:
    """GitLab runs a note's lines that begin with a slash, with the rights of who wrote the note."""
    with_report(forge, b"/approve\n  /merge\n> /close\nenvironments/dev.yaml\n\xff" + b"x" * 2_000_000)
    done = run(project, COMMENT, shell, forge)
    assert done.returncode == 0, done.stdout + done.stderr
    (note,) = forge.ours()
    assert note.body.startswith(
        f"{COMMENT['variables']['MARKER']}\n&#47;approve\n  &#47;merge\n> &#47;close\nenvironments/dev.yaml"
    )
    assert len(note.body) < 1_000_000


def test_no_report_is_no_failure_and_a_refusal_is_one(project: Project, forge: Forge) -> None:
    with_report(forge, None)
    assert "there is no report" in run(project, COMMENT, forge=forge).stdout
    forge.url += "/elsewhere"
    assert run(project, COMMENT, forge=forge).returncode != 0
    assert not forge.writes


def test_no_check_that_fails_is_passed_over() -> None:
    lines = [line.strip() for text in CHECK["script"] for line in text.splitlines()]
    checks = [line for line in lines if line.startswith("gpupool ")]
    assert len(checks) == 6
    assert all(line.endswith("|| failed=1") for line in checks)
    assert CHECK["script"][-1] == 'exit "$failed"'


def test_inputs_go_into_variables_and_never_into_scripts() -> None:
    for job in JOBS.values():
        for line in [*job.get("before_script", ()), *job["script"]]:
            assert "$[[" not in line


def test_history_is_whole_and_the_note_needs_no_checkout() -> None:
    assert CHECK["variables"]["GIT_DEPTH"] == "0"
    assert COMMENT["variables"]["GIT_STRATEGY"] == "none"


def test_the_example_gives_inputs_that_there_are() -> None:
    (include,) = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["include"]
    assert (ROOT / include["local"].lstrip("/")).is_file()
    assert set(include["inputs"]) <= set(INPUTS)


def test_scripts_are_clean() -> None:
    needs("shellcheck")
    for name, job in JOBS.items():
        script = "\n".join([*job.get("before_script", ()), *job["script"]])
        # SC2086: names of environments are to be split. SC2154: variables of GitLab's.
        command = ["shellcheck", "--shell=dash", "--exclude=SC2086,SC2154", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}\n{done.stdout}"
