"""The programs of the documents and the examples: each one runs as it stands there, with a broker of its own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "python/examples"

# Under this heading, pytest runs the recipe.
FIXTURE = "A fixture that runs once"


def programs() -> Iterator[tuple[str, str, str]]:
    """The page of each program, the heading above it, and the program. A fence with ``python,not-run`` is none."""
    for page in ("README.md", "python/README.md", "docs/python.md", "docs/recipes.md"):
        heading = ""
        for nth, part in enumerate((ROOT / page).read_text(encoding="utf-8").split("```")):
            lines = part.splitlines()
            if nth % 2 == 0:
                heading = next((line.strip("# ") for line in reversed(lines) if line.startswith("#")), heading)
            elif lines[0] == "python":
                yield page, heading, "\n".join(lines[1:]) + "\n"


PROGRAMS = list(programs())

# What stands before a recipe: it defines what the recipe uses and does not show. Whatever may be done once fails
# the second time.
AROUND = """
import asyncio, json, navlock, os
from pathlib import Path

locks = navlock.local()
served = 0

def once(name):
    with open(name, "x"):
        return name

def read_session():
    return json.loads(Path("session").read_text()) if Path("session").exists() else {"access": "old", "refresh": "1"}

def write_session(session):
    Path("session").write_text(json.dumps(session))

def is_expired(session):
    return session["access"] == "old"

def refresh(token):
    return {"access": "new", "refresh": once("2")}

def download(key, path):
    once("downloaded " + key)
    path.write_text(key)

async def serve():
    global served
    served += 1
    if served == 2:
        os._exit(0)
    async with navlock.local().lock("leader", steal=True):
        await asyncio.sleep(60)

def start_server():
    return {"port": 4711, "file": once("started")}

def stop_server(server):
    os.rename(server["file"], "stopped")
"""

# What stands below a recipe, as a reader would use it.
BELOW = {
    "A token that is refreshed once": "assert access_token() == access_token() == 'new'",
    "Leader election": "asyncio.run(lead())",
    "A cache folder": "os.makedirs('cache', exist_ok=True); assert cached('a') == cached('a') == Path('cache/a').absolute()",
    FIXTURE: "@pytest.mark.parametrize('nth', range(9))\ndef test_one(server, nth):\n    assert server['port'] == 4711",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder with a short path, as sockets need it."""
    folder = Path(tempfile.mkdtemp(prefix="navlock-page-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def start(folder: Path, *command: str) -> subprocess.Popen[str]:
    """A Python that works in this folder and has its broker there, which ends soon."""
    settings = {"NAVLOCK_SOCKET": str(folder / "sock"), "NAVLOCK_IDLE_SECS": "1"}
    return subprocess.Popen(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def succeed(*processes: subprocess.Popen[str]) -> list[str]:
    """What these have printed, once they all have ended well."""
    printed = []
    for process in processes:
        try:
            printed.append(process.communicate(timeout=60)[0])
        finally:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), "\n".join(printed)
    return printed


def is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize(
    ("page", "heading", "code"),
    [pytest.param(*program, id=f"{nth} of {program[0]}") for nth, program in enumerate(PROGRAMS)],
)
def test_a_program_of_the_documents_runs(page: str, heading: str, code: str, folder: Path) -> None:
    for module in ("anyio", "trio"):
        if module in code:
            pytest.importorskip(module)
    if "os.fork" in code and not hasattr(os, "fork"):
        pytest.skip("there is no fork here")
    if page != "docs/recipes.md":
        (folder / "program.py").write_text(code, encoding="utf-8")
        succeed(start(folder, "program.py"))
        return
    below = BELOW[heading]
    (folder / "test_recipe.py").write_text(f"{AROUND}\n{code}\n{below}\n", encoding="utf-8")
    if heading != FIXTURE:
        # Three processes at once: what may be done once is done once.
        succeed(*(start(folder, "test_recipe.py") for _ in range(3)))
        return
    has_xdist = is_there("xdist")
    plugin = [] if is_installed() else ["-p", "navlock.pytest"]
    # The plugin for asyncio warns of options that it wants, and warnings are errors here.
    options = ["-p", "no:cacheprovider", "-p", "no:asyncio", *plugin, *(["-n", "3"] if has_xdist else [])]
    succeed(start(folder, "-m", "pytest", *options))
    assert (folder / "stopped").exists()


def is_installed() -> bool:
    """Whether pytest finds the plugin by itself."""
    from importlib.metadata import entry_points

    return any(plugin.value == "navlock.pytest" for plugin in entry_points(group="pytest11"))


def test_programs_are_found_on_all_pages() -> None:
    assert len(PROGRAMS) >= 12
    assert {page for page, _, _ in PROGRAMS} == {"README.md", "python/README.md", "docs/python.md", "docs/recipes.md"}
    assert {heading for page, heading, _ in PROGRAMS if page == "docs/recipes.md"} == set(BELOW)


def test_the_example_of_threads_fetches_all_pages(folder: Path) -> None:
    example = str(EXAMPLES / "threads.py")
    for printed in succeed(start(folder, example), start(folder, example)):
        assert len([line for line in printed.splitlines() if line.endswith(("in slot 1", "in slot 2"))]) == 9


def test_the_example_of_a_service_loses_no_money(folder: Path) -> None:
    accounts = folder / "accounts"
    example = (str(EXAMPLES / "service.py"), str(accounts))
    printed = succeed(start(folder, *example), start(folder, *example))
    assert all("all transfers are done" in text for text in printed)
    assert any("pays interest" in text for text in printed)
    # Each account pays as much as it gets.
    assert {account.name: account.read_text() for account in accounts.iterdir()} == dict.fromkeys(
        ("ada", "ben", "cleo"), "100"
    )


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_the_package_and_the_examples_have_right_types(checker: str) -> None:
    pytest.importorskip(checker)
    command = [sys.executable, "-m", checker, "navlock", "examples", "tests/types_of_filelock.py"]
    if checker == "pyright":
        command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT / "python", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
