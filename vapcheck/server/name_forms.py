"""The forms of names that the API server asks for: labels, subdomains, keys of labels, segments of paths.

After apimachinery 0.36 (`util/validation`, `api/validate/content`). It only says yes or no; callers
write the messages.
"""

from __future__ import annotations

import re
from typing import Final

_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
LABEL_KEY: Final = "[prefix/]name of letters, digits, '-', '_', '.', the name at most 63"
SUBDOMAIN: Final = "lower-case letters, digits, '-' and '.', at most 253, letters or digits at both ends"
DNS_LABEL: Final = "lower-case letters, digits and '-', at most 63, a letter first, no '-' last"


def is_label_key(text: str) -> bool:
    """Keys of labels and annotations, and what else Kubernetes calls a qualified name."""
    prefix, slash, name = text.rpartition("/")
    return (not slash or is_subdomain(prefix)) and len(name) <= 63 and bool(_NAME.match(name))


def is_label_value(text: str) -> bool:
    """Values of labels; nothing is one too."""
    return text == "" or (len(text) <= 63 and bool(_NAME.match(text)))


def is_subdomain(text: str) -> bool:
    """Names of most objects, groups of APIs, prefixes of keys (RFC 1123)."""
    return len(text) <= 253 and bool(_SUBDOMAIN.match(text))


def is_dns_label(text: str) -> bool:
    """Versions of APIs, and kinds in lower case (RFC 1035)."""
    return len(text) <= 63 and bool(_DNS_LABEL.match(text))


def is_path_segment(text: str) -> bool:
    """Names of objects of any kind, as a reference may give them: no form but what a URL needs."""
    return text not in (".", "..") and not {"/", "%"} & set(text)
