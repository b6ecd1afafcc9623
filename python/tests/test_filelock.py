"""Programs that use ``filelock``, and its known problems, with the one import changed."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import navlock
from navlock.filelock import AsyncFileLock, BaseAsyncFileLock, BaseFileLock, FileLock, SoftFileLock, Timeout

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
all_locks = navlock.local("filelock")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs this code."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.001)


def waiting(path: Path) -> int:
    return [request.name for request in all_locks.query().pending].count(os.path.normcase(path))


HOLDS = """
    import sys
    from navlock.filelock import FileLock
    with FileLock(sys.argv[1]):
        print("held", flush=True)
        sys.stdin.read()
"""


def test_a_lock_is_held_inside_with_and_may_be_acquired_again(path: Path) -> None:
    lock = FileLock(path)
    assert (lock.is_locked, lock.lock_counter, lock.lock_file) == (False, 0, str(path))
    with lock as same:
        assert same is lock and lock.is_locked
        with lock.acquire() as again:
            assert again is lock and lock.lock_counter == 2
        assert lock.lock_counter == 1
        lock.acquire()
        lock.release(force=True)
        assert not lock.is_locked
    lock.release()
    FileLock(path, blocking=False).acquire().lock.release()


def test_a_lock_decorates_a_function(path: Path) -> None:
    lock = FileLock(path)

    @lock
    def work() -> bool:
        return lock.is_locked

    assert work() and not lock.is_locked


def test_what_one_holds_the_other_does_not_get(path: Path) -> None:
    with FileLock(path), ThreadPoolExecutor(1) as thread:
        for other in (FileLock(path, timeout=0.02), SoftFileLock(path, blocking=False), FileLock(path, 0)):
            with pytest.raises(Timeout, match="could not be acquired") as failed:
                thread.submit(other.acquire).result(10)
            assert failed.value.lock_file == str(path)
            assert isinstance(failed.value, TimeoutError) and not other.is_locked
        # The thread that holds the lock would wait in vain.
        with pytest.raises(Timeout):
            FileLock(path).acquire(timeout=60)


def test_two_ways_to_write_a_path_are_one_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "link").symlink_to(path.parent, target_is_directory=True)
    with FileLock("a.lock"):
        for other in (str(path), path, "./a.lock", path.parent / "link" / "a.lock"):
            with pytest.raises(Timeout):
                FileLock(other, blocking=False).acquire()


def test_processes_exclude_each_other_and_a_killed_one_leaves_nothing(path: Path) -> None:
    path.write_text("12345\nhost\n")  # What is left on disk means nothing either.
    other = python(HOLDS, str(path))
    assert line(other) == "held"
    with pytest.raises(Timeout):
        FileLock(path, blocking=False).acquire()
    other.kill()
    with FileLock(path, timeout=30):
        pass
    other.wait()


def test_threads_of_one_object_and_of_many_count_right(path: Path) -> None:
    shared, inside, count = FileLock(path), 0, 0

    def work(own: bool) -> None:
        nonlocal inside, count
        lock = FileLock(path) if own else shared
        for _ in range(50):
            with lock:
                inside += 1
                assert inside == 1
                count += 1
                inside -= 1

    with ThreadPoolExecutor(8) as threads:
        for result in [threads.submit(work, bool(number % 2)) for number in range(8)]:
            result.result(60)
    assert count == 400


def test_who_waits_is_served_in_order(path: Path) -> None:
    order: list[int] = []

    def work(number: int) -> None:
        with FileLock(path):
            order.append(number)

    with ThreadPoolExecutor(10) as threads:
        with FileLock(path):
            for number in range(10):
                threads.submit(work, number)
                until(lambda: waiting(path) == number + 1)
    assert order == list(range(10))


def test_what_an_ended_thread_held_is_free(path: Path) -> None:
    lock = FileLock(path)
    thread = threading.Thread(target=lock.acquire)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread.start()
        thread.join()
        FileLock(path, timeout=10).acquire().lock.release()


def test_an_object_for_all_threads_is_held_by_all_of_them(path: Path) -> None:
    lock = FileLock(path, thread_local=False)
    for _ in range(2):
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        thread.join()
    assert lock.lock_counter == 2
    lock.release()
    with pytest.raises(Timeout):
        FileLock(path, blocking=False).acquire()
    lock.release()
    assert not lock.is_locked


def test_a_forgotten_object_releases_and_nobody_warns(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock = FileLock(path)
        lock.acquire()
        del lock
        gc.collect()
    FileLock(path, timeout=10).acquire().lock.release()


# https://github.com/tox-dev/filelock/issues/315
def test_a_thread_that_would_wait_for_itself_is_told(path: Path) -> None:
    with FileLock(path):
        with pytest.raises(RuntimeError, match="Deadlock.*held already.*is_singleton") as failed:
            FileLock(path).acquire()
        assert isinstance(failed.value, navlock.DeadlockError)


def test_threads_that_would_wait_for_each_other_are_told(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def work(first: str, second: str) -> str:
        with FileLock(tmp_path / first):
            both.wait(10)
            try:
                with FileLock(tmp_path / second):
                    return "held"
            except RuntimeError as error:
                return str(error)[:8]

    with ThreadPoolExecutor(2) as threads:
        ended = [threads.submit(work, *names) for names in (("a", "b"), ("b", "a"))]
        assert sorted(each.result(30) for each in ended) == ["Deadlock", "held"]


def test_processes_that_would_wait_for_each_other_are_told(tmp_path: Path) -> None:
    code = """
        import sys
        from navlock.filelock import FileLock
        with FileLock(sys.argv[1]):
            print("one", flush=True)
            sys.stdin.readline()
            try:
                with FileLock(sys.argv[2]):
                    print("both", flush=True)
            except RuntimeError as error:
                print(str(error)[:8], flush=True)
    """
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    processes = [python(code, *names), python(code, *reversed(names))]
    assert [line(process) for process in processes] == ["one", "one"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(line(process) for process in processes) == ["Deadlock", "both"]
    assert [process.wait(10) for process in processes] == [0, 0]


# https://github.com/tox-dev/filelock/issues/675
def test_tasks_with_an_object_each_exclude_each_other_without_false_deadlocks(path: Path) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        async with AsyncFileLock(path):
            order.append(number)
            await asyncio.sleep(0.001)
            order.append(number)

    async def main() -> None:
        await asyncio.gather(*(work(number) for number in range(20)))

    asyncio.run(main())
    assert order == [number for number in range(20) for _ in range(2)]


def test_tasks_have_what_threads_have(path: Path) -> None:
    async def main() -> None:
        lock = AsyncFileLock(str(path), timeout=0.02)
        async with lock, await lock.acquire() as same:
            assert same is lock and lock.lock_counter == 2
            with pytest.raises(RuntimeError, match="Deadlock"):
                await AsyncFileLock(path).acquire()
            other = AsyncFileLock(path)
            for options in ({"timeout": 0.02}, {"blocking": False}, {"timeout": 10, "cancel_check": lambda: True}):
                with pytest.raises(Timeout):
                    await asyncio.create_task(other.acquire(**options))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(other.acquire(), 0.02)
            assert waiting(path) == 0
        assert not lock.is_locked

    asyncio.run(main())
    with pytest.raises(TypeError, match="context manager"), AsyncFileLock(path):
        pass
    AsyncFileLock(path, thread_local=True, run_in_executor=False, executor=None, loop=None)


def test_cancel_check_ends_the_wait_and_is_not_asked_without_one(path: Path) -> None:
    asked: list[bool] = []

    def cancel_check() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    with FileLock(path) as lock, ThreadPoolExecutor(1) as thread:
        lock.acquire(cancel_check=cancel_check)
        assert asked == []
        other = FileLock(path, poll_interval=0.01)
        with pytest.raises(Timeout):
            thread.submit(other.acquire, cancel_check=cancel_check).result(10)
    assert asked == [False, False, True]


def test_singletons_are_one_object_for_a_path(path: Path) -> None:
    class Other(FileLock):
        pass

    lock = FileLock(path, is_singleton=True, timeout=2)
    assert FileLock(str(path), is_singleton=True, timeout=2) is lock
    assert FileLock(path) is not lock and Other(path, is_singleton=True) is not lock
    with lock, FileLock(path, 2, is_singleton=True) as same:
        assert same is lock and lock.lock_counter == 2
    with pytest.raises(ValueError, match="differing arguments"):
        FileLock(path, is_singleton=True, timeout=3)
    del lock, same
    assert FileLock(path, is_singleton=True, timeout=3).timeout == 3


@needs_fork
def test_a_fork_holds_nothing_takes_nothing_away_and_may_acquire(path: Path) -> None:
    for lock in (FileLock(path), FileLock(path, thread_local=False), FileLock(path, is_singleton=True)):
        with lock:
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                is_well = not lock.is_locked and lock.lock_counter == 0
                lock.release()
                try:
                    lock.acquire(blocking=False)
                    is_well = False
                except Timeout:
                    pass
                with FileLock(f"{path}.other", timeout=10):
                    os._exit(0 if is_well else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert lock.is_locked
            with pytest.raises(Timeout):
                FileLock(path, blocking=False).acquire()


def test_a_lock_that_was_lost_is_told(path: Path) -> None:
    lock = FileLock(path)
    steal = all_locks.lock(os.path.normcase(path), steal=True)
    with pytest.raises(navlock.LockLost, match="stolen"):
        with lock:
            steal.acquire().release()
            assert not lock.is_locked
    with pytest.raises(KeyError):  # What the body raises tells more.
        with lock:
            steal.acquire().release()
            raise KeyError
    with lock:
        assert lock.is_locked


def test_what_filelock_takes_is_taken_and_what_is_wrong_is_refused(path: Path) -> None:
    lock = FileLock(path, 5, 0o600, True, lifetime=3, fallback_to_soft=False, preserve_lock_file=True)
    assert (lock.timeout, lock.mode, lock.is_thread_local()) == (5, 0o600, True)
    assert FileLock(path).mode == 0o644
    assert isinstance(lock, BaseFileLock) and issubclass(BaseAsyncFileLock, BaseFileLock)
    lock.timeout, lock.blocking, lock.poll_interval = 0, False, 1
    with pytest.raises(ValueError, match="on_acquired"):
        FileLock(path, on_acquired=print)
    with FileLock(path):
        assert not path.exists()


def test_a_timeout_travels_between_processes(path: Path) -> None:
    copy = pickle.loads(pickle.dumps(Timeout(str(path))))
    assert (copy.lock_file, str(copy)) == (str(path), f"The file lock '{path}' could not be acquired.")
