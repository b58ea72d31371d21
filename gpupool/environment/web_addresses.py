"""Web addresses that are called for others: checked is what is called.

A text is parsed once, by the library that the HTTP client takes addresses from, and the client is given that
object: nothing else reads the text. Text alone: what a name resolves to is checked where it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING

from gpupool.environment.reserved_addresses import forbidden

if TYPE_CHECKING:
    from yarl import URL

_SCHEMES = ("http", "https")
_LABEL = "[a-z0-9]([-a-z0-9_]{0,61}[a-z0-9])?"
_AUTHORITY = re.compile(
    rf"(?P<host>(?=[^:]{{1,253}}(:|$)){_LABEL}(\.{_LABEL})*|\[[0-9a-f:.]+\])(:[1-9][0-9]{{0,4}})?",
    re.IGNORECASE | re.ASCII,
)
_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)$")
"""The end of an IPv4 address, also as inet_aton reads it (URL Standard, ends-in-a-number checker)."""


REMEDY = (
    "write http://host:port/path without user information, the host in ASCII, IPv4 as four decimal numbers"
)


class WrongAddress(ValueError):
    """A text is no http or https URL, or nothing can call it. `problem`: what is wrong, without `REMEDY`."""

    def __init__(self, text: str, reason: str) -> None:
        shown = re.sub(r"//.*@", "//...@", text, flags=re.DOTALL)[:200]  # a password may be before an @
        self.problem = f"{shown!r} is not an http or https URL that can be called: {reason}"
        super().__init__(f"{self.problem}; {REMEDY}")


def parsed(text: str, base: URL | None = None) -> URL:
    """A web address, or what a redirect of `base` leads to. Raises WrongAddress."""
    from yarl import URL  # `gpupool` starts without it

    try:
        # As written: the library would turn a host outside ASCII into another one.
        authority = URL(text, encoded=True).raw_authority
        url = URL(text) if base is None else base.join(URL(text))
    except (ValueError, IndexError):  # IndexError: yarl 1.25.1, http://[]@
        raise WrongAddress(text, "its host or port can't be read") from None  # the error may show a password
    if authority and not _AUTHORITY.fullmatch(authority):
        raise WrongAddress(text, "its host is no name or IP address in ASCII, or its port none of 1 to 65535")
    if url.scheme not in _SCHEMES or not url.raw_host:
        raise WrongAddress(text, "its scheme is another one, or it has no host")
    try:
        if ":" in url.raw_host:
            IPv6Address(url.raw_host)
        elif _NUMBER.search(url.raw_host):
            IPv4Address(url.raw_host)
    except ValueError as error:
        raise WrongAddress(text, str(error)) from None
    return url


def origin(url: URL) -> str:
    """Scheme, host and port, the default port left out."""
    return str(url.origin())


def allowed(url: URL, origins: Iterable[str]) -> bool:
    """Whether the address is of one of these origins. Raises WrongAddress where one is none."""
    return origin(url) in {origin(parsed(text)) for text in origins}


def literal_forbidden(url: URL) -> bool:
    """Whether the host is an IP address that no job may reach; a name is none."""
    try:
        return forbidden(url.raw_host or "")
    except ValueError:
        return False
