"""`url()`, `isURL()` and the parts of a URL, as Go's net/url reads and escapes them (go1.26).

A URL is judged twice, as the API server does: once as a request URI (absolute, or a path), then for its
parts. Works on bytes, because escapes may stand for bytes that are not UTF-8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from vapcheck.cel.errors import CelError
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.addresses import AddressError, parse_address
from vapcheck.cel.libraries.declaration import Overload, accepted_by, free, member
from vapcheck.cel.libraries.url_escapes import (
    FRAGMENT,
    HOST,
    PATH,
    QUERY,
    USER,
    ZONE,
    UrlError,
    escape,
    is_escaped,
    unescape,
)
from vapcheck.cel.values import Opaque
from vapcheck.go_text import quote, valid_utf8

_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*")
_USER = re.compile(rb"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_PORT = re.compile(rb"(?::[0-9]*)?")
_MAX_PARAMETERS = 10_000
"""Go's limit of parameters in a query; none are read of one that has more."""


@dataclass(frozen=True, slots=True, eq=False)
class URL(Opaque):
    """A parsed URL; all parts as bytes, unescaped where Go does so."""

    type_name: ClassVar[str] = "kubernetes.URL"
    scheme: bytes = b""
    opaque: bytes = b""
    user: tuple[bytes, ...] | None = None
    """Name, or name and password."""
    host: bytes = b""
    path: bytes = b""
    raw_path: bytes = b""
    """As written, where that is not how the path would be escaped."""
    query: bytes = b""
    force_query: bool = False
    omit_host: bool = False
    fragment: bytes = b""
    raw_fragment: bytes = b""

    def key(self) -> bytes:
        """The URL as written out again: equality compares that."""
        return _written(self)

    def __str__(self) -> str:
        return valid_utf8(_written(self))


def parse_url(text: str) -> URL:
    """A URL of an absolute URI or an absolute path. Raises CelError."""
    raw = text.encode()
    try:
        request_uri(text)
        before, _, fragment = raw.partition(b"#")
        try:
            parts = _parse(before, as_request=False)
        except UrlError as error:
            raise UrlError(f"parse {quote(before)}: {error}") from None
        try:
            plain = unescape(fragment, FRAGMENT)
        except UrlError as error:
            raise UrlError(f"parse {quote(raw)}: {error}") from None
    except UrlError as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None
    as_is = fragment == escape(plain, FRAGMENT)
    return replace(parts, fragment=plain, raw_fragment=b"" if as_is else fragment)


def request_uri(text: str) -> None:
    """Check that a text is a request URI. Raises UrlError with Go's message."""
    raw = text.encode()
    try:
        _parse(raw, as_request=True)
    except UrlError as error:
        raise UrlError(f"parse {quote(raw)}: {error}") from None


is_url = accepted_by(request_uri, UrlError)


def _parse(raw: bytes, *, as_request: bool) -> URL:
    """All of a URL but for the fragment. Raises UrlError."""
    if any(byte < 0x20 or byte == 0x7F for byte in raw):
        raise UrlError("net/url: invalid control character in URL")
    if not raw and as_request:
        raise UrlError("empty url")
    if raw == b"*":
        return URL(path=b"*")
    scheme, rest = _split_scheme(raw)
    force_query = rest.endswith(b"?") and rest.count(b"?") == 1
    rest, _, query = rest.partition(b"?")
    url = URL(scheme=scheme, query=query, force_query=force_query)
    if not rest.startswith(b"/"):
        if scheme:
            return replace(url, opaque=rest)
        if as_request:
            raise UrlError("invalid URI for request")
        if b":" in rest.partition(b"/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    if rest.startswith(b"//") and (scheme or (not as_request and not rest.startswith(b"///"))):
        authority, slash, path = rest[2:].partition(b"/")
        rest = slash + path
        user, host = _authority(scheme, authority)
        url = replace(url, user=user, host=host)
    elif scheme and rest.startswith(b"/"):
        url = replace(url, omit_host=True)
    plain = unescape(rest, PATH)
    return replace(url, path=plain, raw_path=b"" if rest == escape(plain, PATH) else rest)


def _split_scheme(raw: bytes) -> tuple[bytes, bytes]:
    if raw.startswith(b":"):
        raise UrlError("missing protocol scheme")
    match = _SCHEME.match(raw)
    if match is None or raw[match.end() : match.end() + 1] != b":":
        return b"", raw
    return match.group().lower(), raw[match.end() + 1 :]


def _authority(scheme: bytes, authority: bytes) -> tuple[tuple[bytes, ...] | None, bytes]:
    user, at, host = authority.rpartition(b"@")
    plain_host = _host(scheme, host)
    if not at:
        return None, plain_host
    if not _USER.fullmatch(user):
        raise UrlError("net/url: invalid userinfo")
    return tuple(unescape(part, USER) for part in user.split(b":", 1)), plain_host


def _host(scheme: bytes, host: bytes) -> bytes:
    bracket = host.rfind(b"[")
    if bracket > 0:
        raise UrlError("invalid IP-literal")
    if bracket == 0:
        return _ip_literal(host)
    start = host.find(b":")
    if start >= 0 and scheme not in (b"http", b"https"):
        start = host.rfind(b":")
    if start >= 0 and not _PORT.fullmatch(host[start:]):
        raise UrlError(f"invalid port {quote(host[start:])} after host")
    return unescape(host, HOST)


def _ip_literal(host: bytes) -> bytes:
    inside, bracket, port = host[1:].rpartition(b"]")
    if not bracket:
        raise UrlError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise UrlError(f"invalid port {quote(port)} after host")
    zone = inside.find(b"%25")
    if zone >= 0:
        plain = unescape(inside[:zone], HOST) + unescape(inside[zone:], ZONE)
    else:
        plain = unescape(inside, HOST)
    try:
        address = parse_address(plain.decode("utf-8", "surrogateescape"))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from None
    if address.bits == 32:
        raise UrlError("invalid IP-literal")
    return b"[" + plain + b"]" + port


def _escaped_path(url: URL) -> bytes:
    if url.raw_path and is_escaped(url.raw_path, PATH):
        return url.raw_path
    return b"*" if url.path == b"*" else escape(url.path, PATH)


def _written(url: URL) -> bytes:
    out = url.scheme + b":" if url.scheme else b""
    if url.opaque:
        out += url.opaque
    else:
        path = _escaped_path(url)
        named = url.host or url.user is not None
        if (named or (url.scheme and not url.omit_host)) and (named or url.path):
            out += b"//"
        if url.user is not None:
            out += b":".join(escape(part, USER) for part in url.user) + b"@"
        out += escape(url.host, HOST)
        if path and not path.startswith(b"/") and url.host:
            out += b"/"
        if not out and b":" in path.partition(b"/")[0]:
            out += b"./"
        out += path
    if url.force_query or url.query:
        out += b"?" + url.query
    if url.fragment:
        as_is = url.raw_fragment and is_escaped(url.raw_fragment, FRAGMENT)
        out += b"#" + (url.raw_fragment if as_is else escape(url.fragment, FRAGMENT))
    return out


def _split_port(host: bytes) -> tuple[bytes, bytes]:
    colon = host.rfind(b":")
    port = b""
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        host, port = host[:colon], host[colon + 1 :]
    if host.startswith(b"[") and host.endswith(b"]"):
        host = host[1:-1]
    return host, port


def parameters(url: URL) -> dict[str, list[str]]:
    """The query's parameters, unescaped; what can't be read is left out, as Go does."""
    found: dict[str, list[str]] = {}
    pieces = url.query.split(b"&")
    if len(pieces) > _MAX_PARAMETERS:
        return found
    for piece in pieces:
        if not piece or b";" in piece:
            continue
        name, _, value = piece.partition(b"=")
        try:
            plain = valid_utf8(unescape(name, QUERY)), valid_utf8(unescape(value, QUERY))
        except UrlError:
            continue
        found.setdefault(plain[0], []).append(plain[1])
    return found


_URL = URL.type_name
OVERLOADS: tuple[Overload, ...] = (
    free("string_to_url", "url", ("string", _URL), parse_url, costs.first),
    free("is_url_string", "isURL", ("string", "bool"), is_url),
    member("url_get_scheme", "getScheme", (_URL, "string"), lambda url: valid_utf8(url.scheme)),
    member("url_get_host", "getHost", (_URL, "string"), lambda url: valid_utf8(url.host)),
    member(
        "url_get_hostname", "getHostname", (_URL, "string"), lambda url: valid_utf8(_split_port(url.host)[0])
    ),
    member("url_get_port", "getPort", (_URL, "string"), lambda url: valid_utf8(_split_port(url.host)[1])),
    member(
        "url_get_escaped_path", "getEscapedPath", (_URL, "string"), lambda url: valid_utf8(_escaped_path(url))
    ),
    member("url_get_query", "getQuery", (_URL, "map(string, list(string))"), parameters),
)
