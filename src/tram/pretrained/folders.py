"""Output folders of importers and exporters, which never replace existing files."""

from pathlib import Path

from tram.errors import InputError
from tram.files import check_folder_writable


def check_output_folder(out: Path) -> None:
    """Refuse an output folder that is not empty, because its files would be replaced, or that cannot be written."""
    try:
        problem = "is not empty" if any(out.iterdir()) else None
    except FileNotFoundError:
        problem = None
    except OSError as error:
        problem = f"cannot be used as a folder ({error.strerror})"
    if problem is not None:
        raise InputError(f"{out}: {problem}; give a folder that does not exist yet")
    check_folder_writable(out)
