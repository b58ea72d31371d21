"""What is wrong with a file of manifests: the place, what was found, and what would be right."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that can't be read, in one place of one file. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    message: str
    """What is wrong, with the value."""
    remediation: str
    """What would be right."""

    def __str__(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.message}; {self.remediation}"
        # One line, whatever the file contains: no line feed, no escape sequence for a terminal.
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
