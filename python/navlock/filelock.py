"""For programs that use the package ``filelock`` and want to change one import: locks by the path of a file.

Who waits is woken and is served in order, and what a killed process held is free at once. This is different:

- No file is made, opened or locked, and its folder need not exist. So these locks and those of the package
  ``filelock`` do not exclude each other. ``SoftFileLock`` is ``FileLock``.
- Options about files, about polling, and about the executors of tasks are taken and mean nothing; ``on_acquired`` is
  refused, as it is called with a file.
- ``poll_interval`` is how often ``cancel_check`` is called. With ``cancel_check``, a request is made anew each time, at
  the end of the queue.
- Threads or tasks that would wait for each other for ever are told so, also if they are of several processes. The
  ``RuntimeError`` for that is a ``navlock.DeadlockError``.
- A lock that was lost is not locked any more, and its ``release()`` raises ``navlock.LockLost``.
- What a thread holds is free when the thread ends, unless the lock is one for all threads. A fork holds nothing, and
  may acquire.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ContextDecorator
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import WeakValueDictionary

import navlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

__all__ = [
    "AcquireReturnProxy", "AsyncAcquireReturnProxy", "AsyncFileLock", "AsyncSoftFileLock", "BaseAsyncFileLock",
    "BaseFileLock", "FileLock", "SoftFileLock", "Timeout", "UnixFileLock", "WindowsFileLock",
]  # fmt: skip

L = TypeVar("L", bound="BaseFileLock")

_locks = navlock.local("filelock")
_log = logging.getLogger("filelock")

# A request that waits for less might be given up before its answer has come from the broker.
_SHORTEST_WAIT = 0.01


class Timeout(TimeoutError):
    """The lock could not be had in the time given."""

    def __init__(self, lock_file: str) -> None:
        super().__init__(lock_file)
        self.lock_file = lock_file

    def __str__(self) -> str:
        return f"The file lock '{self.lock_file}' could not be acquired."


class _Deadlock(navlock.DeadlockError, RuntimeError):
    """The package ``filelock`` raises a ``RuntimeError``."""


class _Context:
    """What one thread has of a lock, or all of them together."""

    def __init__(self) -> None:
        self.lock: navlock.Lock | None = None
        self.counter, self.process = 0, os.getpid()

    def forget(self) -> None:
        """Releases what is held, and does not mind what is lost."""
        lock, self.lock, self.counter, self.process = self.lock, None, 0, os.getpid()
        if lock is not None:
            lock.__exit__(BaseException, None, None)

    __del__ = forget


class _OfThread(threading.local):
    """What each thread has of a lock for itself."""

    def __init__(self) -> None:
        self.context = _Context()


class _Singletons(type):
    """Gives the same object for the same path, where ``is_singleton`` is set."""

    _instances: WeakValueDictionary[tuple[type, str], Any] = WeakValueDictionary()

    def __call__(cls: type[L], lock_file: Any, *positional: Any, **options: Any) -> L:  # type: ignore[misc]
        made: Any = type.__call__(cls, lock_file, *positional, **options)
        if not made.is_singleton:
            return cast("L", made)
        instance: Any = _Singletons._instances.setdefault((cls, _name_of(lock_file)), made)
        if instance._options != made._options:
            message = "Singleton lock instances cannot be initialized with differing arguments"
            raise ValueError(f"{message}: {made._options}, and the existing lock has {instance._options}")
        return cast("L", instance)


class BaseFileLock(ContextDecorator, metaclass=_Singletons):
    """What locks for threads and for tasks have."""

    def __init__(
        self, lock_file: str | os.PathLike[str], timeout: float = -1, mode: int = 0o644, thread_local: bool = True, *,
        blocking: bool = True, is_singleton: bool = False, poll_interval: float = 0.05, on_acquired: None = None,
        **_about_files: Any,
    ) -> None:
        if on_acquired is not None:
            raise ValueError("on_acquired is not supported by navlock: it is called with a file, and there is none")
        self.lock_file: str = os.fspath(lock_file)
        self.timeout: float = float(timeout)
        self.mode: int = mode
        self.is_singleton = is_singleton
        self.blocking: bool = blocking
        self.poll_interval: float = poll_interval
        self._options = timeout, mode, thread_local, blocking, poll_interval
        self._of: Any = _OfThread() if thread_local else SimpleNamespace(context=_Context())
        self._mutexes: dict[int, threading.Lock] = {}

    @property
    def _mutex(self) -> threading.Lock:
        """For what the threads that share an object do with it. A fork has its own: its parent's may be locked."""
        return self._mutexes.setdefault(os.getpid(), threading.Lock())

    @property
    def _context(self) -> _Context:
        context: _Context = self._of.context
        if context.process != os.getpid():  # This is a fork.
            context.forget()
        return context

    @property
    def is_locked(self) -> bool:
        """Whether the lock is held by this object, in this thread."""
        lock = self._context.lock
        return lock is not None and lock.lost is None

    @property
    def lock_counter(self) -> int:
        """How often the lock was acquired and not released."""
        return self._context.counter if self.is_locked else 0

    def is_thread_local(self) -> bool:
        """Whether each thread acquires for itself."""
        return isinstance(self._of, _OfThread)

    def _is_held_once_more(self) -> bool:
        with self._mutex:
            is_locked = self.is_locked
            self._context.counter += is_locked
        if not is_locked:
            _log.debug("Attempting to acquire lock %s on %s", id(self), self.lock_file)
        return is_locked

    def _requests(
        self, timeout: float | None, poll_interval: float | None, blocking: bool | None,
        cancel_check: Callable[[], bool] | None,
    ) -> Iterator[navlock.LockRequest[navlock.Lock]]:
        """The requests to make, one after the other until one is granted."""
        seconds = self.timeout if timeout is None else timeout
        interval = self.poll_interval if poll_interval is None else poll_interval
        is_limited = 0 <= seconds < float("inf")
        if not (self.blocking if blocking is None else blocking):
            is_limited, seconds = True, 0
        end = monotonic() + seconds if is_limited else float("inf")
        name = _name_of(self.lock_file)
        if cancel_check is None or seconds == 0:
            yield _locks.lock(name, timeout=seconds if is_limited else None)
            return
        yield _locks.lock(name, timeout=0)
        while (left := end - monotonic()) > 0 and not cancel_check():
            yield _locks.lock(name, timeout=min(left, max(interval, _SHORTEST_WAIT)))

    def _hold(self, lock: navlock.Lock) -> AcquireReturnProxy[Self]:
        with self._mutex:
            self._context.lock, self._context.counter = lock, 1
        _log.debug("Lock %s acquired on %s", id(self), self.lock_file)
        return AcquireReturnProxy(self)

    def _deadlock(self, why: navlock.DeadlockError) -> Exception:
        return _Deadlock(f"Deadlock: {why} (is_singleton=True makes one object for a path, which may acquire again)")

    def _let_go(self, force: bool, error: Any = None) -> None:
        context = self._context
        with self._mutex:
            context.counter -= 1
            if context.lock is None or (context.counter > 0 and not force):
                context.counter = max(context.counter, 0)
                return
            lock, context.lock, context.counter = context.lock, None, 0
        _log.debug("Attempting to release lock %s on %s", id(self), self.lock_file)
        lock.__exit__(error, error, None)
        _log.debug("Lock %s released on %s", id(self), self.lock_file)


class AcquireReturnProxy(Generic[L]):
    """Releases the lock where a ``with lock.acquire()`` ends, or an ``async with await lock.acquire()``."""

    def __init__(self, lock: L) -> None:
        self.lock = lock
        self._let_go = lock._let_go  # pyright: ignore[reportPrivateUsage]

    def __enter__(self) -> L:
        return self.lock

    def __exit__(self, *error: Any) -> None:
        self._let_go(False, error[0])

    async def __aenter__(self) -> L:
        return self.lock

    async def __aexit__(self, *error: Any) -> None:
        self._let_go(False, error[0])


AsyncAcquireReturnProxy = AcquireReturnProxy


class FileLock(BaseFileLock):
    """A lock by the path of a file, for threads."""

    def acquire(
        self, timeout: float | None = None, poll_interval: float | None = None, *,
        blocking: bool | None = None, cancel_check: Callable[[], bool] | None = None,
    ) -> AcquireReturnProxy[Self]:
        """Acquires the lock, or does so once more.

        :param cancel_check: whether to wait no longer; asked every ``poll_interval`` seconds.
        :raises Timeout: if it takes longer than ``timeout`` seconds.
        :raises RuntimeError: if it would take for ever, because this thread has to release something first.
        """
        if self._is_held_once_more():
            return AcquireReturnProxy(self)
        for request in self._requests(timeout, poll_interval, blocking, cancel_check):
            try:
                return self._hold(request.acquire())
            except navlock.LockTimeout:
                continue
            except navlock.DeadlockError as why:
                raise self._deadlock(why) from None
        raise Timeout(self.lock_file)

    def release(self, force: bool = False) -> None:
        """Releases the lock once, or as often as it was acquired if ``force`` is set."""
        self._let_go(force)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: Any) -> None:
        self._let_go(False, error[0])


class BaseAsyncFileLock(BaseFileLock):
    """A lock by the path of a file, for tasks. Each task needs an object of its own: tasks that share an object hold
    the lock together."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        if len(arguments) < 4:
            options.setdefault("thread_local", False)
        super().__init__(*arguments, **options)

    async def acquire(
        self, timeout: float | None = None, poll_interval: float | None = None, *,
        blocking: bool | None = None, cancel_check: Callable[[], bool] | None = None,
    ) -> AcquireReturnProxy[Self]:
        """As :meth:`FileLock.acquire`, for tasks."""
        if self._is_held_once_more():
            return AcquireReturnProxy(self)
        for request in self._requests(timeout, poll_interval, blocking, cancel_check):
            try:
                return self._hold(await request)
            except navlock.LockTimeout:
                continue
            except navlock.DeadlockError as why:
                raise self._deadlock(why) from None
        raise Timeout(self.lock_file)

    async def release(self, force: bool = False) -> None:
        """As :meth:`FileLock.release`, for tasks."""
        self._let_go(force)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._let_go(False, error[0])


SoftFileLock = UnixFileLock = WindowsFileLock = FileLock
AsyncFileLock = AsyncSoftFileLock = BaseAsyncFileLock


def _name_of(path: str | os.PathLike[str]) -> str:
    """The name of the lock for a path, which is the same for all ways to write the path."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.normcase(os.path.join(os.path.realpath(folder), name))
