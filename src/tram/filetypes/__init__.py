"""Documents with a layout to keep: files in, segments to translate, files of the same type out.

from tram.filetypes import open_file, translate_file
"""

from tram.filetypes.base import FileDocument, FileType, ReadOptions, Segment, Tag, Translation
from tram.filetypes.registry import detect, open_file
from tram.filetypes.translate import FileReport, Rendition, by_sentences, translate_document, translate_file

__all__ = [
    "FileDocument",
    "FileReport",
    "FileType",
    "ReadOptions",
    "Rendition",
    "Segment",
    "Tag",
    "Translation",
    "by_sentences",
    "detect",
    "open_file",
    "translate_document",
    "translate_file",
]
