"""The direction of imports, as the table of packages says: each may import only from packages above its own."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tram"
# Packages in one row do not import each other.
ROWS = [
    {"errors", "json_text"},
    {"files", "progress", "measuring", "signals"},
    {"yaml_files", "fingerprints"},
    {"config"},
    {"text"},
    {"data"},
    {"model"},
    {"pretrained"},
    {"translation"},
    {"training"},
    {"evaluation"},
    {"synthetic", "splice"},
    {"analysis", "bench"},
    {"filetypes"},
    {"service", "cluster"},
    {"cli"},
]
ROW_OF = {name: number for number, row in enumerate(ROWS) for name in row}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in ROW_OF)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_packages(path: Path) -> set[str]:
    """The packages of tram that a module imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
            if node.module == "tram":
                names = [f"tram.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("tram.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_packages_above_its_own(path: Path) -> None:
    own = package_of(path)
    allowed = {name for name, row in ROW_OF.items() if row < ROW_OF[own]} | {own, "__version__", "__init__"}
    assert imported_packages(path) <= allowed


def test_few_modules_lie_flat() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 10


def test_no_module_is_longer_than_450_lines() -> None:
    long = {
        str(path.relative_to(SOURCE)): n
        for path in SOURCE.rglob("*.py")
        if (n := len(path.read_text(encoding="utf-8").splitlines())) > 450
    }
    assert not long


TOKENISERS = {"tokenizers", "sacremoses", "sacrebleu", "typer"}


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("tram.model.transformer", TOKENISERS),
        ("tram.model.folder", TOKENISERS),
        ("tram.model.packing", TOKENISERS | {"pydantic", "yaml"}),
    ],
)
def test_the_model_loads_no_tokeniser(module: str, unneeded: set[str]) -> None:
    program = f"import {module}, sys; print(*set({sorted(unneeded)}) & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


# The modules of a distribution, where they have another name, and the one that needs it, where none is imported.
MODULES = {
    "markdown-it-py": "markdown_it",
    "protobuf": "transformers",
    "python-multipart": "fastapi",
    "pyyaml": "yaml",
    "webvtt-py": "webvtt",
}
TOOLS = {"dev", "bench", "browser"}  # extras for tests and measurements


def test_every_package_that_a_user_installs_is_imported() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    extras = [each for name, extra in project["optional-dependencies"].items() if name not in TOOLS for each in extra]
    sources = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    for requirement in [*project["dependencies"], *extras]:
        name = re.split(r"[\s\[<>=!~;]", requirement)[0]
        module = MODULES.get(name, name.replace("-", "_"))
        assert re.search(rf"^\s*(import|from) {module}\b|\bload\(\"{module}\"", sources, re.MULTILINE), requirement


def test_every_dependency_has_an_exact_current_version() -> None:
    root = SOURCE.parents[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    pinned = {
        name.strip().lower().replace("_", "-"): version
        for line in (root / "constraints.txt").read_text().splitlines()
        for name, sign, version in [line.partition("==")]
        if sign
    }
    needed = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    names = {re.split(r"[\s\[<>=!~;]", each)[0].lower().replace("_", "-") for each in needed}
    assert names - {project["name"]} <= pinned.keys()
    assert int(pinned["pip"].split(".")[0]) >= 25, "earlier versions have known vulnerabilities"
