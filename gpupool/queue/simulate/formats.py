"""Tables of jobs as others publish or print them, made into the neutral form.

`FORMATS` is the only list of them: a format is known by columns of its header. Where the facts of one are
from is said with it. Fractions of GPUs, censored rows and local times are as each source documents them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from io import TextIOWrapper
from math import inf
from pathlib import Path
from typing import Literal, TextIO

from gpupool.findings import GpupoolError, SpecError
from gpupool.queue.simulate.made_load import read_made
from gpupool.queue.simulate.philly import MAX_BYTES, read_philly
from gpupool.queue.simulate.trace import (
    COLUMNS,
    MOST_FINDINGS,
    Arrival,
    Cells,
    LeftOut,
    Trace,
    header_findings,
    in_order,
    neutral,
)
from vapcheck.reading import open_file

Row = Callable[[Cells], Arrival | LeftOut | None]


@dataclass(frozen=True, slots=True)
class TableFormat:
    """One kind of table."""

    name: str
    columns: frozenset[str]
    """By which it is known; a file must have them all."""
    row: Row
    source: str
    delimiter: str = ","
    last: str | None = None
    """The column whose largest number is the end of the recording."""


def _openb(cells: Cells) -> Arrival | LeftOut | None:
    count, milli = cells.number("num_gpu"), cells.number("gpu_milli")
    created, deleted = cells.number("creation_time"), cells.number("deletion_time")
    begun = cells.number("scheduled_time")
    if not count or cells.findings:
        return LeftOut.NO_GPU
    if begun is None or created is None:
        return LeftOut.NO_START
    if deleted is None or deleted >= cells.last:
        return LeftOut.NO_END
    gpus = count if count > 1 else (milli or 1000.0) / 1000
    return Arrival(
        created,
        cells.text("qos") or "openb",
        None,
        gpus,
        cells.text("gpu_spec") or None,
        max(0.0, deleted - begun),
    )


def _spot_list(cells: Cells) -> Arrival | LeftOut | None:
    submitted, seconds = cells.number("submit_time"), cells.number("duration")
    gpus = (cells.number("gpu_request") or 0.0) * (cells.number("worker_num") or 1.0)
    if cells.findings or submitted is None:
        return None
    if not gpus:
        return LeftOut.NO_GPU
    if seconds is None:
        return LeftOut.NO_END
    spot = cells.text("job_type").lower() == "spot"
    return Arrival(
        submitted,
        cells.text("organization") or "none",
        None,
        gpus,
        cells.text("gpu_model") or None,
        seconds,
        "low" if spot else "high",
        spot,
    )


def _accounted(
    cells: Cells,
    columns: tuple[str, str, str],
    tenant: str,
    gpus: float | None,
    model: str | None = None,
    limit: int | None = None,
) -> Arrival | LeftOut | None:
    """A row of Slurm's accounting, which Helios and Acme are of too. `columns`: of the moments at which it
    was submitted, began and ended."""
    if not gpus:
        return LeftOut.NO_GPU
    _, start, end = (cells.text(name) for name in columns)
    if start in _NO_MOMENT:
        return LeftOut.NO_START
    if end in _NO_MOMENT:
        return LeftOut.NO_END
    submitted, begun, ended = (cells.moment(name) for name in columns)
    if submitted is None or begun is None or ended is None:
        return None
    # Acme's own column of durations counts from the submission in one of its two clusters.
    return Arrival(submitted, tenant or "none", None, gpus, model, max(0.0, ended - begun), timeout_s=limit)


_NO_MOMENT = ("", "None", "Unknown")
_MOMENTS = ("submit_time", "start_time", "end_time")


def _helios(cells: Cells) -> Arrival | LeftOut | None:
    return _accounted(cells, _MOMENTS, cells.text("vc"), cells.number("gpu_num"))


def _acme(cells: Cells) -> Arrival | LeftOut | None:
    return _accounted(cells, _MOMENTS, cells.text("user"), cells.number("gpu_num"))


_GRES = re.compile(r"gres/gpu(?::([^=,]+))?=([0-9]{1,6})(?![0-9])")
_MINUTES = re.compile(r"[0-9]{1,7}")
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]*)?")


def _sacct(cells: Cells) -> Arrival | LeftOut | None:
    if "." in cells.text("JobID"):
        return LeftOut.STEP
    resources = cells.text("ReqTRES") or cells.text("AllocTRES")
    counts = [(match[1], int(match[2])) for match in _GRES.finditer(resources)]
    gpus = max((count for _, count in counts), default=0)  # the total, and beside it those of each type
    minutes = cells.text("TimelimitRaw")
    limit = int(minutes) * 60 or None if _MINUTES.fullmatch(minutes) else None
    model = next((name for name, _ in counts if name), None)
    tenant = cells.text("Account") or cells.text("User")
    return _accounted(cells, ("Submit", "Start", "End"), tenant, gpus, model, limit)


def _pai(cells: Cells) -> Arrival | LeftOut | None:
    plan, count = cells.number("plan_gpu"), cells.number("inst_num")
    if not plan or not count:
        return LeftOut.NO_GPU
    begun, ended = cells.number("start_time"), cells.number("end_time")
    if begun is None:
        return LeftOut.NO_START
    if ended is None or ended <= begun:
        return LeftOut.NO_END
    model = cells.text("gpu_type")
    return Arrival(
        begun,
        cells.text("user") or "pai",
        None,
        plan / 100 * count,
        model if model not in ("", "MISC") else None,
        ended - begun,
    )


def _columns(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


FORMATS = (
    TableFormat(
        "neutral",
        _columns("submitted,tenant,gpus,seconds"),
        neutral,
        "gpupool's own: `gpupool jobs export`, or written manually",
    ),
    TableFormat(
        "openb",
        _columns("num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time"),
        _openb,
        "Alibaba cluster-trace-gpu-v2023: GPUs in thousandths where a pod has one; tenant: its QoS class",
        last="deletion_time",
    ),
    TableFormat(
        "spot-2026",
        _columns("organization,gpu_request,worker_num,submit_time,duration,job_type"),
        _spot_list,
        "Alibaba cluster-trace-v2026-spot-gpu: GPUs of each worker; Spot jobs are low and may be preempted",
    ),
    TableFormat(
        "pai-2020",
        _columns("job_name,task_name,inst_num,start_time,end_time,plan_gpu"),
        _pai,
        "Alibaba cluster-trace-gpu-v2020, task table with its header: hundredths of a GPU for each instance; "
        "a "
        "task's start stands for its submission",
    ),
    TableFormat(
        "helios",
        _columns("job_id,user,vc,gpu_num,submit_time,start_time,end_time"),
        _helios,
        "SenseTime Helios: local times of +08:00; tenant: the virtual cluster",
    ),
    TableFormat(
        "acme",
        _columns("job_id,user,node_num,gpu_num,type,submit_time,start_time,end_time"),
        _acme,
        "Shanghai AI Lab Acme: times with their zones; tenant: the user",
    ),
    TableFormat(
        "sacct",
        _columns("JobID,Submit,Start,End"),
        _sacct,
        "Slurm: sacct -aXP -o JobID,User,Account,Submit,Start,End,ReqTRES,AllocTRES,TimelimitRaw; "
        "tenant: the "
        "account",
        delimiter="|",
    ),
)
_LONGEST = 1 << 16
"""Characters of a header."""
NAMES = (*(format.name for format in FORMATS), "philly", "made")


def read(file: Path, format: str = "auto", zone: timedelta | None = None) -> Trace:
    """Read a trace; `format` is one of NAMES, or auto: by its header. Raises SpecError with rows that can't
    be read, GpupoolError where there is no such file or no format fits."""
    try:
        if format == "made" or (format == "auto" and file.suffix in (".yaml", ".yml")):
            return read_made(file)
        if format == "philly" or (format == "auto" and file.suffix == ".json"):
            return read_philly(file, zone)
        with TextIOWrapper(open_file(file, MAX_BYTES), "utf-8-sig", newline="") as text:
            return _table(str(file), text, format, zone)
    except OSError as error:
        why = error.strerror or "it must be a file, not a pipe"
        raise GpupoolError(f"{file}: can't be read: {why}; name a trace") from error
    except UnicodeDecodeError as error:
        raise GpupoolError(f"{file}: is not UTF-8 text; unpack it first") from error
    except csv.Error as error:
        raise GpupoolError(f"{file}: is not a table: {error}") from error


def _table(file: str, text: TextIO, name: str, zone: timedelta | None) -> Trace:
    first = text.readline(_LONGEST).rstrip("\r\n")
    known = _known(file, first, name)
    header = _cells(first, known.delimiter)
    if known.name == "neutral" and (wrong := list(header_findings(file, header, sorted(known.columns)))):
        raise SpecError(wrong)
    last = _last(text, known, header.index(known.last)) if known.last else inf
    rows = csv.reader(text, delimiter=known.delimiter, quoting=_quoting(known.delimiter))
    zone = timedelta(hours=8) if known.name == "helios" and zone is None else zone
    arrivals: list[Arrival] = []
    left_out = Counter[LeftOut]()
    findings = []
    for row in filter(None, rows):
        cells = Cells(file, rows.line_num + 1, header, row, zone, last)
        arrival = None if cells.findings else known.row(cells)
        if cells.findings:
            findings += cells.findings
        elif isinstance(arrival, LeftOut):
            left_out[arrival] += 1
        elif arrival is not None:
            arrivals.append(arrival)
    if findings:
        raise SpecError(findings[:MOST_FINDINGS])
    return in_order(arrivals, left_out, known.name)


def _last(text: TextIO, known: TableFormat, at: int) -> float:
    """The largest number of a column, with the text at its first row again."""
    ends = [row[at] for row in csv.reader(text, delimiter=known.delimiter) if len(row) > at]
    text.seek(0)
    next(text)
    return max((float(end) for end in ends if _NUMBER.fullmatch(end)), default=inf)


def _quoting(delimiter: str) -> Literal[0, 3]:
    """Slurm quotes nothing: a quotation mark is one of the text."""
    return csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter, quoting=_quoting(delimiter)), [])


def _known(file: str, header: str, name: str) -> TableFormat:
    """The format of a table. Raises GpupoolError where none fits, or the one that is named doesn't."""
    for format in FORMATS:
        if name in ("auto", format.name) and format.columns <= {*_cells(header, format.delimiter)}:
            return format
    named = next((format for format in FORMATS if format.name == name), None)
    if named is not None:
        missing = sorted(named.columns - {*_cells(header, named.delimiter)})
        raise GpupoolError(f"{file}:1:1: is not a {name} table: it has no column {', '.join(missing)}")
    known = "; ".join(f"{format.name} ({','.join(sorted(format.columns))})" for format in FORMATS)
    raise GpupoolError(
        f"{file}:1:1: is not a known job table: it has {header[:200]!r}; known formats: {known}. "
        f"Write a table with the header {','.join(COLUMNS)}"
    )
