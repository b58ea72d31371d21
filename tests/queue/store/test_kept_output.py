"""What is kept of an output: its first part, its last part, and a mark between them that tells the truth."""

from __future__ import annotations

import re

import psycopg
import pytest

from gpupool.queue.store import logs
from gpupool.queue.store.database import Database
from gpupool.queue.store.kept_output import KeptOutput
from tests.queue.conftest import Run
from tests.queue.store.samples import running, sql

MARK = re.compile(r"\[gpupool: ([0-9,]+) bytes of the output are left out here\]\n")


async def shown(db: Database, job: str, after: int = 0, limit: int = 1000) -> tuple[str, int]:
    """What a reader gets from a position on, page by page, and its position then."""
    text = ""
    while chunks := await logs.page(db, job, None, after, limit):
        text += "".join(chunk.shown for chunk in chunks)
        after = chunks[-1].number
    return text, after


def adds_up(text: str, whole: str) -> None:
    """`text` is parts of `whole` in their order, and says what is missing between them."""
    parts = MARK.split(text)
    place = 0
    for part, left_out in zip(parts[::2], [*parts[1::2], "0"], strict=True):
        assert whole[place:].startswith(part)
        place += len(part) + int(left_out.replace(",", ""))
    assert place == len(whole)


CASES = [
    (keep, line, together, pause)
    for keep in (200, 1000, 100_000)
    for line in (1, 30, 333)
    for together in (1, 7, 1000)
    for pause in (0.0, 100.0)
]


@pytest.mark.parametrize(("keep", "line", "together", "pause"), CASES)
def test_the_first_and_the_last_part_stay(
    database: Run, keep: int, line: int, together: int, pause: float
) -> None:
    """However long lines are, and however many come at once or before it is time to store them."""

    async def test(db: Database) -> None:
        job = await running(db)
        passed = [0.0]
        kept = KeptOutput(db, job.id, 1, lambda: keep, clock=lambda: passed[0])
        lines = [f"{number:05} {'x' * line}" for number in range(200)]
        follower, position = "", 0
        for at in range(0, len(lines), together):
            await kept.add(lines[at : at + together])
            passed[0] += pause
            more, position = await shown(db, job.id, position, limit=3)
            follower += more
        await kept.flush()
        more, position = await shown(db, job.id, position, limit=3)
        whole, (text, _) = "".join(f"{one}\n" for one in lines), await shown(db, job.id, limit=5)
        adds_up(text, whole)
        assert text.startswith(whole[: keep // 2])
        assert text.endswith(whole[-(keep // 2) :]), "the traceback is at the end"
        longest = line + 7
        slack = 2 * max(longest, keep // 16)
        (size,) = await sql(db, "SELECT sum(octet_length(text) + 1) AS bytes FROM gpu_logs")
        assert size["bytes"] <= keep + slack
        if pause and together * (line + 7) < keep // 2:  # a reader that follows has everything
            assert follower + more == whole

    database(test)


def test_a_log_that_fits_has_no_mark(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        kept = KeptOutput(db, job.id, 1, lambda: 1000)
        await kept.add(["a", "", "ä" * 100])
        await kept.flush()
        assert await shown(db, job.id) == (f"a\n\n{'ä' * 100}\n", (await logs.page(db, job.id))[-1].number)

    database(test)


def test_a_reader_that_lags_is_told_what_it_has_missed(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        for number in range(20):
            await logs.append(db, job.id, 1, [f"{number:09}"], keep=100)
        _, position = await shown(db, job.id)
        for number in range(20, 40):
            await logs.append(db, job.id, 1, [f"{number:09}"], keep=100)
        text, _ = await shown(db, job.id, position)
        last = "".join(f"{number:09}\n" for number in range(35, 40))
        assert MARK.sub("", text) == last
        assert MARK.match(text)

    database(test)


def test_no_chunk_is_written_twice_and_few_are_looked_at(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        for number in range(300):
            await logs.append(db, job.id, 1, [f"{number:09}"], keep=1000)
        (row,) = await sql(db, "SELECT count(*) AS chunks, max(number) - min(number) AS span FROM gpu_logs")
        assert row["chunks"] == 100
        assert row["span"] == 299

    database(test)


def test_what_an_earlier_release_kept_has_no_gaps(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        for text in ("old one", "old two"):
            await sql_run(
                db, "INSERT INTO gpu_logs (job, attempt, at, text) VALUES (%s, 1, now(), %s)", job.id, text
            )
        await logs.append(db, job.id, 1, ["new one"])
        await logs.append(db, job.id, 1, ["new two"])
        assert (await shown(db, job.id))[0] == "old one\nold two\nnew one\nnew two\n"

    database(test)


async def sql_run(db: Database, statement: str, *values: object) -> None:
    async with db.connection() as connection:
        await connection.execute(statement.encode(), values)


def test_attempts_have_parts_of_their_own(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        for number in range(20):
            await logs.append(db, job.id, 1, [f"{number:09}"], keep=100)
        async with db.transaction() as connection:
            await connection.execute(
                "INSERT INTO gpu_attempts SELECT (jsonb_populate_record(a, "
                '\'{"attempt": 2, "log_bytes": 0, "log_head": null}\')).* FROM gpu_attempts a'
            )
        await logs.append(db, job.id, 2, ["second"], keep=100)
        text, _ = await shown(db, job.id)
        assert text.endswith("second\n")
        assert len(MARK.findall(text)) == 1
        (chunk,) = await logs.page(db, job.id, 2)
        assert (chunk.text, chunk.left_out) == ("second", 0)

    database(test)


def test_what_the_database_did_not_take_is_said_to_be_missing(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        passed = [0.0]
        kept = KeptOutput(db, job.id, 1, lambda: 1000, clock=lambda: passed[0])
        await kept.add(["one"])
        await sql_run(db, "ALTER TABLE gpu_logs ADD CONSTRAINT no CHECK (text <> 'two')")
        passed[0] += 1
        with pytest.raises(psycopg.errors.CheckViolation):
            await kept.add(["two"])
        assert kept.until is None
        passed[0] += 1
        await kept.add(["three"])
        text, _ = await shown(db, job.id)
        adds_up(text, "one\ntwo\nthree\n")
        assert "three" in text

    database(test)


def test_output_of_an_attempt_that_is_over_is_not_kept(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        kept = KeptOutput(db, job.id, 2, lambda: 1000)
        await kept.add(["late"])
        assert kept.over
        assert await logs.page(db, job.id) == []

    database(test)
