"""One client in several processes, threads and event loops: each gets the answers to its own questions."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from typing import Any

import pytest

from gpupool.client import AsyncClient, Client, Job, NotFound
from gpupool.queue.store import logs
from tests.queue.api.served import HTTP_JOB
from tests.queue.client.conftest import Queue
from tests.queue.client.test_command_line import begun

JOB: Any = {**HTTP_JOB}
EACH = 15
"""Questions of each process; several in parallel over one connection mix their answers at once."""


def in_children(count: int, do: Callable[[], None]) -> None:
    """Run `do` in so many forks at the same time, and here; each must end well."""
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            status = 1
            signal.alarm(60)  # it ends, also where the fork has copied a lock that was held
            try:
                do()
                status = 0
            except BaseException:  # the child must never return into pytest
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        children.append(child)
    do()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count


def asks(client: Client, ids: list[str]) -> None:
    """Ask for each job, and be given that one."""
    for id in ids:
        assert client.job(id).id == id


def test_forks_get_their_own_answers(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def run() -> None:
            with Client(queue.url, tenant="vision", retry_for=0) as client:
                ids = list(client.submit_job(array=EACH, **JOB).job_ids)

                def do() -> None:
                    mine = ids[os.getpid() % EACH :] + ids[: os.getpid() % EACH]
                    asks(client, mine)

                for _ in range(3):
                    in_children(4, do)
                in_children(2, client.close)
                in_children(2, lambda: in_children(1, do))
                asks(client, ids)

        await queue.ask(run)

    queue(test)


def test_a_stream_that_is_read_across_a_fork_is_read_whole_by_both(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        with Client(queue.url, tenant="vision") as client:
            id = (await queue.ask(lambda: client.submit_job(**JOB))).id
            lines = [f"{number} {'x' * 5000}" for number in range(400)]
            await begun(queue, id, 1)
            for at in range(0, 400, 20):
                await logs.append(queue.db, id, 1, lines[at : at + 20])

            def run() -> None:
                found: Iterator[str] = client.logs(id)
                first = list(islice(found, 30))

                def do() -> None:
                    assert first + list(found) == lines

                in_children(2, do)

            await queue.ask(run)

    queue(test)


def ask_for(job: Job) -> str:
    return job.refresh().id


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing(queue: Any, method: str) -> None:
    async def test(queue: Queue) -> None:
        def run() -> None:
            with Client(queue.url, tenant="vision") as client:
                jobs = [client.job(id) for id in client.submit_job(array=6, **JOB).job_ids]
                context = multiprocessing.get_context(method)
                with ProcessPoolExecutor(2, mp_context=context) as pool:
                    assert list(pool.map(ask_for, jobs)) == [job.id for job in jobs]

        await queue.ask(run)

    queue(test)


def test_threads_share_a_client(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def run() -> None:
            client = Client(queue.url, tenant="vision")
            ids = list(client.submit_job(array=40, **JOB).job_ids)
            fresh = Client(queue.url, tenant="vision")
            with ThreadPoolExecutor(8) as pool:
                assert [job.id for job in pool.map(fresh.job, ids)] == ids
            fresh.close()
            client.close()

        await queue.ask(run)

    queue(test)


def test_an_error_comes_back_from_a_worker(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def run() -> None:
            with Client(queue.url, tenant="vision") as client, pytest.raises(NotFound) as raised:
                client.job("nothing")
            again = pickle.loads(pickle.dumps(raised.value))
            assert (type(again), str(again), again.status) == (NotFound, str(raised.value), 404)

        await queue.ask(run)

    queue(test)


def test_an_asyncio_client_belongs_to_no_loop(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        client = AsyncClient(queue.url, tenant="vision", retry_for=0)
        ids: list[str] = []

        async def submit() -> None:
            ids.append((await client.submit_job(**JOB)).id)

        async def read() -> None:
            for id in ids:
                assert (await client.job(id)).id == id

        def run() -> None:
            asyncio.run(submit())
            asyncio.run(read())
            with ThreadPoolExecutor(4) as pool:
                for done in [pool.submit(asyncio.run, read()) for _ in range(8)]:
                    done.result()
            in_children(3, lambda: asyncio.run(read()))
            asyncio.run(client.close())
            asyncio.run(read())

        await queue.ask(run)
        await read()

        async def in_a_fork() -> None:
            """Forked within a loop that has connections: the child's loop is another one."""
            await read()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    asyncio.events._set_running_loop(None)
                    asyncio.run(read())
                    status = 0
                finally:
                    os._exit(status)
            assert (await asyncio.to_thread(os.waitpid, child, 0))[1] == 0
            await read()

        await queue.ask(lambda: asyncio.run(in_a_fork()))
        await client.close()

    queue(test)
