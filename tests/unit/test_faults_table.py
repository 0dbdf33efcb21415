"""tests/FAULTS.md: thirty numbers, each with tests that exist."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \|$", re.MULTILINE)  # number, tests, what 596f58d did


def named_tests() -> dict[int, list[str]]:
    """Return the tests of each fault as pytest names them; `…` stands for the file before."""
    found: dict[int, list[str]] = {}
    for number, cell, before in ROW.findall((TESTS / "FAULTS.md").read_text()):
        assert before, number
        file = ""
        found[int(number)] = []
        for name in re.findall("`([^`]+)`", cell):
            file = file if name.startswith("…") else name.partition("::")[0]
            found[int(number)].append(file + name.removeprefix("…").removeprefix(file))
    return found


def test_every_fault_has_tests_and_they_exist() -> None:
    named = named_tests()
    assert list(named) == list(range(1, 31))
    for number, tests in named.items():
        assert tests, number
        for test in tests:
            file, _, function = test.partition("::")
            text = (TESTS / file).read_text()
            assert re.search(rf"^def {function or 'test_'}", text, re.MULTILINE), (number, test)
