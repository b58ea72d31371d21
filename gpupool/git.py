"""The git command in one working tree, for reading only: no checkout, no index, no optional locks.

It handles commits and files, and does not interpret the files.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from gpupool.findings import UsageError

FETCH = (
    "fetch the history (git fetch --unshallow; fetch-depth: 0 in GitHub's checkout, GIT_DEPTH: 0 in GitLab)"
)


class NoRepositoryError(UsageError):
    """There is no git here, or no working tree of a repository, or no commit where one is needed."""


class Repository:
    """The repository whose working tree `folder` is in. Raises NoRepositoryError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        inside = self.run("rev-parse", "--is-inside-work-tree")
        if inside.returncode or inside.stdout.strip() != b"true":
            why = _reason(inside) or "a bare one"
            raise NoRepositoryError(
                f"{folder}: not the working tree of a Git repository ({why}); run it in a clone"
            )

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """What git says in the folder, whether it fails or not; paths mean themselves, no patterns."""
        command = ["git", "--no-optional-locks", "--no-pager", "-C", str(self._folder), *arguments]
        environment = {**os.environ, "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}
        try:
            return subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
        except FileNotFoundError as error:
            raise NoRepositoryError("there is no git on the PATH; install it") from error

    def ask(self, *arguments: str, given: bytes = b"") -> bytes:
        """What git answers. Raises UsageError where it fails."""
        done = self.run(*arguments, given=given)
        if done.returncode:
            hint = f", or, since it is shallow, {FETCH}" if self.shallow else ""
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
        renamed since, up to commit `after` or to the working tree (files that Git knows)."""
        commits = [before, after] if after else [before]
        answer = self.ask("diff", "--name-status", "-z", "--find-renames", "--diff-filter=R", *commits)
        words = answer.decode(errors="surrogateescape").split("\0")
        return {words[index + 2]: words[index + 1] for index in range(0, len(words) - 2, 3)}


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """Git's own words, on one line."""
    return " ".join(done.stderr.decode(errors="replace").removeprefix("fatal: ").split())
