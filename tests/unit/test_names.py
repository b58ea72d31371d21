"""Names are found: a public class has a name of its own, and prose names nothing that is gone.

The same name twice is right where the folder says the difference: the environment file, the catalog's file,
the chart's values, the sharing modes and the client describe from outside what the rest is made of.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpupool", "vapcheck")
OUTSIDE = (
    "gpupool/environment/spec/",
    "gpupool/client/",
    "gpupool/environment/schema/",
    "gpupool/environment/catalog/gpu_file.py",
    "gpupool/environment/sharing/",
)
"""What may have the names of the things that it describes."""
FOREIGN = frozenset(("CollectParams", "FlattenListVisitor", "YAMLOrJSONDecoder", "authz", "dialPlugin"))
"""Of Kubernetes' and Pulumi's sources, which docstrings give for a behaviour."""
HISTORY = ("CHANGELOG.md", "docs/releases.md", "docs/decisions/")
"""Pages on what was, which may name what is gone."""
REFERENCE = re.compile(r"`(?:gpupool\.)?(?:[a-z_]\w*\.)*([A-Za-z_]\w*)(?:\(\))?`")
"""A name of Python in backticks, with or without what it is in."""
RAISES = re.compile(r"\b[Rr]aises ((?:[A-Z]\w+(?:, | or | and )?)+)")


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (
            path
            for path in (ROOT / package).rglob("*.py")
            if not any(folder.is_symlink() for folder in path.parents)
        )


def classes_by_name() -> dict[tuple[str, str], list[str]]:
    """(distribution, public class) -> the modules that define it."""
    modules = defaultdict[tuple[str, str], list[str]](list)
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules["vapcheck" if place.startswith("vapcheck") else "gpupool", node.name].append(place)
    return modules


def test_a_public_class_has_a_name_of_its_own() -> None:
    shared = {
        name: [place for place in places if not place.startswith(OUTSIDE)]
        for (_, name), places in classes_by_name().items()
    }
    assert not {name: places for name, places in shared.items() if len(places) > 1}


def split(path: Path) -> tuple[str, str]:
    """Code and prose (comments, docstrings) of a module."""
    code, prose, fresh = [], [], True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            prose.append(token.string)
        elif token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            code.append(token.string)
        if token.type != tokenize.COMMENT:
            fresh = token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    return " ".join(code), " ".join(prose)


@cache
def words_of_code() -> frozenset[str]:
    """Every word of the code, of tests and data, and of file names."""
    words = set[str]()
    for folder in (*PACKAGES, "tests", "charts", "policies", "environments", "examples", ".ci"):
        for path in (ROOT / folder).rglob("*"):
            words.add(path.stem)
            if path.suffix == ".py" and path.name != Path(__file__).name:
                words.update(re.findall(r"\w+", split(path)[0]))
            elif path.suffix in (".sql", ".yaml", ".json", ".j2", ".tpl", ".html", ".js", ".css", ".toml"):
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="ignore")))
    return frozenset(words)


def gone(text: str) -> set[str]:
    """Names of Python in `text` that no code has."""
    names = {match[1] for match in REFERENCE.finditer(text)}
    names |= {
        name for match in RAISES.finditer(text) for name in re.findall(r"\w+", match[1]) if name[:1].isupper()
    }
    return names - FOREIGN - words_of_code()


def test_docstrings_and_comments_name_nothing_that_is_gone() -> None:
    missing = {path.relative_to(ROOT).as_posix(): gone(split(path)[1]) for path in sources()}
    assert not {place: names for place, names in missing.items() if names}


def test_pages_name_nothing_that_is_gone() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    missing = {
        page.name: {
            path
            for path in re.findall(
                r"`((?:gpupool|generators|infra|vapcheck|tests|policies|charts|environments)/[\w./-]+)`",
                page.read_text(encoding="utf-8"),
            )
            if not (ROOT / path).exists()
        }
        for page in pages
        if not page.relative_to(ROOT).as_posix().startswith(HISTORY)
    }
    assert not {place: paths for place, paths in missing.items() if paths}


def test_what_is_gone_is_noticed() -> None:
    assert gone("As `gpupool.queue.NeverThereAtAll` says. Raises NotEvenThis, ValueError.") == {
        "NeverThereAtAll",
        "NotEvenThis",
    }
