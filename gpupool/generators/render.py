"""Manifests as files: one object per file, stable paths and bytes, with an index. `--check` compares.

Writes only below the folder it is given. Files of an earlier rendering that are no longer
wanted are removed, but only those that the earlier index lists; the index is written last, so that a
killed run forgets none of them. Other files there that would be applied are reported and never removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpupool.findings import GpupoolError
from gpupool.generators import delivery
from gpupool.generators.emit import yaml_text
from gpupool.generators.layout import INDEX, manifest_path, release_path
from gpupool.generators.manifest import Bundle, HelmRelease
from vapcheck.reading import RefusedFileError, followed, read_file

_SCHEMA = 1
_MAX_BYTES = 16 << 20
"""Of a rendered file; an object of Kubernetes has 3 MiB at most, and the index names each in a line."""
_APPLIED = (".yaml", ".yml", ".json", ".jsonnet")
"""What Argo CD applies of a folder, and of all folders below it (reposerver/repository, findManifests)."""


class UnreadableIndexError(GpupoolError):
    """The folder has an index that does not list what was rendered into it."""


@dataclass(frozen=True, slots=True)
class Differences:
    """How a folder differs from what would be rendered into it: relative paths, sorted."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]
    """Of an earlier rendering, by the folder's own index, and no longer wanted."""
    unknown: tuple[str, ...]
    """Neither wanted nor in the index, and of a kind that an engine may apply with the folder."""

    @property
    def stale(self) -> bool:
        """Whether there is anything that `write` changes."""
        return bool(self.missing or self.changed or self.extra)

    def __bool__(self) -> bool:
        return self.stale or bool(self.unknown)


def files(bundle: Bundle) -> dict[str, str]:
    """Relative path -> content of every file of the rendering, the index included."""
    wrappers = delivery.wrappers(bundle)
    content = {
        manifest_path(manifest): yaml_text(delivery.body(manifest, bundle.delivery))
        for manifest in bundle.manifests
    }
    for release in bundle.releases:
        content[release_path(release)] = yaml_text(_release(release))
    content |= {path: yaml_text(body) for path, body in wrappers.items()}
    content[INDEX] = _index(bundle, wrappers)
    return content


def write(bundle: Bundle, folder: Path) -> Differences:
    """Make `folder` hold the rendering of `bundle`, and return what had to change, and what is unknown there.

    Raises OSError, UnreadableIndexError, and GpupoolError where it holds another environment's rendering.
    """
    wanted = files(bundle)
    differences = _compare(wanted, folder, _listed(folder, bundle.environment))
    stale = {*differences.missing, *differences.changed}
    for parent in sorted({os.path.dirname(path) for path in stale}):
        os.makedirs(folder / parent, exist_ok=True)
        followed(folder / parent)  # refuses a link by which files would be written elsewhere
    for path in sorted(stale - {INDEX}):
        _replace(folder, path, wanted[path])
    for path in differences.extra:
        (folder / path).unlink()
        for above in (folder / path).parents:
            if above == folder or any(above.iterdir()):
                break
            above.rmdir()
    if INDEX in stale:
        _replace(folder, INDEX, wanted[INDEX])
    return differences


def _replace(folder: Path, path: str, content: str) -> None:
    """Written aside and renamed, so that a killed run leaves no half file for Git to pick up."""
    parent, name = os.path.split(os.path.join(folder, path))
    aside = os.path.join(parent, f".{name}.part")
    with open(aside, "wb", buffering=0) as file:
        file.write(content.encode())
    os.replace(aside, os.path.join(parent, name))


def check(bundle: Bundle, folder: Path) -> Differences:
    """How `folder` differs from the rendering of `bundle`. Writes nothing. Raises OSError, and GpupoolError
    where it holds another environment's rendering."""
    try:
        listed = _listed(folder, bundle.environment)
    except UnreadableIndexError:
        listed = []  # the index itself is reported as changed, and what it should have listed as unknown
    return _compare(files(bundle), folder, listed)


def _compare(wanted: dict[str, str], folder: Path, listed: list[str]) -> Differences:
    missing, changed = [], []
    # Asked once for each folder: a file that can't be there is not worth an attempt to open it.
    there = {parent: os.path.isdir(folder / parent) for parent in {os.path.dirname(path) for path in wanted}}
    for path, content in wanted.items():
        try:
            found = _read(os.path.join(folder, path)) if there[os.path.dirname(path)] else None
        except (RefusedFileError, IsADirectoryError):
            changed.append(path)  # a link to nowhere or out of the repository, a pipe, something huge
            continue
        except FileNotFoundError:
            found = None
        if found is None:
            missing.append(path)
        elif found != content.encode():
            changed.append(path)
    extra = {path for path in listed if path not in wanted and _is_rendered(path, folder)}
    unknown = _unknown(folder, wanted.keys() | extra)
    return Differences(*(tuple(sorted(paths)) for paths in (missing, changed, extra, unknown)))


def _unknown(folder: Path, known: Container[str]) -> Iterator[str]:
    """Files that may be applied with the folder though they are not `known`."""
    if not folder.is_dir():
        return
    for parent, folders, names in os.walk(folder, onerror=_raise):
        if ".git" in folders:
            folders.remove(".git")
        above = os.path.relpath(parent, folder)
        for name in names:
            path = name if above == "." else f"{above}/{name}"
            if name.endswith(_APPLIED) and path not in known:
                yield path


def _raise(error: OSError) -> None:
    raise error


def _read(path: str) -> bytes:
    return read_file(path, _MAX_BYTES)


def _listed(folder: Path, environment: str) -> list[str]:
    """Paths in the index of an earlier rendering of `environment`; none where there is no index."""
    place = folder / INDEX
    try:
        text = _read(str(place))
    except (FileNotFoundError, NotADirectoryError):
        return []
    try:
        index = json.loads(text)
        found, entries = str(index["environment"]), [*index["objects"], *index.get("delivery", [])]
        listed = [str(entry["path"]) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise UnreadableIndexError(
            f"{place}{line}: this is not the index of a rendering, so earlier rendered files can't be "
            "distinguished from other files; restore a committed index, or delete the folder, and render "
            "again"
        ) from None
    if found != environment:
        raise GpupoolError(
            f"{place}: the folder contains the rendering of environment {found!r}, not of {environment!r}; "
            "use another folder, or delete this one first"
        )
    return listed


def _is_rendered(path: str, folder: Path) -> bool:
    """Whether a path that an index lists is a file that a rendering can have written: an object's, and not
    outside of `folder`, by name or through a link."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or len(parts.parts) < 2 or "\0" in path:
        return False
    inside = (folder / parts).parent.resolve().is_relative_to(folder.resolve())
    return inside and parts.suffix == ".yaml" and os.path.isfile(folder / parts)


def _release(release: HelmRelease) -> dict[str, object]:
    return {
        "release": release.name,
        "namespace": release.namespace,
        "chart": release.chart,
        "repository": release.repository,
        "version": release.version,
        "values": dict(release.values),
    }


def _index(bundle: Bundle, wrappers: Mapping[str, Mapping[str, Any]]) -> str:
    """The list of files in application order, one a line so that changes merge well; separately, the
    files for Argo CD or Flux."""
    rows = [
        {"path": manifest_path(m)}
        | _identity(m.api_version, m.kind, m.namespace, m.name)
        | ({"patch": True} if m.patch else {})
        for m in bundle.manifests
    ]
    rows += [{"path": release_path(r), "kind": "HelmRelease", "name": r.name} for r in bundle.releases]
    beside = [
        {"path": path}
        | _identity(
            body["apiVersion"],
            body["kind"],
            body.get("metadata", {}).get("namespace"),
            body.get("metadata", {}).get("name"),
        )
        for path, body in sorted(wrappers.items())
    ]
    lists = [("objects", rows)] + ([("delivery", beside)] if beside else [])
    texts = [f'  "{name}": [\n{_lines(entries)}\n  ]' for name, entries in lists]
    head = json.dumps(bundle.environment)
    return f'{{\n  "schema": {_SCHEMA},\n  "environment": {head},\n' + ",\n".join(texts) + "\n}\n"


def _lines(entries: list[dict[str, Any]]) -> str:
    return ",\n".join("    " + json.dumps(entry) for entry in entries)


def _identity(api_version: str, kind: str, namespace: str | None, name: str | None) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
