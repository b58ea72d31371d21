"""Nothing that runs is fetched by a name alone: images by digest, actions by commit, packages by hash.

Looked at are all tracked files but tests (what they fetch is what `make setup` has installed) and the list
of changes. EXCUSED is what is not pinned, with the reason; a line in it that excuses nothing is an error. The
patterns are forms that this repository uses, not every way to fetch something.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = ("tests/", "policies/fixtures/", "CHANGELOG.md")
JOBS = (
    "the image of a job that a reader submits; the local control plane runs its command and fetches no image"
)
EXCUSED = {
    ("Makefile", "--image python:3.13"): JOBS,
    ("examples/", "python:3.13"): JOBS,
    ("examples/", "busybox:1.37"): JOBS,
    ("docs/submit-jobs.md", "busybox:1.37"): JOBS,
    ("docs/policies.md", "torch:2"): "a pod that a policy is asked about",
    (
        "README.md",
        "pip install --no-deps .",
    ): "this checkout; the line above it has hashes; setuptools as below",
    ("gpupool/cli/queue/jobs/app.py", "torch:2.9"): JOBS,
    ("gpupool/cli/queue/jobs/job_file.py", "python:3.12"): JOBS,
    ("examples/kubeflow-step/README.md", "pip install"): (
        "kfp is published as source alone, so that its build fetches setuptools; all else of it has hashes"
    ),
    ("pyproject.toml", "setuptools>=77"): (
        "what builds a wheel by pip's choice; our builds have setuptools from a lock (--no-build-isolation)"
    ),
    ("gpupool/client/pyproject.toml", "setuptools>=77"): "the same",
    ("gpupool/queue/pyproject.toml", "setuptools>=77"): "the same",
    ("vapcheck/pyproject.toml", "setuptools>=77"): "the same",
    ("gpupool/queue/README.md", "pip install"): "a reader's choice of the newest",
    (
        "docs/start.md",
        'pip install --find-links . "./gpupool-',
    ): "a reader's choice of the newest; the lines above it have hashes",
    ("docs/start.md", "pip wheel --no-deps"): "a reader's wheel of their own checkout; setuptools as above",
    ("gpupool/adopt/start/templates/requirements.txt.j2", "pip wheel --no-deps"): "the same",
    ("gpupool/", 'pip install "gpupool['): (
        "advice in a message: the gpupool that is installed, with an extra; pip takes the installed one"
    ),
}

_RESERVED = r"(?:[\w.-]+\.)?(?:example(?:\.(?:com|org|net))?|invalid)(?:[:/]|$)"
"""Hosts that can't be registered (RFC 2606)."""
_IMAGE = r"(?:[\w.-]+(?::\d+)?/)*[\w.-]+:[\w.-]+"
_HASHED = r"--require-hashes --only-binary :all:"
_OWN = (
    r"install .*--no-deps .*(?:\s\.$|\.whl|\"\./\$\w+(?:/\$\w+)?\"|--editable [\w./]+$)"
    r"|wheel .*--no-build-isolation .*\s\.(?: \./[\w/]+)*$"
)
"""Packages of this checkout, or of a wheel that is there already, without what they need."""
_RUN = (
    r"\b(?:curl|wget)\b[^|]*\|\s*(?:sudo )?(?:ba|z|da)?sh\b|<\((?:curl|wget)\b"
    r"|\b(?:npx|uvx|pipx) \w|\bnpm (?:i|install)\b|\bgo (?:install|run) \S+@"
    r"|\b(?:gem|cargo|pulumi plugin) install [\w-]+"
)
"""Programs that fetch another one and run it."""


_RECIPES = (r"^\s*FROM\s+(?:--\S+\s+)*(\S+)", r"^ARG \w+=(\S+:\S+)")
"""Where a Dockerfile names an image."""
_NAMED = (
    r"(?:\b|_)image[\"']?(?::|\s*=|,)\s*[\"']?([\w./:@-]+)",
    r"--image[= ](\S+)",
    r"_?IMAGE = (?:\(\s*)?\"([^\"]+)",
    r"image:\n(?:.*\n){0,2}\s+default: (\S+)",
)
"""Where other files do."""


def _images(name: str, text: str) -> Iterator[str]:
    """Images without a digest: any in a Dockerfile, elsewhere those with a tag."""
    recipe = re.search(r"(?:Docker|Container)file", name)
    for pattern in _RECIPES if recipe else _NAMED:
        for match in re.finditer(pattern, text, re.MULTILINE):
            image = match[1]
            if "$" in image or "{" in image or "@sha256:" in image or re.match(_RESERVED, image):
                continue
            if recipe or re.fullmatch(_IMAGE, image):
                yield image


def _commands(text: str) -> Iterator[str]:
    """Commands that fetch something and run it, without what makes it the same every time."""
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        for command in re.split(r"&&|;|\|\|", line):
            command = command.strip()
            by_pip = re.search(r"\bpip[\d.]* (?:install|wheel)\b", command)
            unhashed = by_pip and not re.search(f"{_HASHED}|{_OWN}", command)
            if unhashed or re.search(_RUN, command):
                yield command


def _actions(text: str) -> Iterator[str]:
    for match in re.finditer(r"^\s*(?:- )?uses: ([^\s#]+)", text, re.MULTILINE):
        if not re.fullmatch(r"\./\S+|[\w./-]+@[0-9a-f]{40}|<\S+", match[1]):
            yield f"uses: {match[1]}"


def _builders(text: str) -> Iterator[str]:
    for match in re.finditer(r"^requires = \[(.*)\]", text, re.MULTILINE):
        yield from (name for name in re.findall(r"\"([^\"]+)\"", match[1]) if "==" not in name)


def unpinned(name: str, text: str) -> Iterator[str]:
    """What `text`, the file `name`, fetches by a name alone."""
    yield from _images(name, text)
    yield from _commands(text)
    yield from _actions(text)
    if name.endswith("pyproject.toml"):
        yield from _builders(text)


def tracked() -> dict[str, str]:
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    names = [name for name in names if not name.startswith(LEFT_OUT) and (ROOT / name).is_file()]
    return {name: (ROOT / name).read_text("utf-8", "replace") for name in names}


def test_everything_that_runs_is_pinned_or_excused() -> None:
    used, found = set(), []
    for name, text in tracked().items():
        for fetched in unpinned(name, text):
            excuses = {
                excuse
                for excuse in EXCUSED
                if name.startswith(excuse[0]) and excuse[1] in f"--image {fetched}"
            }
            used |= excuses
            found += [] if excuses else [f"{name}: {fetched}"]
    assert found == [], "pin it, or add it to EXCUSED with the reason"
    assert used == set(EXCUSED), "these are excused and no longer there"


def _let_in(patterns: list[str], path: str) -> bool:
    """Whether the builder gets `path`, by the rules of .dockerignore: the last pattern that matches it or a
    folder above it decides (docs.docker.com, Build context)."""
    inside = True
    above = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
    for pattern in patterns:
        glob = re.escape(pattern.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        glob = glob.replace(r"\[", "[").replace(r"\]", "]")
        if any(re.fullmatch(glob, part) for part in above):
            inside = pattern.startswith("!")
    return inside


def test_the_builder_gets_what_the_dockerfile_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    copied = {
        source
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("COPY ") and "--from=" not in line
        for source in line.split()[1:-1]
    }
    assert {pattern[1:] for pattern in patterns if pattern.startswith("!")} == copied
    for name in tracked():
        wanted = any(name == source or name.startswith(f"{source}/") for source in copied)
        assert _let_in(patterns, name) == wanted, name
    for path in (
        *(
            ".git/config",
            ".gpupool/local/tokens",
            ".venv/bin/python",
            ".pulumi/stacks/prod.json",
            ".env",
            ".netrc",
        ),
        *(
            "environments/prod.yaml",
            "rendered/prod/index.json",
            "tests/conftest.py",
            "build/lib/x.py",
            "id_rsa",
        ),
        *(
            "gpupool.egg-info/PKG-INFO",
            "gpupool/__pycache__/x.cpython-311.pyc",
            "gpupool/cli/x.pyc",
            ".github/x",
        ),
        *(
            "charts/.gpupool/serve.json",
            "tools/etcd/.env",
            "policies/.venv/bin/python",
            "kubeconfig",
            "wheels/x.whl",
        ),
    ):
        assert not _let_in(patterns, path), path


def test_locks_have_a_hash_for_every_package() -> None:
    locks = {name: text for name, text in tracked().items() if name.endswith(".lock")}
    assert {"requirements.lock", "requirements-dev.lock", "tools/uv/requirements.lock"} <= set(locks)
    for name, text in locks.items():
        entries = re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"(?m)^\s*#.*\n", "", text).strip())
        bare = [entry for entry in entries if not re.match(r"\S+==\S+(?: ;.*)? \\\n +--hash=sha256:", entry)]
        assert bare == [], name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "FROM debian:12\n"),
        ("Dockerfile", "FROM --platform=linux/amd64 debian AS build\n"),
        ("Dockerfile", "ARG BASE=debian:12\nFROM ${BASE}\n"),
        ("Dockerfile", "RUN apt-get update \\\n && pip install --no-cache-dir \\\n    flask\n"),
        ("Dockerfile", "RUN curl -fsSL https://get.tool.test/install.sh | sh\n"),
        ("values.yaml", "spec:\n  image: busybox:1.37\n"),
        ("values.yaml", '  - {name: wait, image: "ghcr.io/some/tool:v1"}\n'),
        ("ci/template.yaml", "    image:\n      description: an image\n      default: python:3.12\n"),
        ("gpupool/generators/hold.py", 'HOLD_IMAGE = "registry.k8s.io/pause:3.10"\n'),
        ("gpupool/generators/hold.py", 'body = {"image": "registry.k8s.io/pause:3.10"}\n'),
        (".github/workflows/x.yaml", "      - uses: actions/checkout@v4\n"),
        (".github/workflows/x.yaml", "    uses: some-org/tool/.github/workflows/x.yaml@main\n"),
        ("Makefile", "\t@python -m pip install --quiet uv\n"),
        ("Makefile", "\tpip install --require-hashes -r requirements.lock\n"),
        ("docs/x.md", "    pip install gpupool\n"),
        ("docs/x.md", "    npx some-tool; go install example.com/tool@latest\n"),
        ("docs/x.md", "    bash <(curl -s https://tool.test/install)\n"),
        ("pyproject.toml", '[build-system]\nrequires = ["setuptools"]\n'),
    ],
)
def test_what_is_not_pinned_is_noticed(name: str, text: str) -> None:
    assert list(unpinned(name, text))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", f"FROM debian:12@sha256:{'0' * 64} AS build\n"),
        ("values.yaml", "image: registry.example.com/gpupool:0.1.0\n"),
        ("x.yaml", f"uses: actions/checkout@{'0' * 40} # v4.0.0\n"),
        ("x.yaml", "uses: ./.github/workflows/x.yaml\n"),
        ("Makefile", "\tpip install --require-hashes --only-binary :all: -r requirements.lock\n"),
        ("Makefile", "\tpip install --no-deps --no-build-isolation --editable .\n"),
        ("Makefile", "\tpip install --no-deps --no-build-isolation --editable . --editable vapcheck\n"),
    ],
)
def test_what_is_pinned_is_left_alone(name: str, text: str) -> None:
    assert list(unpinned(name, text)) == []
