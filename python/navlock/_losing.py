"""Cancels the work under a lock when the lock is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._holds import library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._navlock import Lock


def cancel_if_lost(locks: Sequence[Lock]) -> AsyncioScope | TrioScope:
    """Cancels the task that runs, once any of these locks is lost, until the scope is left."""
    return AsyncioScope(locks) if library() == "asyncio" else TrioScope(locks)


class AsyncioScope:
    """As ``asyncio.timeout``, which is over when a lock is lost."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancelled_error = asyncio.CancelledError
        self._cancelled_before: int = getattr(self._task, "cancelling", int)()
        self._has_cancelled = self._is_over = False
        for lock in locks:
            if lock._watch(self._wake):
                self._wake()

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            pass  # The loop is closed, and its tasks with it.

    def _cancel(self) -> None:
        if not self._is_over and not self._has_cancelled and self._task is not None:
            self._has_cancelled = True
            self._task.cancel()

    def leave(self, kind: type[BaseException] | None, *_error: Any) -> bool:
        """Ends the scope. Returns whether the exception by which it is left is the scope's own."""
        self._is_over = True
        if not self._has_cancelled or self._task is None:
            return False
        # Somebody else may have cancelled the task as well. Python 3.10 cannot tell.
        uncancel: Callable[[], int] | None = getattr(self._task, "uncancel", None)
        others = uncancel() if uncancel is not None else 0
        return others <= self._cancelled_before and kind is not None and issubclass(kind, self._cancelled_error)


class TrioScope:
    """A cancel scope of trio's."""

    def __init__(self, locks: Sequence[Lock]) -> None:
        import trio

        self._token = trio.lowlevel.current_trio_token()
        self._finished_error = trio.RunFinishedError
        self._scope = trio.CancelScope()
        self._scope.__enter__()
        for lock in locks:
            if lock._watch(self._wake):
                self._scope.cancel()

    def _wake(self) -> None:
        try:
            self._token.run_sync_soon(self._scope.cancel)
        except self._finished_error:
            pass

    def leave(self, kind: Any, error: Any, traceback: Any) -> bool:
        """Ends the scope. Returns whether the exception by which it is left is the scope's own."""
        return bool(self._scope.__exit__(kind, error, traceback))
