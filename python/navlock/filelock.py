"""For programs that use the package ``filelock`` and want to change one import: locks by the path of a file.

Who waits is woken and is served in order, and what a killed process held is free at once. This is different:

- No file is made, opened or locked, and its folder need not exist. So these locks and those of the package
  ``filelock`` do not exclude each other. ``SoftFileLock`` is ``FileLock``.
- ``mode``, ``lifetime``, ``fallback_to_soft``, ``preserve_lock_file``, the error policies, and the ``loop`` and
  ``executor`` of tasks are taken and mean nothing. ``on_acquired`` is refused, as it is called with a file.
- ``poll_interval`` is how often ``cancel_check`` is called, and nothing else. With ``cancel_check``, a request is made
  anew each time, at the end of the queue.
- Threads or tasks that would wait for each other for ever are told so, also if they are of several processes. The
  ``RuntimeError`` for that is a ``navlock.DeadlockError``.
- A lock that was lost, because somebody has stolen it or stopped the broker for long, is not locked any more, and its
  ``release()`` raises ``navlock.LockLost``.
- What a thread holds is free when the thread ends, unless the lock is one for all threads. A fork holds nothing, and
  may acquire.
- A subclass may override ``acquire`` and ``release``, but there is no ``_acquire`` and ``_release``.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import warnings
from abc import ABCMeta
from contextlib import ContextDecorator
from decimal import Decimal
from numbers import Real
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast
from weakref import WeakValueDictionary

import navlock

from ._navlock import Holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

__all__ = [
    "AcquireReturnProxy",
    "AsyncAcquireReturnProxy",
    "AsyncFileLock",
    "AsyncSoftFileLock",
    "AsyncUnixFileLock",
    "AsyncWindowsFileLock",
    "BaseAsyncFileLock",
    "BaseFileLock",
    "FileLock",
    "SoftFileLock",
    "Timeout",
    "UnixFileLock",
    "WindowsFileLock",
]

L = TypeVar("L", bound="BaseFileLock")

_locks = navlock.local("filelock")
_log = logging.getLogger("filelock")

# A request that waits for less might be given up before its answer has come from the broker.
_SHORTEST_WAIT = 0.01

# For what the threads that share an object do with it. Nothing waits for anything else inside it.
_mutex = threading.RLock()

# For who makes an object.
_singletons = threading.RLock()


def _after_fork() -> None:
    """Other threads may have had these, and are not in the fork."""
    global _mutex, _singletons
    _mutex, _singletons = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Timeout(TimeoutError):
    """The lock could not be had in the time given."""

    def __init__(self, lock_file: str, holder: str | None = None) -> None:
        super().__init__()
        self._lock_file = lock_file
        self._holder = holder

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self._lock_file,), self.__dict__)

    def __str__(self) -> str:
        held = f" It is held by {self._holder}." if self._holder else ""
        return f"The file lock '{self._lock_file}' could not be acquired.{held}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._lock_file!r})"

    @property
    def lock_file(self) -> str:
        """The path."""
        return self._lock_file


class _Deadlock(navlock.DeadlockError, RuntimeError):
    """The package ``filelock`` raises a ``RuntimeError``."""


class _Request(navlock.LockRequest[navlock.Lock]):
    """A request of an object for its path."""

    def __init__(self, path: str, name: str, timeout: float | None, limit: float | None) -> None:
        super().__init__(_locks._agent, name, 0, timeout=timeout)
        self._path = path
        self._has_limit = limit is not None

    def _ask(self) -> Any:
        try:
            return super()._ask()
        except navlock.DeadlockError:
            if self._has_limit:
                # Another thread may release what this one holds, so this waits as for anybody else.
                return self._agent.request(self._names, self._bits, self._why, Holds())
            hint = "Use is_singleton=True, so that there is one object for the path, which may acquire again."
            raise _Deadlock(
                f"Deadlock: lock '{self._path}' is already held by a different FileLock object in this thread or "
                f"task. {hint}"
            ) from None

    def refused(self, why: navlock.DeadlockError) -> Exception:
        """What is raised if the request would have waited for ever."""
        if self._has_limit:
            return Timeout(self._path)
        return why if isinstance(why, _Deadlock) else _Deadlock(f"Deadlock: lock '{self._path}': {why}")


class _Context:
    """What one thread has of a lock, or all of them together."""

    def __init__(self, timeout: float, blocking: bool, poll_interval: float) -> None:
        self.timeout, self.blocking, self.poll_interval = timeout, blocking, poll_interval
        self.lock: navlock.Lock | None = None
        self.counter = 0
        self.pid = os.getpid()

    def hold(self, lock: navlock.Lock | None, counter: int) -> navlock.Lock | None:
        """Puts this lock, held so often, in the place of the one that it returns."""
        before, self.lock, self.counter, self.pid = self.lock, lock, counter, os.getpid()
        return before

    def __del__(self) -> None:
        _forget(self.hold(None, 0))


class _OfEachThread(threading.local):
    def __init__(self, *defaults: Any) -> None:
        self.context = _Context(*defaults)


def _forget(lock: navlock.Lock | None) -> None:
    """Releases what is held, and does not mind what is lost."""
    if lock is not None:
        lock.__exit__(BaseException, None, None)


class _Singletons(ABCMeta):
    """Gives the same object for the same path, where ``is_singleton`` is set."""

    _instances: WeakValueDictionary[str, Any]

    def __call__(cls, lock_file: Any, *positional: Any, **options: Any) -> Any:
        if not options.get("is_singleton"):
            return super().__call__(lock_file, *positional, **options)
        name = _name_of(lock_file)
        with _singletons:
            instance = cls._instances.get(name)
            # A relative path may have come to mean another file.
            if instance is None or instance._name() != name:
                instance = cls._instances[name] = super().__call__(lock_file, *positional, **options)
                return instance
        asked = dict(zip(("timeout", "mode", "thread_local"), positional)) | options
        differing = [
            f"\n\t{option} (existing lock has {existing} but {value} was passed)"
            for option, (default, existing) in instance._options().items()
            if _effect(value := asked.get(option, default)) != _effect(existing)
        ]
        if differing:
            message = "Singleton lock instances cannot be initialized with differing arguments"
            raise ValueError(f"{message}\nNon-matching arguments: {''.join(differing)}")
        return instance


class BaseFileLock(ContextDecorator, metaclass=_Singletons):
    """A lock by the path of a file, for threads."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._instances = WeakValueDictionary()

    def __init__(
        self,
        lock_file: str | os.PathLike[str],
        timeout: float = -1,
        mode: int = -1,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: float | None = None,
        context_error_policy: str = "chain",
        close_error_policy: str = "default",
        fallback_to_soft: bool = True,
        preserve_lock_file: bool = False,
        on_acquired: Callable[[int], None] | None = None,
    ) -> None:
        if on_acquired is not None:
            raise ValueError("on_acquired is not supported by navlock: it is called with a file, and there is none")
        self._path = os.fspath(lock_file)
        self._mode = mode
        self._is_thread_local = thread_local
        defaults = _seconds("timeout", timeout), _is_bool(blocking), _interval(poll_interval)
        self._contexts: Any = (
            _OfEachThread(*defaults) if thread_local else SimpleNamespace(context=_Context(*defaults))
        )
        self.is_singleton = is_singleton
        self.lifetime = lifetime
        self.context_error_policy = context_error_policy
        self.close_error_policy = close_error_policy
        self.fallback_to_soft = fallback_to_soft
        self.preserve_lock_file = preserve_lock_file
        self.on_acquired = None

    @property
    def _context(self) -> _Context:
        context: _Context = self._contexts.context
        return context

    def _options(self) -> dict[str, tuple[Any, Any]]:
        """The default and the value of what all who ask for a singleton have to ask for alike."""
        return {
            "timeout": (-1, self.timeout),
            "mode": (-1, self._mode),
            "thread_local": (True, self._is_thread_local),
            "blocking": (True, self.blocking),
            "poll_interval": (0.05, self.poll_interval),
        }

    def _name(self) -> str:
        """The name of the lock that is held, or else of the one that would be asked for."""
        lock = self._context.lock
        return _name_of(self._path) if lock is None else lock.name

    @property
    def lock_file(self) -> str:
        """The path."""
        return self._path

    @property
    def mode(self) -> int:
        """What was given as the mode of the file."""
        return self._mode if self.has_explicit_mode else 0o644

    @property
    def has_explicit_mode(self) -> bool:
        """Whether a mode was given."""
        return self._mode != -1

    @property
    def timeout(self) -> float:
        """For how many seconds ``acquire()`` waits; below zero: without a limit."""
        return self._context.timeout

    @timeout.setter
    def timeout(self, value: float | str | bytes | bytearray) -> None:
        if isinstance(value, (str, bytes, bytearray)):
            warnings.warn("setting timeout from a string is deprecated; pass a number", DeprecationWarning, 2)
            value = float(value)
        self._context.timeout = _seconds("timeout", value)

    @property
    def blocking(self) -> bool:
        """Whether ``acquire()`` waits at all."""
        return self._context.blocking

    @blocking.setter
    def blocking(self, value: bool) -> None:
        self._context.blocking = _is_bool(value)

    @property
    def poll_interval(self) -> float:
        """Every how many seconds ``cancel_check`` is called."""
        return self._context.poll_interval

    @poll_interval.setter
    def poll_interval(self, value: float) -> None:
        self._context.poll_interval = _interval(value)

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

    def acquire(
        self,
        timeout: float | None = None,
        poll_interval: float | None = None,
        *,
        poll_intervall: float | None = None,
        blocking: bool | None = None,
        cancel_check: Callable[[], bool] | None = None,
    ) -> AcquireReturnProxy[Self]:
        """Acquires the lock, or does so once more.

        :param cancel_check: whether to wait no longer; asked every ``poll_interval`` seconds.
        :raises Timeout: if it takes longer than ``timeout`` seconds.
        :raises RuntimeError: if it would take for ever, because this thread has to release something first.
        """
        if poll_intervall is not None:
            warnings.warn("use poll_interval instead of poll_intervall", DeprecationWarning, 2)
            poll_interval = poll_intervall
        requests = self._requests(timeout, poll_interval, blocking, cancel_check)
        if self._is_held_once_more():
            return AcquireReturnProxy(self)
        for request in requests:
            try:
                self._hold(request.acquire())
            except navlock.LockTimeout:
                continue
            except navlock.DeadlockError as why:
                raise request.refused(why) from None
            return AcquireReturnProxy(self)
        raise Timeout(self._path)

    def release(self, force: bool = False) -> None:
        """Releases the lock once, or as often as it was acquired if ``force`` is set.

        :raises navlock.LockLost: if the lock was lost before.
        """
        self._let_go(force)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.release()
        except navlock.LockLost:
            if error is None:  # What the body has raised tells more.
                raise

    def _requests(
        self,
        timeout: float | None,
        poll_interval: float | None,
        blocking: bool | None,
        cancel_check: Callable[[], bool] | None,
    ) -> Iterator[_Request]:
        """The requests to make, one after the other until one is granted."""
        seconds = self.timeout if timeout is None else _seconds("timeout", timeout)
        interval = self.poll_interval if poll_interval is None else _interval(poll_interval)
        may_wait = self.blocking if blocking is None else _is_bool(blocking)
        if not may_wait:
            seconds = 0.0
        elif math.isnan(seconds):
            raise ValueError("timeout must be a number of seconds, not nan")
        limit = None if seconds < 0 or math.isinf(seconds) else seconds
        name = _name_of(self._path)
        if cancel_check is None or limit == 0:
            return iter([_Request(self._path, name, limit, limit)])
        return self._requests_until(cancel_check, name, limit, max(interval, _SHORTEST_WAIT))

    def _requests_until(
        self, cancel_check: Callable[[], bool], name: str, limit: float | None, interval: float
    ) -> Iterator[_Request]:
        end = math.inf if limit is None else monotonic() + limit
        yield _Request(self._path, name, 0.0, limit)
        wait = _SHORTEST_WAIT
        while (left := end - monotonic()) > 0:
            yield _Request(self._path, name, min(left, wait), limit)
            if cancel_check():
                _log.debug("Cancellation requested for lock %s on %s", id(self), self._path)
                return
            wait = interval

    def _is_held_once_more(self) -> bool:
        context = self._context
        with _mutex:
            if self.is_locked:
                context.counter += 1
                return True
        _log.debug("Attempting to acquire lock %s on %s", id(self), self._path)
        return False

    def _hold(self, lock: navlock.Lock) -> None:
        with _mutex:
            lost = self._context.hold(lock, 1)
        _forget(lost)
        _log.debug("Lock %s acquired on %s", id(self), self._path)

    def _let_go(self, force: bool) -> None:
        context = self._context
        with _mutex:
            if context.lock is None:
                return
            if context.counter > 1 and not force:
                context.counter -= 1
                return
            is_own = context.pid == os.getpid()
            lock = context.hold(None, 0)
        _log.debug("Attempting to release lock %s on %s", id(self), self._path)
        if lock is not None and is_own:
            lock.release()
        else:
            _forget(lock)
        _log.debug("Lock %s released on %s", id(self), self._path)


BaseFileLock._instances = WeakValueDictionary()


class AcquireReturnProxy(Generic[L]):
    """Releases the lock where a ``with lock.acquire()`` ends, or an ``async with await lock.acquire()``."""

    def __init__(self, lock: L) -> None:
        self.lock = lock

    def __enter__(self) -> L:
        return self.lock

    def __exit__(self, *error: Any) -> None:
        self.lock.__exit__(*error)

    async def __aenter__(self) -> L:
        return self.lock

    async def __aexit__(self, *error: Any) -> None:
        await cast("BaseAsyncFileLock", self.lock).__aexit__(*error)


AsyncAcquireReturnProxy = AcquireReturnProxy


class FileLock(BaseFileLock):
    """A lock by the path of a file, for threads."""


SoftFileLock = UnixFileLock = WindowsFileLock = FileLock


class BaseAsyncFileLock(BaseFileLock):
    """A lock by the path of a file, for tasks. Each task needs an object of its own: tasks that share an object hold
    the lock together."""

    def __init__(
        self,
        lock_file: str | os.PathLike[str],
        timeout: float = -1,
        mode: int = -1,
        thread_local: bool = False,
        *,
        loop: Any = None,
        run_in_executor: bool = True,
        executor: Any = None,
        **options: Any,
    ) -> None:
        if thread_local and run_in_executor:
            raise ValueError("run_in_executor is not supported when thread_local is True")
        super().__init__(lock_file, timeout, mode, thread_local, **options)
        self.loop = loop
        self.run_in_executor = run_in_executor
        self.executor = executor

    def _options(self) -> dict[str, tuple[Any, Any]]:
        return super()._options() | {
            "thread_local": (False, self._is_thread_local),
            "loop": (None, self.loop),
            "run_in_executor": (True, self.run_in_executor),
            "executor": (None, self.executor),
        }

    async def acquire(  # type: ignore[override]
        self,
        timeout: float | None = None,
        poll_interval: float | None = None,
        *,
        blocking: bool | None = None,
        cancel_check: Callable[[], bool] | None = None,
    ) -> AcquireReturnProxy[Self]:
        """As :meth:`BaseFileLock.acquire`, for tasks."""
        requests = self._requests(timeout, poll_interval, blocking, cancel_check)
        if self._is_held_once_more():
            return AcquireReturnProxy(self)
        for request in requests:
            try:
                self._hold(await request)
            except navlock.LockTimeout:
                continue
            except navlock.DeadlockError as why:
                raise request.refused(why) from None
            return AcquireReturnProxy(self)
        raise Timeout(self._path)

    async def release(self, force: bool = False) -> None:  # type: ignore[override]
        """As :meth:`BaseFileLock.release`, for tasks."""
        self._let_go(force)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.release()
        except navlock.LockLost:
            if error is None:
                raise

    def __enter__(self) -> NoReturn:
        raise NotImplementedError("use `async with`: a lock for tasks is acquired by a coroutine")

    def __exit__(self, *error: object) -> NoReturn:
        self.__enter__()


class AsyncFileLock(BaseAsyncFileLock, FileLock):
    """A lock by the path of a file, for tasks."""


AsyncSoftFileLock = AsyncUnixFileLock = AsyncWindowsFileLock = AsyncFileLock


def _name_of(path: str | os.PathLike[str]) -> str:
    """The name of the lock for a path, which is the same for all ways to write the path."""
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.normcase(os.path.join(os.path.realpath(folder), name))


def _seconds(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        raise TypeError(f"{option} must be a number of seconds, not {type(value).__name__}")
    return float(value)


def _interval(value: Any) -> float:
    if not 0 <= (seconds := _seconds("poll_interval", value)) < math.inf:
        raise ValueError(f"poll_interval must be finite and non-negative, not {value!r}")
    return seconds


def _is_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"blocking must be a bool, not {type(value).__name__}")
    return value


def _effect(value: Any) -> Any:
    """What an option comes down to: whatever is below zero, or has no end, waits without a limit."""
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return value
    return float(value) if 0 <= float(value) < math.inf else -1.0
