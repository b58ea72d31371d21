"""Manifests as files: one object per file, stable paths and bytes, with an index. `--check` compares.

Writes below the folder it is given and nowhere else. Files of an earlier rendering that are no longer
wanted are removed, but only those that the earlier index lists; the index is written last, so that a
killed run forgets none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from generators import delivery
from generators.emit import yaml_text
from generators.layout import INDEX, manifest_path, release_path
from generators.manifest import Bundle, HelmRelease

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Differences:
    """How a folder differs from what would be rendered into it: relative paths, sorted."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.extra)


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
    """Make `folder` hold the rendering of `bundle`, and return what had to change. Raises OSError."""
    wanted = files(bundle)
    differences = compare(wanted, folder)
    stale = {*differences.missing, *differences.changed}
    for parent in sorted({os.path.dirname(path) for path in stale}):
        os.makedirs(folder / parent, exist_ok=True)
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
    """How `folder` differs from the rendering of `bundle`. Writes nothing."""
    return compare(files(bundle), folder)


def compare(wanted: dict[str, str], folder: Path) -> Differences:
    """How `folder` differs from `wanted`; extra are files that the folder's own index lists."""
    missing, changed = [], []
    # Asked once for each folder: a file that can't be there is not worth an attempt to open it.
    there = {parent: os.path.isdir(folder / parent) for parent in {os.path.dirname(path) for path in wanted}}
    for path, content in wanted.items():
        try:
            found = _read(os.path.join(folder, path)) if there[os.path.dirname(path)] else None
        except FileNotFoundError:
            found = None
        if found is None:
            missing.append(path)
        elif found != content.encode():
            changed.append(path)
    extra = [path for path in _listed(folder) if path not in wanted and _is_rendered(path, folder)]
    return Differences(tuple(sorted(missing)), tuple(sorted(changed)), tuple(sorted(extra)))


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _listed(folder: Path) -> list[str]:
    """Paths in the index of an earlier rendering; none where it is no index."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        return [str(entry["path"]) for entry in [*index["objects"], *index.get("delivery", [])]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


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
    """The list of files in application order, one a line so that changes merge well; apart from them those
    that Argo CD or Flux is told by."""
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
