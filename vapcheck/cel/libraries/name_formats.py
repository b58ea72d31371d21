"""The CEL library `format`: named formats of strings and the message for a value that does not match.

Facts: apiserver 0.36 pkg/cel/library/format.go, apimachinery 0.36 pkg/util/validation and
pkg/api/validate/content, kube-openapi pkg/validation/strfmt. The texts and patterns are in name_formats.yaml.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, free, member
from vapcheck.cel.libraries.patterns import compile_pattern
from vapcheck.cel.libraries.url_escapes import UrlError
from vapcheck.cel.libraries.urls import request_uri
from vapcheck.cel.values import NONE, Opaque, Optional, some

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
# The dot before the fraction of a second is unescaped upstream too (kube-openapi strfmt/time.go,
# DateTimePattern): the API server takes any character there.
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
Validate = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True, eq=False)
class Format(Opaque):
    """A named format."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    validate: Validate
    """Gives the problems of a text; an empty list if there are none."""
    pattern_size: int
    """Length of the pattern by which the API server computes the cost."""

    def key(self) -> str:
        """Its name."""
        return self.name


@functools.cache
def _data() -> Mapping[str, Any]:
    text = Path(__file__).with_name("name_formats.yaml").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = yaml.safe_load(text)
    return loaded


def _matches(rule: Mapping[str, Any], text: str) -> bool:
    return compile_pattern(rule["pattern"]).fullmatch(text) is not None


def _explained(rule: Mapping[str, Any]) -> str:
    examples = " or ".join(f"'{example}', " for example in rule["examples"])
    return f"{rule['message']} (e.g. {examples}regex used for validation is '{rule['pattern']}')"


def _checked(name: str, text: str) -> list[str]:
    """Problems with length and characters, by the rule of that name."""
    rule = _data()["rules"][name]
    problems = []
    if len(text.encode()) > rule["length"]:
        problems.append(f"must be no more than {rule['length']} {rule['unit']}")
    if not _matches(rule, text):
        dotted = name == "dns1123Label" and _matches(_data()["rules"]["dns1123Subdomain"], text)
        problems.append("must not contain dots" if dotted else _explained(rule))
    return problems


def _qualified_name(text: str) -> list[str]:
    rule = _data()["rules"]["labelKey"]
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_explained(rule)} {optional}"]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in _checked("contentSubdomain", prefix)]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {problem}" for problem in _checked("labelKey", name)]


def _prefix(rule: str) -> Validate:
    """Checks names that something is appended to, which may therefore end in a dash."""

    def validate(text: str) -> list[str]:
        raw = text.encode()
        # As apimachinery's maskTrailingDash (pkg/api/validation/generic.go), which replaces the dash and also
        # the byte before it: "a.-" passes, and a name may be a byte longer than its rule says.
        if len(raw) > 1 and raw.endswith(b"-"):
            text = (raw[:-2] + b"a").decode("utf-8", "replace")
        return _checked(rule, text)

    return validate


def _uri(text: str) -> list[str]:
    try:
        request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def is_date(text: str) -> bool:
    """Whether `text` is a date that exists, as `2024-02-29`; there is a year 0000."""
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        datetime.date(year or 4, month, day)  # Go's calendar has a year 0, which is a leap year
    except ValueError:
        return False
    return True


def is_datetime(text: str) -> bool:
    """Whether `text` is a date and a time with a zone, by the API server's loose rules."""
    parts = text.lower().split("t")
    if len(text.encode()) < 4 or len(parts) < 2 or not is_date(parts[0]):
        return False
    match = _TIME.fullmatch(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _plain(valid: Callable[[str], bool], problem: str) -> Validate:
    return lambda text: [] if valid(text) else [problem]


def _by_pattern(name: str) -> Callable[[str], bool]:
    return lambda text: compile_pattern(_data()["patterns"][name]).fullmatch(text) is not None


_VALIDATORS: Mapping[str, tuple[str, Validate]] = {
    "dns1123Label": ("DNS1123Label", functools.partial(_checked, "dns1123Label")),
    "dns1123Subdomain": ("DNS1123Subdomain", functools.partial(_checked, "dns1123Subdomain")),
    "dns1035Label": ("DNS1035Label", functools.partial(_checked, "dns1035Label")),
    "qualifiedName": ("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": ("DNS1123LabelPrefix", _prefix("dns1123Label")),
    "dns1123SubdomainPrefix": ("DNS1123SubdomainPrefix", _prefix("dns1123Subdomain")),
    "dns1035LabelPrefix": ("DNS1035LabelPrefix", _prefix("dns1035Label")),
    "labelValue": ("LabelValue", functools.partial(_checked, "labelValue")),
    "uri": ("URI", _uri),
    "uuid": ("uuid", _plain(_by_pattern("uuid"), "does not match the UUID format")),
    "byte": ("byte", _plain(_by_pattern("byte"), "invalid base64")),
    "date": ("date", _plain(is_date, "invalid date")),
    "datetime": ("datetime", _plain(is_datetime, "invalid datetime")),
}
"""By the name in CEL: the format's own name, which equality compares, and its validator."""


@functools.cache
def _format(name: str) -> Format:
    own_name, validate = _VALIDATORS[name]
    return Format(own_name, validate, _data()["pattern_sizes"][name])


def is_service_account_name(text: str) -> bool:
    """Whether `text` is a valid name of a service account."""
    return not _checked("dns1123Subdomain", text)


def is_namespace_name(text: str) -> bool:
    """Whether `text` is a valid name of a namespace."""
    return not _checked("dns1123Label", text)


def named(name: str) -> Optional:
    """The format of that name, if there is one."""
    return some(_format(name)) if name in _VALIDATORS else NONE


def validate(format: Format, text: str) -> Optional:
    """The text's problems; none() if there are none."""
    problems = format.validate(text)
    return some(problems) if problems else NONE


def _validation_cost(args: Any, _result: Any) -> int:
    return costs.matching(costs.size(args[1]), args[0].pattern_size)


_TYPE = Format.type_name
OVERLOADS: tuple[Overload, ...] = (
    member(
        "format-validate",
        "validate",
        (_TYPE, "string", "optional_type(list(string))"),
        validate,
        _validation_cost,
    ),
    free("format-named", "format.named", ("string", f"optional_type({_TYPE})"), named),
    *(
        free(f"format.{name}", f"format.{name}", (_TYPE,), functools.partial(_format, name))
        for name in _VALIDATORS
    ),
)
