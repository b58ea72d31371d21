"""What a file said in earlier commits of a branch, newest first.

Follows first parents, so that commits inside merged branches do not count. It does not
interpret the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpupool.git import NoRepositoryError, Repository


@dataclass(frozen=True, slots=True)
class Version:
    """A file as one commit left it."""

    label: str
    """The commit in short, its day and its subject."""
    content: bytes


class History(Repository):
    """The history of files of the repository that `folder` lies in.

    Raises NoRepositoryError where there is none, or no commit in it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        if self.commit_here() is None:
            raise NoRepositoryError(f"{folder}: a Git repository without a commit; commit first")
        self._folder = Path(self.ask("rev-parse", "--show-toplevel").decode().rstrip("\n"))

    def fork(self, base: str) -> str:
        """Where HEAD left the history of commit `base`; `base` itself where they have none in common."""
        return self.merge_base(base, "HEAD") or base

    def content(self, commit: str, path: Path) -> bytes | None:
        """The file at `path` as `commit` has it, None where it has none."""
        done = self.run("cat-file", "blob", f"{commit}:{self._inside(path)}")
        return done.stdout if done.returncode == 0 else None

    def versions(self, commit: str, path: Path) -> Iterator[Version]:
        """The file at `path` as it was in `commit` and before, newest first, wherever it changed."""
        inside = self._inside(path)
        log = self.ask("log", "--first-parent", "--format=%H%x09%h%x09%cs%x09%s", commit, "--", inside)
        for line in log.decode(errors="replace").splitlines():
            full, short, day, subject = line.split("\t", 3)
            content = self.content(full, path)
            if content is not None:
                yield Version(f"{short} of {day} ({subject})", content)

    def _inside(self, path: Path) -> str:
        try:
            return path.resolve().relative_to(self._folder.resolve()).as_posix()
        except ValueError as error:
            raise NoRepositoryError(f"{path}: not in the repository {self._folder}") from error
