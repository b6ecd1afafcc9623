"""For programs that use the package ``filelock`` and want to change one import: locks by the path of a file.

Who waits is woken and is served in order, and what a killed process held is free at once. Three things differ:

- No file is made or locked. So these locks and those of the package ``filelock`` do not exclude each other.
- ``mode``, ``poll_interval`` and what else is about files is taken and means nothing.
- A second object for a path that the same thread or task holds is refused with ``navlock.DeadlockError``, where it
  would wait for ever.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import navlock

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["AcquireReturnProxy", "AsyncFileLock", "BaseFileLock", "FileLock", "SoftFileLock", "Timeout"]

_locks = navlock.local("filelock")


class Timeout(TimeoutError):
    """The lock could not be had in the time given."""

    def __init__(self, lock_file: str) -> None:
        super().__init__()
        self._lock_file = lock_file

    def __reduce__(self) -> tuple[type[Timeout], tuple[str]]:
        return (type(self), (self._lock_file,))

    def __str__(self) -> str:
        return f"The file lock '{self._lock_file}' could not be acquired."

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._lock_file!r})"

    @property
    def lock_file(self) -> str:
        """The path."""
        return self._lock_file


class _Context:
    """What one thread has of the lock, or all of them."""

    def __init__(self) -> None:
        self.lock: navlock.Lock | None = None
        self.counter = 0


class _ThreadContext(_Context, threading.local):
    """What each thread has of the lock."""


class BaseFileLock:
    """What both kinds of locks have."""

    def __init__(
        self,
        lock_file: str | os.PathLike[str],
        timeout: float = -1,
        mode: int = 0o644,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        **_ignored: Any,
    ) -> None:
        self._path = os.fspath(lock_file)
        folder, name = os.path.split(os.path.abspath(self._path))
        self._name = os.path.join(os.path.realpath(folder), name)
        self._is_thread_local = thread_local
        self._context: _Context = _ThreadContext() if thread_local else _Context()
        self._mode = mode
        self.timeout = timeout
        self.blocking = blocking

    @property
    def lock_file(self) -> str:
        """The path."""
        return self._path

    @property
    def mode(self) -> int:
        """What was given as the mode of the file."""
        return self._mode

    @property
    def timeout(self) -> float:
        """For how many seconds ``acquire()`` waits; below zero: without a limit."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: float | str) -> None:
        self._timeout = float(value)

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
        return self._is_thread_local

    def _request(self, timeout: float | None, blocking: bool | None) -> navlock.LockRequest[navlock.Lock]:
        seconds = self._timeout if timeout is None else timeout
        may_wait = self.blocking if blocking is None else blocking
        limit = 0.0 if not may_wait else None if seconds < 0 else seconds
        return _locks.lock(self._name, timeout=limit)

    def _again(self) -> bool:
        """Whether the lock was held already, and is so once more."""
        if self.is_locked:
            self._context.counter += 1
            return True
        return False

    def _hold(self, lock: navlock.Lock) -> None:
        self._context.lock, self._context.counter = lock, 1

    def _release(self, force: bool) -> None:
        context = self._context
        if context.lock is None:
            return
        context.counter -= 1
        if force or context.counter <= 0:
            lock, context.lock, context.counter = context.lock, None, 0
            if lock.lost is None:
                lock.release()
            else:
                lock.__exit__(navlock.LockLost, None, None)


class AcquireReturnProxy:
    """Releases the lock where a ``with acquire()`` ends."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __enter__(self) -> Any:
        return self.lock

    def __exit__(self, *_error: object) -> None:
        self.lock.release()

    async def __aenter__(self) -> Any:
        return self.lock

    async def __aexit__(self, *_error: object) -> None:
        await self.lock.release()


class FileLock(BaseFileLock):
    """A lock by the path of a file, for threads."""

    def acquire(
        self,
        timeout: float | None = None,
        poll_interval: float | None = None,
        *,
        blocking: bool | None = None,
        **_ignored: Any,
    ) -> AcquireReturnProxy:
        """Acquires the lock, or does so once more.

        :raises Timeout: if it takes longer than ``timeout`` seconds.
        """
        if not self._again():
            try:
                self._hold(self._request(timeout, blocking).acquire())
            except navlock.LockTimeout:
                raise Timeout(self._path) from None
        return AcquireReturnProxy(self)

    def release(self, force: bool = False) -> None:
        """Releases the lock once, or as often as it was acquired if ``force`` is set."""
        self._release(force)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self.release(force=True)


SoftFileLock = FileLock


class AsyncFileLock(BaseFileLock):
    """A lock by the path of a file, for tasks. Each task needs an object of its own."""

    def __init__(self, lock_file: str | os.PathLike[str], timeout: float = -1, mode: int = 0o644, **options: Any) -> None:
        options.setdefault("thread_local", False)
        super().__init__(lock_file, timeout, mode, **options)

    async def acquire(
        self,
        timeout: float | None = None,
        poll_interval: float | None = None,
        *,
        blocking: bool | None = None,
        **_ignored: Any,
    ) -> AcquireReturnProxy:
        """Acquires the lock, or does so once more.

        :raises Timeout: if it takes longer than ``timeout`` seconds.
        """
        if not self._again():
            try:
                self._hold(await self._request(timeout, blocking))
            except navlock.LockTimeout:
                raise Timeout(self._path) from None
        return AcquireReturnProxy(self)

    async def release(self, force: bool = False) -> None:
        """Releases the lock once, or as often as it was acquired if ``force`` is set."""
        self._release(force)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.release()

    def __del__(self) -> None:
        if hasattr(self, "_context"):
            self._release(force=True)
