"""The policy files of a project: which there are, and what is in them, as plain objects.

`policies/*.yaml` (or `.yml`; no subfolders) beside `environments/` adds to the files that gpupool ships; a
file of the same name goes before the shipped one. Read as text and values only: the engine checks whether a
policy compiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from gpupool.environment import shipped
from gpupool.environment.spec.yaml_source import MAX_BYTES, display_path, value_at
from gpupool.findings import GpupoolError, file_finding
from vapcheck.reading import files_below, read_file

SHIPPED = shipped.folder("policies")
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
_ACTIONS = ("spec", "validationActions")
_EXPRESSIONS = ("spec", "matchResources", "namespaceSelector", "matchExpressions")
_MAPPINGS = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec",),
    ("spec", "matchResources"),
    ("spec", "matchResources", "namespaceSelector"),
)
"""What the bindings' own fields are changed in, so that they must be what Kubernetes takes them for."""


class PolicyFileError(GpupoolError):
    """A policy file that can't be used. The finding's line is 0 where none is known."""

    def __init__(self, path: Path, message: str, remediation: str, line: int = 0, column: int = 0) -> None:
        self.finding = file_finding(display_path(path), line, column, "", message, remediation)
        place = f"{self.finding.file}:{line}:{column}" if line else self.finding.file
        super().__init__(f"{place}: {message}; {remediation}")


def policy_files(environment: Path | None) -> tuple[Path, ...]:
    """The policy files for the environment at `environment`: the shipped ones, and those of its project."""
    found = {path.stem: path for path in SHIPPED.glob("*.yaml")}
    if environment is not None and environment.resolve().parent.name == "environments":
        folder = environment.resolve().parent.parent / "policies"
        if folder.is_dir():
            found |= {path.stem: path for path in files_below(folder, (".yaml", ".yml"), depth=0)}
    return tuple(found[name] for name in sorted(found))


def read_objects(files: Iterable[Path]) -> tuple[Mapping[str, Any], ...]:
    """Every object of `files`, in their order. Not to be changed by callers. Raises PolicyFileError."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for path in files:
        for body in _objects(path, _changed(path)):
            described = body["metadata"]
            key = (body["kind"], str(described.get("namespace", "")), described["name"])
            if key in found:
                raise PolicyFileError(
                    path, f"{key[0]} {key[2]} is also in another file", "use different names"
                )
            found[key] = body
    return tuple(found.values())


def policy_names(files: Iterable[Path]) -> frozenset[str]:
    """Names of all policies in `files`. Raises PolicyFileError."""
    return frozenset(str(body["metadata"]["name"]) for body in read_objects(files) if body["kind"] == POLICY)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # reading it says what is wrong


@lru_cache(maxsize=1024)
def _objects(path: Path, _: int) -> tuple[dict[str, Any], ...]:
    """The objects of one file, read again when it has changed."""
    try:
        # YAML 1.1, as kubectl reads it.
        text = read_file(path, MAX_BYTES).decode()
        bodies = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except OSError as error:
        raise PolicyFileError(path, f"can't be read: {error.strerror}", "make it readable") from error
    except UnicodeDecodeError as error:
        raise PolicyFileError(path, f"can't be read: {error}", "save it as a text file in UTF-8") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        problem = getattr(error, "problem", None) or error
        raise PolicyFileError(path, f"not YAML: {problem}", "correct or remove the file", *place) from error
    objects = [body for body in bodies if body is not None]
    for number, body in enumerate(objects, 1):
        problem = _problem(body)
        if problem:
            message, remediation = problem
            raise PolicyFileError(path, f"document {number}: {message}", remediation)
    return tuple(objects)


def _problem(body: Any) -> tuple[str, str] | None:
    """Why `body` can't be applied with the policies, and what to do; None where it can."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        return "it is not a Kubernetes object", "give it apiVersion, kind and metadata"
    if not isinstance(body.get("apiVersion"), str) or not isinstance(body["metadata"].get("name"), str):
        return "it has no apiVersion or no metadata.name", "give it both"
    if body.get("kind") not in (POLICY, BINDING, "ConfigMap"):
        return f"kind {body.get('kind')!r} is none of {POLICY}, {BINDING} and ConfigMap", "move it elsewhere"
    for path in _MAPPINGS:
        if not isinstance(value_at(body, path), dict | None):
            return f"{'.'.join(path)} is not a mapping", "correct it"
    if not isinstance(value_at(body, _ACTIONS), list | None):
        return f"{'.'.join(_ACTIONS)} is not a list", "write [Deny]"
    if not isinstance(value_at(body, _EXPRESSIONS), list | None):
        return f"{'.'.join(_EXPRESSIONS)} is not a list", "correct it"
    return None
