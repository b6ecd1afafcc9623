"""Processes: started in all the ways that Python has, killed, stopped, and of other languages."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import navlock
from navlock import Locks

ROOT = Path(__file__).parents[2]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    """Ends what a test has started."""
    yield
    while _started:
        process = _started.pop()
        process.kill()
        process.communicate()


_started: list[subprocess.Popen[str]] = []


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs this code."""
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    _started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    return _started[-1]


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLDS = """
    import sys, navlock
    with navlock.local(sys.argv[1]).lock("db"):
        print("held", flush=True)
        sys.stdin.read()
"""


def test_processes_exclude_each_other_and_a_killed_one_leaves_nothing(bucket: str) -> None:
    locks = navlock.local(bucket)
    other = python(HOLDS, bucket)
    assert line(other) == "held"
    assert locks.lock("db", if_available=True).acquire() is None
    (held,) = locks.inspect().held
    assert held.pid == other.pid
    other.kill()
    locks.lock("db", timeout=30).acquire().release()
    other.wait()


def add(locks: Locks, file: str, times: int) -> None:
    for _ in range(times):
        with locks.lock("number"):
            number = int(Path(file).read_text())
            time.sleep(0.0001)
            Path(file).write_text(str(number + 1))


@pytest.mark.parametrize("way", multiprocessing.get_all_start_methods())
def test_processes_of_multiprocessing_take_turns(way: str, bucket: str, tmp_path: Path) -> None:
    file = tmp_path / "number"
    file.write_text("0")
    context = multiprocessing.get_context(way)
    locks = navlock.local(bucket)
    with locks.lock("number"):  # The children have a copy of this, and do not hold it.
        children = [context.Process(target=add, args=(locks, str(file), 25)) for _ in range(4)]
        for child in children:
            child.start()
        time.sleep(0.05)
        assert file.read_text() == "0"
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert file.read_text() == "100"


@needs_fork
def test_a_fork_neither_holds_nor_believes_that_it_holds(locks: Locks, bucket: str) -> None:
    with locks.lock("db") as lock:
        child = os.fork()
        if child == 0:
            is_well = lock.lost is not None and "forked" in lock.lost
            try:
                lock.release()
                is_well = False
            except navlock.LockLost:
                pass
            del lock
            # In one process, what a fork has is its own; on one machine, its parent holds the lock.
            expected = locks._recipe[0]["kind"] == "process"
            taken = locks.lock("db", if_available=True).acquire()
            is_well &= (taken is not None) == expected
            is_well &= locks.lock("other", timeout=10).acquire().release() is None
            os._exit(0 if is_well else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert lock.lost is None
        assert [info.name for info in locks.query().held] == ["db"]


@needs_fork
def test_a_fork_beside_busy_threads_goes_on(locks: Locks) -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            with locks.lock("busy"):
                pass

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                locks.lock("own", timeout=15).acquire().release()
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)


@needs_fork
def test_a_fork_that_python_does_not_know_of_asks_for_itself(bucket: str) -> None:
    """As servers that embed Python make it."""
    code = """
        import ctypes, os, sys, navlock
        locks = navlock.local(sys.argv[1])
        locks.lock("db").acquire().release()
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            locks.lock("db", timeout=10).acquire().release()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert line(python(code, bucket)) == "0"


def test_a_lock_that_is_held_at_the_end_makes_no_noise(bucket: str) -> None:
    code = "import sys, navlock; lock = navlock.local(sys.argv[1]).lock('db').acquire()"
    ended = subprocess.run([sys.executable, "-c", code, bucket], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


ANSWERS = """
    import sys, navlock
    locks = navlock.local(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        with locks.lock("db", if_available=True) as lock:
            print(lock is not None, flush=True)
"""


def test_what_is_released_is_free_for_whoever_is_told_afterwards(bucket: str) -> None:
    """Rule 34: of a thousand times, the other process finds it free each time."""
    locks = navlock.local(bucket)
    other = python(ANSWERS, bucket)
    assert line(other) == "ready" and other.stdin is not None
    found = []
    for _ in range(1000):
        with locks.lock("db", timeout=30):
            pass
        other.stdin.write("now\n")
        other.stdin.flush()
        found.append(line(other))
    assert found.count("True") == 1000


def test_locks_of_a_machine_travel_and_those_of_a_process_do_not(bucket: str) -> None:
    copy = pickle.loads(pickle.dumps(navlock.local(bucket)))
    assert copy.bucket == bucket
    with pytest.raises(TypeError, match="one process"):
        pickle.dumps(navlock.in_process(bucket))


@pytest.mark.skipif(sys.platform == "win32", reason="signals are heard a moment later")
@pytest.mark.parametrize("way", ["in_process", "local"])
def test_a_thread_that_waits_hears_signals(way: str, bucket: str) -> None:
    waits = python(
        """
        import sys, threading, time, navlock
        locks = getattr(navlock, sys.argv[2])(sys.argv[1])
        gate = threading.Event()
        def hold():
            with locks.lock("db"):
                gate.set()
                while not locks.query().pending:
                    time.sleep(0.001)
                print("waits", flush=True)
                threading.Event().wait()
        threading.Thread(target=hold, daemon=True).start()
        gate.wait()
        try:
            locks.lock("db").acquire()
        except KeyboardInterrupt:
            print(len(locks.query().pending), flush=True)
        """,
        bucket,
        way,
    )
    assert line(waits) == "waits"
    waits.send_signal(signal.SIGINT)
    assert line(waits) == "0"
    assert waits.wait(10) == 0


def test_an_interpreter_ends_while_a_thread_waits(bucket: str) -> None:
    ends = python(
        """
        import sys, threading, time, navlock
        for locks in (navlock.in_process(sys.argv[1]), navlock.local(sys.argv[1])):
            held = locks.lock("db").acquire()
            for _ in range(3):
                threading.Thread(target=locks.lock("db").acquire, daemon=True).start()
            while len(locks.query().pending) < 3:
                time.sleep(0.001)
        print("ends", flush=True)
        """,
        bucket,
    )
    assert line(ends) == "ends"
    assert ends.wait(10) == 0
    navlock.local(bucket).lock("db", timeout=10).acquire().release()


def test_an_interpreter_ends_right_after_a_task_was_woken(bucket: str) -> None:
    """The thread that has woken the task may not be done with it."""
    code = """
        import asyncio, sys, navlock
        async def main():
            async with navlock.local(sys.argv[1]).lock(sys.argv[2]): pass
        asyncio.run(main())
    """
    for _ in range(10):
        ends = [python(code, bucket, str(number)) for number in range(4)]
        assert [end.wait(30) for end in ends] == [0] * 4


def test_python_node_rust_and_the_command_exclude_each_other(bucket: str, tmp_path: Path) -> None:
    command, node = os.environ.get("NAVLOCK_PROGRAM"), shutil.which("node")
    if command is None or node is None:
        pytest.skip("NAVLOCK_PROGRAM does not name the command `navlock`, or there is no Node")
    file = tmp_path / "number"
    file.write_text("0")
    script = tmp_path / "add.mjs"
    script.write_text(
        textwrap.dedent(
            """
            import { readFileSync, writeFileSync } from 'node:fs';
            const { createUserAgent } = await import(process.argv[2]);
            const { locks } = createUserAgent({ bucket: process.argv[3] });
            for (let i = 0; i < 25; i++) {
              await locks.request('number', async () => {
                const number = Number(readFileSync(process.argv[4], 'utf8'));
                await null;
                writeFileSync(process.argv[4], String(number + 1));
              });
            }
            """
        )
    )
    index = (ROOT / "npm/navlock/js/index.mjs").as_uri()
    add_one = f'n=$(cat "{file}"); echo $((n + 1)) > "{file}"'
    shell = f"for i in $(seq 25); do '{command}' --bucket '{bucket}' run number -- sh -c '{add_one}'; done"
    rust = Path(command).parent / "examples" / "several_processes"
    others = [
        subprocess.Popen([rust, bucket, str(file), "25"]),
        subprocess.Popen([node, str(script), index, bucket, str(file)]),
        subprocess.Popen(["sh", "-c", shell]),
        python(
            "import sys; sys.path.insert(0, sys.argv[3]); import navlock, test_processes as t; "
            "t.add(navlock.local(sys.argv[1]), sys.argv[2], 25)",
            bucket,
            str(file),
            str(Path(__file__).parent),
        ),
    ]
    add(navlock.local(bucket), str(file), 25)
    assert [other.wait(60) for other in others] == [0, 0, 0, 0]
    assert file.read_text().strip() == "125"
