"""Tasks of asyncio and of trio, each with the same questions."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
import trio

import navlock
from navlock import Locks


@pytest.fixture(params=["asyncio", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any]:
    return lambda main: anyio.run(main, backend=request.param)


async def asked(locks: Locks) -> navlock.Lock:
    return await locks.lock("db")


async def until(condition: Callable[[], Any]) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.001)


def test_tasks_exclude_each_other_and_take_turns(run, locks: Locks) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        async with locks.lock("db"):
            order.append(number)
            await anyio.sleep(0.001)
            order.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(work, number)

    run(main)
    assert order[::2] == order[1::2] and sorted(order[::2]) == list(range(10))


def test_the_order_is_that_of_the_requests(run, locks: Locks) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        async with locks.lock("db"):
            order.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            async with locks.lock("db"):
                for number in range(20):
                    tasks.start_soon(work, number)
                    await until(lambda: len(locks.query().pending) == number + 1)

    run(main)
    assert order == list(range(20))


def test_a_task_that_is_cancelled_leaves_the_queue(run, locks: Locks, others: Locks) -> None:
    async def main() -> None:
        async with locks.lock("db"):
            with anyio.move_on_after(0.02) as scope:
                async with others.lock("other"), others.lock("db", timeout=60):
                    pytest.fail("it is held")
            assert scope.cancelled_caught
            snapshot = await locks.aquery()
            assert snapshot.pending == [] and [info.name for info in snapshot.held] == ["db"]

    run(main)


def test_a_grant_to_a_task_that_is_cancelled_meanwhile_is_released(locks: Locks) -> None:
    async def main() -> None:
        for _ in range(50):
            held = await locks.lock("db")
            waits = asyncio.create_task(asked(locks))
            await until(lambda: locks.query().pending)
            held.release()  # The task is woken, and cancelled before it runs.
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            (await locks.lock("db", timeout=5)).release()

    asyncio.run(main())


def test_time_runs_out_for_tasks_as_well(run, locks: Locks, others: Locks) -> None:
    async def main() -> None:
        async with locks.lock("db"):
            for timeout in (0, 0.02):
                with pytest.raises(navlock.LockTimeout, match="db"):
                    await others.lock("db", timeout=timeout)
            assert (await locks.aquery()).pending == []

    run(main)


def test_a_lost_lock_cancels_the_body_where_that_was_asked_for(run, locks: Locks, others: Locks) -> None:
    async def main() -> None:
        with pytest.raises(navlock.LockLost, match="stolen"):
            async with locks.lock("db", cancel_if_lost=True):
                others.lock("db", steal=True).acquire().release()
                await anyio.sleep(60)
                pytest.fail("the body went on")
        await anyio.sleep(0)  # Nothing of the cancellation is left.
        with pytest.raises(navlock.LockLost):
            async with locks.lock("db"):
                others.lock("db", steal=True).acquire().release()
                await anyio.sleep(0.01)  # Without being asked for, the body goes on.

    run(main)


def test_a_lock_that_is_held_twice_cancels_both_bodies(run, locks: Locks, others: Locks) -> None:
    async def main() -> None:
        with pytest.raises(navlock.LockLost):
            async with locks.lock("db", cancel_if_lost=True):
                with pytest.raises(navlock.LockLost):
                    async with locks.lock("db", reentrant=True, cancel_if_lost=True):
                        others.lock("db", steal=True).acquire().release()
                        await anyio.sleep(60)
                await anyio.sleep(60)

    run(main)


def test_somebody_elses_cancellation_goes_before_that_of_a_loss(locks: Locks, others: Locks) -> None:
    async def body() -> None:
        async with locks.lock("db", cancel_if_lost=True) as lock:
            others.lock("db", steal=True).acquire().release()
            assert lock.lost
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)

    async def main() -> None:
        # Python 3.10 cannot tell.
        first = asyncio.CancelledError if hasattr(asyncio, "timeout") else navlock.LockLost
        with pytest.raises(first):
            await asyncio.create_task(body())

    asyncio.run(main())


def test_scopes_of_trio_that_are_not_left_in_order_keep_no_lock(locks: Locks) -> None:
    async def main() -> None:
        first, second = (locks.lock(name, cancel_if_lost=True) for name in ("a", "b"))
        await first.__aenter__()
        await second.__aenter__()
        with pytest.raises(RuntimeError, match="corrupted") as failed:  # So says trio.
            await first.__aexit__(None, None, None)
        assert [info.name for info in locks.query().held] == ["b"]
        del failed  # Its traceback keeps a lock that was not released from being collected.
        await second.__aexit__(None, None, None)
        assert locks.query().held == []

    trio.run(main)


def test_tasks_are_not_taken_for_each_other(run, locks: Locks) -> None:
    """A request waits for a lock of another task, also where one has started the other."""
    done = []

    async def child() -> None:
        async with locks.lock("db"):
            done.append("child")

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            async with locks.lock("db"):
                tasks.start_soon(child)
                await until(lambda: locks.query().pending)
                done.append("parent")
                with pytest.raises(navlock.DeadlockError):
                    await locks.lock("db")
                async with locks.lock("db", reentrant=True):
                    pass

    run(main)
    assert done == ["parent", "child"]


def test_tasks_that_wait_for_each_other_are_told(run, locks: Locks) -> None:
    ended: list[bool] = []

    async def work(first: str, second: str, other: str) -> None:
        async with locks.lock(first):
            await until(lambda: len(locks.query().held) == 2)
            try:
                async with locks.lock(second):
                    ended.append(True)
            except navlock.DeadlockError:
                ended.append(False)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work, "a", "b", "b")
            tasks.start_soon(work, "b", "a", "a")

    run(main)
    assert sorted(ended) == [False, True]


def test_threads_and_tasks_share_locks(run, locks: Locks) -> None:
    entered = threading.Event()
    leave = threading.Event()

    def thread() -> None:
        with locks.lock("db"):
            entered.set()
            leave.wait(10)

    async def main() -> None:
        worker = threading.Thread(target=thread)
        worker.start()
        await until(entered.is_set)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(release_soon)
            async with locks.lock("db"):
                assert leave.is_set()
        worker.join(10)

    async def release_soon() -> None:
        await until(lambda: locks.query().pending)
        leave.set()

    run(main)


def test_request_awaits_coroutine_functions(run, locks: Locks) -> None:
    async def main() -> None:
        async def callback(lock: navlock.Lock) -> str:
            await anyio.sleep(0)
            return lock.name

        assert await locks.request("db", callback) == "db"
        assert (await locks.aquery()).held == [] and (await locks.ainspect()).held == []

    run(main)


def test_a_lock_may_be_left_by_another_task(locks: Locks) -> None:
    """As pytest's own fixtures do, which are generators."""

    async def main() -> None:
        request = locks.lock("db")
        await asyncio.create_task(request.__aenter__())
        assert [info.name for info in locks.query().held] == ["db"]
        await asyncio.create_task(request.__aexit__(None, None, None))
        assert locks.query().held == []

    asyncio.run(main())


@pytest.mark.parametrize("is_same_thread", [True, False])
def test_a_closed_loop_loses_its_place_in_the_queue(locks: Locks, is_same_thread: bool) -> None:
    held = locks.lock("db").acquire()
    loop = asyncio.new_event_loop()
    waits = loop.create_task(asked(locks))
    loop.run_until_complete(asyncio.sleep(0.01))
    assert len(locks.query().pending) == 1
    loop.close()
    if is_same_thread:
        held.release()
    else:
        thread = threading.Thread(target=held.release)
        thread.start()
        thread.join(10)
    waits._log_destroy_pending = False  # type: ignore[attr-defined]
    # Also while somebody still has the task.
    locks.lock("db", timeout=10).acquire().release()
    del waits
    gc.collect()


def test_without_a_library_there_is_a_clear_error(locks: Locks, others: Locks) -> None:
    with locks.lock("db"):
        with pytest.raises(RuntimeError, match="asyncio or trio"):
            others.lock("db").__aenter__().send(None)
        assert locks.query().pending == []


def test_many_waiting_tasks_drain(run, locks: Locks) -> None:
    """Rule 5: 20,000 in one process."""
    many = 20_000 if locks._recipe[0]["kind"] == "process" else 2_000
    done = 0

    async def work() -> None:
        nonlocal done
        async with locks.lock("db"):
            done += 1

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            async with locks.lock("db"):
                for _ in range(many):
                    tasks.start_soon(work)
                await anyio.wait_all_tasks_blocked()
                assert (done, len(locks.query().pending)) == (0, many)

    run(main)
    assert done == many


def test_trio_alone_needs_no_asyncio(locks: Locks) -> None:
    async def main() -> str:
        async with locks.lock("db") as lock:
            await trio.lowlevel.checkpoint()
            return lock.name

    assert trio.run(main) == "db"
