"""The tokens of a CEL expression (CEL specification, "Grammar").

The one lexer, for code that inspects an expression's text beside the checker. In text that is not CEL, what
it does not recognise is a token of kind `other`, and the rest is still split into tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*)
    |(?P<text>[bB]?[rR](?:'{3}.*?'{3}|"{3}.*?"{3}|'[^'\n]*'|"[^"\n]*")
      |[bB]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>\|\||&&|[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Token(NamedTuple):
    kind: str
    """space, comment, text, number, name, sign or other."""
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
    """Every token; together they are the text."""
    for match in _TOKEN.finditer(text):
        yield Token(str(match.lastgroup), match[0], match.start(), match.end())


def code_of(expression: str) -> str:
    """What of the text is code: the expression with `""` for each string and a space for each comment."""
    written = {"text": '""', "comment": " "}
    return "".join(written.get(token.kind, token.text) for token in tokens(expression))
