"""tests/FAULTS.md: the situations of runs/faults, each with tests that exist and with what came of it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^(\| (\d+) \| .*? \| (`.*?`|none) \|) (.+?) \| (.+?) \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "tests" / "FAULTS.md").read_text())  # start, number, tests, at 596f58d, today


def named_tests(cell: str) -> list[tuple[str, str]]:
    """Return the files and functions of the tests in a cell; `…` stands for the file before."""
    found: list[tuple[str, str]] = []
    for name in re.findall("`([^`]+)`", cell):
        file, _, function = name.partition("::")
        found.append((found[-1][0] if file == "…" else file, function))
    return found


def test_the_table_has_all_thirty_faults_and_every_script_said_something() -> None:
    assert sorted({int(number) for _, number, tests, *_ in ROWS if tests != "none"}) == list(range(1, 31))
    assert not [row for row in ROWS if "THE SCRIPT" in row[3] + row[4]]


def test_the_table_has_the_situations_of_the_scripts() -> None:
    command = [sys.executable, ROOT / "runs" / "faults" / "reproduce.py", "--list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [start for start, *_ in ROWS] == listed.splitlines()


@pytest.mark.parametrize(("file", "function"), sorted({test for row in ROWS for test in named_tests(row[2])}))
def test_a_named_test_exists(file: str, function: str) -> None:
    functions = ast.parse((ROOT / "tests" / file).read_text()).body
    assert function.startswith("test_")
    assert function in {each.name for each in functions if isinstance(each, ast.FunctionDef)}
