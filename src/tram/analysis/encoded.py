"""Documents as ids, and the memory units of a model by name: the input of the analyses of a model's internals.

document = encode_document(translator, parallel_document)
memory_units(translator)                   # {"encoder.5.self": Memory, "decoder.5.self": Memory}
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
    """The ids of one document, (1, sentences, tokens) each, 0 = padding; pairs with an empty side are left out.

    source: bos … eos; decoder_input: bos … y_n; labels: y_1 … y_n eos; numbers: the sentences' numbers, from 1.
    """

    numbers: list[int]
    source: Tensor
    decoder_input: Tensor
    labels: Tensor
    special: frozenset[int]  # ids that are not text

    def __len__(self) -> int:
        return len(self.numbers)


def encode_document(translator: Translator, document: ParallelDocument) -> EncodedDocument:
    """Encode a document as subword ids; sentences that are too long for the model are truncated."""
    longest, special = translator.longest, translator.special
    sources = translator.text.encode(document.source, "source")
    targets = translator.text.encode(document.target, "target")
    pairs = [
        (number, source[:longest], target[:longest])
        for number, (source, target) in enumerate(zip(sources, targets, strict=True), start=1)
        if source and target
    ]
    if not pairs:
        raise InputError("a document has no sentence with text on both sides; remove it from the files")
    device = translator.model.device
    source = document_ids([[special.source(source) for _, source, _ in pairs]]).to(device)
    target = document_ids([[special.target(target) for _, _, target in pairs]]).to(device)
    numbers = [number for number, _, _ in pairs]
    return EncodedDocument(numbers, source, decoder_input(target), target[..., 1:], special.control)


def memory_units(translator: Translator) -> dict[str, Memory]:
    """Return the memory units of a model by the names of their sublayers; raise InputError if there are none."""
    units = {name: unit for name, unit in translator.model.contexts().items() if isinstance(unit, Memory)}
    if not units:
        where = translator.folder or "the model"
        raise InputError(
            f"{where}: has no memory to inspect; give a model finetuned with `context: {{kind: memory}}` in its config"
        )
    return units
