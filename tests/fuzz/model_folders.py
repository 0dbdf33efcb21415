"""Model folders, damaged and then used: loaded, translated with by both engines, saved and exported."""

import json
import math
import random
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
import yaml
from safetensors.torch import save_file

from conftest import TINY
from fuzz.base import SENTENCE, SMALL, STORED, SYSTEMS, WithText, is_small, system
from pretrained_models import make
from tram.config import MemoryConfig, checked
from tram.errors import InputError
from tram.files import remove
from tram.fingerprints import bytes_fingerprint
from tram.model.folder import WEIGHTS, ModelFile, parameter_shapes, save_int8, save_model
from tram.model.transformer import Transformer
from tram.pretrained.export import export_hf
from tram.pretrained.hf import import_hf
from tram.text.pipeline import TextPipeline
from tram.text.pretrained import FOLDER
from tram.text.special_ids import SpecialIds
from tram.text.word_end_bpe import WordEndBPE
from tram.translation.translator import Translator
from tram.yaml_files import read_yaml


def strange_ids(draw: random.Random, ids: dict[str, Any]) -> dict[str, Any]:
    """Return other values for some special ids: padding, the end, ids beyond the vocabulary, and very many of them."""
    values = {}
    for name in draw.sample(sorted(ids), draw.choice([1, 1, 2])):
        chosen = draw.choices([0, 1, 2, 5, 300, 10**9, -1], k=draw.choice([0, 1, 2, 17, 46, 47, 64]))
        values[name] = chosen if isinstance(ids[name], list) else draw.choice([0, 1, 2, 5, 10**9, -1])
    if draw.random() < 0.5:
        values = {name: [1] * len(each) if isinstance(each, list) else each for name, each in values.items()}
    return values


class Models(WithText):
    """A model folder, loaded and used."""

    def make(self) -> None:
        data = self.good.parent / "data"
        self.prepare(data)
        model, text = self.model(data)
        save_model(model, self.variant("memory"), text)
        save_model(Transformer(TINY, text.vocabulary), self.variant("sentence"), text)
        save_model(model.half(), self.variant("half"), text)
        save_model(model.float(), self.variant("special"), replace(text, special_ids=SpecialIds(banned=(0, 1, 5))))
        words = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "ab</w>", "a</w>", "b</w>", "fox</w>", "A</w>", "sings</w>"]
        foreign = TextPipeline("moses", "en", "de", WordEndBPE(words, [("a", "b</w>")]))
        learned = MemoryConfig(slots=2, positions="learned", side="source", read="add")
        config = SMALL.model_copy(update={"memory": learned, "positions": "sinusoidal", "output_bias": True})
        save_model(Transformer(config, len(words)), self.variant("foreign"), foreign)
        shutil.copytree(STORED / "model", self.good / "version 1")
        for name in SYSTEMS:
            save_model(*self.model(data, system(name))[:1], self.variant(name), text)
        save_int8(self.model(data)[0], self.variant("int8"), text)
        for name in ("transformer_xl", "compressive", "zheng", "selective target"):
            save_int8(self.model(data, system(name))[0], self.variant(f"int8 {name}"), text)
        for family in ("marian", "bart", "m2m100", "nllb"):
            languages = (None, None) if family == "marian" else ("en", "de")
            make(family, self.good.parent / family)
            import_hf(str(self.good.parent / family), self.good / f"imported {family}", *languages)
        for card in self.good.glob("*/README.md"):
            card.unlink()
        Translator.load(self.good / "memory")  # what torch imports at the first model does not count as slow

    def use(self, draw: random.Random) -> None:
        if draw.random() < 0.5:
            self.refit(draw)
        settings = draw.choice([{}, {"engine": "torch"}, {"dtype": torch.float16}, {"precision": "int8"}])
        translator = Translator.load(self.bad, beam=2, **settings)
        translator.guards = draw.random() < 0.2  # which repeat most searches of such a model
        assert len(translator.translate([SENTENCE, ""])) == 2
        out = self.bad.parent / "out"
        remove(out)
        match draw.randrange(8):
            case 0:
                translator.save(out, draw.choice(["float32", "int8"]))
                assert len(Translator.load(out, beam=2).translate([SENTENCE, ""])) == 2
            case 1:
                export_hf(self.bad, out, without_context=True)
            case 2:
                assert self.is_accepted("torch") == self.is_accepted("auto")

    def is_accepted(self, engine: str) -> bool:
        """Return whether an engine translates with the damaged model."""
        try:
            scores = [
                each.score for each in Translator.load(self.bad, engine=engine).translate([SENTENCE], alignment=True)
            ]
        except InputError:
            return False
        assert all(map(math.isfinite, scores))
        return True

    def refit(self, draw: random.Random) -> None:
        """Let config.yaml name the damaged text.json, and weights have the shapes of a damaged config.yaml.

        Without that, damage that leaves each file valid is noticed before it is used.
        """
        with suppress(Exception):
            self.refit_origin()
        with suppress(Exception):
            self.refit_folder(draw)

    def refit_origin(self) -> None:
        """Let text.json name the damaged files of an imported model."""
        path = self.bad / "text.json"
        if (self.bad / FOLDER).is_dir() and is_small(path):
            about = json.loads(path.read_text())
            files = about["pretrained"]["files"]
            small = [self.bad / FOLDER / name for name in files if is_small(self.bad / FOLDER / name)]
            if (new := files | {each.name: bytes_fingerprint(each.read_bytes()) for each in small}) != files:
                about["pretrained"]["files"] = new
                path.write_text(json.dumps(about))

    def refit_folder(self, draw: random.Random) -> None:
        text, config, path = (self.bad / name for name in ("text.json", "config.yaml", WEIGHTS))
        good = self.good / self.chosen
        if not is_small(config):
            return
        if self.chosen == "special" and is_small(text) and draw.random() < 0.5:
            content = json.loads((good / "text.json").read_text())
            content["special_ids"] |= strange_ids(draw, content["special_ids"])
            text.write_text(json.dumps(content))
        if is_small(text) and text.read_bytes() != (good / "text.json").read_bytes():
            old = yaml.safe_load((good / "config.yaml").read_text())["text"]
            config.write_text(config.read_text().replace(str(old), TextPipeline.load(self.bad).fingerprint))
        elif config.read_bytes() != (good / "config.yaml").read_bytes():
            about = checked(ModelFile, read_yaml(config), "")
            expected = parameter_shapes(about.model, about.vocabulary)
            if about.precision == "float32" and sum(each.numel() for each in expected.values()) < 1 << 20:
                generator = torch.Generator().manual_seed(draw.randrange(2**32))
                save_file({name: torch.randn(each.shape, generator=generator) for name, each in expected.items()}, path)
