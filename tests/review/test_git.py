"""A branch under review starts no program: repositories that it embeds, configuration that it brings, and
what the caller's variables say."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.findings import UsageError
from gpupool.review import git as git_module
from gpupool.review.git import NoRepositoryError, Repository
from gpupool.review.promote.git_history import History
from gpupool.review.report.git_states import snapshots

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {
    **{name: text for name, text in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
MARK = "started"


def git(folder: Path, *arguments: str, check: bool = True, given: str = "") -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=PLAIN, check=check)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A clone with the branch of a pull request checked out, and a file in it that git has not looked at."""
    folder = tmp_path / "project"
    (folder / "environments").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "environments" / "dev.yaml").write_text("dev 1\n" * 20)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "base")
    git(folder, "checkout", "-q", "-b", "change")
    return folder


def program(project: Path) -> str:
    """A program that leaves a mark, and answers nothing."""
    path = project.parent / "program"
    path.write_text(f"#!/bin/sh\ntouch {project.parent / MARK}\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def review(project: Path, hostile: Callable[[], object] = lambda: None) -> None:
    """All that gpupool asks git, of a clone that has changed and renamed files. `hostile` is called when the
    last command of the test's own is done."""
    folder = project / "environments"
    git(project, "mv", "environments/dev.yaml", "environments/test.yaml")
    git(project, "commit", "-q", "-m", "rename")
    (folder / "test.yaml").write_text("dev 1\n" * 20 + "dev 2\n")
    os.utime(folder / "test.yaml", (1_000_000_000, 1_000_000_000))
    hostile()
    for head in (None, "change"):
        with snapshots(folder, "main", head, merge_base=True) as (old, new):
            assert (set(old.environments), set(new.environments)) == ({"dev"}, {"test"})
    history = History(folder)
    versions = list(history.versions(history.commit("change"), folder / "test.yaml"))
    assert [version.content for version in versions] == [b"dev 1\n" * 20] * 2
    assert history.content(history.fork(history.commit("main")), folder / "test.yaml") == b"dev 1\n" * 20
    assert not (project.parent / MARK).exists()


def embed(project: Path, place: str, config: str) -> None:
    """What git takes for a repository, at a place of the branch."""
    folder = project / place
    (folder / "objects" / "info").mkdir(parents=True)
    (folder / "refs" / "heads").mkdir(parents=True)
    (folder / "refs" / "heads" / "main").write_text(git(project, "rev-parse", "main") + "\n")
    (folder / "objects" / "info" / "alternates").write_text(f"{project}/.git/objects\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(f"[core]\n\trepositoryformatversion = 0\n{config}")


@pytest.mark.parametrize("bare", ["true", "false\n\tworktree = ."])
@pytest.mark.parametrize("key", ["fsmonitor", "hooksPath", "pager", "sshCommand", "alternateRefsCommand"])
@pytest.mark.parametrize("place", ["environments", "."])
def test_a_repository_that_the_branch_embeds(project: Path, place: str, key: str, bare: str) -> None:
    embed(project, place, f"\tbare = {bare}\n\t{key} = {program(project)}\n")
    git(project, "add", "-A", "-f")
    git(project, "commit", "-q", "-m", "docs")
    review(project)


SETTINGS: dict[str, str] = {
    "fsmonitor": "[core]\n fsmonitor = {}\n",
    "hooks": "[core]\n hooksPath = hooks\n",
    "pager": "[core]\n pager = {0}\n[pager]\n log = {0}\n diff-tree = {0}\n",
    "external diff": "[diff]\n external = {}\n",
    "diff of a driver": '[diff "own"]\n command = {}\n',
    "textconv": '[diff "own"]\n textconv = {}\n',
    "clean": '[filter "own"]\n clean = {}\n required = true\n',
    "process": '[filter "own"]\n process = {}\n required = true\n',
    "smudge": '[filter "own"]\n smudge = {}\n',
    "aliases": "[alias]\n log = !{0}\n rev-parse = !{0}\n cat-file = !{0}\n",
    "signatures": "[log]\n showSignature = true\n[gpg]\n program = {}\n",
    "password": "[core]\n askPass = {}\n",
    "credentials": "[credential]\n helper = {}\n",
    "ssh": "[core]\n sshCommand = {}\n",
    "attributes elsewhere": '[core]\n attributesFile = gitattributes\n[diff "own"]\n textconv = {}\n',
    "order of a diff": "[diff]\n orderFile = fifo\n",
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("place", ["include", "worktree"])
def test_configuration_that_the_branch_brings(project: Path, name: str, place: str) -> None:
    """By an `include.path` that the owner of the clone set, the worst case, or in a linked worktree."""
    text = SETTINGS[name].format(program(project))
    (project / "hooks").mkdir()
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        (project / "hooks" / hook).write_text(Path(program(project)).read_text())
        (project / "hooks" / hook).chmod(0o755)
    for attributes in (".gitattributes", "gitattributes"):
        (project / attributes).write_text("*.yaml diff=own filter=own\n")
    os.mkfifo(project / "fifo")
    if place == "include":
        (project / ".gitconfig").write_text(text)
        (project / ".git" / "info" / "exclude").write_text("fifo\n")
    git(project, "-c", "core.hooksPath=/dev/null", "add", "-A")
    git(project, "commit", "-q", "-m", "attributes")
    git_config = project / ".git" / "config"
    before = git_config.read_text()

    def hostile() -> None:
        if place == "include":
            git_config.write_text(before + "[include]\n path = ../.gitconfig\n")
        else:
            git_config.write_text(before + "[extensions]\n worktreeConfig = true\n")
            (project / ".git" / "config.worktree").write_text(text)

    review(project, hostile)


@pytest.mark.parametrize(
    "variables",
    [
        {"GIT_DIR": "environments", "GIT_WORK_TREE": "environments"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "{}"},
        {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='{}'"},
        {"GIT_EXTERNAL_DIFF": "{}"},
        {"GIT_SSH_COMMAND": "{}", "GIT_ASKPASS": "{}"},
        {"GIT_PAGER": "{}", "PAGER": "{}"},
        {"GIT_INDEX_FILE": "/nonexistent/index"},
        {"GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nonexistent"},
        {"GIT_TRACE2_EVENT": "{}.trace", "GIT_TRACE": "{}.trace"},
        {"GIT_EXEC_PATH": "/nonexistent"},
        {"GIT_NAMESPACE": "other"},
        {"GIT_CEILING_DIRECTORIES": "/"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_variables_of_the_caller_say_nothing(
    project: Path, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = program(project)
    for name, text in variables.items():
        monkeypatch.setenv(name, text.format(started))
    monkeypatch.chdir(project)
    review(project)
    assert not Path(f"{started}.trace").exists()


def test_the_callers_own_files_of_settings_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`safe.directory` is said there: another account's repository is refused until the caller trusts it."""
    if os.geteuid():
        pytest.skip("only root makes a file another account's")
    settings = project.parent / "gitconfig"
    settings.write_text("")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    os.chown(project, 65534, 65534)
    with pytest.raises(NoRepositoryError, match="dubious ownership"):
        Repository(project)
    settings.write_text(f"[safe]\n directory = {project}\n")
    assert Repository(project).commit("main")


@pytest.mark.parametrize("url", ["ext::{} %S", "ssh://{}", "file://{}"])
def test_a_partial_clone_fetches_nothing_and_says_so(project: Path, tmp_path: Path, url: str) -> None:
    git(project, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "-b", "main", project.as_uri(), "partial")
    clone = tmp_path / "partial"
    (project / "environments" / "dev.yaml").write_text("dev 2\n")
    git(project, "commit", "-qam", "newer")
    git(clone, "fetch", "-q", "origin", "change")
    commit = git(clone, "rev-parse", "FETCH_HEAD")
    git(clone, "config", "remote.origin.url", url.format(program(project)))
    git(clone, "config", "protocol.ext.allow", "always")
    git(clone, "config", "core.sshCommand", program(project))
    with (
        pytest.raises(UsageError, match="a partial clone left out"),
        snapshots(clone / "environments", "main", commit),
    ):
        pass
    history = History(clone / "environments")
    with pytest.raises(UsageError, match="a partial clone left out"):
        history.content(commit, clone / "environments" / "dev.yaml")
    assert not (tmp_path / MARK).exists()


@pytest.mark.parametrize("name", [".git", ".GIT", ".Git", "git~1", ".git "])
def test_git_checks_out_no_git_folder(project: Path, name: str) -> None:
    """What the search for `.git` rests on. Names that only other file systems take for it do no harm here."""
    blob = git(project, "hash-object", "-w", "--stdin", given="gitdir: ../hostile\n")
    inner = git(project, "mktree", given=f"100644 blob {blob}\t{name}\n")
    outer = git(project, "mktree", given=f"040000 tree {inner}\tenvironments\n")
    commit = git(project, "commit-tree", "-m", "x", outer)
    git(project, "checkout", "-q", "-f", commit, check=False)
    assert not (project / "environments" / ".git").exists()
    assert Repository(project / "environments").run("rev-parse", "--git-dir").stdout.strip() == (
        f"{project}/.git".encode()
    )


@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
def test_a_git_entry_that_is_none_ends_the_search(project: Path, folder: bool) -> None:
    """What git would then take, a repository further up or the folder itself, is not what is meant."""
    place = project / "environments"
    embed(project, "environments", f"\tbare = true\n\tfsmonitor = {program(project)}\n")
    (place / ".git").mkdir() if folder else (place / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(NoRepositoryError, match="not the working tree of a Git repository"):
        Repository(place)


def test_a_linked_worktree_and_a_submodule_are_repositories(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    assert History(tmp_path / "linked" / "environments").prefix == "environments/"
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", project.as_uri(), "sub")
    assert Repository(project / "sub").commit_here() == git(project / "sub", "rev-parse", "HEAD")
    git(project, "commit", "-q", "-m", "sub")
    (project / "sub" / "environments" / "dev.yaml").write_text("other")
    review(project)


def test_replaced_objects_are_not_read(project: Path) -> None:
    other = git(project, "hash-object", "-w", "--stdin", given="hidden\n")
    git(project, "replace", git(project, "rev-parse", "main:environments/dev.yaml"), other)
    with snapshots(project / "environments", "main", None) as (old, _):
        assert old.environments["dev"] == b"dev 1\n" * 20


def test_a_large_file_of_a_commit_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_module, "MAX_ANSWER", 1000)
    (project / "environments" / "large.yaml").write_text("x" * 2000)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "large")
    with (
        pytest.raises(UsageError, match="remove the large file"),
        snapshots(project / "environments", "change", None),
    ):
        pass


def test_nothing_else_calls_git() -> None:
    """No list or tuple of words in our own code begins with git, nor does a text that a shell would run."""
    places = []
    for folder in ("gpupool", "vapcheck"):
        for path in (ROOT / folder).rglob("*.py"):
            if path == ROOT / "gpupool" / "review" / "git.py" or path.is_symlink():
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                words = node.elts[:1] if isinstance(node, ast.List | ast.Tuple) else []
                words += node.args[:1] if isinstance(node, ast.Call) else []
                places += [f"{path}:{word.lineno}" for word in words if _is_git(word)]
    assert not places


def _is_git(word: ast.expr) -> bool:
    text = word.value if isinstance(word, ast.Constant) else None
    return isinstance(text, str) and (text == "git" or text.startswith("git ") or text.endswith("/git"))
