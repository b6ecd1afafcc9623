"""Waits for answers: a thread waits for a lock of CPython's, where it hears signals; a task waits in the way of its
library. Nothing is polled: whoever grants the lock wakes whoever waits for it."""

from __future__ import annotations

import sys
from _thread import allocate_lock, get_ident
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from ._holds import library
from ._navlock import Pending, waking_has_ended

if TYPE_CHECKING:
    from collections.abc import Callable

    _Sleep = tuple[Callable[[], None], Callable[[float], Any]]

# Windows does not interrupt a thread that waits for a lock, so there a thread looks for signals this often.
_LONGEST = 0.1 if sys.platform == "win32" else 1_000_000.0


def wait(answer: Any, timeout: float | None = None) -> Any:
    """The answer of a request, for which the thread waits. Raises ``LockTimeout`` after so many seconds."""
    if type(answer) is not Pending:
        return answer
    pending: Pending = answer
    end = inf if timeout is None else monotonic() + timeout
    wake_up = allocate_lock()
    wake_up.acquire()
    try:
        while (answer := pending.poll(wake_up.release)) is pending:
            # When the interpreter ends, nobody is woken, and answers are looked for.
            longest = 0.01 if waking_has_ended() else _LONGEST
            while not wake_up.acquire(timeout=min(max(end - monotonic(), 0), longest)):
                if monotonic() >= end:
                    pending.time_out()
                if waking_has_ended():
                    break
        return answer
    except BaseException:
        pending.abort()
        raise


async def wait_async(answer: Any, timeout: float | None = None) -> Any:
    """The answer of a request, for which the task waits.

    A task that is cancelled while it waits leaves the queue; a lock that it was just granted is released.
    """
    if type(answer) is not Pending:
        return answer
    pending: Pending = answer
    end = inf if timeout is None else monotonic() + timeout
    sleeper = _sleeper()
    try:
        while True:
            wake, sleep = sleeper(pending)
            if (answer := pending.poll(wake)) is not pending:
                return answer
            if not await sleep(max(end - monotonic(), 0)) and monotonic() >= end:
                pending.time_out()
    except BaseException:
        pending.abort()
        raise


def _sleeper() -> Callable[[Pending], _Sleep]:
    """How a task sleeps here: each call gives what wakes it, from whatever thread, and what sleeps until then, at
    most for so many seconds, and says whether it was woken."""
    running = library()
    if running == "asyncio":
        return _asyncio_sleep
    if running == "trio":
        return _trio_sleep
    raise RuntimeError("navlock waits in tasks of asyncio or trio, and this is neither")


def _asyncio_sleep(pending: Pending) -> _Sleep:
    import asyncio

    loop = asyncio.get_running_loop()
    woken: asyncio.Future[bool] = loop.create_future()
    thread = get_ident()

    def set_woken(by_waker: bool = True) -> None:
        if not woken.done():
            woken.set_result(by_waker)

    def wake() -> None:
        try:
            # Beside a task, as in a handler of a signal, the loop may sleep.
            if get_ident() == thread and asyncio.current_task(loop) is not None:
                set_woken()
            else:
                loop.call_soon_threadsafe(set_woken)
        except RuntimeError:
            pending.abort()  # The loop is closed, and nobody waits any more.

    async def sleep(timeout: float) -> bool:
        if timeout == inf:
            return await woken
        timer = loop.call_later(timeout, set_woken, False)
        try:
            return await woken
        finally:
            timer.cancel()

    return wake, sleep


def _trio_sleep(pending: Pending) -> _Sleep:
    import trio

    token = trio.lowlevel.current_trio_token()
    woken = trio.Event()
    thread = get_ident()

    def wake() -> None:
        try:
            if get_ident() == thread:
                woken.set()
            else:
                token.run_sync_soon(woken.set)
        except RuntimeError:  # As trio.RunFinishedError is.
            pending.abort()

    async def sleep(timeout: float) -> bool:
        with trio.move_on_after(timeout):
            await woken.wait()
        return bool(woken.is_set())

    return wake, sleep
