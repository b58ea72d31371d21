"""The git command in one working tree, for reading only: no checkout, no index, no optional locks.

A branch under review is hostile until somebody has read it, and a repository's configuration names programs
that git starts. So this module, the only one that calls git, keeps two rules:

* Git reads commits and the index, never the working tree: neither filters nor submodules nor a file monitor
  have anything to do.
* The repository is the one whose `.git` is nearest, looked for here and named to git by GIT_DIR. Git itself
  takes any folder with `HEAD`, `objects` and `refs` for a bare repository, and a branch can carry such a
  folder with a configuration of its own. It can't carry a `.git`: git refuses that name in a tree, in every
  spelling (verify_path in read-cache.c).

It handles commits and files, and does not interpret the files.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

from gpupool.findings import UsageError

FETCH = (
    "fetch the history (git fetch --unshallow; fetch-depth: 0 in GitHub's checkout, GIT_DEPTH: 0 in GitLab)"
)
_FETCH_FILES = "fetch what a partial clone left out (git fetch --refetch --no-filter)"
MAX_ANSWER = 64 << 20
"""Bytes of one answer of git: 60 times the largest environment file."""
_SETTINGS = (
    "safe.bareRepository=explicit",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.sshCommand=false",
    "core.askPass=false",
    "credential.helper=",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "log.showSignature=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
_OPTIONS = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "--literal-pathspecs",
    *(word for setting in _SETTINGS for word in ("-c", setting)),
)
"""Before every subcommand. They go before all files of configuration, those that `include.path` adds too."""
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Of the caller's variables of git: which files hold the caller's own settings, such as `safe.directory`."""
_VARIABLES = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "LC_ALL": "C",
}
PLAIN_DIFF = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color")
"""For subcommands that compare."""


class NoRepositoryError(UsageError):
    """There is no git here, or no working tree of a repository, or no commit where one is needed."""


class Repository:
    """The repository whose working tree `folder` is in. Raises NoRepositoryError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        here = folder.resolve()
        root = next((place for place in (here, *here.parents) if os.path.lexists(place / ".git")), None)
        if root is None:
            raise NoRepositoryError(
                f"{folder}: not the working tree of a Git repository (no .git here or above); "
                "run it in a clone"
            )
        self._root = root
        self._variables = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
        self._variables |= {name: os.environ[name] for name in _KEPT if name in os.environ} | _VARIABLES
        # Git finds it once by itself, within `root`: then it refuses a repository of another account.
        self._variables["GIT_CEILING_DIRECTORIES"] = str(root.parent)
        answer = self.run("rev-parse", "--absolute-git-dir")
        place = os.fsdecode(answer.stdout.removesuffix(b"\n"))
        if answer.returncode or Path(place) == root:
            why = _reason(answer) or "a bare one"
            raise NoRepositoryError(
                f"{folder}: not the working tree of a Git repository ({why}); run it in a clone"
            )
        self._variables |= {"GIT_DIR": place, "GIT_WORK_TREE": str(root)}

    @property
    def prefix(self) -> str:
        """Where the folder is in the repository, with a slash at the end; empty at its top."""
        inside = self._folder.resolve().relative_to(self._root)
        return f"{inside.as_posix()}/" if inside.parts else ""

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """What git says, whether it fails or not; paths are those from the top of the repository, and mean
        themselves, no patterns. Raises UsageError for more than MAX_ANSWER bytes."""
        command = ["git", *_OPTIONS, "-C", str(self._root), *arguments]
        with TemporaryFile() as queries, TemporaryFile() as errors:
            queries.write(given)
            queries.seek(0)
            try:
                process = subprocess.Popen(
                    command, stdin=queries, stdout=subprocess.PIPE, stderr=errors, env=self._variables
                )
            except FileNotFoundError as error:
                raise NoRepositoryError("there is no git on the PATH; install it") from error
            with process:
                assert process.stdout is not None
                output = process.stdout.read(MAX_ANSWER + 1)
                if len(output) > MAX_ANSWER:
                    process.kill()
                    raise UsageError(
                        f"{self._folder}: git {' '.join(arguments[:2])} gives more than "
                        f"{MAX_ANSWER >> 20} MiB; remove the large file from the commit"
                    )
            errors.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, output, errors.read())

    def ask(self, *arguments: str, given: bytes = b"") -> bytes:
        """What git answers. Raises UsageError where it fails."""
        done = self.run(*arguments, given=given)
        if done.returncode:
            hint = f", or, since it is shallow, {FETCH}" if self.shallow else f", or {_FETCH_FILES}"
            raise UsageError(
                f"{self._folder}: git {' '.join(arguments[:2])} failed: {_reason(done)}; "
                f"repair the clone{hint}"
            )
        return done.stdout

    @property
    def shallow(self) -> bool:
        """Whether older commits were not fetched."""
        return self.run("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def commit_here(self) -> str | None:
        """The commit that the working tree is based on; None before the first."""
        done = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return done.stdout.decode().strip() or None

    def commit(self, ref: str) -> str:
        """The full hash of the commit that `ref` means. Raises UsageError."""
        done = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        if done.returncode == 0:
            return done.stdout.decode().strip()
        if self.shallow:
            raise UsageError(f"{ref}: no such commit in this clone, which is shallow; {FETCH}")
        raise UsageError(f"{ref}: no commit, branch or tag of that name here; git branch -a lists them")

    def merge_base(self, one: str, other: str) -> str | None:
        """The last commit that two histories share; None where there is none."""
        done = self.run("merge-base", one, other)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def renamed(self, before: str, after: str | None) -> dict[str, str]:
        """Path in the repository -> the one that it had in commit `before`, of files that were moved or
        renamed since, up to commit `after` or to the index."""
        comparison = ["diff-tree", "-r"] if after else ["diff-index", "--cached"]
        commits = [before, after] if after else [before]
        form = [*PLAIN_DIFF, "--name-status", "-z", "--find-renames", "--diff-filter=R"]
        answer = self.ask(*comparison, *form, *commits)
        words = answer.decode(errors="surrogateescape").split("\0")
        return {words[index + 2]: words[index + 1] for index in range(0, len(words) - 2, 3)}


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Git's own words, on one line."""
    return " ".join(done.stderr.decode(errors="replace").removeprefix("fatal: ").split())
