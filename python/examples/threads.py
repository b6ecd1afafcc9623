"""Threads that fetch pages: one at a time from each host, and two at a time in all processes of this user.

Start it in two terminals at once: the processes share the hosts and the two slots.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import navlock

PAGES = [f"https://{host}.example/{page}" for page in range(3) for host in ("a", "b", "c")]

locks = navlock.local("example of threads")


def fetch(url: str) -> str:
    """Fetches a page, when it is this page's turn."""
    host = urlsplit(url).hostname
    with locks.lock(f"host {host}", why=f"fetch {url}"), locks.lock_any(["slot 1", "slot 2"]) as slot:
        time.sleep(0.02)  # Here a program would fetch the page.
        return f"{url} in {slot.name}"


def main() -> None:
    with ThreadPoolExecutor(len(PAGES)) as threads:
        for line in threads.map(fetch, PAGES):
            print(line)


if __name__ == "__main__":
    main()
