"""One save of the state at the end of a run, and how the next run detects that a run did not reach it.

The engine otherwise writes the whole state at each step: a run of n objects writes n * n / 2 of them. A mark
beside the state stands for each run from before its first step to after its state is saved; where one is
left, what that run did is not in the state: objects are then read again, and those that it made are
taken over by their labels (`gpupool.live.objects.orphans`). A mark is not a lock.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle
from gpupool.infra import state_files
from gpupool.infra.recovery import name_of
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.objects.resource_values import RELEASE_TYPE, logical_name

ONE_SAVE: Mapping[str, str] = {"PULUMI_EXPERIMENTAL": "true", "PULUMI_SKIP_CHECKPOINTS": "true"}
"""Variables with which the engine saves the state when a run ends, also a failed or an interrupted one
(Pulumi 3.259: pkg/backend/snapshot.go, unsafeServiceLoop; pkg/backend/diy/backend.go, apply)."""

_NOT_STATE = (".bak", ".attrs", ".tmp")


class MarkError(GpupoolError):
    """The mark of a run could not be written; nothing was changed."""


class Marks:
    """The marks of one stack. A backend that is not a folder here has none."""

    def __init__(self, backend_url: str, project: str, stack: str) -> None:
        """Checks what is left of earlier runs; writes nothing."""
        self._own: Path | None = None
        self._before: frozenset[tuple[str, int, int]] = frozenset()
        path = state_files.folder(backend_url)
        self.possible = path is not None
        """Whether marks can be kept, so that one save at the end is safe."""
        root = path or Path()
        self._states, self._stack = root / "stacks" / project, stack
        self._folder = root / "unrecorded" / project / stack
        self.left: tuple[Path, ...] = tuple(sorted(self._folder.glob("*.json"))) if self.possible else ()
        """Marks of runs that are unfinished or did not save their state."""

    def same_cluster(self, cluster: str | None) -> bool:
        """Whether every run that left a mark was one on the cluster with this id. A run that was stopped
        while it deleted the namespaces leaves a state that names none of those that the cluster has."""
        return cluster is not None and all(_cluster_of(path) == cluster for path in self.left)

    def begin(self, operation: str, cluster: str | None) -> None:
        """Write the mark of this run, so that it outlives whatever happens next. Raises MarkError.

        `cluster` is the id of the cluster that the run is to change, None where it can't be had.
        """
        self._before = self._saved()
        path = self._folder / f"{uuid4().hex}.json"
        since = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps({"operation": operation, "cluster": cluster, "pid": os.getpid(), "since": since})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("x") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                path.unlink()
            raise MarkError(
                f"{path}: {error.strerror}; a run records its start there. Nothing was changed; make the "
                "folder writable or free some space, then run this command again"
            ) from error
        self._own = path

    def end(self, whole: bool) -> None:
        """Take the mark away if the state was saved since `begin`; those of earlier runs as well after a run
        that came `whole` to its end, which has read everything they may have changed."""
        if self._own is None or self._saved() == self._before:
            return
        for path in (self._own, *(self.left if whole else ())):
            path.unlink(missing_ok=True)
        self._own = None
        with contextlib.suppress(OSError):  # another run has its mark there
            self._folder.rmdir()

    def _saved(self) -> frozenset[tuple[str, int, int]]:
        """The files of the state: name, inode and time of change, of which each save makes new ones."""
        found = []
        for path in self._states.glob(f"{self._stack}.json*"):
            if not any(part in _NOT_STATE for part in path.suffixes):
                with contextlib.suppress(FileNotFoundError):
                    found.append((path.name, path.stat().st_ino, path.stat().st_mtime_ns))
        return frozenset(found)


def cluster_id(api: KubeApi) -> str | None:
    """What identifies a cluster: the uid of its namespace kube-system, which can't be deleted.
    None where the cluster does not say."""
    try:
        live = api.get("v1", "Namespace", "kube-system")
    except GpupoolError:
        return None
    return str(live["metadata"]["uid"]) if live is not None else None


def _cluster_of(mark: Path) -> str | None:
    try:
        found = json.loads(mark.read_text())
    except (OSError, ValueError):  # its run was killed while it wrote it
        return None
    return found.get("cluster") if isinstance(found, dict) else None


def found_again(operation: str, bundle: Bundle, deployment: Mapping[str, Any], chosen: bool) -> bool:
    """Whether everything that a run makes or removes is found again where the state was not saved.

    Labels identify objects. Of charts, and of fields on objects of others, only the state knows: those must
    be in it already. `chosen` says that selectors choose such objects while the program runs.
    """
    rows = deployment.get("resources") or ()
    stated = {name_of(row["urn"]) for row in rows if _by_state_alone(str(row.get("type")))}
    if operation == "refresh":
        return True
    if operation == "destroy":
        return not stated
    asked = {logical_name(manifest) for manifest in bundle if manifest.patch}
    asked |= {f"Release/{release.name}" for release in bundle.releases}
    return not chosen and asked == stated


def _by_state_alone(token: str) -> bool:
    return token == RELEASE_TYPE or (token.startswith("kubernetes:") and token.endswith("Patch"))
