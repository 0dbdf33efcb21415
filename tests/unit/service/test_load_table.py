"""The page of measured load is made from the results of runs/service/load.py and mixed.py."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_is_that_of_the_results() -> None:
    results = ROOT / "docs" / "service-load.json"
    command = [sys.executable, ROOT / "runs" / "service" / "load.py", "table", "--json", results]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made == (ROOT / "docs" / "service-load.md").read_text()
