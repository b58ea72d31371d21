"""Image references as kubelets read them: which texts are one, and what they name.

The grammar is that of github.com/distribution/reference 0.6.0 (Kubernetes 1.36 parses each image with its
ParseNormalizedNamed), with digests as github.com/opencontainers/go-digest 1.0.0 takes them. The policy
`pin-images` says the same in CEL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMPONENT = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_COMPONENT}(?:[.]{_COMPONENT})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH = rf"{_PART}(?:/{_PART})*"
_TAG = "[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}"
_DIGEST = "sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}"
_REFERENCE = re.compile(rf"(?P<name>[^@]*?)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?")
_MATCH = re.compile(rf"(?:{_DOMAIN}/)?{_PATH}(?::{_TAG})?(?:@(?:{_DIGEST}))?")
_REGISTRY = re.compile(_DOMAIN)
_NO_FOLDER = re.compile("[.:A-Z]|^localhost$")
"""In the first part of a name: it is a registry, and no folder of docker.io."""
_IDENTIFIER = re.compile("[a-f0-9]{64}")
"""Stands for an image's id, and so is no name."""
LONGEST_PATH = 255
"""Characters of the name without its registry, with the folder that docker.io gives to single names."""
_DOCKER, _FOLDER = ("docker.io", "index.docker.io"), "library/"
FORM = "write [REGISTRY[:PORT]/]NAME[:TAG][@sha256:...], NAME in lower case"


class WrongImage(ValueError):
    """A text that no kubelet takes for an image. `problem`: what is wrong, without `FORM`."""

    def __init__(self, text: str, reason: str) -> None:
        self.problem = f"{text[:200]!r} is no image reference: {reason}"
        super().__init__(f"{self.problem}; {FORM}")


@dataclass(frozen=True, slots=True)
class Image:
    name: str
    """With its registry, where the reference has one."""
    tag: str | None
    digest: str | None
    """Algorithm and number, such as sha256:..."""

    @property
    def pinned(self) -> bool:
        """Whether it names a version: the same image tomorrow, as far as tags go."""
        return self.digest is not None or self.tag not in (None, "latest")


def parsed(text: str) -> Image:
    """The image that a reference names. Raises WrongImage."""
    if _IDENTIFIER.fullmatch(text):
        raise WrongImage(text, "64 hexadecimal digits alone are an image's id")
    if not _MATCH.fullmatch(text):
        raise WrongImage(text, _why(text))
    parts = _REFERENCE.fullmatch(text)
    assert parts is not None
    name = parts["name"]
    if len(_path(name)) > LONGEST_PATH:
        raise WrongImage(text, f"its name has more than {LONGEST_PATH} characters")
    return Image(name, parts["tag"], parts["digest"])


def _path(name: str) -> str:
    """The name within its registry."""
    first, slash, rest = name.partition("/")
    if not slash:
        return _FOLDER + name
    if not (_NO_FOLDER.search(first) and _REGISTRY.fullmatch(first)):
        return name
    return _FOLDER + rest if first in _DOCKER and "/" not in rest else rest


def _why(text: str) -> str:
    """Which part is wrong, for people."""
    head, at, digest = text.partition("@")
    if at and not re.fullmatch(_DIGEST, digest):
        return f"{digest[:80]!r} is no digest (sha256, sha384 or sha512, and all its digits in lower case)"
    last = head.rpartition("/")[2]
    name, colon, tag = last.partition(":")
    if colon and not re.fullmatch(_TAG, tag):
        return f"{tag[:140]!r} is no tag (up to 128 letters, digits, dots, dashes and underscores)"
    if _MATCH.fullmatch(head.lower()) or name != name.lower():
        return "its name has capital letters"
    if "://" in text:
        return "it has a scheme"
    return "its name or registry can't be read"
