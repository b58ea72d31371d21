"""Which extra of gpupool brings a package that a verb misses: the one sentence for it.

What is in which extra is read from the metadata of the installed gpupool, as pip reads it; pyproject.toml is
where it comes from. Nothing here looks at what is installed: an import that fails is the only sign.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires

from gpupool.findings import UsageError

DISTRIBUTIONS = {
    "google": "protobuf",
    "grpc": "grpcio",
    "jwt": "pyjwt",
    "nats": "nats-py",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
"""Packages that are imported by another name than they are installed by."""
OWN = ("gpupool", "gpupool-queue", "vapcheck")
"""The distributions of this repository that require each other."""
QUEUE = ("gpupool.queue", "gpupool.client", "gpupool.cli.queue")
"""Packages that gpupool-queue installs."""

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[([^]]*)\])?[^;]*(?:;.*\bextra == ['\"]([\w-]+)['\"])?")


class MissingExtra(UsageError):
    """A package is not installed, and one of gpupool's extras has it."""


def refusal(verb: str, extra: str | None, error: ModuleNotFoundError) -> Exception:
    """What to raise for a failed import in `verb`, which `extra` is for: a sentence that names the extra to
    install, or `error` itself where none has the package."""
    name = distribution(error.name or "")
    holders = {holder: names for holder, names in extras().items() if name in names}
    if not holders:
        return error
    smallest = min(holders, key=lambda holder: (len(holders[holder]), holder))
    advised = extra if extra in holders else smallest
    return MissingExtra(
        f'gpupool {verb} needs {name}, which is not installed: pip install "gpupool[{advised}]"'
    )


def distribution(module: str) -> str:
    """What an imported package is installed by."""
    if f"{module}.".startswith(tuple(f"{package}." for package in QUEUE)):
        return "gpupool-queue"
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, top.replace("_", "-"))


def extras() -> dict[str, set[str]]:
    """Each extra with the packages that it brings, those of the extras that it includes among them."""
    requirements = _requirements("gpupool")
    return {extra: _brought("gpupool", extra) for extra in {extra for _, _, extra in requirements} - {""}}


def _brought(owner: str, extra: str) -> set[str]:
    """What `extra` of one of our distributions brings; with "", what is always installed with it."""
    brought = set()
    for name, included, condition in _requirements(owner):
        if condition != extra:
            continue
        if name in OWN:
            brought |= set().union(*(_brought(name, other) for other in included))
            if name != "gpupool":  # which is there already
                brought |= {name, *_brought(name, "")}
        else:
            brought.add(name)
    return brought


def _requirements(owner: str) -> list[tuple[str, list[str], str]]:
    """Name, extras and condition of each requirement of a distribution; none where it is not installed."""
    try:
        texts = requires(owner) or ()
    except PackageNotFoundError:  # gpupool-queue is optional, and gpupool may be run from a folder of sources
        return []
    matches = filter(None, map(_REQUIREMENT.match, texts))
    return [
        (match[1].lower(), re.split(r"\s*,\s*", match[2]) if match[2] else [], match[3] or "")
        for match in matches
    ]
