"""A project's own GPU models: `catalog/*.yaml` beside `environments/`, added to those that gpupool ships.

A file with the name of a shipped one replaces it as a whole. Every file is validated by
`gpupool.environment.catalog.gpu_file`, and each error is a finding with its place, as in an environment file.
This module must not depend on environments or sharing; for the meaning of a model, see
`gpupool.environment.catalog`.
"""

from __future__ import annotations

import functools
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import cast

from gpupool.environment.catalog.gpu_file import GpuFile
from gpupool.environment.catalog.load import Catalog, load_catalog, model, shipped_file
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.project import environments_folder
from gpupool.environment.spec.shape import shape_findings
from gpupool.environment.spec.yaml_source import MAX_BYTES, Loc, YamlSource, display_path, parse_source
from gpupool.findings import Finding, SpecError, file_finding
from vapcheck.reading import files_below, read_file

_KEY = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_FILL_IN = "write the fields of one GPU; gpupool catalog NAME --file prints one"
_SUFFIXES = (".yaml", ".yml")
_SCHEMA_LINE = re.compile(r"^# yaml-language-server: .*")
_ADDRESS = "https://gpupool.dev/schema/catalog.schema.json"


def catalog_folder(environment: Path | None = None) -> Path:
    """Where the models of a project are: beside the folder `environments` that the file `environment` is in;
    without such a file, those of the project that the working directory is in."""
    if environment is not None and environment.resolve().parent.name == "environments":
        return environment.resolve().parent.parent / "catalog"
    return environments_folder().parent / "catalog"


def read_catalog(environment: Path | None = None) -> tuple[Catalog, tuple[Finding, ...]]:
    """The models that ship with gpupool and those of the project, and what is wrong with the project's."""
    folder = catalog_folder(environment)
    if not folder.is_dir():
        return load_catalog(), ()
    files = files_below(folder, _SUFFIXES, depth=0)
    return _read(tuple((path, display_path(path), _content(path)) for path in files))


def catalog_here() -> Catalog:
    """The catalog of the project that the working directory is in. Raises SpecError where a file of it can't
    be used."""
    catalog, findings = read_catalog()
    if findings:
        raise SpecError(findings)
    return catalog


def ready_file(key: str, environment: Path | None = None) -> str:
    """What to do about a GPU that the catalog does not have: a file to fill in, and where it belongs."""
    name = _as_key(key)
    path = display_path(catalog_folder(environment) / f"{name}.yaml")
    return f"""\
To add your own NVIDIA GPU, write this to {path}, fill in the values from the labels of a
node with the GPU (kubectl get node NODE --show-labels), and set gpu: {name} in the pool

{_blank(name)}"""


def gpu_file(key: str) -> str:
    """The file of a GPU, to be changed in the project's `catalog` folder; of one that the catalog of the
    working directory's project does not have, a file to fill in, which is refused until it is."""
    # A broken file is left aside: the shell has emptied the one that this is written to.
    gpu_model = read_catalog()[0].models.get(key)
    if gpu_model is None:
        return _blank(_as_key(key))
    return _SCHEMA_LINE.sub(
        f"# yaml-language-server: $schema={_ADDRESS}", gpu_model.own_file or shipped_file(key)
    )


def _as_key(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "my-gpu"


def _blank(key: str) -> str:
    return f"""\
# yaml-language-server: $schema={_ADDRESS}
title: NVIDIA {key.replace("-", " ").upper()}
architecture: ""        # label nvidia.com/gpu.family: turing, ampere, ada-lovelace, ...
computeCapability: ""   # labels nvidia.com/gpu.compute.major and .minor, such as "8.6"
memoryMib: 0            # label nvidia.com/gpu.memory
productLabels: []       # label nvidia.com/gpu.product without -SHARED, such as [NVIDIA-GeForce-RTX-3060]
"""


def _content(path: Path) -> bytes | str:
    try:
        return read_file(path, MAX_BYTES)
    except OSError as error:
        return error.strerror or str(error)


@functools.lru_cache(maxsize=8)
def _read(files: tuple[tuple[Path, str, bytes | str], ...]) -> tuple[Catalog, tuple[Finding, ...]]:
    """The catalog with the models of `files`: path, path as it is shown, content or why it can't be read."""
    shipped = load_catalog()
    own: dict[str, GpuModel] = {}
    findings: list[Finding] = []
    sources: dict[str, YamlSource] = {}
    for path, shown, content in files:
        problem = _name_problem(path, sources)
        if isinstance(content, str):
            problem = f"can't be read: {content}", "make the file readable"
        if problem or isinstance(content, str):
            findings.append(file_finding(shown, 1, 1, "", *(problem or ("", ""))))
            continue
        try:
            source = sources[path.stem] = parse_source(shown, content)
        except SpecError as error:
            findings += error.findings
            continue
        wrong = [*source.findings, *shape_findings(source, GpuFile, _FILL_IN)]
        findings += wrong
        if not wrong:
            own[path.stem] = model(path.stem, source.data, source.text)
    findings += _taken(own, shipped, sources)
    broken = frozenset(path.stem for path, _, _ in files) - {*own}
    # ChainMap reads no model until it is asked for; its type wants mappings that can be changed.
    models = ChainMap[str, GpuModel](own, cast(MutableMapping[str, GpuModel], shipped.models))
    return Catalog(models, shipped.unusable, broken), tuple(findings)


def _name_problem(path: Path, before: Mapping[str, YamlSource]) -> tuple[str, str] | None:
    if not _KEY.fullmatch(path.stem):
        remediation = "use lowercase letters, digits, - and ., such as rtx-3060.yaml"
        return f"{path.stem!r} can't be the key of a GPU", remediation
    if path.stem in before:
        return f"{path.stem} is also described in {before[path.stem].file}", "keep one of the two files"
    return None


def _taken(
    own: Mapping[str, GpuModel], shipped: Catalog, sources: Mapping[str, YamlSource]
) -> Iterator[Finding]:
    """Instance types of the project's models that another model has already."""
    if not any(gpu_model.instance_types for gpu_model in own.values()):
        return
    owners = {
        machine.name: one
        for key, one in shipped.models.items()
        if key not in own
        for machine in one.instance_types
    }
    for key, one in own.items():
        for index, machine in enumerate(one.instance_types):
            other = owners.setdefault(machine.name, one)
            if other is not one:
                message = f"{machine.name} is already an instance type of the {other.title} ({other.key})"
                loc: Loc = ("instanceTypes", index, "name")
                yield sources[key].finding(loc, message, "list each instance type in one model only")
