"""Run the faults known at 596f58d against that commit and against the present sources; write tests/FAULTS.md.

    python runs/faults/reproduce.py               # all of them: prints the table and writes it
    python runs/faults/reproduce.py 8 20          # some of them: prints and writes their rows only
    python runs/faults/reproduce.py --list        # prints the situations and their tests, and runs nothing
    python runs/faults/reproduce.py --tests 8     # runs their tests, today

Each situation is a script in results.py, reliability.py, input.py, damage.py or cost.py. It runs in a process and a
folder of its own, once with the sources and tests of 596f58d and once with those of this checkout. The sources of
596f58d are unpacked from the repository into a temporary folder, which is removed at the end.
"""

import argparse
import importlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from common import CASES, Case, short

COMMIT = "596f58d"
ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tests" / "FAULTS.md"
SECONDS = 300  # that a script may take
MEMORY = 16 << 30  # bytes of addresses that a script may use
SECTIONS = {  # title → modules
    "Results that could be wrong or lost": ["results"],
    "Reliability": ["reliability"],
    "Bad input": ["input", "damage"],
    "Cost": ["cost"],
}
HEADING = f"""# The thirty faults of {COMMIT}, and their regression tests

Written by `python runs/faults/reproduce.py`, which runs each situation at {COMMIT} and today.
The tests run with `python runs/faults/reproduce.py --tests`; their paths are relative to `tests/`.
"""


@contextmanager
def old_checkout() -> Iterator[Path]:
    """Unpack the old commit into a temporary folder, for as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="tram-faults-") as folder:
        archive = ["git", "-C", str(ROOT), "archive", COMMIT]
        packed = subprocess.run(archive, capture_output=True, check=False)
        if packed.returncode:
            sys.exit(f"commit {COMMIT} is not in this clone; run `git fetch --unshallow` and try again")
        subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
        yield Path(folder)


def finding(case: Case, checkout: Path, shared: Path) -> str:
    """Return what the script of a case finds in a checkout; shared: a folder for what its scripts make but once."""
    parts = [checkout / "src", checkout / "tests", checkout / "tests" / "unit" / "pretrained", Path(__file__).parent]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, parts)),
        "TRAM_CHECKOUT": str(checkout),
        "TRAM_SHARED": str(shared),
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "COLUMNS": "300",
    }
    with tempfile.TemporaryDirectory(prefix="tram-fault-") as folder:
        line = [sys.executable, __file__, "--script", case.key]
        process = subprocess.Popen(
            line,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end after {SECONDS} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    if process.returncode:
        return f"THE SCRIPT FAILED: {short((err.strip().splitlines() or ['?'])[-1])}"
    return out.splitlines()[-1] if out else "THE SCRIPT SAID NOTHING"


def run_script(key: str) -> None:
    """Run one script here; its finding is the last line of the output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    (case,) = (case for case in CASES if case.key == key)
    print(short(case.script(*case.value)))


def tests_cell(tests: Sequence[str]) -> str:
    """Name tests as pytest does; `…` stands for the file before."""
    names, before = [], ""
    for test in tests:
        file = test.partition("::")[0]
        names.append(f"`{test.replace(file, '…') if file == before else test}`")
        before = file
    return ", ".join(names) or "none"


def start_of_row(case: Case) -> str:
    """Return the line of a case in the table up to the findings."""
    return f"| {case.number} | {case.title} | {tests_cell(case.tests)} |"


def row(case: Case, old: str, new: str) -> str:
    """Return the line of a case in the table."""
    return f"{start_of_row(case)} {old} | {new} |"


def table(found: Mapping[str, tuple[str, str]]) -> str:
    """Return the findings by the keys of their cases as Markdown, in sections."""
    text = ""
    for title, names in SECTIONS.items():
        text += f"\n## {title}\n\n| | situation | test | at {COMMIT} | today |\n|---|---|---|---|---|\n"
        own = [case for case in CASES if case.script.__module__ in names and case.key in found]
        text += "".join(row(case, *found[case.key]) + "\n" for case in own)
    return text


def earlier_findings() -> dict[str, tuple[str, str]]:
    """Return the findings in the table as it is, by the keys of their cases."""
    rows = re.findall(r"^\| (\d+) \| (.*?) \| .*? \| (.*?) \| (.*?) \|$", TABLE.read_text(), re.MULTILINE)
    return {f"{number} {title}": (old, new) for number, title, old, new in rows}


def run_tests(cases: Sequence[Case]) -> int:
    """Run the tests of some cases; return pytest's exit code."""
    names = sorted({f"tests/{test}" for case in cases for test in case.tests})
    return subprocess.run([sys.executable, "-m", "pytest", *names], cwd=ROOT, check=False).returncode


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", type=int, metavar="N", help="numbers of faults; none: all")
    parser.add_argument("--list", action="store_true", help="print the situations and their tests, and run nothing")
    parser.add_argument("--tests", action="store_true", help="run their tests instead")
    parser.add_argument("--script", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in chain(*SECTIONS.values()):
        importlib.import_module(name)
    CASES.sort(key=lambda case: case.number)
    if options.script:
        run_script(options.script)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # removes the temporary folders
    chosen = [case for case in CASES if not options.faults or case.number in options.faults]
    if options.list:
        print("\n".join(start_of_row(case) for case in chosen))
        return
    if options.tests:
        sys.exit(run_tests(chosen))
    found = earlier_findings()
    with old_checkout() as old, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for case in chosen:
            found[case.key] = (finding(case, old, Path(one)), finding(case, ROOT, Path(other)))
            print(row(case, *found[case.key]), flush=True)
            TABLE.write_text(HEADING + table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
