"""Each format with a made table of its form: which rows become jobs, and which don't and why."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gpupool.findings import GpupoolError, SpecError
from gpupool.queue.simulate.formats import FORMATS, NAMES, read
from gpupool.queue.simulate.trace import MONDAY, Arrival, LeftOut, Names, part_of

TRACES = Path(__file__).parent / "traces"
NOON = 1793606400.0  # 2026-11-02T08:00:00Z


def jobs(name: str, zone: timedelta | None = None) -> list[tuple[float, str, float, str | None, float]]:
    trace = read(TRACES / name, zone=zone)
    return [(job.submitted, job.tenant, job.gpus, job.gpu, job.seconds) for job in trace.arrivals]


def test_the_neutral_form() -> None:
    trace = read(TRACES / "neutral.csv")
    assert trace.format == "neutral"
    assert trace.left_out == {LeftOut.NO_GPU: 1, LeftOut.NO_END: 1}
    assert trace.arrivals == (
        Arrival(NOON - 3570, "research", None, 0.25, "t4", 300, "low", True, 900),
        Arrival(NOON, "vision", None, 1, None, 600, "medium", None, None),
        Arrival(NOON + 60, "vision", None, 2, None, 120, "high", False, None),
    )


def test_openb_knows_parts_of_gpus_and_what_never_ended() -> None:
    assert jobs("openb.csv") == [
        (MONDAY + 10, "LS", 0.46, None, 388),
        (MONDAY + 20, "BE", 2, "V100M16|V100M32", 300),
    ]
    left_out = {LeftOut.NO_GPU: 1, LeftOut.NO_START: 1, LeftOut.NO_END: 1}
    assert read(TRACES / "openb.csv").left_out == left_out


def test_the_spot_list_counts_all_workers() -> None:
    assert jobs("spot.csv") == [
        (MONDAY, "7", 2, "A10", 600),
        (MONDAY + 60, "7", 8, "A100-SXM4-80GB", 3600),
    ]
    spot = read(TRACES / "spot.csv").arrivals[1]
    assert (spot.priority, spot.preemptible) == ("low", True)


def test_pai_counts_hundredths_of_each_instance() -> None:
    assert jobs("pai.csv") == [(MONDAY + 100, "pai", 2, "V100", 600), (MONDAY + 200, "pai", 0.25, None, 60)]
    assert read(TRACES / "pai.csv").left_out == {LeftOut.NO_GPU: 1, LeftOut.NO_END: 1}


def test_helios_is_in_china() -> None:
    (job,) = jobs("helios.csv")
    assert job == (1585918160.0, "vcA", 8, None, 3600)  # 2020-04-03T12:49:20Z
    assert read(TRACES / "helios.csv").left_out == {LeftOut.NO_GPU: 1, LeftOut.NO_START: 1}


def test_acme_runs_from_its_start_whatever_its_column_says() -> None:
    assert jobs("acme.csv") == [(1684321258.0, "u1", 8, None, 8)]


def test_slurm_needs_a_zone_and_counts_no_step() -> None:
    with pytest.raises(SpecError, match=r"sacct\.txt:2:4: Submit: .* has no time zone; .*--zone"):
        read(TRACES / "sacct.txt")
    found = jobs("sacct.txt", timedelta())
    assert found == [(NOON, "vision", 4, None, 3600), (NOON + 720, "speech", 1, "t4", 1800)]
    trace = read(TRACES / "sacct.txt", zone=timedelta())
    assert trace.left_out == {LeftOut.STEP: 1, LeftOut.NO_START: 1, LeftOut.NO_GPU: 1}
    assert trace.arrivals[0].timeout_s == 7200


def test_philly_adds_up_attempts() -> None:
    with pytest.raises(GpupoolError, match="--zone"):
        read(TRACES / "philly.json")
    (job,) = jobs("philly.json", timedelta(hours=-7))
    assert job == (1507557715.0, "vc1", 2, None, 900)
    trace = read(TRACES / "philly.json", zone=timedelta(hours=-7))
    assert trace.left_out == {LeftOut.NO_START: 1, LeftOut.NO_END: 1}


def test_a_made_load_is_the_same_each_time_and_has_its_day() -> None:
    trace = read(TRACES / "made.yaml")
    assert trace.arrivals == read(TRACES / "made.yaml").arrivals
    of_vision = [job for job in trace.arrivals if job.tenant == "vision"]
    assert 180 < len(of_vision) < 300
    by_day = [job for job in of_vision if 0.25 < (job.submitted - MONDAY) / 86400 % 1 < 0.75]
    assert len(by_day) > len(of_vision) * 0.55
    assert {job.priority for job in trace.arrivals} == {None, "critical"}


def test_every_format_has_a_trace_here() -> None:
    tried = {read(path, zone=timedelta()).format for path in TRACES.iterdir()}
    assert tried == set(NAMES)
    assert len({format.name for format in FORMATS}) == len(FORMATS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("submitted,tenant,gpus,seconds\n1,a,-1,5\n", r"2:3: gpus: '-1' is not a number from 0 to"),
        ("submitted,tenant,gpus,seconds\n1,a,1,1e308\n", r"2:4: seconds: '1e308' is not a number from 0 to"),
        ("submitted,tenant,gpus,seconds\n1e308,a,1,5\n", r"2:1: submitted: '1e308' is not between 1970"),
        ("submitted,tenant,gpus,seconds\n1790000000000,a,1,5\n", r"2:1: .* not between 1970 and 2100"),
        ("submitted,tenant,gpus,seconds\n9999-12-31T23:59:59Z,a,1,5\n", r"2:1: .* not between 1970"),
        ("submitted,tenant,gpus,seconds\nx,a,1,5\n", r"2:1: submitted: 'x' is neither seconds nor a time"),
        ("submitted,tenant,gpus,seconds\n1,,1,5\n", r"2:2: tenant: the tenant is missing"),
        ("submitted,tenant,gpus,seconds\n1,a,1\n", r"2:1: submitted: 3 cells, but the header has 4"),
        ("submitted,tenant,gpus,seconds,prio\n1,a,1,5,x\n", r"1:5: prio: unknown column 'prio'"),
        ("when,who\n1,2\n", r"1:1: is not a known job table"),
        ("", r"1:1: is not a known job table"),
    ],
)
def test_what_can_t_be_read_is_refused_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(GpupoolError, match=message):
        read(file)


ODD = {
    "slurm-names.txt": (
        "JobID|JobName|Account|Submit|Start|End|ReqTRES|TimelimitRaw\n"
        '1|"train|v|1|2|3|gres/gpu=1|\u00b2\n'
        "2|mid|v|1|2|3|gres/gpu=1|10\n"
        '3|y"|v|1|2|3|gres/gpu=1|UNLIMITED\n'
    ),
    "quoted.csv": '"submitted","tenant","gpus","seconds"\n"1","v","1","5"\n',
    "openb.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
        "scheduled_time\na,1,1,1,1000,,LS,Running,0,1000,5000\nb,1,1,1,1000,,LS,Running,0,9000,10\n"
    ),
}


@pytest.mark.parametrize(("name", "jobs"), [("slurm-names.txt", 3), ("quoted.csv", 1), ("openb.csv", 1)])
def test_odd_tables_lose_no_row_and_make_no_time_negative(tmp_path: Path, name: str, jobs: int) -> None:
    file = tmp_path / name
    file.write_text(ODD[name], encoding="utf-8")
    trace = read(file)
    assert len(trace.arrivals) == jobs
    assert all(arrival.seconds >= 0 for arrival in trace.arrivals)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[1" + "0" * 5000 + "]", '[{"attempts": [{"start_time": 1}]}]']
)
def test_odd_json_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "jobs.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(GpupoolError, match=r"jobs\.json"):
        read(file, zone=timedelta())


def test_a_format_that_is_named_must_fit(tmp_path: Path) -> None:
    with pytest.raises(GpupoolError, match="is not a openb table: it has no column"):
        read(TRACES / "neutral.csv", "openb")
    with pytest.raises(GpupoolError, match="can't be read: No such file"):
        read(tmp_path / "gone.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("days: 0\ntenants: []\n", r"made.yaml:1:1: days: 0 is out of range; it must be more than 0"),
        ("days: 1\ntenants: []\n", r"made.yaml:2:1: tenants: the list is empty"),
        ("days: 1\ntenant: []\n", r"made.yaml:2:1: tenant: unknown field .*did you mean \"tenants\""),
        (
            "days: 366\ntenants:\n- tenant: a\n  jobsPerDay: 99999\n"
            '  gpus: {"1": 1}\n  seconds: {median: 9, sigma: 0}\n',
            r"generates about .* jobs, more than the maximum of 2,000,000",
        ),
        (
            "days: 1\ntenants:\n- tenant: a\n  jobsPerDay: 9\n"
            '  gpus: {"0": 1}\n  seconds: {median: 9, sigma: 0}\n',
            r"made.yaml:5:",
        ),
        ("- days\n", r"made.yaml:1:1: the document is not a mapping"),
        ("days: 1\ntenants: [{gpus: {1: 2}}]\n", r"made.yaml:2:19: .*key 1 is not text.*write \"1\""),
    ],
)
def test_a_load_that_can_t_be_made_is_refused_at_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "made.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(GpupoolError, match=message):
        read(tmp_path / "made.yaml")


def test_a_window_and_a_load() -> None:
    trace = read(TRACES / "made.yaml")
    first = trace.arrivals[0].submitted
    day = part_of(trace, (0, 86400), 2.0)
    assert day.left_out == {LeftOut.WINDOW: len(trace.arrivals) - len(day.arrivals)}
    assert max(job.submitted for job in day.arrivals) <= first + 43200


def test_names_of_the_trace_become_those_of_the_file() -> None:
    names = Names({"vc1": "vision", "*": "serving"}, {"V100": "a100-80gb", "*": ""}, {"LS": "high"})
    arrival = Arrival(0, "vc1", None, 1, "V100", 5, "LS")
    assert names.of(arrival) == Arrival(0, "vision", None, 1, "a100-80gb", 5, "high")
    assert names.of(Arrival(0, "x", None, 1, "K80", 5)) == Arrival(0, "serving", None, 1, None, 5)
