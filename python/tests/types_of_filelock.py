"""What mypy and pyright see of ``navlock.filelock``, whose locks a metaclass makes. Nothing runs this."""

from __future__ import annotations

from typing_extensions import assert_type

from navlock.filelock import AsyncFileLock, BaseAsyncFileLock, FileLock, SoftFileLock


class Own(FileLock):
    pass


assert_type(FileLock("a.lock"), FileLock)
assert_type(SoftFileLock("a.lock", timeout=1), FileLock)
assert_type(Own("a.lock", is_singleton=True), Own)
assert_type(AsyncFileLock("a.lock"), BaseAsyncFileLock)
with FileLock("a.lock") as lock, lock.acquire() as again:
    assert_type(lock, FileLock)
    assert_type(again, FileLock)


async def task() -> None:
    async with AsyncFileLock("a.lock") as lock, await lock.acquire() as again:
        assert_type(lock, BaseAsyncFileLock)
        assert_type(again, BaseAsyncFileLock)
