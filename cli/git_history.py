"""What a file said in earlier commits of a branch, newest first. Reads a Git repository; changes nothing.

Follows first parents, so that what a branch had only before it was merged does not count. Knows nothing of
what is in the files.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpupool.findings import GpupoolError, UsageError


class NoHistoryError(GpupoolError):
    """There is no Git here, or no repository, or no commit in it."""


@dataclass(frozen=True, slots=True)
class Version:
    """A file as one commit left it."""

    label: str
    """The commit in short, its day and its subject."""
    content: bytes


class History:
    """The repository that a folder lies in. Raises NoHistoryError where there is none."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        try:
            self._root = Path(self._ask("rev-parse", "--show-toplevel").decode().rstrip("\n"))
            self._ask("rev-parse", "--verify", "--quiet", "HEAD")
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoHistoryError(f"{folder}: no Git repository with a commit") from error

    @property
    def shallow(self) -> bool:
        """Whether older commits were not fetched."""
        return self._ask("rev-parse", "--is-shallow-repository").strip() == b"true"

    def commit(self, ref: str) -> str:
        """The commit that `ref` names. Raises UsageError."""
        try:
            return self._line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        except subprocess.CalledProcessError as error:
            raise UsageError(
                f"--base {ref}: no such commit here; fetch it, or name a branch, tag or commit"
            ) from error

    def fork(self, base: str) -> str:
        """Where HEAD left the history of commit `base`; `base` itself where they have none in common."""
        try:
            return self._line("merge-base", base, "HEAD")
        except subprocess.CalledProcessError:
            return base

    def content(self, commit: str, path: Path) -> bytes | None:
        """The file at `path` as `commit` has it, None where it has none."""
        try:
            return self._ask("cat-file", "blob", f"{commit}:{self._inside(path)}")
        except subprocess.CalledProcessError:
            return None

    def versions(self, commit: str, path: Path) -> Iterator[Version]:
        """The file at `path` as it was in `commit` and before, newest first, wherever it changed."""
        inside = self._inside(path)
        log = self._ask("log", "--first-parent", "--format=%H%x09%h%x09%cs%x09%s", commit, "--", inside)
        for line in log.decode(errors="replace").splitlines():
            full, short, day, subject = line.split("\t", 3)
            content = self.content(full, path)
            if content is not None:
                yield Version(f"{short} of {day} ({subject})", content)

    def _inside(self, path: Path) -> str:
        try:
            return path.resolve().relative_to(self._root.resolve()).as_posix()
        except ValueError as error:
            raise NoHistoryError(f"{path}: not in the repository {self._root}") from error

    def _line(self, *arguments: str) -> str:
        return self._ask(*arguments).decode().strip()

    def _ask(self, *arguments: str) -> bytes:
        command = ["git", "--no-optional-locks", "--no-pager", *arguments]
        environment = {**os.environ, "GIT_LITERAL_PATHSPECS": "1", "LC_ALL": "C"}
        done = subprocess.run(command, cwd=self._root, env=environment, capture_output=True, check=True)
        return done.stdout
