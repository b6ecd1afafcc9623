"""Waits for answers: a thread waits for a lock of CPython's, where it hears signals; a task waits in the way of its
library. Nothing is polled: whoever grants the lock wakes whoever waits for it."""

from __future__ import annotations

import atexit
import os
import sys
from _thread import RLock, allocate_lock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ._errors import LockTimeout
from ._holds import library
from ._navlock import Pending

if TYPE_CHECKING:
    from collections.abc import Callable

# Windows does not interrupt a thread that waits for a lock, so there a thread looks for signals this often.
_LONGEST = 0.1 if sys.platform == "win32" else 1_000_000.0


# Held by a thread that wakes a task from outside of its loop. CPython ends a thread that comes back to an interpreter
# which is ending, and that must not happen to a thread that has frames of Rust: the process would be aborted.
_waking = RLock()


def wake_from_outside(schedule: Callable[..., object], callback: Callable[[], object]) -> None:
    """Calls ``schedule(callback)``, which is how a loop is woken from another thread."""
    with _waking:
        schedule(callback)


def _end() -> None:
    """The interpreter ends: who wakes a task now is waited for, and nobody does so any more."""
    _waking.acquire()
    sleep(0.001)  # Lets go on who is about to leave, or to wait here for ever.


def _after_fork() -> None:
    global _waking
    _waking = RLock()


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def wait(answer: Any, timeout: float | None = None) -> Any:
    """The answer of a request, for which the thread waits.

    :raises LockTimeout: if it takes longer than ``timeout`` seconds.
    """
    if type(answer) is not Pending:
        return answer
    pending: Pending = answer
    deadline = None if timeout is None else monotonic() + timeout
    wake_up = allocate_lock()
    wake_up.acquire()
    try:
        while True:
            answer = pending.poll(wake_up.release)
            if answer is not pending:
                return answer
            while True:
                left = _LONGEST if deadline is None else max(deadline - monotonic(), 0)
                if wake_up.acquire(timeout=min(left, _LONGEST)):
                    break
                if left <= _LONGEST and deadline is not None and monotonic() >= deadline:
                    pending.time_out()
                    raise LockTimeout("the lock could not be had in the time given")
    except BaseException:
        pending.abort()
        raise


async def wait_async(answer: Any, timeout: float | None = None) -> Any:
    """The answer of a request, for which the task waits.

    :raises LockTimeout: if it takes longer than ``timeout`` seconds.

    A task that is cancelled while it waits leaves the queue; a lock that it was just granted is released.
    """
    if type(answer) is not Pending:
        return answer
    pending: Pending = answer
    deadline = None if timeout is None else monotonic() + timeout
    sleeper = _sleeper()
    try:
        while True:
            wake, sleep = sleeper(pending)
            answer = pending.poll(wake)
            if answer is not pending:
                return answer
            left = None if deadline is None else max(deadline - monotonic(), 0)
            if not await sleep(left) and deadline is not None and monotonic() >= deadline:
                pending.time_out()
                raise LockTimeout("the lock could not be had in the time given")
    except BaseException:
        pending.abort()
        raise


def _sleeper() -> Callable[[Pending], tuple[Callable[[], None], Callable[[float | None], Any]]]:
    """How a task sleeps here: each call gives what wakes it, from whatever thread, and what sleeps until then, at
    most for so many seconds, and says whether it was woken."""
    running = library()
    if running == "asyncio":
        return _asyncio_sleep
    if running == "trio":
        return _trio_sleep
    raise RuntimeError("navlock waits in tasks of asyncio or trio, and this is neither")


def _asyncio_sleep(pending: Pending) -> tuple[Callable[[], None], Callable[[float | None], Any]]:
    import asyncio

    loop = asyncio.get_running_loop()
    woken: asyncio.Future[bool] = loop.create_future()
    thread = get_ident()

    def set_woken(by_waker: bool = True) -> None:
        if not woken.done():
            woken.set_result(by_waker)

    def wake() -> None:
        if get_ident() == thread:
            set_woken()
            return
        try:
            wake_from_outside(loop.call_soon_threadsafe, set_woken)
        except RuntimeError:
            pending.abort()  # The loop is closed, and nobody waits any more.

    async def sleep(timeout: float | None) -> bool:
        if timeout is None:
            return await woken
        timer = loop.call_later(timeout, set_woken, False)
        try:
            return await woken
        finally:
            timer.cancel()

    return wake, sleep


def _trio_sleep(pending: Pending) -> tuple[Callable[[], None], Callable[[float | None], Any]]:
    import trio

    token = trio.lowlevel.current_trio_token()
    woken = trio.Event()
    thread = get_ident()

    def wake() -> None:
        if get_ident() == thread:
            woken.set()
            return
        try:
            wake_from_outside(token.run_sync_soon, woken.set)
        except trio.RunFinishedError:
            pending.abort()

    async def sleep(timeout: float | None) -> bool:
        with trio.move_on_after(float("inf") if timeout is None else timeout):
            await woken.wait()
        return bool(woken.is_set())

    return wake, sleep
