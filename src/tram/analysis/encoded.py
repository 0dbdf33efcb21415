"""A document as ids, and a model's memories by name: what the analyses of a model's inside begin with.

document = encode(translator, parallel_document)
memories(translator)                       # {"encoder.5.self": Memory, "decoder.5.self": Memory}
"""

from dataclasses import dataclass

from torch import Tensor

from tram.data.batches import decoder_input, document_ids
from tram.data.corpus import ParallelDocument
from tram.errors import InputError
from tram.model.contexts.memory import Memory
from tram.translation.translator import Translator


@dataclass(frozen=True)
class EncodedDocument:
    """Ids of one document, (1, sentences, tokens) each, 0 = padding; a pair with an empty side is left out.

    source: bos … eos; decoder_input: bos … y_n; labels: y_1 … y_n eos; numbers: of its sentences, from 1.
    """

    numbers: list[int]
    source: Tensor
    decoder_input: Tensor
    labels: Tensor
    special: frozenset[int]  # ids that stand for no text

    def __len__(self) -> int:
        return len(self.numbers)


def encode(translator: Translator, document: ParallelDocument) -> EncodedDocument:
    """Cut a document into subwords; what is longer than the model's longest sentence is cut off."""
    longest, special = translator.longest, translator.special
    sources = translator.text.encode(document.source, "source")
    targets = translator.text.encode(document.target, "target")
    pairs = [
        (number, source[:longest], target[:longest])
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1)
        if source and target
    ]
    if not pairs:
        raise InputError("a document has no sentence with text on both sides; leave it out of the files")
    device = translator.model.device
    source = document_ids([[special.source(source) for _, source, _ in pairs]]).to(device)
    target = document_ids([[special.target(target) for _, _, target in pairs]]).to(device)
    numbers = [number for number, _, _ in pairs]
    return EncodedDocument(numbers, source, decoder_input(target), target[..., 1:], special.control)


def memories(translator: Translator) -> dict[str, Memory]:
    """The memory units of a model by the names of their sublayers; a model without any is refused."""
    model = translator.model
    contexts = model.contexts()
    found = {name: context for name, context in contexts.items() if isinstance(context, Memory)}
    if not found:
        where = translator.folder or "the model"
        raise InputError(f"{where}: has no memory to look into; give a model finetuned with `memory:` in its config")
    return found
