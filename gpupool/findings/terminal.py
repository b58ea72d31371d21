"""What reaches a terminal: text of other people without its control characters, and our own styles.

A terminal obeys what it is sent: a job's output or an object's name could set its title, clear it, write to
the clipboard (OSC 52) or show text in another order than it has. So the streams of a process that prints to a
terminal are replaced at its start (`protect`), and no command can forget it. Files and pipes get all text as
it is. Programs that a command starts, such as kubectl, write to the terminal by themselves.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import secrets
import sys
import unicodedata
from typing import Any, BinaryIO, TextIO

_KEY = secrets.token_hex(8)
"""Known to this process alone, so that no text of others has a style of ours in it."""
_STYLE = re.compile(rf"<{_KEY}:([^>]*)>")
_UNUSUAL = re.compile(r"[^\n\t\x20-\x7e]")
_BREAKS = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
"""Tabs and what ends a line, for a terminal, a log or Python."""
_COMMANDS = re.compile(r"(?<!\S):(?=:[A-Za-z])|#(?=#[A-Za-z]*\[)")
"""What begins a command in a log: GitHub obeys `::name::` after spaces too, where a long line was broken, and
`##[name]` anywhere, as Azure Pipelines does `##vso[name]`."""
_JOINERS = "\u200c\u200d"
"""Within words of Persian and Indian languages, and within emoji: they move nothing."""
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Of Unicode (UAX 44, table 12): control, format (the order of text among them), surrogates, lines."""


def _style(sequence: str) -> str:
    return f"<{_KEY}:{sequence}>"


BOLD, RED, GREEN, YELLOW, CYAN = (_style(f"\x1b[{number}m") for number in (1, 31, 32, 33, 36))
PLAIN = _style("\x1b[0m")
CLEAR_LINE = _style("\r\x1b[K")
"""Goes back to the beginning of the line and empties it."""


def visible(text: str) -> str:
    """`text` with escapes such as `\\x1b` for what a terminal would obey; line breaks and tabs stay."""
    return text if text.isascii() and text.isprintable() else _UNUSUAL.sub(_visible, text)


def one_line(text: str) -> str:
    """`text` with escapes for line breaks too, so that what a file says can't begin a line of ours."""
    return _without_commands(visible(text).replace("\n", "\\n").replace("\t", "\\t"))


def in_sentence(text: str) -> str:
    """`text` as a line of ours, or a part of one: line breaks and tabs are spaces, other control characters
    and what begins a command in a log are escapes. Our own styles stay."""
    if text.isascii() and text.isprintable():
        return _without_commands(text)
    parts = _STYLE.split(text)  # text and sequences in turn
    parts[::2] = [_without_commands(visible(_BREAKS.sub(" ", part))) for part in parts[::2]]
    parts[1::2] = map(_style, parts[1::2])
    return "".join(parts)


def _without_commands(text: str) -> str:
    return _COMMANDS.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _obeyed(character: str) -> bool:
    return character not in _JOINERS and unicodedata.category(character) in _CATEGORIES


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    if not _obeyed(character):
        return character
    return character.encode("unicode_escape").decode("ascii")


def sent(text: str) -> str:
    """What a terminal is sent for `text`: of control sequences our own styles alone."""
    parts = _STYLE.split(text)  # text and sequences in turn
    parts[::2] = [visible(part) for part in parts[::2]]
    return "".join(parts)


class Terminal(io.TextIOWrapper):
    """A terminal that shows text and obeys our own styles alone."""

    def write(self, text: str, /) -> int:
        super().write(sent(text))
        return len(text)

    @property
    def buffer(self) -> BinaryIO:
        """For libraries that write bytes: click does where the terminal's encoding is ASCII."""
        return io.BufferedWriter(_Bytes(self))

    def write_raw(self, text: str) -> None:
        """Send `text` as it is."""
        super().write(text)


class _Bytes(io.RawIOBase):
    """The bytes under a terminal, as text that it shows."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        self._terminal.write(self._decoder.decode(bytes(content)))
        self._terminal.flush()
        return len(content)


def json_at(stream: TextIO, text: str) -> str:
    """JSON as `stream` is to get it: at a terminal with JSON's own escapes for what that would obey."""
    if not isinstance(stream, Terminal):
        return text
    return _UNUSUAL.sub(lambda match: json.dumps(match[0])[1:-1] if _obeyed(match[0]) else match[0], text)


def write_raw(text: str) -> None:
    """Print `text` to stdout as it is, also on a terminal."""
    stream = sys.stdout
    stream.write_raw(text) if isinstance(stream, Terminal) else stream.write(text)


def protect() -> None:
    """Replace stdout and stderr of this process where they are terminals, or were closed before its start:
    then what is written goes nowhere, and no file that is opened later takes their place."""
    sys.stdout, sys.stderr = _protected(_opened(sys.stdout)), _protected(_opened(sys.stderr))


def _opened(stream: TextIO | None) -> TextIO:
    return open(os.devnull, "w", encoding="utf-8") if stream is None else stream


def _protected(stream: TextIO) -> TextIO:
    if isinstance(stream, Terminal) or not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return stream
    encoding, errors = stream.encoding, stream.errors
    return Terminal(stream.detach(), encoding=encoding, errors=errors, line_buffering=True)
