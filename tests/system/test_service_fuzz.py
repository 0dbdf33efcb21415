"""Requests that schemathesis makes up from the OpenAPI description: none is answered with an error of the server."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from served import quick_translator, serving

CASES = 5_000
EXAMPLES = 250  # for each operation


@pytest.mark.slow
def test_five_thousand_made_up_requests_and_no_500(prepared: Path, tmp_path: Path) -> None:
    translator = quick_translator(prepared)
    translator.beam = 1
    with serving(translator) as served:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json"]
        command += ["--checks", "not_a_server_error", "--max-examples", str(EXAMPLES), "--seed", "1", "--no-shrink"]
        command += ["--phases", "examples,coverage,fuzzing", "--suppress-health-check", "all"]
        command += ["--request-timeout", "300"]  # seconds; the machine may be busy
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout[-5000:]
        answers = re.findall(r'tram_requests_total{.*status="(\d+)"} (\S+)', served.get("/metrics").text)
    assert sum(float(count) for _, count in answers) >= CASES
    assert not [status for status, _ in answers if status.startswith("5") and status != "503"]
