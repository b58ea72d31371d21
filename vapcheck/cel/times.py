"""Durations and timestamps: parsing and printing as Go does, and reading their parts in a time zone.

Facts: Go's time package (ParseDuration, RFC 3339), cel-go 0.26 common/types/{duration,timestamp}.go.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from vapcheck.cel.errors import CelError
from vapcheck.cel.values import INT_MAX, INT_MIN, TIMESTAMP_MAX, TIMESTAMP_MIN, Duration, Timestamp
from vapcheck.go_text import double_f

SECOND = 10**9
_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(Z|[+-]\d{2}:\d{2})", re.ASCII
)
_EPOCH = datetime.datetime(1970, 1, 1)


def parse_duration(text: str) -> Duration | None:
    """A duration such as "1h30m" or "-1.5s"; None when it isn't one or is beyond 292 years."""
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text[1:] if text[:1] == "+" else text)
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None or not (part[1] or part[2]):
            return None
        unit = _UNITS[part[3]]
        fraction = part[2] or ""
        total += int(part[1] or 0) * unit
        # Go reads the fraction as a float, but cuts it to whole nanoseconds
        total += int(int(fraction or 0) * unit / 10 ** len(fraction)) if fraction else 0
        position = part.end()
    if not rest or not INT_MIN <= sign * total <= INT_MAX:
        return None
    return Duration(sign * total)


def parse_timestamp(text: str) -> Timestamp | None:
    """A moment in RFC 3339; None when it isn't one. Raises CelError outside the years 1 to 9999."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if hour > 23 or minute > 59 or second > 59:
        return None
    zone, offset = match[8], 0
    if zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 24 or minutes > 60:
            return None
        offset = (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
    try:
        leap = year == 0
        moment = datetime.datetime(4 if leap else year, month, day, hour, minute, second)
    except ValueError:
        return None
    seconds = int((moment - _EPOCH).total_seconds()) - offset - (1461 * 86400 if leap else 0)
    if not TIMESTAMP_MIN <= seconds <= TIMESTAMP_MAX:
        raise CelError("timestamp overflow")
    fraction = (match[7] or "")[:9].ljust(9, "0")
    return Timestamp(seconds * SECOND + int(fraction), offset)


def from_seconds(seconds: int) -> Timestamp:
    """The moment so many seconds after 1970. Raises CelError outside the years 1 to 9999."""
    if not TIMESTAMP_MIN <= seconds <= TIMESTAMP_MAX:
        raise CelError("timestamp overflow")
    return Timestamp(seconds * SECOND)


def duration_text(value: Duration) -> str:
    """Seconds with as many decimals as are needed: "5400s", "0.5s"."""
    whole, fraction = divmod(abs(value.nanoseconds), SECOND)
    seconds = float(whole) + fraction / 1e9
    return double_f(-seconds if value.nanoseconds < 0 else seconds) + "s"


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 with as many decimals as are needed, in the zone that it was written in."""
    seconds, fraction = divmod(value.nanoseconds, SECOND)
    moment = _civil(seconds + value.offset)
    decimals = f".{fraction:09d}".rstrip("0") if fraction else ""
    if not value.offset:
        zone = "Z"
    else:
        minutes = abs(value.offset) // 60
        zone = f"{'-' if value.offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}T{moment:%H:%M:%S}{decimals}{zone}"


def text(value: Duration | Timestamp) -> str:
    """Either as `string()` gives it."""
    return duration_text(value) if isinstance(value, Duration) else timestamp_text(value)


def _civil(seconds: int) -> datetime.datetime:
    try:
        return _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:  # a zone may push the first or last hours over the edge of Python's calendar
        return datetime.datetime.min if seconds < 0 else datetime.datetime.max.replace(microsecond=0)


@lru_cache(maxsize=256)
def _zone(name: str) -> datetime.tzinfo:
    """A time zone by IANA name or as an offset like "+02:00". Raises CelError with Go's text."""
    if ":" not in name:
        if name in ("", "UTC"):
            return datetime.UTC
        import zoneinfo  # takes some milliseconds, and few expressions need it

        try:
            return zoneinfo.ZoneInfo(name)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise CelError(f"unknown time zone {name}") from None
    hours, _, minutes = name.partition(":")
    parts = []
    for part in (hours, minutes):
        if not re.fullmatch(r"[+-]?[0-9]+", part):
            raise CelError(f'strconv.Atoi: parsing "{part}": invalid syntax')
        parts.append(int(part))
    offset = parts[0] * 60 + (-parts[1] if name[0] == "-" else parts[1])
    if abs(offset) >= 24 * 60:
        raise CelError(f"unknown time zone {name}")
    return datetime.timezone(datetime.timedelta(minutes=offset))


@dataclass(frozen=True, slots=True)
class WallClock:
    """The date and time that a clock shows, to the second."""

    moment: datetime.datetime
    years: int
    """To be added to its year: a zone may lead out of the calendar that Python has."""


_CYCLE = 400
"""Years after which the calendar repeats itself, week days included."""


def in_zone(value: Timestamp, zone: str) -> WallClock:
    """The wall clock at a moment in a zone. Raises CelError for an unknown zone."""
    moment = _civil(value.nanoseconds // SECOND).replace(tzinfo=datetime.UTC)
    found = _zone(zone)
    try:
        return WallClock(moment.astimezone(found), 0)
    except OverflowError:
        years = _CYCLE if moment.year > _CYCLE else -_CYCLE
        return WallClock(moment.replace(year=moment.year - years).astimezone(found), years)


def _of(part: Callable[[datetime.datetime], int]) -> Callable[[WallClock], int]:
    return lambda clock: part(clock.moment)


TIMESTAMP_PARTS: dict[str, Callable[[WallClock], int]] = {
    "getFullYear": lambda clock: clock.moment.year + clock.years,
    "getMonth": _of(lambda moment: moment.month - 1),
    "getDayOfYear": _of(lambda moment: moment.timetuple().tm_yday - 1),
    "getDayOfMonth": _of(lambda moment: moment.day - 1),
    "getDate": _of(lambda moment: moment.day),
    "getDayOfWeek": _of(lambda moment: moment.isoweekday() % 7),
    "getHours": _of(lambda moment: moment.hour),
    "getMinutes": _of(lambda moment: moment.minute),
    "getSeconds": _of(lambda moment: moment.second),
}
"""By CEL function; milliseconds come from the timestamp itself."""


def _whole(value: Duration, unit: int) -> int:
    whole = abs(value.nanoseconds) // unit
    return -whole if value.nanoseconds < 0 else whole


DURATION_PARTS: dict[str, Callable[[Duration], int]] = {
    "getHours": lambda value: _whole(value, 3600 * SECOND),
    "getMinutes": lambda value: _whole(value, 60 * SECOND),
    "getSeconds": lambda value: _whole(value, SECOND),
    "getMilliseconds": lambda value: _whole(value, 10**6),
}
