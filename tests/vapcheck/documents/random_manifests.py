"""Texts that look like manifests, made at random: of shapes that all readers agree about, or of any."""

from __future__ import annotations

from random import Random

from tests.vapcheck.documents.hard_cases import KEYS, VALUES

PLAIN_VALUES = [
    "x",
    "a b",
    "nginx:1.2",
    '"q"',
    "'q'",
    "'it''s'",
    '"a\\"b\\n"',
    "1",
    "0",
    "-5",
    "1.5",
    "0.25",
    "true",
    "false",
    "null",
    "10Gi",
    "500m",
    "1.2.3.4/8",
    "[]",
    "{}",
    "[a, b]",
    '["a", 1]',
    "{a: b}",
    '{a: "x", "b": 2}',
    "http://x:8/y",
    "a # c",
    '"x" # c',
    "a#b",
    "a,b",
    "a]b",
    "x{y}",
    "a'b",
    "e5",
    "inf",
    "nan",
    "Infinity",
    "NaN",
    "a_1",
    "x_",
    "TRUEx",
    "trueish",
    "a=b",
    "a*b",
    "a&b",
    "a!b",
    "a|b",
    "a>b",
    "a%b",
    "a@b",
    "a`b",
    "a?b",
    "\xe9",
    "/x/y",
    "a -",
    "a - b",
    "a ? b",
    "a !b",
    "a &b",
    "a *b",
    'z"',
    "100%",
    "5s",
    "[true, null]",
    "[1.5, -2]",
    "{a: null}",
    "9999999999999999",
    "n1",
    "yes1",
    "Yes.",
    "on/",
    "t",
    "f",
    "Oo17",
    "[a b]",
    "-m",
    "--x=y",
    "-inf",
    "-nan",
    "--inf",
    "-e5",
    "$(X)",
    "$",
    "-a: b",
    "-a #b",
    "12abc",
    "1e5a",
    "20e6f5",
    "206f5c",
    "0abc",
    "0e1f",
    "1d",
    "1F",
    "3j",
    "1a-b",
    "8608fdbc-9bbe",
    "1.2.3",
    "1e5.5",
    "1ee5",
    "1e5e5",
    "[1a, 2]",
    "{a: 1e5a}",
    "0a",
    "1inf",
    "0b1a",
    "0b12",
    "1n",
    "0d1",
]
PLAIN_KEYS = [
    "a",
    "b",
    "spec",
    "a.b/c",
    '"q"',
    "'q'",
    "x-y",
    "x_y",
    "nullx",
    "ON1",
    "t",
    "inf",
    "nan",
    "e5",
    "no.",
]
BLOCK_LINES = [
    "text",
    "# x",
    "a: b",
    "- x",
    '"',
    "a\tb",
    "",
    "  ",
    "{{ x }}",
    "\xe9",
    "---x",
    "key: |",
    "x: [",
    "tail  ",
]
ODD_LINES = [
    "---",
    "--- ",
    "--- # x",
    "---a",
    "...",
    "... ",
    "%YAML 1.1",
    "%TAG ! x",
    " ---",
    "<<: *a",
    "a: &a {x: 1}",
    "<<: [*a, {x: 5}]",
    "- &a x",
    "? k",
    ": v",
    "a: >2",
    "\ta: b",
    "a:\tb",
    "- - a",
    "-",
    "[",
    "}",
    "a: 'x",
    'b: "x',
]
HEADER = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\nx:\n"


def plain_text(random: Random) -> str:
    """Lines of shapes that all readers agree about, at any indentation: often no YAML as a whole."""
    lines: list[str] = []
    indent = 0
    for _ in range(random.randint(1, 9)):
        indent = _next(random, indent)
        before, kind = " " * indent, random.random()
        key, value = random.choice(PLAIN_KEYS), random.choice(PLAIN_VALUES)
        if kind < 0.5:
            lines.append(f"{before}{key}:" + (f" {value}" if random.random() < 0.6 else ""))
        elif kind < 0.65:
            lines.append(f"{before}- {value}")
        elif kind < 0.8:
            lines.append(f"{before}- {key}:" + (f" {value}" if random.random() < 0.7 else ""))
        elif kind < 0.9:
            lines += _block(random, indent, key)
        else:
            lines.append(random.choice([f"{before}# comment", "", before]))
    return "\n".join(lines) + "\n"


def any_text(random: Random) -> str:
    """Any lines, below a header that makes an object of them when they are good."""
    lines: list[str] = []
    indent = 2
    values = [text for text, _ in VALUES if "\n" not in text] + PLAIN_VALUES
    keys = [text for text, _ in KEYS if "\n" not in text]
    for _ in range(random.randint(1, 8)):
        indent = max(_next(random, indent), 2)
        before, kind = " " * indent, random.random()
        key = random.choice(keys if random.random() < 0.3 else PLAIN_KEYS)
        value = random.choice(values)
        if kind < 0.6:
            lines.append(f"{before}{key}:" + (f" {value}" if random.random() < 0.7 else ""))
        elif kind < 0.75:
            lines.append(f"{before}- {value}")
        elif kind < 0.85:
            lines.append(f"{before}- {key}: {value}")
        elif kind < 0.9:
            lines += _block(random, indent, key)
        else:
            lines.append(
                random.choice([*(before + odd for odd in ODD_LINES), *ODD_LINES, "", f"{before}# c"])
            )
    end = random.choice(["\n"] * 8 + ["\r\n", "\n\n"])
    return HEADER.replace("\n", end) + end.join(lines) + random.choice(["\n", "", "\n\n"])


def _next(random: Random, indent: int) -> int:
    chance = random.random()
    if chance < 0.2:
        return max(0, indent - 2)
    return indent + random.choice([1, 2, 2, 2, 4]) if chance < 0.4 else indent


def _block(random: Random, indent: int, key: str) -> list[str]:
    """A literal block, with lines that may be indented too little."""
    found = [" " * indent + random.choice(["", "- "]) + f"{key}: " + random.choice(["|", "|-", "|+"])]
    inner = indent + random.choice([1, 2, 2, 2, 3, 4])
    for _ in range(random.randint(0, 4)):
        before = random.choice([" " * inner] * 6 + ["", " " * (inner + 1), " " * max(inner - 1, 0)])
        found.append(before + random.choice(BLOCK_LINES))
    return found
