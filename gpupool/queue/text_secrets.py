"""Which part of a text that is shown to others is a secret: in commands, addresses and JSON of jobs.

Found by the names that people give to secrets, and by the form of addresses: a secret under another name is
not found, which is why secrets come by reference (`env_from_secrets`). It must not be used to decide what is
done with a value.
"""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "<hidden by gpupool>"
"""Stands for a value that is not shown. No request may have it, so that it is never taken for the value."""
_NAME = re.compile(
    r"pass(word|phrase|wd|code)?$|pwd$|secrets?$|token$|(api|access|account|private|secret|encryption)key$"
    r"|signature$|credentials?$|^(authorization|auth|jwt|sig|creds|cookie)$"
)
"""Names of secrets, in lower case and without dashes, dots and underscores."""
_USER = re.compile(r"(?:[^\s/?#'\":%]|%(?!3a))*(?:(?::|%3a)(?P<password>[^\s'\"]*+))?", re.IGNORECASE)
_TOKEN_AS_USER = re.compile(r"(https?|nats|tls|wss?)$", re.IGNORECASE)
"""Schemes whose servers take a token in place of a user, as in `gpupool.findings.address_secrets`."""
_LONGEST_USER = 400
"""Characters of a user and a password, before the @ of an address."""
_ASSIGNED = re.compile(r"(?<![\w.-])([\w.-]++)[\"']?[ \t]{0,4}[=:][ \t]{0,4}")
"""NAME=, NAME: and "NAME":, before a value."""
_VALUE = re.compile(
    r"(?:(?:bearer|basic|token|digest)[ \t]{1,4})?(?:\"[^\"]*\"|'[^']*'|[^\s&;,|)}]+)", re.IGNORECASE
)
_OPTION = re.compile(r"--?([A-Za-z][\w.-]{0,99})")


def secret_name(name: str) -> bool:
    """Whether what is called so is a secret."""
    return bool(_NAME.search(re.sub("[-_.]", "", name.lower())))


def without_secrets(text: str) -> str:
    """`text` with `HIDDEN` in place of passwords, tokens and the like."""
    text = _without_users(text)
    parts: list[str] = []
    done = at = 0
    while match := _ASSIGNED.search(text, at):
        at = match.end()  # the value of another name may have a secret in it, as the query of an address has
        if secret_name(match[1]) and (value := _VALUE.match(text, at)):
            parts += [text[done:at], HIDDEN]
            done = at = value.end()
    return "".join(parts) + text[done:]


def words_without_secrets(words: list[str]) -> list[str]:
    """The same of a command line, where a secret may be the word after its option."""
    shown: list[str] = []
    secret = False
    for word in words:
        option = _OPTION.fullmatch(word)
        shown.append(HIDDEN if secret and not option else without_secrets(word))
        secret = bool(option and secret_name(option[1]))
    return shown


def value_without_secrets(value: Any) -> Any:
    """The same of a JSON value: texts of members that are called as secrets are, and secrets within texts."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list):
        return [value_without_secrets(item) for item in value]
    if isinstance(value, dict):
        return {
            name: HIDDEN if isinstance(item, str) and secret_name(name) else value_without_secrets(item)
            for name, item in value.items()
        }
    return value


def _without_users(text: str) -> str:
    """Without passwords, and users that are tokens, before the @ of an address. From the end, since a
    password may have an @ itself."""
    parts: list[str] = []
    end = at = len(text)
    while (at := text.rfind("@", 0, at)) >= 0:
        mark = text.rfind("://", max(0, at - _LONGEST_USER), at)
        match = _USER.fullmatch(text, mark + 3, at) if mark >= 0 else None
        if match is None:
            continue
        if match["password"] is None and not _TOKEN_AS_USER.search(text, max(0, mark - 5), mark):
            continue
        kept = mark + 3 if match["password"] is None else match.start("password")
        parts += [text[at:end], HIDDEN]
        end = at = kept
    return text[:end] + "".join(reversed(parts))
