"""What `tram translate` and `tram import` read besides model folders: adapters, foreign models, files, glossaries."""

import io
import os
import random
import re
import shutil
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file

from conftest import TINY
from filetype_samples import SAMPLES, VARIANTS
from fuzz.base import SENTENCE, Kind, WithText
from fuzz.mutations import STRANGE, damaged_bytes
from pretrained_models import make
from tram.filetypes import ReadOptions, by_sentences, translate_file
from tram.filetypes.registry import names
from tram.model.folder import save_model
from tram.model.transformer import Transformer
from tram.pretrained.adapters import export_adapter, load_with_adapter
from tram.pretrained.hf import import_hf
from tram.text.glossary import read_glossary
from tram.translation.translator import Translator

ACCENTS = str.maketrans("aeiou", "äéíöü")
PIECE = re.compile(r"<[^<>]*>|&\w+;|[\"'=]|\r?\n|\w+|-->|[#*`_\[\]()|:{}\\]")
PIECES = [
    *("<", ">", "</", "/>", "<b>", "</b>", "<x/>", "<!--", "-->", "<![CDATA[", "]]>", "<!DOCTYPE a>", "<?php", "&#0;"),
    *("&#xD800;", "&#99999999;", "&nope;", "&", '"', "'", "\n", "\n\n", "\r", "```", "---", "|", "\\", "[", "](", "`"),
    *("[^1]: ", "$$", "{{", "}}", "%s", "%(", "{", "}", "<script>", "<pre>", "</html>", "--> ", "00:00:01,000", "NOTE"),
    *('msgid "', 'msgstr "', 'msgstr[9] "', "#~ ", "#, fuzzy", 'translate="no"', 'xml:space="preserve"', "\u202e"),
    *("nplurals=0;", "nplurals=2; plural=1/(n-5);", "nplurals=2; plural=n-9;", "9" * 5000, "\\begin{align}\n", "<wbr>"),
    *("\U0010f000", "\U0010f100", "\ue000", "\ufffe", "👩‍👩‍👧", "\u0301", "\0", "\ufeff", "ab" * 3000, "<i>" * 300),
]


class Adapters(WithText):
    """An adapter, loaded with its base."""

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        model, self.text = self.model(data)
        base = Transformer(TINY, self.text.vocabulary)
        base.load_state_dict(model.state_dict(), strict=False)
        self.base = self.good.parent / "base"
        save_model(base, self.base, self.text)
        whole = self.good.parent / "whole"
        save_model(model, whole, self.text)
        export_adapter(whole, self.good / "adapter", base=self.base)
        (self.good / "adapter" / "README.md").unlink()

    def use(self, draw: random.Random) -> None:
        model = load_with_adapter(self.base, self.bad)
        if draw.random() < 0.2:
            assert len(Translator(model, self.text, beam=1).translate([SENTENCE, ""])) == 2


class Foreign(Kind):
    """A model of the Hugging Face hub, imported."""

    def make(self) -> None:
        for family in ("marian", "bart", "m2m100"):
            make(family, self.good / family)
            for name in ("README.md", "pytorch_model.bin"):
                (self.good / family / name).unlink(missing_ok=True)
        shutil.copytree(self.good / "marian", self.good / "marian, PyTorch")
        weights = self.good / "marian, PyTorch" / "model.safetensors"
        torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
        weights.unlink()

    def use(self, draw: random.Random) -> None:
        out = self.bad.parent / "out"
        shutil.rmtree(out, ignore_errors=True)
        languages = ("en", "de") if not self.chosen.startswith("marian") else (None, None)
        import_hf(str(self.bad), out, *draw.choice([languages, (None, None)]))
        if draw.random() < 0.3:
            chosen = (None, None) if self.chosen.startswith("marian") else ("en", "de")
            assert len(Translator.load(out, beam=2, source=chosen[0], target=chosen[1]).translate([SENTENCE])) == 1


class Files(Kind):
    """A file of every type, translated by a function."""

    folders = False

    def make(self) -> None:
        for name, sample in {**SAMPLES, **VARIANTS}.items():
            made = sample()
            (self.variant(name) / made.name).write_bytes(made.content)

    def use(self, draw: random.Random) -> None:
        path = next(self.bad.iterdir(), None)
        if path is None:
            return
        if path.is_file() and not path.is_symlink() and os.access(path, os.W_OK) and draw.random() < 0.6:
            path.write_bytes(_rewritten(draw, (self.good / self.chosen / path.name).read_bytes()))
        translate = by_sentences(lambda texts: [text.translate(ACCENTS) for text in texts])
        output = self.bad.parent / "written"
        options = ReadOptions(target_language="de", chapters=draw.random() < 0.5)
        translate_file(path, output, translate, draw.choice([None, None, draw.choice(names())]), options)


def _rewritten(draw: random.Random, content: bytes) -> bytes:
    """Damage the text of a file, or of a part of a package that stays valid."""
    if not content.startswith(b"PK"):
        return _pieces(draw, content)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        chosen = draw.choice(old.namelist())
        for name in old.namelist():
            if name != chosen:
                new.writestr(name, old.read(name))
                continue
            match draw.randrange(8):
                case 0:
                    continue
                case 1:
                    new.writestr(draw.choice(["../" + name, "/" + name, name.upper(), "x", name + "/"]), old.read(name))
                case 2:
                    new.writestr(name, damaged_bytes(draw, old.read(name)))
                case _:
                    new.writestr(name, _pieces(draw, old.read(name)))
    return out.getvalue()


def _pieces(draw: random.Random, content: bytes) -> bytes:
    """Remove, double, exchange or insert pieces of markup and words."""
    parts = PIECE.split(text := content.decode("utf-8", "replace"))
    found = PIECE.findall(text)
    if not found:
        return damaged_bytes(draw, content)
    for _ in range(draw.choice([1, 1, 2, 5, 20])):
        at, other = draw.randrange(len(found)), draw.randrange(len(found))
        match draw.randrange(7):
            case 0:
                found[at] = ""
            case 6 if draw.random() < 0.1:  # what looks at all that it has read again for each takes too long
                found[at] = draw.choice([found[at], *PIECES, found[at] + draw.choice([*PIECES, " a "])])[:40] * 2000
            case 1:
                found[at] *= 2
            case 2:
                found[at], found[other] = found[other], found[at]
            case 3:
                found[at] += draw.choice(PIECES)
            case 4:
                found[at] = draw.choice([*PIECES, *STRANGE[:60]])
            case _:
                parts[at] = ""
    whole = "".join(part + piece for part, piece in zip(parts, [*found, ""], strict=True))
    return whole.encode(draw.choice(["utf-8"] * 8 + ["utf-8-sig", "utf-16", "cp1252"]), "ignore")


class Glossaries(Kind):
    """A glossary, read and used."""

    def make(self) -> None:
        text = "# terms\nfile\tDatei\nprinter driver\tDruckertreiber\n\nOpenOffice\nC++\tC++\n(x)\t\\1\n"
        (self.variant("terms") / "terms.tsv").write_text(text)

    def use(self, draw: random.Random) -> None:
        rules = read_glossary(self.bad / "terms.tsv")
        folder = self.bad.parent
        source: Path = folder / "letter.txt"
        source.write_text("The file of OpenOffice and the printer driver (x) in C++.\n")
        translate_file(source, folder / "written", by_sentences(lambda texts: texts, rules))
