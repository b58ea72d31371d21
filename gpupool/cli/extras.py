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
    top = module.partition(".")[0]
    return DISTRIBUTIONS.get(top, top.replace("_", "-"))


def extras() -> dict[str, set[str]]:
    """Each extra with the packages that it brings, those of the extras that it includes among them."""
    own: dict[str, set[str]] = {}
    included: dict[str, list[str]] = {}
    try:
        requirements = requires("gpupool") or ()
    except PackageNotFoundError:  # run from a folder of sources
        requirements = ()
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or match[3] is None:
            continue
        name, others, extra = match[1].lower(), match[2], match[3]
        if name == "gpupool":
            included.setdefault(extra, []).extend(re.split(r"\s*,\s*", others))
        else:
            own.setdefault(extra, set()).add(name)

    def whole(extra: str) -> set[str]:
        return own.get(extra, set()).union(*(whole(other) for other in included.get(extra, ())))

    return {extra: whole(extra) for extra in own.keys() | included.keys()}
