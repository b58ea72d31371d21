"""The two states of a repository that a report compares: files as they are in a commit or in the working
tree.

Commits are read with plumbing commands that change nothing: no checkout, no index, no optional locks. What is
read is `environments/*.yaml`, `policies/*.yaml`, `catalog/*.yaml` and, in gpupool's own repository, the
shipped catalog. The files are not interpreted here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from gpupool.environment.project import environments_folder
from gpupool.environment.spec.yaml_source import MAX_BYTES
from gpupool.findings import UsageError
from gpupool.review.git import FETCH, Repository
from gpupool.review.report.model import ProjectState
from vapcheck.reading import files_below, read_file

WORKING_TREE = "working tree"
_POLICIES, _GPUS, _CATALOG = "policies", "catalog", "gpupool/environment/catalog"
_BESIDE = (_POLICIES, _GPUS, _CATALOG)
_LINKS = 5
"""Links to links that are followed."""
_LINK, _FILES = "120000", ("100644", "100755")


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The project's files in one state."""

    state: ProjectState
    environments: Mapping[str, bytes]
    """Name -> content of environments/<name>.yaml."""
    policies: Mapping[str, bytes]
    """File name -> content of what lies in policies/."""
    gpus: Mapping[str, bytes]
    """File name -> content of what lies in catalog/."""
    catalog: Mapping[str, bytes]
    """File name -> content; empty but in gpupool's own repository."""
    root: Path
    """Folder that stands for the project: `<root>/policies` and `<root>/catalog` hold those of this state.
    What else is there, if anything, may be of the other state."""
    folder: str
    """Name of the folder with the environments, `environments` as a rule."""

    def path(self, name: str) -> Path:
        """Where the file of an environment is, or would be; read its content from `environments`."""
        return self.root / self.folder / f"{name}.yaml"


@contextmanager
def snapshots(
    folder: Path, base: str, head: str | None, *, merge_base: bool = False
) -> Iterator[tuple[ProjectFiles, ProjectFiles]]:
    """Both states of the project whose environments are in `folder`; `head` None is the working tree.

    With `merge_base` the base is where head's history left that of `base`, as pull requests count. Files that
    had to be written for the policy reader go when the context ends. Raises UsageError.
    """
    git = _States(folder.parent)
    with TemporaryDirectory(prefix="gpupool-report-") as scratch:
        head_commit = git.commit(head) if head is not None else git.commit_here()
        base_commit = git.commit(base)
        if merge_base and head_commit is not None:
            base_commit = git.fork(base_commit, head_commit)
            base = f"merge base with {base}"
        after = head_commit if head is not None else None
        old = git.snapshot(ProjectState(base, base_commit, False), base_commit, folder.name, after)
        if head is None:
            new = _from_disk(ProjectState(WORKING_TREE, head_commit, False), folder)
            new = replace(new, state=replace(new.state, dirty=git.differs(new, head_commit)))
        else:
            assert head_commit is not None
            new = git.snapshot(ProjectState(head, head_commit, False), head_commit, folder.name)
            new = _written(new, Path(scratch) / "head")
        # One folder for both where they have the same files, so that those are read once.
        same = (dict(old.policies), dict(old.gpus)) == (dict(new.policies), dict(new.gpus))
        yield (replace(old, root=new.root) if same else _written(old, Path(scratch) / "base")), new


def _written(snapshot: ProjectFiles, root: Path) -> ProjectFiles:
    """The snapshot with its policies and GPU models written below `root`, which must not exist."""
    files = {f"{_POLICIES}/{name}": text for name, text in snapshot.policies.items()}
    files |= {f"{_GPUS}/{name}": text for name, text in snapshot.gpus.items()}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return replace(snapshot, root=root)


def _from_disk(state: ProjectState, folder: Path) -> ProjectFiles:
    root = folder.parent

    def read(name: str, suffixes: tuple[str, ...]) -> dict[str, bytes]:
        if not (root / name).is_dir():
            return {}
        paths = files_below(root / name, suffixes, depth=0)
        return {path.name: _content(path) for path in paths if path.is_file()}

    return _snapshot(state, root, folder.name, read)


def _snapshot(
    state: ProjectState, root: Path, folder: str, read: Callable[[str, tuple[str, ...]], dict[str, bytes]]
) -> ProjectFiles:
    """`read` gives name and content of the files right in a folder that have one of some suffixes."""
    environments = read(folder, (".yaml",))
    return ProjectFiles(
        state,
        {name.removesuffix(".yaml"): content for name, content in environments.items()},
        read(_POLICIES, (".yaml", ".yml")),
        read(_GPUS, (".yaml", ".yml")),
        read(_CATALOG, (".yaml",)),
        root,
        folder,
    )


def _with_one_line_end(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: content.replace(b"\r\n", b"\n") for name, content in contents.items()}


def _content(path: Path) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; make it readable") from error


class _States(Repository):
    """The states that a project's folder is in, was in and is proposed to be in."""

    def fork(self, base: str, head: str) -> str:
        """The last commit that the two histories share. Raises UsageError."""
        found = self.merge_base(base, head)
        if found is None:
            what = FETCH if self.shallow else "compare without --merge-base"
            raise UsageError(f"{base[:12]} and {head[:12]} have no common commit here; {what}")
        return found

    def differs(self, files: ProjectFiles, commit: str | None) -> bool:
        """Whether the files of the working tree are not those of `commit`. Line ends don't count: Git may
        have changed them on the way (core.autocrlf)."""
        if commit is None:
            return True
        committed = self.snapshot(files.state, commit, files.folder)
        return any(
            _with_one_line_end(getattr(files, part)) != _with_one_line_end(getattr(committed, part))
            for part in ("environments", "policies", "gpus")
        )

    def snapshot(
        self, state: ProjectState, commit: str, folder: str, after: str | None = None
    ) -> ProjectFiles:
        """The project's files in `commit`, not yet written anywhere. `after`: the commit that it is compared
        with, None for the working tree."""
        prefix = self.prefix
        if not self._listed(commit, [self._followed(commit, f"{prefix}{folder}")]):
            prefix = self._former(commit, prefix, folder, after)
        places = {name: self._followed(commit, f"{prefix}{name}") for name in (folder, *_BESIDE)}
        found = self._listed(commit, places.values())
        return _snapshot(state, self._folder, folder, partial(self._contents, commit, found, places))

    def _followed(self, commit: str, path: str) -> str:
        """The folder at `path` of the repository, or the one in it that a link there leads to."""
        for _ in range(_LINKS):
            entry = self.ask("ls-tree", "--full-tree", commit, "--", path).decode(errors="surrogateescape")
            if not entry.startswith(_LINK):
                break
            target = self.ask("cat-file", "blob", f"{commit}:{path}").decode(errors="surrogateescape")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        return path

    def _former(self, commit: str, prefix: str, folder: str, after: str | None) -> str:
        """The project's folder as `commit` has it, from which the environments were moved since; `prefix`,
        where they are now, if they were not."""
        pairs = self.renamed(commit, after).items()
        moved = [was for now, was in pairs if posixpath.dirname(now) == f"{prefix}{folder}"]
        parents = {posixpath.dirname(posixpath.dirname(path)) for path in moved}
        if len(parents) != 1:
            return prefix
        (parent,) = parents
        return f"{parent}/" if parent else ""

    def _listed(self, commit: str, folders: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Path in the repository -> mode and hash of the files right in `folders`."""
        answer = self.ask("ls-tree", "-z", "--full-tree", commit, "--", *(f"{folder}/" for folder in folders))
        rows: dict[str, tuple[str, str]] = {}
        for row in filter(None, answer.split(b"\0")):
            described, _, path = row.decode(errors="surrogateescape").partition("\t")
            mode, _, digest = described.split()
            rows[path] = (mode, digest)
        return rows

    def _contents(
        self,
        commit: str,
        found: Mapping[str, tuple[str, str]],
        places: Mapping[str, str],
        folder: str,
        suffixes: tuple[str, ...],
    ) -> dict[str, bytes]:
        """File name -> content of the files right in `folder` with one of `suffixes`; links are followed."""
        wanted: dict[str, str] = {}
        for path, (mode, digest) in sorted(found.items()):
            name = Path(path).name
            if path != f"{places[folder]}/{name}" or Path(name).suffix not in suffixes or "\n" in name:
                continue
            if mode in _FILES:
                wanted[name] = digest
            elif mode == _LINK:
                wanted[name] = f"{commit}:{path}"
        return self._blobs(wanted)

    def _blobs(self, wanted: Mapping[str, str]) -> dict[str, bytes]:
        """The contents of objects, all in one call; links that lead nowhere are left out."""
        if not wanted:
            return {}
        given = "".join(f"{query}\n" for query in wanted.values()).encode(errors="surrogateescape")
        answer = self.ask("cat-file", "--batch", "--follow-symlinks", given=given)
        contents: dict[str, bytes] = {}
        for name in wanted:
            header, _, answer = answer.partition(b"\n")
            words = header.split()
            if header.endswith((b" missing", b" ambiguous")):
                if ":" not in wanted[name]:  # no link, so that a partial clone left it out
                    self.ask("cat-file", "blob", wanted[name])
                continue
            size = int(words[-1])
            content, answer = answer[:size], answer[size + 1 :]
            if words[-2] == b"blob":
                contents[name] = content
        return contents


def project_folder(environments: Sequence[str]) -> tuple[Path, list[str]]:
    """The folder with the environments, and the names of those that are meant, given as names or as paths.

    Names are looked for from here upwards. Paths, which need not exist any more, must be in one folder.
    Raises UsageError.
    """
    paths = [
        Path(environment)
        for environment in environments
        if environment.endswith(".yaml") or "/" in environment
    ]
    folders = {path.resolve().parent for path in paths}
    if len(folders) > 1 or (folders and len(paths) < len(environments)):
        raise UsageError("the environments are in different folders; name them, or give paths in one folder")
    strange = [path for path in paths if path.suffix != ".yaml"]
    if strange:
        raise UsageError(f"{strange[0]}: not an environment file; its name must end in .yaml")
    folder = folders.pop() if folders else environments_folder()
    return folder, [path.stem for path in paths] or list(environments)
