"""Locks at the end of an interpreter, in handlers of signals, and by those who leave what others have entered."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

import navlock
from navlock import Locks
from navlock.pytest import Once


def output_of(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("option", ["", "timeout=50", "if_available=True"])
@pytest.mark.parametrize("reach", ["in_process", "local"])
def test_the_interpreter_locks_until_it_has_ended(reach: str, option: str, bucket: str) -> None:
    """Functions of `atexit` that were registered first run last, and `__del__` comes after all of them."""
    code = (
        "import atexit\n"
        "def lock(when):\n"
        f"    with locks.lock('db', {option}): print(when, flush=True)\n"
        "atexit.register(lock, 'at exit')\n"
        "import navlock\n"
        f"locks = navlock.{reach}({bucket!r})\n"
        "class Last:\n"
        "    def __del__(self, lock=lock): lock('last')\n"
        "last = Last()\n"
    )
    assert output_of(code) == "at exit\nlast"


def test_the_end_of_a_subinterpreter_ends_nothing_of_others() -> None:
    code = (
        "try: import _interpreters as s\n"
        "except ImportError: import _xxsubinterpreters as s\n"
        "import navlock, threading\n"
        "locks = navlock.in_process()\n"
        "other = s.create(); s.run_string(other, 'import navlock'); s.destroy(other)\n"
        "held = locks.lock('db').acquire()\n"
        "threading.Timer(0.05, held.release).start()\n"
        "with locks.lock('db', timeout=50): print('granted')\n"
    )
    assert output_of(code) == "granted"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_release_in_a_handler_wakes_a_loop_that_sleeps(locks: Locks, others: Locks) -> None:
    held = locks.lock("db").acquire()

    async def main() -> None:
        before = signal.signal(signal.SIGALRM, lambda *_: held.release())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            async with others.lock("db"):
                pass
        finally:
            signal.signal(signal.SIGALRM, before)

    asyncio.run(main())


def test_tasks_of_trio_that_are_guests_of_asyncio(locks: Locks, others: Locks) -> None:
    async def guest() -> None:
        async with trio.open_nursery() as nursery:
            async with locks.lock("db"):
                nursery.start_soon(wait)
                await trio.testing.wait_all_tasks_blocked()

    async def wait() -> None:
        async with others.lock("db"), locks.lock("other"):
            pass

    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        trio.lowlevel.start_guest_run(
            guest, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=done.set_result
        )
        (await done).unwrap()

    asyncio.run(main())


def test_what_another_thread_leaves_is_what_was_entered_there(locks: Locks) -> None:
    """As with generators of a web framework: each is entered by one thread, and left by another, which has one too."""
    anyone = locks.lock_any(["a", "b"])

    def enter():
        with anyone as lock:
            yield lock

    def in_thread(act) -> None:
        thread = threading.Thread(target=act)
        thread.start()
        thread.join()

    first, second = enter(), enter()
    got = []
    in_thread(lambda: got.append(next(first)))
    got.append(next(second))
    assert [lock.name for lock in got] == ["a", "b"]
    first.close()
    assert [lock.released for lock in got] == [True, False]
    second.close()


def test_who_has_entered_nothing_leaves_nobody_elses(locks: Locks) -> None:
    request = locks.lock("db", shared=True)
    held = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: held.append(request.__enter__()))
        thread.start()
        thread.join()
    with pytest.raises(RuntimeError, match="none of them leaves it"):
        request.__exit__(None, None, None)
    for lock in held:
        lock.release()


def test_a_lock_is_entered_only_while_it_is_held(locks: Locks) -> None:
    with locks.lock("db").acquire() as lock:
        pass
    with pytest.raises(RuntimeError, match="released before"), lock:
        pass
    lost = locks.lock("db").acquire()
    locks.lock("db", steal=True).acquire().release()
    with pytest.raises(navlock.LockLost), lost:
        pass


def test_a_callback_that_only_makes_a_coroutine_is_refused(locks: Locks) -> None:
    async def work(_lock: object) -> None:
        pass

    coroutine = None

    def callback(lock: object) -> object:
        nonlocal coroutine
        coroutine = work(lock)
        return coroutine

    with pytest.raises(TypeError, match="async def"):
        locks.request("db", callback)
    assert coroutine is not None
    coroutine.close()


def test_any_of_what_one_holds_oneself_would_never_come(locks: Locks) -> None:
    with locks.lock_all(["a", "b"]), pytest.raises(navlock.DeadlockError):
        locks.lock_any(["a", "b"]).acquire()
    with locks.lock("a"):
        locks.lock_any(["a", "b"]).acquire().release()


def test_with_a_timeout_a_lock_that_another_thread_releases_is_waited_for(locks: Locks) -> None:
    held = locks.lock("db").acquire()
    threading.Timer(0.05, held.release).start()
    with locks.lock("db", timeout=50):
        pass


def test_what_cannot_be_cancelled_is_not_to_be(locks: Locks) -> None:
    with pytest.raises(navlock.NotSupportedError, match="async with"):
        locks.lock("db", cancel_if_lost=True).acquire()


def test_a_frozen_program_is_not_started_as_a_broker(tmp_path: Path) -> None:
    code = (
        "import sys; sys.frozen = True\n"
        "import navlock, os\n"
        f"os.environ['PATH'] = '{tmp_path}'\n"
        f"try: navlock.local(socket='{tmp_path}/sock').lock('db').acquire()\n"
        "except navlock.UnreachableError as why: print('NAVLOCK_BIN' in str(why) or why)\n"
    )
    assert output_of(code) == "True"


@pytest.mark.skipif(not hasattr(asyncio, "timeout"), reason="Python 3.10 cannot tell")
def test_a_loss_in_a_task_that_is_being_cancelled_is_a_loss(bucket: str) -> None:
    locks = navlock.in_process(bucket)

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            with pytest.raises(navlock.LockLost):
                async with locks.lock("db", cancel_if_lost=True):
                    locks.lock("db", steal=True).acquire().release()
                    await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="there are no forks")
def test_a_fork_beside_a_thread_in_a_file_lock_has_it_to_itself(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from navlock.filelock import FileLock\n"
        f"lock = FileLock('{tmp_path}/it.lock', thread_local=False)\n"
        "with lock._mutex:\n"  # In the fork, no thread unlocks it.
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        signal.alarm(30)\n"
        "        lock.acquire(); lock.release(); os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    assert output_of(code) == "0"


def test_ends_of_fixtures_are_called_whatever_another_does(tmp_path: Path) -> None:
    once, ended = Once(str(tmp_path), tmp_path), []

    def fail(value: str) -> None:
        raise ZeroDivisionError(value)

    once("-a", lambda: "a", ended.append)
    once("use b", lambda: "b", fail)
    once("b", lambda: "c", ended.append)
    with pytest.raises(ZeroDivisionError):
        once.close()
    assert ended == ["c", "a"]
