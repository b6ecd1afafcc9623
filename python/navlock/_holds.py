"""Who holds what: each task and each thread has its own locks, and makes its requests inside them."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Any
from weakref import WeakKeyDictionary

from ._navlock import Holds, begin_waking, end_waking, forked


class _Thread(threading.local):
    def __init__(self) -> None:
        self.holds = Holds()


_thread = _Thread()
_tasks: WeakKeyDictionary[Any, Holds] = WeakKeyDictionary()


def library() -> str | None:
    """Which library runs the task that asks: ``"asyncio"``, ``"trio"``, or none."""
    trio = sys.modules.get("trio")  # Its tasks may run in a loop of asyncio, as guests.
    if trio is not None and trio.lowlevel.in_trio_task():
        return "trio"
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        return "asyncio"
    return None


def holds_here() -> Holds:
    """What the task holds that runs this code, or else the thread."""
    running = library()
    if running is None:
        return _thread.holds
    module = sys.modules[running]
    task = module.current_task() if running == "asyncio" else module.lowlevel.current_task()
    if task is None:  # A callback of the loop.
        return _thread.holds
    holds = _tasks.get(task)
    if holds is None:
        holds = _tasks[task] = Holds()
    return holds


def _after_fork() -> None:
    """A fork holds nothing: what it has of its parent's locks is a copy."""
    global _thread, _tasks
    forked()
    _thread = _Thread()
    _tasks = WeakKeyDictionary()


begin_waking()
atexit.register(end_waking)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
