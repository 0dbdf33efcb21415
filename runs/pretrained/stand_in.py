"""Write a Hugging Face translation model with random weights, for tests where no real one can be downloaded.

    python runs/pretrained/stand_in.py CORPUS.en CORPUS.de OUT [--size tiny|small|opus-mt|nllb-600m] [--seed 1]

The tokeniser is learnt from the corpus. The sizes opus-mt and nllb-600m are those of the real models; their
vocabularies are filled up with words that occur in no text.
"""

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

# Width, heads, inner width of the feed-forward sublayers, layers per side, positions, rows of the token table
# (0: as many as there are tokens).
SIZES = {
    "tiny": (32, 2, 64, 1, 128, 0),
    "small": (96, 4, 384, 2, 128, 0),
    "opus-mt": (512, 8, 2048, 6, 512, 58_101),
    "nllb-600m": (1024, 16, 4096, 12, 1024, 256_206),
}
CARD = "---\nlicense: {licence}\n---\n\nA stand-in with random weights.\n"


def main() -> None:
    """Write the model that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.out.exists():
        sys.exit(f"{given.out}: exists already; choose another folder")
    write_stand_in(given.source, given.target, given.out, given.size, given.seed)
    print(given.out)


def write_stand_in(source: Path, target: Path, out: Path, size: str, seed: int) -> None:
    """Write model, tokeniser and card."""
    import torch
    from transformers import set_seed

    out.mkdir(parents=True)
    torch.set_num_threads(1)
    set_seed(seed)
    sides = [[line for line in path.read_text(encoding="utf-8").splitlines() if line] for path in (source, target)]
    width, heads, inner, layers, positions, rows = SIZES[size]
    sizes: dict[str, Any] = {"d_model": width, "max_position_embeddings": positions}
    for stack in ("encoder", "decoder"):
        sizes |= {f"{stack}_layers": layers, f"{stack}_ffn_dim": inner, f"{stack}_attention_heads": heads}
    make = nllb if size == "nllb-600m" else marian
    make(out, sides, sizes, rows)
    licence = "cc-by-nc-4.0" if size == "nllb-600m" else "cc-by-4.0"
    (out / "README.md").write_text(CARD.format(licence=licence), encoding="utf-8")


def marian(out: Path, sides: list[list[str]], sizes: dict[str, Any], rows: int) -> None:
    """Write a Marian model as OPUS-MT has them."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    known: dict[str, None] = {}
    for name, lines in zip(("source.spm", "target.spm"), sides, strict=True):
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=file, vocab_size=1000, hard_vocab_limit=False, minloglevel=2
        )
        (out / name).write_bytes(file.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
        known |= dict.fromkeys(processor.id_to_piece(number) for number in range(3, processor.vocab_size()))
    tokens = ["</s>", "<unk>", *known]
    tokens += [f"<unused{number}>" for number in range(rows - len(tokens) - 1)]
    vocabulary = {token: number for number, token in enumerate([*tokens, "<pad>"])}
    (out / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False), encoding="utf-8")
    paths = [str(out / name) for name in ("source.spm", "target.spm", "vocab.json")]
    MarianTokenizer(*paths, source_lang="eng", target_lang="deu").save_pretrained(out)
    pad = vocabulary["<pad>"]
    config = MarianConfig(
        **sizes,
        vocab_size=len(vocabulary),
        pad_token_id=pad,
        decoder_start_token_id=pad,
        scale_embedding=True,
        activation_function="swish",
    )
    model = MarianMTModel(config)
    model.generation_config.update(num_beams=4, bad_words_ids=[[pad]], max_length=512)
    model.save_pretrained(out)


def nllb(out: Path, sides: list[list[str]], sizes: dict[str, Any], rows: int) -> None:
    """Write an NLLB model."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import M2M100Config, M2M100ForConditionalGeneration, NllbTokenizer

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=2000, show_progress=False, special_tokens=special)
    trained.train_from_iterator([line for lines in sides for line in lines], trainer)
    content = json.loads(trained.to_str())["model"]
    vocabulary = content["vocab"]
    vocabulary |= {f"<unused{number}>": number for number in range(len(vocabulary), 256_000)}
    merges = [tuple(pair) for pair in content["merges"]]
    NllbTokenizer(vocab=vocabulary, merges=merges, src_lang="eng_Latn", tgt_lang="deu_Latn").save_pretrained(out)
    M2M100ForConditionalGeneration(M2M100Config(**sizes, vocab_size=rows)).save_pretrained(out)


if __name__ == "__main__":
    main()
