"""`gpupool promote` as a user and a CI run it, in real Git repositories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import gpupool

ORDER = ("dev", "staging", "prod")
BODY = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {{name: {name}}}   # {name}
cluster: {{platform: local, name: ml-{name}}}
pools:
  - name: notebooks
    gpu: t4
    sharing: {{mode: time-slicing, replicas: {replicas}}}
    nodes: {{instanceTypes: [g4dn.xlarge], max: {size}}}   # sized for {name}
{rest}"""


class Project:
    """A repository with three environments; `main` is what has been merged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> None:
        (self.folder / "environments").mkdir()
        for size, name in enumerate(ORDER, 1):
            self.write(name, 8, size=size)
        self.git("init", "-q", "-b", "main")
        self.commit("start")

    def git(self, *arguments: str) -> str:
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        names = {
            f"GIT_{who}_{what}": "t@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env={**os.environ, **settings, **names},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout

    def commit(self, subject: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def path(self, name: str) -> Path:
        return self.folder / "environments" / f"{name}.yaml"

    def write(self, name: str, replicas: int, rest: str = "", size: int = 1, **promotion: str) -> None:
        origin = {"staging": "dev", "prod": "staging"}.get(name)
        fields = "".join(f", {key}: {value}" for key, value in promotion.items())
        rest += f"promotion: {{from: {origin}{fields}}}\n" if origin else ""
        self.path(name).write_text(BODY.format(name=name, replicas=replicas, size=size, rest=rest))

    def run(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = gpupool("promote", *arguments, folder=self.folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`started`: eight replicas everywhere. `reviewed`: main has had 16 everywhere, then 8 everywhere, then 4
    in dev; a branch `change` is open."""
    folder = tmp_path_factory.mktemp("projects")
    project = Project(folder / "started")
    project.folder.mkdir()
    project.start()
    shutil.copytree(folder / "started", folder / "reviewed")
    project = Project(folder / "reviewed")
    for replicas in (16, 8):
        for name in ORDER:
            project.write(name, replicas)
            project.commit(f"{replicas} in {name}")
    project.write("dev", 4)
    project.commit("4 in dev")
    project.git("checkout", "-q", "-b", "change")
    return folder


@pytest.fixture
def project(templates: Path, tmp_path: Path) -> Project:
    shutil.copytree(templates / "started", tmp_path / "project")
    return Project(tmp_path / "project")


@pytest.fixture
def reviewed(templates: Path, tmp_path: Path) -> Project:
    shutil.copytree(templates / "reviewed", tmp_path / "project")
    return Project(tmp_path / "project")


def test_shows_then_writes_then_has_nothing_to_do(project: Project) -> None:
    project.write("dev", 4)
    before = project.path("staging").read_text()
    shown = project.run("dev", "staging")
    assert "--- a/environments/staging.yaml\n+++ b/environments/staging.yaml\n" in shown.stdout
    assert (
        "\n-    sharing: {mode: time-slicing, replicas: 8}\n+    sharing: {mode: time-slicing, replicas: 4}\n"
        in shown.stdout
    )
    assert "1 change from dev; use --write to write them" in shown.stdout
    assert project.path("staging").read_text() == before
    project.path("staging").chmod(0o640)
    assert "1 change from dev written" in project.run("dev", "staging", "--write").stdout
    assert project.path("staging").read_text() == before.replace("replicas: 8", "replicas: 4")
    assert project.path("staging").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in project.path("dev").parent.iterdir() if path.name.startswith(".")] == []
    assert "nothing to promote" in project.run("dev", "staging", "--write").stdout


def test_json(project: Project) -> None:
    project.write("dev", 4)
    answer = json.loads(project.run("dev", "staging", "--format", "json").stdout)
    assert list(answer) == ["source", "target", "written", "changes", "new", "left", "notes", "text"]
    path = "pools.notebooks.sharing.replicas"
    assert answer["changes"] == [{"part": "pools.notebooks", "path": path, "from": 8, "to": 4}]
    assert answer["written"] is False
    assert json.loads(project.run("dev", "staging", "--write", "--format", "json").stdout)["written"] is True


def test_no_environment_is_skipped_unless_asked_to(project: Project) -> None:
    project.write("dev", 4)
    refused = project.run("dev", "prod", "--write", code=1)
    assert (
        "would skip staging: dev -> staging -> prod; start with: gpupool promote dev staging"
        in refused.stderr
    )
    assert "replicas: 8" in project.path("prod").read_text()
    project.run("dev", "prod", "--write", "--skip")
    assert "replicas: 4" in project.path("prod").read_text()


def test_a_source_that_is_ahead_is_not_promoted_unless_asked_to(project: Project) -> None:
    project.write("staging", 4)
    refused = project.run("staging", "prod", code=1)
    assert "staging is ahead of dev in pools.notebooks" in refused.stderr
    assert "1 change from staging" in project.run("staging", "prod", "--ahead").stdout


def test_a_source_that_is_behind_is_promoted(project: Project) -> None:
    project.write("dev", 4)
    project.commit("dev has four")
    project.write("dev", 2)
    project.write("staging", 4)
    assert "1 change from staging" in project.run("staging", "prod").stdout


def test_what_would_not_be_valid_is_shown_and_not_written(project: Project) -> None:
    grant = "tenants:\n  - {name: a, namespace: team-a, pools: {notebooks: {slices: 8}}}\n"
    project.write("staging", 8, grant)
    project.write("dev", 4)
    before = project.path("staging").read_text()
    refused = project.run("dev", "staging", "--write", code=1)
    assert "+    sharing: {mode: time-slicing, replicas: 4}" in refused.stdout
    assert "environments/staging.yaml:11:" in refused.stderr
    assert "8 x nvidia.com/gpu of pool 'notebooks' exceed its maximum of 4" in refused.stderr
    assert project.path("staging").read_text() == before


def test_only_some_and_new_sizes(project: Project) -> None:
    more = "  - {name: extra, gpu: t4, nodes: {instanceTypes: [g4dn.xlarge], max: 9}}\nqueue: {retries: 7}\n"
    project.write("dev", 4, more)
    project.run("dev", "staging", "--only", "extra", "--max", "2", "--write")
    text = project.path("staging").read_text()
    assert "{name: extra, gpu: t4, nodes: {instanceTypes: [g4dn.xlarge], max: 2}}" in text
    assert "replicas: 8" in text
    assert "retries" not in text
    assert "neither a pool nor a section" in project.run("dev", "staging", "--only", "extar", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("dev",), ("dev", "nowhere"), ("dev", "dev"), ("dev", "environments/dev.yaml"),
     ("dev", "staging", "--base", "main"), ("--check", "--write"),
     ("--check", "--base", "nowhere"), ("--check", "--base=--output=x"), ("dev", "staging", "--max=0")],
)  # fmt: skip
def test_wrong_use(project: Project, arguments: tuple[str, ...]) -> None:
    project.run(*arguments, code=2)


# --check

Change = Callable[[Project], None]


def both(project: Project) -> None:
    project.write("staging", 4)
    project.write("prod", 4)


EXTRA = "  - {name: x, gpu: t4, nodes: {instanceTypes: [g4dn.xlarge], max: 1}}\n"
ENDED = "[{path: pools.notebooks, reason: fire, until: 2020-01-01}]"


PASSING: dict[str, Change] = {
    "nothing": lambda project: None,
    "dev-first": lambda project: project.write("dev", 2),
    "its-turn": lambda project: project.write("staging", 4),
    "sizes": lambda project: project.write("prod", 8, size=40),
    "behind": lambda project: project.path("dev").write_text(
        project.path("dev").read_text() + "queue: {retries: 1}\n"
    ),
    "kept": lambda project: project.write("prod", 2, keep="[pools.notebooks.sharing]"),
    "excepted": lambda project: project.write(
        "prod", 2, exceptions="[{path: pools.notebooks, reason: fire, owner: ops, until: 2999-01-01}]"
    ),
    "back": lambda project: project.write("staging", 16),
}
FAILING: dict[str, tuple[Change, str]] = {
    "skips": (lambda project: project.write("prod", 4), "prod.yaml:6:5: pools[0]: pools.notebooks is ahead"),
    "never-anywhere": (lambda project: project.write("prod", 2), "pools.notebooks is ahead of staging"),
    "at-once": (both, "pools.notebooks changes in staging and prod at once"),
    "new-pool": (
        lambda project: project.write("prod", 8, EXTRA),
        "prod.yaml:10:5: pools[1]: pools.x is ahead of staging, which never had this: pools.x: (none) -> ",
    ),
    "version": (
        lambda project: project.write("prod", 8, "karpenter: {version: 1.13.0}\n"),
        "karpenter is ahead of staging, which never had this: karpenter.version: 1.14.1 -> 1.13.0",
    ),
    "exception-over": (
        lambda project: project.write("prod", 2, exceptions=ENDED),
        "pools.notebooks is ahead of staging",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", list(PASSING))
def test_changes_that_pass(reviewed: Project, change: str) -> None:
    PASSING[change](reviewed)
    reviewed.commit(change)
    assert "prod: passed" in reviewed.run("--check", "--base", "main").stdout


@pytest.mark.parametrize("change", list(FAILING))
def test_changes_that_fail(reviewed: Project, change: str) -> None:
    make, said = FAILING[change]
    make(reviewed)
    reviewed.commit(change)
    failed = reviewed.run("--check", "--base", "main", code=1)
    assert said in failed.stderr
    assert "bring it to staging first" in failed.stderr
    assert "prod: passed" not in failed.stdout


def test_what_was_ahead_before_is_reported_and_does_not_fail(reviewed: Project) -> None:
    reviewed.git("checkout", "-q", "main")
    reviewed.write("prod", 2)
    reviewed.commit("by hand")
    reviewed.git("checkout", "-q", "-B", "change")
    reviewed.write("staging", 4)
    reviewed.commit("its turn")
    passed = reviewed.run("--check", "--base", "main")
    assert "pools.notebooks is ahead of staging" in passed.stdout
    assert "(not by this change)" in passed.stdout
    assert "pools.notebooks is ahead" in reviewed.run("--check", code=1).stderr
    assert "prod" not in reviewed.run("--check", "staging").stdout
    reviewed.git("checkout", "-q", "main")
    reviewed.write("prod", 8)
    reviewed.commit("fixed, after the branch was made")
    reviewed.git("checkout", "-q", "change")
    assert "(not by this change)" in reviewed.run("--check", "--base", "main").stdout


def test_a_branch_is_judged_by_what_was_merged_even_when_main_went_on(reviewed: Project) -> None:
    reviewed.write("prod", 4)
    reviewed.commit("too early")
    reviewed.run("--check", "--base", "main", code=1)
    reviewed.git("checkout", "-q", "main")
    reviewed.write("staging", 4)
    reviewed.commit("4 in staging")
    reviewed.git("checkout", "-q", "change")
    reviewed.run("--check", "--base", "main")


def test_history_goes_on_where_files_are_moved(reviewed: Project) -> None:
    """To another folder, and then to another name; before the move the source had 16."""
    reviewed.git("checkout", "-q", "main")
    (reviewed.folder / "infra").mkdir()
    reviewed.git("mv", "environments", "infra/")
    reviewed.commit("moved")
    reviewed.git("checkout", "-q", "-B", "change")
    reviewed.folder /= "infra"
    reviewed.write("staging", 16)
    assert "16 in dev" in reviewed.run("--check", "--base", "main").stdout
    reviewed.write("staging", 2)
    reviewed.run("--check", "--base", "main", code=1)


def test_a_source_that_is_renamed_in_the_change_keeps_its_history(reviewed: Project) -> None:
    reviewed.git("mv", "environments/dev.yaml", "environments/first.yaml")
    path = reviewed.path("first")
    path.write_text(path.read_text().replace("name: dev}", "name: first}"))
    reviewed.path("staging").write_text(
        reviewed.path("staging").read_text().replace("from: dev", "from: first")
    )
    for merged in (False, True):
        said = reviewed.run("--check", "--base", "main").stdout
        assert "staging: passed, not ahead of first" in said, merged
        reviewed.commit("renamed")


def test_what_only_a_side_branch_had_does_not_count(reviewed: Project) -> None:
    reviewed.git("checkout", "-q", "main")
    reviewed.git("checkout", "-q", "-b", "try")
    for replicas in (2, 5):
        reviewed.write("dev", replicas)
        reviewed.write("prod", 8)
        reviewed.path("prod").write_text(reviewed.path("prod").read_text() + f"# {replicas}\n")
        reviewed.commit(f"try {replicas}")
    reviewed.git("checkout", "-q", "main")
    reviewed.git("merge", "-q", "--no-ff", "-m", "merge", "try")
    reviewed.git("checkout", "-q", "-B", "change")
    reviewed.write("staging", 2)
    reviewed.commit("2 was never in dev on main")
    reviewed.run("--check", "--base", "main", code=1)
    reviewed.write("staging", 5)
    reviewed.run("--check", "--base", "main")


def test_reviewers_see_exceptions_and_of_what_is_kept_from_now_on(reviewed: Project) -> None:
    PASSING["kept"](reviewed)
    said = reviewed.run("--check", "--base", "main").stdout
    assert "prod: note: this change adds pools.notebooks.sharing to promotion.keep" in said
    PASSING["excepted"](reviewed)
    said = reviewed.run("--check", "--base", "main").stdout
    assert "prod: note: pools.notebooks may differ until 2999-01-01: fire, ops" in said
    FAILING["exception-over"][0](reviewed)
    said = reviewed.run("--check", "--base", "main", code=1).stdout
    assert "prod: note: the exception for pools.notebooks ended on 2020-01-01; remove it" in said


def test_reviewers_see_a_pool_that_goes_where_its_source_has_it(reviewed: Project) -> None:
    text = reviewed.path("prod").read_text()
    pool = text[text.index("pools:") : text.index("promotion:")]
    reviewed.path("prod").write_text(text.replace(pool, ""))
    said = reviewed.run("--check", "--base", "main").stdout
    assert "prod: note: this change removes pools.notebooks, which staging has" in said


def test_a_new_environment_may_come_as_its_source_is_in_the_same_change(reviewed: Project) -> None:
    text = (
        reviewed.path("prod").read_text().replace("from: staging", "from: prod").replace("prod}", "edge}", 1)
    )
    reviewed.path("edge").write_text(text.replace("replicas: 8", "replicas: 16"))
    reviewed.run("--check", "edge", "--base", "main")
    both(reviewed)
    reviewed.path("edge").write_text(text.replace("replicas: 8", "replicas: 4"))
    reviewed.run("--check", "edge", "--base", "main")
    reviewed.path("edge").write_text(text.replace("replicas: 8", "replicas: 3"))
    reviewed.run("--check", "edge", "--base", "main", code=1)


def without_promotion(project: Project, name: str) -> str:
    text = project.path(name).read_text()
    return text.partition("promotion:")[0]


def test_a_change_can_not_take_its_own_gate_away(reviewed: Project) -> None:
    reviewed.write("prod", 4)
    reviewed.path("prod").write_text(without_promotion(reviewed, "prod"))
    refused = reviewed.run("--check", "--base", "main", code=1)
    assert "prod.yaml:1:1: promotion: this change removes promotion.from (staging)" in refused.stderr
    assert "remove it in a separate pull request" in refused.stderr
    assert "pools.notebooks is ahead of staging" in refused.stderr
    assert "prod: passed" not in refused.stdout
    answer = json.loads(reviewed.run("--check", "prod", "--base", "main", "--format", "json", code=1).stdout)
    assert answer["environments"][0]["gate"]
    reviewed.path("prod").write_text(without_promotion(reviewed, "prod") + "promotion: {keep: [pools]}\n")
    assert "removes promotion.from" in reviewed.run("--check", "--base", "main", code=1).stderr


def test_what_staging_has_does_not_excuse_a_gate_that_goes(reviewed: Project) -> None:
    reviewed.write("prod", 16)
    reviewed.path("prod").write_text(without_promotion(reviewed, "prod"))
    refused = reviewed.run("--check", "--base", "main", code=1)
    assert "and also changes prod" in refused.stderr
    assert "is ahead" not in refused.stderr


@pytest.mark.parametrize("source_too", [False, True])
def test_a_gate_goes_by_a_change_of_its_own(reviewed: Project, source_too: bool) -> None:
    reviewed.path("prod").write_text(without_promotion(reviewed, "prod") + "# on its own from now on\n")
    if source_too:
        reviewed.path("staging").unlink()
    said = reviewed.run("--check", "--base", "main").stdout
    assert "prod: note: this change removes promotion.from: prod is no longer compared with staging" in said


def test_another_source_does_not_free_a_change_of_the_one_it_had(reviewed: Project) -> None:
    reviewed.write("prod", 4)
    text = reviewed.path("prod").read_text()
    reviewed.path("prod").write_text(text.replace("from: staging", "from: dev"))
    assert "pools.notebooks is ahead of staging" in reviewed.run("--check", "--base", "main", code=1).stderr
    reviewed.write("prod", 8)
    text = reviewed.path("prod").read_text()
    reviewed.path("prod").write_text(text.replace("from: staging", "from: dev"))
    said = reviewed.run("--check", "--base", "main").stdout
    assert "prod: note: this change sets the promotion source to dev instead of staging" in said


def test_priorities_are_behind(project: Project) -> None:
    more = "priorities:\n  - {name: usual, value: 1000, level: low}\n"
    project.write("dev", 8, more)
    said = project.run("--check").stdout
    assert "staging: priorities are behind dev" in said
    assert "staging: policies" not in said


def test_check_json(reviewed: Project) -> None:
    FAILING["skips"][0](reviewed)
    answer = json.loads(reviewed.run("--check", "--base", "main", "--format", "json", code=1).stdout)
    assert answer["passed"] is False
    prod, staging = answer["environments"]
    assert (prod["environment"], prod["from"], prod["passed"]) == ("prod", "staging", False)
    assert (staging["environment"], staging["passed"]) == ("staging", True)
    part = next(one for one in prod["parts"] if one["part"] == "pools.notebooks")
    assert (part["status"], part["changed"]) == ("ahead", True)
    behind = next(one for one in staging["parts"] if one["part"] == "pools.notebooks")
    assert (behind["status"], behind["changed"]) == ("behind", False)
    assert "(8 in dev)" in behind["since"]


def test_a_shallow_clone_says_that_it_can_not_know(reviewed: Project) -> None:
    reviewed.write("staging", 16)
    reviewed.commit("back")
    reviewed.run("--check", "--base", "main")
    reviewed.git("clone", "-q", "--depth", "1", f"file://{reviewed.folder}", "shallow")
    clone = Project(reviewed.folder / "shallow")
    refused = clone.run("--check", "staging", code=1)
    assert "may be ahead, but this clone is shallow; fetch the full history" in refused.stderr


def test_without_git_only_the_files_count(project: Project) -> None:
    (project.folder / ".git").rename(project.folder / "not-git")
    project.run("--check")
    project.write("staging", 4)
    assert "pools.notebooks is ahead of dev" in project.run("--check", code=1).stderr
    assert "without Git, it is unknown which one is ahead" in project.run("staging", "prod").stderr
    project.run("--check", "--base", "main", code=2)
