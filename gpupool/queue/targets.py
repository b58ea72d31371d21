"""Which addresses jobs may call: origins of `queue.targets`, compared in one form wherever they are checked.

Text alone: what a name resolves to is checked where it is called (`gpupool.queue.roles.http_job`).
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def origin(url: str) -> str:
    """Scheme, host and port of a web address, the default port left out. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError(f"{url!r} is not an http or https URL without user information")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port not in (None, _PORTS[parts.scheme]) else ""
    return f"{parts.scheme}://{host}{port}"


def allowed(url: str, targets: Iterable[str]) -> bool:
    """Whether the address is of one of these origins. Raises ValueError where it is no web address."""
    return origin(url) in {origin(target) for target in targets}
