"""The plugin for pytest, under pytest-xdist."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

import pytest

SUITE = """
    import pathlib
    import time

    import pytest

    LOG = pathlib.Path({log!r})

    def note(word):
        with LOG.open("a") as log:
            log.write(word + "\\n")

    def start():
        note("start")
        time.sleep(0.05)
        return {{"port": 4711}}

    def stop(server):
        assert server == {{"port": 4711}}
        note("stop")

    @pytest.fixture(scope="session")
    def server(navlock_once):
        return navlock_once("server", start, stop)

    @pytest.mark.parametrize("number", range(12))
    def test_one(server, number):
        assert server["port"] == 4711
        note("test")
"""


def is_installed() -> bool:
    try:
        return bool(distribution("navlock"))
    except PackageNotFoundError:
        return False


@pytest.mark.parametrize("arguments", [[], ["-n", "3"]])
def test_what_all_workers_use_is_made_once_and_ended_once(
    pytester: pytest.Pytester, arguments: list[str]
) -> None:
    log = pytester.path / "log"
    pytester.makepyfile(SUITE.replace("    ", "", 1).replace("\n    ", "\n").format(log=str(log)))
    # Where navlock is installed, pytest knows the plugin.
    plugin = [] if is_installed() else ["-p", "navlock.pytest"]
    result = pytester.runpytest_subprocess(*plugin, *arguments)
    result.assert_outcomes(passed=12)
    words = log.read_text().split()
    assert words[0] == "start" and words[-1] == "stop"
    # A worker that is done before another has begun ends what nobody uses, and the other one makes it anew.
    assert words.count("start") == words.count("stop") <= 3
    assert words.count("test") == 12


def test_what_cannot_be_pickled_is_ended_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def server(navlock_once):
            return navlock_once("server", lambda: (number for number in []), lambda server: print("ended"))

        def test_one(server):
            pass
        """
    )
    plugin = [] if is_installed() else ["-p", "navlock.pytest"]
    result = pytester.runpytest_subprocess(*plugin)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*TypeError: navlock_once('server', *cannot pickle*", "*ended*"])
