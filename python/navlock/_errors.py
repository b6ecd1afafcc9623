"""What requests fail with. The names are those of the exceptions that the standard throws."""

from __future__ import annotations


class NavlockError(Exception):
    """Whatever navlock raises is one of these, but for ``TypeError`` and ``ValueError``."""


class AbortError(NavlockError):
    """The request or the lock was ended by somebody else."""


class LockLost(AbortError):
    """The lock was held and then lost, because it was stolen or because its reach has lost it."""


class LockTimeout(NavlockError, TimeoutError):
    """The lock could not be had in the time given. The request has left its queue."""


class NotSupportedError(NavlockError):
    """The standard does not allow this name, or these options beside each other."""


class InvalidStateError(NavlockError):
    """The agent has ended, by :meth:`Locks.close`."""


class SecurityError(NavlockError):
    """The bucket has no locks."""


class QuotaExceededError(NavlockError):
    """The reach does not take this request: it is too long, or too much."""


class OperationError(NavlockError):
    """The reach could not do it."""


class DeadlockError(OperationError):
    """The request would have waited for ever, for whoever waits for it."""


class UnreachableError(OperationError):
    """The broker, or the store, cannot be used. The text says why, and what to do about it."""
