"""What `policy check` is pointed at: environments, files and folders of manifests, standard input.

Only sorts and reads; judges nothing. Environment files are recognized by their kind, so that a
folder may hold both.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.environment import shipped
from gpupool.environment.project import environments_folder
from gpupool.findings import UsageError
from vapcheck import (
    MAX_BYTES,
    Document,
    Kinds,
    ObjectRef,
    Problem,
    from_bodies,
    is_not_kubernetes,
    read_files,
    read_text,
)
from vapcheck.reading import open_file, read_file

STDIN, STDIN_NAME = "-", "stdin"
"""As a target, and as the file of a finding."""
_ENVIRONMENT = (
    re.compile(rb"^kind:\s*[\"']?Environment\b", re.MULTILINE),
    re.compile(rb"^apiVersion:\s*[\"']?gpupool\.dev/", re.MULTILINE),
)


@dataclass(frozen=True, slots=True)
class Targets:
    """What is to be judged: each environment for itself, all manifests together as one bundle."""

    environments: tuple[Path, ...]
    manifests: tuple[Path, ...]
    stdin: bool = False


def sort_targets(targets: Sequence[str]) -> Targets:
    """Separate environments from manifests. A plain name is an environment where there is one of that name.

    Raises UsageError for a target that is neither.
    """
    environments: list[Path] = []
    manifests: list[Path] = []
    for target in targets:
        path = Path(target)
        if target == STDIN:
            continue
        environment = _environment(target)
        if environment:
            environments.append(environment)
        elif path.is_file() and _is_environment(path):
            environments.append(path)
        elif path.exists():
            manifests.append(path)
        else:
            raise UsageError(
                f"{target}: no such environment, folder or file; name an environment "
                f"({_known()}), a folder or a file of manifests, or - for standard input"
            )
    # One that is named twice is judged once; a pipe could not even be read again.
    return Targets(tuple(dict.fromkeys(environments)), tuple(dict.fromkeys(manifests)), STDIN in targets)


def read_manifests(targets: Targets, meanwhile: Callable[[], object]) -> tuple[list[Document], list[Problem]]:
    """Every object of the manifests and of standard input, and what could not be read; `meanwhile` as in
    `read_files`.

    Raises UsageError for a target that holds no manifest at all.
    """
    documents: list[Document] = []
    findings: list[Problem] = []
    for path in targets.manifests:
        read, unread = read_files([path], meanwhile=meanwhile)
        if not read and all(_is_nothing(finding, path) for finding in unread):
            raise _nothing(str(path))
        documents += read
        findings += unread
    if targets.stdin:
        read, unread = _read_stdin()
        if not (read or unread):
            raise _nothing("standard input")
        documents += read
        findings += unread
    beside = _beside_objects(findings)
    if beside:
        documents = [document for document in documents if Path(document.file) not in beside]
        findings = [finding for finding in findings if Path(finding.file) not in beside]
    return documents, findings


def kinds_in(version: str | None) -> Kinds:
    """The kinds of a cluster of that version, of the newest known where none is named. Raises UsageError
    where it is no version."""
    try:
        return Kinds.builtin(version) if version else Kinds.builtin()
    except ValueError as error:
        raise UsageError(f"--kubernetes-version: {error}") from None


def labelled_namespace(
    name: str | None, labels: Sequence[str], manifests: Sequence[Document]
) -> list[Document]:
    """The Namespace (`default` where none is named) that has these labels (KEY=VALUE, with commas between);
    nothing without labels. Raises UsageError for invalid labels, or if the Namespace is among the
    manifests."""
    if not labels:
        return []
    from vapcheck import is_label_key, is_label_value

    name, given_labels = name or "default", {}
    for pair in ",".join(labels).split(","):
        key, equals, value = pair.partition("=")
        if not equals or not is_label_key(key) or not is_label_value(value):
            raise UsageError(f"--namespace-labels {pair}: not a label; write KEY=VALUE, such as team=vision")
        given_labels[key] = value
    for document in manifests:
        body = document.body
        if (body.get("apiVersion"), body.get("kind")) == ("v1", "Namespace") and ObjectRef.of(
            body
        ).name == name:
            where = f"{document.file}:{document.line}"
            raise UsageError(f"--namespace-labels: {where} has the namespace {name!r}; set its labels there")
    metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **given_labels}}
    return from_bodies(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}], "--namespace-labels"
    )


def _read_stdin() -> tuple[list[Document], list[Problem]]:
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"standard input: is larger than {MAX_BYTES >> 20} MiB; split it")
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"standard input: not UTF-8 at byte {error.start}; send YAML or JSON") from None
    return read_text(text, STDIN_NAME)


def _nothing(target: str) -> UsageError:
    return UsageError(f"{target}: nothing to check; name files or folders with manifests")


def _is_nothing(finding: Problem, target: Path) -> bool:
    """Whether a finding only says that a target, which can be read, holds no manifest."""
    if is_not_kubernetes(finding):
        return True
    return target.is_dir() and finding.file == str(target) and os.access(target, os.R_OK | os.X_OK)


def _beside_objects(findings: list[Problem]) -> set[Path]:
    """The files that `gpupool render` writes beside its objects: index, Helm releases, and patches, which are
    fragments of objects that others own.

    Everything else that is not a Kubernetes object stays a finding, because it may have been meant as one.
    """
    rendered: set[Path] = set()
    for index in {Path(finding.file) for finding in findings if Path(finding.file).name == "index.json"}:
        try:
            listed = json.loads(read_file(index, MAX_BYTES))["objects"]
            paths = [row["path"] for row in listed if row["path"].startswith(("releases/", "patches/"))]
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue  # somebody else's, and a finding
        rendered |= {index, *(index.parent / path for path in paths)}
    return rendered


def is_environment(document: Document) -> bool:
    """Whether a document is one of our environment files rather than a Kubernetes object."""
    body = document.body
    return body.get("kind") == "Environment" and str(body.get("apiVersion", "")).startswith("gpupool.dev/")


def policy_files(folder: Path) -> list[Path]:
    """The files of `folder` that may hold policies, bindings and parameters; neither its `fixtures` nor what
    is in hidden folders."""
    if folder.is_file():
        return [folder]
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in (".yaml", ".yml", ".json")
        and path.is_file()
        and not any(
            name in ("fixtures", "node_modules") or name.startswith(".")
            for name in path.relative_to(folder).parts[:-1]
        )
    )


def default_policies() -> list[Path]:
    """The policy files for manifests that bring none: those that gpupool ships and those of the project."""
    from gpupool.environment.plan.policy_files import policy_files

    folder = environments_folder()
    return list(policy_files(folder / "any.yaml" if folder.is_dir() else None))


def policies_folder() -> Path:
    """The folder `policies` of the project that one stands in, else the one that came with gpupool."""
    folder = environments_folder()
    own = folder.with_name("policies")
    return own if folder.is_dir() and any(own.glob("*.yaml")) else shipped.folder("policies")


def _environment(target: str) -> Path | None:
    """The file of the environment that a plain name means. Nothing is imported that reads it."""
    if "/" in target or target.endswith((".yaml", ".yml", ".json")):
        return None
    path = environments_folder() / f"{target}.yaml"
    return path if path.is_file() else None


def _is_environment(path: Path) -> bool:
    try:
        with open_file(path, MAX_BYTES) as file:
            head = file.read(1 << 20)
    except OSError:
        return False
    return all(pattern.search(head) for pattern in _ENVIRONMENT)


def _known() -> str:
    from gpupool.environment.spec.load import environment_names

    return ", ".join(environment_names()) or "none here"
