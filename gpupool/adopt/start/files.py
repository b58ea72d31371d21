"""The files of a new project, from a few answers, and how they are written beside what is there.

The texts are templates/; the CI workflow is the one that came with gpupool. A file that exists is never
touched, whatever is in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import TypeAdapter, ValidationError

from gpupool import __version__
from gpupool.adopt.start import Platform
from gpupool.environment import shipped
from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel
from gpupool.environment.plan.cloud_facts import pinned_image
from gpupool.environment.schema.published import address
from gpupool.environment.spec.field_types import Name
from gpupool.findings import GpupoolError, UsageError


@dataclass(frozen=True, slots=True)
class Answers:
    """What a new project is to have."""

    name: str
    """Name of its first environment."""
    platform: Platform
    gpu: str
    """Key of a GPU in the catalog."""


@dataclass(frozen=True, slots=True)
class Written:
    """Paths below the project's folder."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    """Those that were there already."""


def files(answers: Answers) -> Mapping[str, str]:
    """Path and content of every file. Raises UsageError for an answer that can't be used."""
    name, model = _name(answers.name), _model(answers.gpu)
    machine = "" if answers.platform == "static" else _machine(model)
    given = {
        "name": name,
        "platform": answers.platform,
        "gpu": model,
        "machine": machine,
        "image": pinned_image(),
        "schema": address("environment"),
    }
    workflow = shipped.folder(".github/workflows") / "gpupool.yaml"
    caller = shipped.folder("ci") / "github" / "pull-request.yaml"
    return {
        "Pulumi.yaml": _text("Pulumi.yaml", given),
        "pulumi_program.py": _text("pulumi_program.py", given),
        f"environments/{name}.yaml": _text("environment.yaml", given),
        "policies/README.md": _text("policies.md", given),
        ".github/workflows/gpupool.yaml": workflow.read_text(encoding="utf-8"),
        ".github/workflows/gpu-pools.yaml": caller.read_text(encoding="utf-8"),
        "requirements-gpupool.txt": _requirements(),
        ".gitignore": _text("gitignore", given),
    }


def write(folder: Path, content: Mapping[str, str]) -> Written:
    """Write what is missing below `folder`. Raises GpupoolError where something can't be written."""
    written, kept = [], []
    for name, text in content.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as stream:
                stream.write(text)
            written.append(name)
        except FileExistsError:
            if not path.parent.is_dir():
                raise GpupoolError(
                    f"{path.parent}: is a file but must be a folder, for {path.name}; move it away"
                ) from None
            kept.append(name)
        except OSError as error:
            raise GpupoolError(
                f"{path}: can't be written ({error.strerror}); run this in a writable folder"
            ) from error
    return Written(tuple(written), tuple(kept))


def _name(name: str) -> str:
    try:
        return TypeAdapter[str](Name).validate_python(name)
    except ValidationError as error:
        raise UsageError(
            f"--name {name}: {error.errors()[0]['msg']}; use lowercase letters, digits and hyphens, "
            "such as dev"
        ) from error


def _model(key: str) -> GpuModel:
    try:
        return load_catalog()[key]
    except CatalogError as error:
        raise UsageError(f"--gpu {key}: {error}; `gpupool catalog` lists them") from error


def _machine(model: GpuModel) -> str:
    """The cheapest machine of AWS that carries the model."""
    usable = [kind for kind in model.instance_types if kind.karpenter]
    if not usable:
        raise UsageError(
            f"--gpu {model.key}: Karpenter can start no AWS machine with the {model.title}; use "
            "--platform static for existing machines, or another GPU (`gpupool catalog`)"
        )
    return min(usable, key=lambda kind: (kind.usd_per_hour or float("inf"), kind.name)).name


def _requirements() -> str:
    """What CI installs: this gpupool and what it needs, each with its hash.

    No index is asked for the names of gpupool's distributions, which are registered at none: who takes them
    would run in the user's CI.
    """
    wheels = [line for name in ("vapcheck", "gpupool", "gpupool-queue") if (line := _wheel(name)) is not None]
    text = _text(
        "requirements.txt",
        {
            "wheels": wheels if all(wheels) else [],
            "local": any(line.startswith("./") for line in wheels),
            "version": __version__,
        },
    )
    return text + shipped.folder("requirements.lock").read_text(encoding="utf-8")


def _wheel(name: str) -> str | None:
    """The line that installs a distribution as it was installed here (PEP 610, direct_url.json).

    "" where that was no wheel with a hash, None where a distribution other than gpupool is not installed.
    """
    try:
        noted = json.loads(metadata.distribution(name).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:  # gpupool itself may be run from a folder of sources
        return "" if name == "gpupool" else None
    url, sha256 = noted.get("url", ""), noted.get("archive_info", {}).get("hashes", {}).get("sha256")
    wheel = PurePosixPath(unquote(urlsplit(url).path)).name
    if not sha256 or not wheel.endswith(".whl"):
        return ""
    place = f"./{wheel}" if urlsplit(url).scheme == "file" else f"{name} @ {url}"
    return f"{place} --hash=sha256:{sha256}"


def _text(name: str, given: Mapping[str, object]) -> str:
    # What is made is YAML and text, where HTML's escapes would be wrong.
    loader = PackageLoader("gpupool.adopt.start")
    surroundings = Environment(  # noqa: S701
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return surroundings.get_template(f"{name}.j2").render(given)
