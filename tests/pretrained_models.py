"""Tiny random models of every pretrained family, made offline by the library transformers.

`make("marian", folder, d_model=24)` writes a folder as the Hugging Face hub has them and returns model and tokeniser.
"""

import io
import json
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch

from conftest import DOES, WHERE, WHO

SIZES = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40,
    "max_position_embeddings": 96,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
ODD_TEXT = [
    "Übergrößenträger – “quoted” … and ‘more’",
    "naïve café, coöperate, Ångström, Łódź, İstanbul",
    "日本語のテキスト。 中文文本！",
    "Привет, мир! Καλημέρα κόσμε",
    "مرحبا بالعالم   שלום עולם",
    "emoji 😀👩‍👩‍👧 and  two   spaces",
    "tabs\tand\u00a0no-break\u2009thin spaces",
    "e\u0301 combining, ﬁ ligature, ½ ① ™",
    " leading and trailing ",
    "UPPER lower MiXeD 1,234.56 € 50% #tag @user http://example.org/?a=b&c=d",
    "▁underline_and▁more",
    "\u200bzero\u200dwidth\ufeffjoiners",
    "a",
    "?!",
]


@dataclass(frozen=True)
class Made:
    """A folder with a model, and the model and its tokeniser as transformers has them."""

    folder: Path
    model: Any
    tokenizer: Any


def sentences() -> tuple[list[str], list[str]]:
    """All sentences of the made-up corpus, in both languages, and odd ones."""
    triples = list(product(WHO, DOES, WHERE))
    source = [f"{who} {does} {where}." for who, does, where in triples]
    target = [f"{WHO[who]} {DOES[does]} {WHERE[where]}." for who, does, where in triples]
    return source + ODD_TEXT, target + ODD_TEXT


def sentencepiece(lines: list[str], kind: str = "bpe", size: int = 200, **options: Any) -> bytes:
    """Train a sentencepiece model and return its file."""
    import sentencepiece as spm

    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        character_coverage=0.98,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    """Return the pieces of a sentencepiece model that are text."""
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.vocab_size()) if not processor.is_control(i)][1:]


def make(family: str, folder: Path, seed: int = 1, **changes: Any) -> Made:
    """Write a random model of a family; changes: keys of its config, or `codes`, `separate` for Marian."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, config_class, model_class, special = MAKERS[family](folder, changes)
    torch.manual_seed(seed)
    config = config_class(**SIZES | special | changes)
    model = model_class(config).eval()
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if "embed_positions" not in name or config.model_type in {"bart", "mbart"}:
                value.add_(torch.randn_like(value), alpha=0.5 if ".fc" in name else 0.1)
    if family == "marian":
        model.generation_config.bad_words_ids = [[config.pad_token_id]]
        model.generation_config.num_beams = 4
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Made(folder, model, tokenizer)


def make_marian(folder: Path, changes: dict[str, Any]) -> Any:
    """Marian: two sentencepiece models, one vocabulary or two."""
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    source, target = sentences()
    models = [sentencepiece(source, size=180), sentencepiece(target, size=220)]
    for name, content in zip(("source.spm", "target.spm"), models, strict=True):
        (folder / name).write_bytes(content)
    codes = [f">>{code}<<" for code in changes.pop("codes", ())]
    separate = changes.pop("separate", False)
    known = [dict.fromkeys(pieces(model)) for model in models]
    if not separate:
        known = [dict.fromkeys((*known[0], *known[1]))] * 2
    vocabularies = []
    for side in known:
        tokens = ["</s>", "<unk>", *codes, *list(side)[3:]]  # some pieces have no id
        tokens.insert(2 if separate else len(tokens), "<pad>")  # two vocabularies share the ids of their special tokens
        vocabularies.append({token: number for number, token in enumerate(tokens)})
    paths = [folder / "vocab.json", folder / "target_vocab.json"]
    for path, vocabulary in list(zip(paths, vocabularies, strict=True))[: 1 + separate]:
        path.write_text(json.dumps(vocabulary), encoding="utf-8")
    tokenizer = MarianTokenizer(
        str(folder / "source.spm"),
        str(folder / "target.spm"),
        str(paths[0]),
        target_vocab_file=str(paths[1]) if separate else None,
        source_lang="eng",
        target_lang="deu",
        separate_vocabs=separate,
    )
    pad = vocabularies[1]["<pad>"]
    special = {
        "vocab_size": len(vocabularies[0]),
        "decoder_vocab_size": len(vocabularies[1]),
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "scale_embedding": True,
        "activation_function": "swish",
        "share_encoder_decoder_embeddings": not separate,
    }
    return tokenizer, MarianConfig, MarianMTModel, special


def make_bart(folder: Path, changes: dict[str, Any]) -> Any:
    """BART: byte-level BPE."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import BartConfig, BartForConditionalGeneration, BartTokenizer

    trained = ByteLevelBPETokenizer()
    lines = [line for side in sentences() for line in side]
    trained.train_from_iterator(
        lines, 500, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    content = json.loads(trained.to_str())["model"]
    merges = [tuple(pair) for pair in content["merges"]]
    tokenizer = BartTokenizer(vocab=content["vocab"], merges=merges)
    return tokenizer, BartConfig, BartForConditionalGeneration, {"vocab_size": len(tokenizer)}


def make_mbart(folder: Path, changes: dict[str, Any]) -> Any:
    """mBART-50: a unigram vocabulary with the ids of fairseq and 52 languages."""
    from sentencepiece import SentencePieceProcessor
    from transformers import MBart50Tokenizer, MBartConfig, MBartForConditionalGeneration

    lines = [line for side in sentences() for line in side]
    processor = SentencePieceProcessor(model_proto=sentencepiece(lines, "unigram", 300))
    vocabulary = [(processor.id_to_piece(i), processor.get_score(i)) for i in range(processor.vocab_size())]
    tokenizer = MBart50Tokenizer(vocab=vocabulary, src_lang="en_XX", tgt_lang="de_DE")
    special = {
        "vocab_size": len(tokenizer),
        "scale_embedding": True,
        "decoder_start_token_id": 2,
        "activation_function": "relu",
    }
    return tokenizer, MBartConfig, MBartForConditionalGeneration, special


def make_m2m100(folder: Path, changes: dict[str, Any]) -> Any:
    """M2M100: a sentencepiece model and a vocabulary, language codes after it."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration, M2M100Tokenizer

    model = sentencepiece([line for side in sentences() for line in side], size=260)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces(model)]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    tokenizer = M2M100Tokenizer(
        str(folder / "vocab.json"), str(folder / "sentencepiece.bpe.model"), src_lang="en", tgt_lang="de"
    )
    special = {"vocab_size": max(tokenizer.lang_code_to_id.values()) + 1 + 8}
    return tokenizer, M2M100Config, M2M100ForConditionalGeneration, special


def make_nllb(folder: Path, changes: dict[str, Any]) -> Any:
    """NLLB: a BPE tokeniser with the ids of fairseq and 202 languages."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=300, show_progress=False, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], limit_alphabet=60
    )
    trained.train_from_iterator([line for side in sentences() for line in side], trainer)
    content = json.loads(trained.to_str())["model"]
    tokenizer = NllbTokenizer(
        vocab=content["vocab"],
        merges=[tuple(pair) for pair in content["merges"]],
        src_lang="eng_Latn",
        tgt_lang="deu_Latn",
        legacy_behaviour=changes.pop("legacy_behaviour", False),
    )
    return tokenizer, M2M100Config, M2M100ForConditionalGeneration, {"vocab_size": len(tokenizer) + 2}


MAKERS: dict[str, Callable[[Path, dict[str, Any]], Any]] = {
    "marian": make_marian,
    "bart": make_bart,
    "mbart": make_mbart,
    "m2m100": make_m2m100,
    "nllb": make_nllb,
}
TARGETS = {"mbart": "de_DE", "m2m100": "de", "nllb": "deu_Latn"}  # of the models with several languages


def random_sentences(number: int, seed: int = 0) -> Iterator[str]:
    """Yield sentences of known and unknown words and characters of many scripts."""
    draw = random.Random(seed)
    words = [word for side in sentences() for line in side for word in line.split()]
    ranges = [(0x21, 0x7E), (0xA1, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x4E00, 0x4E40)]
    ranges += [(0x1F600, 0x1F640), (0x300, 0x30F), (0x2000, 0x206F), (0xFF01, 0xFF5E)]
    for _ in range(number):
        chosen = draw.choices(words, k=draw.randint(1, 12))
        for _ in range(draw.randint(0, 3)):
            letters = "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(draw.randint(1, 6)))
            chosen.insert(draw.randint(0, len(chosen)), letters)
        yield " ".join(chosen)
