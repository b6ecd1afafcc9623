"""What locks cost in Python, beside those of the standard library and of `filelock`.

Usage: bench.py [--rounds N] [--quick] [--splice FILE]. All rows are measured in turns, in one run; each figure is the
median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock

import navlock

FOLDER = tempfile.TemporaryDirectory(prefix="navlock-bench-")
Measure = Callable[[int], float]


def timed(work: Callable[[int], object], times: int) -> float:
    """Microseconds for each of so many."""
    began = time.perf_counter()
    work(times)
    return (time.perf_counter() - began) / times * 1e6


def entered(lock: Callable[[], Any]) -> Measure:
    """Entering and leaving what each call gives."""

    def work(times: int) -> None:
        for _ in range(times):
            with lock():
                pass

    return lambda times: timed(work, times)


def awaited(lock: Callable[[], Any]) -> Measure:
    """The same in a task."""

    async def work(times: int) -> None:
        for _ in range(times):
            async with lock():
                pass

    return lambda times: timed(lambda times: asyncio.run(work(times)), times)


def flock(times: int) -> float:
    with open(Path(FOLDER.name, "flock"), "w") as file:

        def work(times: int) -> None:
            for _ in range(times):
                fcntl.flock(file, fcntl.LOCK_EX)
                fcntl.flock(file, fcntl.LOCK_UN)

        return timed(work, times)


def drained(locks: navlock.Locks, waiters: int) -> Measure:
    """Tasks that all ask at once for one name, until the last has had it."""

    async def work() -> None:
        async def one() -> None:
            async with locks.lock("drain"):
                pass

        async with locks.lock("drain"):
            tasks = [asyncio.ensure_future(one()) for _ in range(waiters)]
            await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    return lambda _: timed(lambda _: asyncio.run(work()), 1) / waiters


PARTNER = """
import sys, time, navlock, filelock
if sys.argv[1] == "navlock":
    locks = navlock.local("bench")
    lock = lambda name: locks.lock(name)
else:
    lock = lambda name: filelock.FileLock(name)
for line in sys.stdin:
    with lock(line.strip()):
        print("held", flush=True)
        sys.stdin.readline()
        left = time.monotonic_ns()
    print(left, flush=True)
"""


def handed_over(kind: str) -> Measure:
    """From the moment at which another process leaves the lock until the one that waits has it."""
    partner = subprocess.Popen(
        [sys.executable, "-c", PARTNER, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    locks = navlock.local("bench")
    assert partner.stdin is not None and partner.stdout is not None
    ask, answers = partner.stdin, partner.stdout

    def measure(times: int) -> float:
        name = "handover" if kind == "navlock" else os.path.join(FOLDER.name, "handover")
        each = []
        for _ in range(times):
            ask.write(f"{name}\n")
            ask.flush()
            answers.readline()
            # The one who waits has waited for a while, as it mostly has where locks are contended.
            threading.Timer(0.03, lambda: (ask.write("go\n"), ask.flush())).start()
            with locks.lock(name) if kind == "navlock" else filelock.FileLock(name):
                had = time.monotonic_ns()
            each.append((had - int(answers.readline())) / 1e3)
        return statistics.median(each)

    return measure


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--splice")
    chosen = arguments.parse_args()
    rounds = 1 if chosen.quick else chosen.rounds

    process, machine = navlock.in_process("bench"), navlock.local("bench")
    machine.lock("own").acquire().release()
    thread_lock, file = threading.Lock(), os.path.join(FOLDER.name, "file")
    rows: list[tuple[str, int, Measure]] = [
        ("`with`: navlock, in process", 20_000, entered(lambda: process.lock("own"))),
        ("`with`: navlock, on one machine (owned)", 20_000, entered(lambda: machine.lock("own"))),
        ("`with`: `threading.Lock`", 20_000, entered(lambda: thread_lock)),
        ("`with`: `filelock.FileLock`", 2_000, entered(lambda: filelock.FileLock(file))),
        ("`fcntl.flock`, two calls", 20_000, flock),
        ("`async with`: navlock, in process", 10_000, awaited(lambda: process.lock("own"))),
        ("`async with`: navlock, on one machine (owned)", 10_000, awaited(lambda: machine.lock("own"))),
        ("`async with`: `asyncio.Lock`, a new one each", 10_000, awaited(asyncio.Lock)),
        ("100 waiting tasks, each: navlock, in process", 1, drained(process, 100)),
        ("1,000 waiting tasks, each: navlock, in process", 1, drained(process, 1000)),
        ("10,000 waiting tasks, each: navlock, in process", 1, drained(process, 10_000)),
        ("1,000 waiting tasks, each: navlock, on one machine", 1, drained(machine, 1000)),
        ("handover between processes: navlock", 20, handed_over("navlock")),
        ("handover between processes: `filelock.FileLock`", 20, handed_over("filelock")),
    ]
    measured: list[list[float]] = [[] for _ in rows]
    for _ in range(rounds):
        for (_, times, measure), figures in zip(rows, measured):
            figures.append(measure(max(times // 20, 1) if chosen.quick else times))
    lines = ["| | median, µs |", "|---|---|"]
    for (name, _, _), figures in zip(rows, measured):
        lines.append(f"| {name} | {statistics.median(figures):.2f} |")
    table = "\n".join(lines)
    print(table)
    if chosen.splice and not chosen.quick:
        splice(Path(chosen.splice), table)


def splice(file: Path, table: str) -> None:
    """Writes the table between its markers in a document."""
    begin, end = "<!-- bench:python -->\n", "<!-- /bench:python -->"
    text = file.read_text()
    before, rest = text.split(begin)
    after = rest.split(end)[1]
    file.write_text(before + begin + table + "\n" + end + after)


main()
