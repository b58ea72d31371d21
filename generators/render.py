"""Manifests as files: one object per file, stable paths and bytes, with an index. `--check` compares.

Writes below the folder it is given and nowhere else. Files of an earlier rendering that are no longer
wanted are removed, but only those that the earlier index lists; the index is written last, so that a
killed run forgets none of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generators.emit import yaml_text
from generators.manifest import Bundle, HelmRelease, Manifest

INDEX = "index.json"
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
    content = {_manifest_path(manifest): yaml_text(dict(manifest.body)) for manifest in bundle.manifests}
    for release in bundle.releases:
        content[f"releases/{release.name}.yaml"] = yaml_text(_release(release))
    content[INDEX] = _index(bundle)
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
        entries = json.loads((folder / INDEX).read_text(encoding="utf-8"))["objects"]
        return [str(entry["path"]) for entry in entries]
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


def _manifest_path(manifest: Manifest) -> str:
    """`<scope>/<kind>-<name>.yaml`: the namespace, `cluster`, or `patches` for objects of somebody else. No
    kind has a dash, so two objects never meet; a folder for each kind would cost more than its one file."""
    scope = "patches" if manifest.patch else manifest.namespace or "cluster"
    return f"{scope}/{manifest.kind.lower()}-{manifest.name}.yaml"


def _release(release: HelmRelease) -> dict[str, object]:
    return {
        "release": release.name,
        "namespace": release.namespace,
        "chart": release.chart,
        "repository": release.repository,
        "version": release.version,
        "values": dict(release.values),
    }


def _index(bundle: Bundle) -> str:
    """The list of files in application order, one a line so that changes merge well."""
    rows = [
        {
            "path": _manifest_path(m),
            "apiVersion": m.api_version,
            "kind": m.kind,
            "namespace": m.namespace,
            "name": m.name,
        }
        | ({"patch": True} if m.patch else {})
        for m in bundle.manifests
    ]
    rows += [
        {"path": f"releases/{r.name}.yaml", "kind": "HelmRelease", "name": r.name} for r in bundle.releases
    ]
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    head = json.dumps(bundle.environment)
    return f'{{\n  "schema": {_SCHEMA},\n  "environment": {head},\n  "objects": [\n{lines}\n  ]\n}}\n'
