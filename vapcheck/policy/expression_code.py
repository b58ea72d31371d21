"""What of a CEL expression's text is code: without comments, and with every string emptied.

Used to search names in the text of expressions, including those that don't compile. It must not parse:
`cel` and `expression_edits` do.
"""

from __future__ import annotations

import re

_NO_CODE = re.compile(
    r"""(?:\b(?:[rR][bB]?|[bB][rR])(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')"""
    r"""|(?:\b[bB])?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|//[^\n]*""",
    re.DOTALL,
)


def code_of(expression: str) -> str:
    """The expression with `""` for each string and a space for each comment."""
    return _NO_CODE.sub(lambda match: " " if match[0].startswith("//") else '""', expression)
