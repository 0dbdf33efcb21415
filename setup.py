"""Builds the library of the native engine where there is a C++ compiler; everything else is in pyproject.toml."""

import os
import platform
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FOLDER = Path("src/tram/translation/engines/native")
SOURCES = sorted(str(path) for path in (FOLDER / "cpp").glob("*.cpp"))
HEADERS = sorted(str(path) for pattern in ("*.h", "*.inl") for path in (FOLDER / "cpp").glob(pattern))
FLAGS = [
    "-std=c++17",
    "-O3",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-g0",
    "-pthread",
]
LINK_FLAGS = ["-pthread"]
if platform.system() == "Linux":
    # Needs no libstdc++ on the machine, and shows nothing of its own; what it does not use would ask for a newer glibc
    LINK_FLAGS += ["-static-libstdc++", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL"]
if os.environ.get("TRAM_SANITIZE"):  # `make sanitize`
    SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    FLAGS, LINK_FLAGS = [*FLAGS, *SANITIZERS, "-O1"], ["-pthread", *SANITIZERS]
# Only these files may use instructions beyond those of every processor; `dispatch.cpp` decides whether they run.
OWN_FLAGS = {
    "kernels_avx2": ["-mavx2", "-mfma"],
    "kernels_avx512": [
        *["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"],
        "-Wno-uninitialized",  # g++ 12 warns of its own header
    ],
}


class BuildLibrary(build_ext):
    """Compiles every file with its own flags; a failure leaves the library out."""

    def get_ext_filename(self, fullname: str) -> str:
        """Return a name without Python's version: the library is no Python module."""
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return none: there is no `PyInit` function."""
        return []

    def build_extension(self, ext: Extension) -> None:
        """Compile and link; say in one line what is missing if that fails."""
        compile_one = self.compiler._compile
        x86 = platform.machine().lower() in ("x86_64", "amd64")

        def with_own_flags(obj, source, suffix, arguments, flags, options):
            own = OWN_FLAGS.get(Path(source).stem, []) if x86 else []
            compile_one(obj, source, suffix, arguments, [*flags, *own], options)

        self.compiler._compile = with_own_flags
        try:
            super().build_extension(ext)
        except Exception:  # the compiler itself has said what is wrong
            command = (getattr(self.compiler, "compiler_so_cxx", None) or self.compiler.compiler_so)[0]
            print(
                f"tram: the native engine is left out, because the C++ compiler ({command}) failed; torch translates "
                "instead, which is slower"
            )
        finally:
            self.compiler._compile = compile_one

    def copy_extensions_to_source(self) -> None:
        """Copy the library into the source tree for an editable installation, if it was built."""
        for extension in self.extensions:
            name = self.get_ext_filename(extension.name)
            if (built := Path(self.build_lib) / name).exists():
                shutil.copy(built, Path("src") / name)


class Wheel(bdist_wheel):
    """Marks a wheel with the library as one for any Python 3 on this platform."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tag of the wheel."""
        return ("py3", "none", super().get_tag()[2])


setup(
    ext_modules=[
        Extension(
            "tram.translation.engines.native._tram_native",
            SOURCES,
            depends=HEADERS,
            language="c++",
            extra_compile_args=FLAGS,
            extra_link_args=LINK_FLAGS,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
)
