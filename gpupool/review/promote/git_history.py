"""What a file said in earlier commits of a branch, newest first.

Follows first parents, so that commits inside merged branches do not count, and files that were moved or
renamed. It does not interpret the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpupool.review.git import PLAIN_DIFF, NoRepositoryError, Repository


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

    def fork(self, base: str) -> str:
        """Where HEAD left the history of commit `base`; `base` itself where they have none in common."""
        return self.merge_base(base, "HEAD") or base

    def content(self, commit: str, path: Path) -> bytes | None:
        """The file at `path` as `commit` has it, there or where it was then; None where it has none."""
        return self._in_commit(commit, path)[1]

    def _blob(self, commit: str, inside: str) -> bytes | None:
        done = self.run("cat-file", "blob", f"{commit}:{inside}")
        if done.returncode == 0:
            return done.stdout
        entry = self.ask("ls-tree", "-z", "--full-tree", commit, "--", inside).split()
        # What the commit lists is there, but in a partial clone, or as a folder.
        return self.ask("cat-file", "blob", entry[2].decode()) if entry and entry[1] == b"blob" else None

    def _in_commit(self, commit: str, path: Path) -> tuple[str, bytes | None]:
        """Where `commit` has the file that is at `path` now, and its content; None where it has none."""
        inside = self._inside(path)
        content = self._blob(commit, inside)
        former = self.renamed(commit, None).get(inside) if content is None else None
        return (former, self._blob(commit, former)) if former else (inside, content)

    def versions(self, commit: str, path: Path) -> Iterator[Version]:
        """The file at `path` as it was in `commit` and before, newest first, wherever it changed."""
        inside, _ = self._in_commit(commit, path)
        form = ["--format=%x01%H%x09%h%x09%cs%x09%s", "--name-only", "-z"]
        parents = ["--first-parent", "--diff-merges=first-parent", "--follow"]
        form += [*PLAIN_DIFF, "--no-mailmap", "--encoding=UTF-8"]
        log = self.ask("log", *parents, *form, commit, "--", inside).decode(errors="surrogateescape")
        for entry in log.split("\x01")[1:]:
            described, *names = entry.replace("\n", "\0").strip("\0").split("\0")
            full, short, day, subject = described.split("\t", 3)
            content = self._blob(full, names[-1] if names else inside)
            if content is not None:
                yield Version(f"{short} of {day} ({subject})", content)

    def _inside(self, path: Path) -> str:
        try:
            return path.resolve().relative_to(self._root).as_posix()
        except ValueError as error:
            raise NoRepositoryError(f"{path}: not in the repository {self._root}") from error
