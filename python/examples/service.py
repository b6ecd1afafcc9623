"""A service of asyncio: transfers between accounts, and one process of all that pays interest.

Start it in two terminals at once, with the same folder: ``python service.py /tmp/accounts``. Each account is a file,
which is read and written under the account's lock. The first process pays interest until it ends, and then the other.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import navlock

ACCOUNTS = ("ada", "ben", "cleo")

locks = navlock.local("example of a service")


def balance(account: Path) -> int:
    """What is in the account, under its lock."""
    return int(account.read_text()) if account.exists() else 100


async def transfer(source: Path, target: Path, amount: int) -> None:
    """Takes both locks in one order, so that two transfers in opposite directions never block each other."""
    async with locks.lock_all([f"account {source.resolve()}", f"account {target.resolve()}"], timeout=30):
        left, right = balance(source), balance(target)
        await asyncio.sleep(0.001)  # Here other tasks and processes try to get in between.
        source.write_text(str(left - amount))
        target.write_text(str(right + amount))


async def pay_interest(folder: Path) -> None:
    """Leads, in one process at a time, and goes back into the queue if it loses the lock."""
    while True:
        try:
            async with locks.lock(f"interest {folder.resolve()}", why="pays interest", cancel_if_lost=True):
                print("this process pays interest")
                await asyncio.sleep(3600)  # Here it would pay, again and again.
        except navlock.LockLost as lost:
            print(f"it does so no more: {lost}")


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    accounts = [folder / name for name in ACCOUNTS]
    leader = asyncio.create_task(pay_interest(folder))
    circle = zip(accounts, accounts[1:] + accounts[:1])
    await asyncio.gather(*(transfer(*pair, 1) for pair in circle for _ in range(20)))
    leader.cancel()  # A task that is cancelled leaves the queue, or releases its lock.
    await asyncio.wait([leader])
    print("all transfers are done")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "accounts")))
