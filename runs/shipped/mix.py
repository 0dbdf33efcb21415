"""Documents for the memory of the shipped model: windows of real documents, spliced and generated ones.

python runs/shipped/mix.py DATA FOLDER          FOLDER: that of ship.sh; writes FOLDER/documents.en and documents.de

Most documents are spliced or generated, so that each update has many words that only the context decides; most words
are those of real windows, from which the memory learns what kind of text it reads. Windows whose sentences address the
reader in one form are favoured, and passages that end with a pronoun whose gender an earlier sentence decides are taken
from real documents (`tram suite pronouns`). Letters begin with a salutation and end with a closing, which the corpora
lack. Other documents call somebody ("sir", "honey", "guys"), and only that decides how they are addressed (called.py);
their sentences are from spoken text and the dictionary's examples, in two forms of address (exchange.py).
Spliced sentences inside real windows teach the memory to follow a thing that is brought up in the middle of a
document.

In half of the real windows about half of the target sentences are translations by the model that ships with tram. The
memory reads them, and they have no loss (`special_ids.HISTORY`), so that it learns from histories such as it will meet.
"""

import re
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random

from called import Calls
from everyday import everyday_words, letter_part
from exchange import Exchange, exchanged

from tram import Translator
from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.data.sentinels import with_sentinels
from tram.evaluation.address import form_of
from tram.evaluation.language import load_language
from tram.evaluation.suite import read_suite
from tram.progress import Progress
from tram.text.held_out import held_out_sentence
from tram.text.special_ids import HISTORY

SPLICED = {"pronouns": 2_400, "address": 2_000, "terms": 400}  # documents of each kind
REAL = {"opendocs": 1_500, "europarl-direct": 350, "dialogue": 450, "prose": 900}  # windows of each corpus
THREADED = {"opendocs": 400, "europarl-direct": 150, "dialogue": 350, "prose": 300}  # windows with spliced sentences
PASSAGES = 1_500  # that end with a pronoun
HISTORY_SHARE = 0.5  # of the real windows, and of the sentences in these, are read as the model translates them
PASSAGE = (3, 9)  # sentences of each of these
THREADS = 2  # spliced documents in each of these
CALLED = 2_800  # documents that call somebody
CALLED_SPLICED = 1_000  # spliced documents for address that begin with such a call
SPOKEN = ("dialogue", "prose")  # corpora of the sentences between the call and what is said
LONGEST_FILLER = 70  # characters of each of these
LETTERS = 600  # a salutation, spliced documents with its form of address, and a closing
SPEECH = re.compile(
    r"\b(Mr|Mrs|Ms|Madam|Sir|lady|lord|mage|President|Commissioner|my friend|kid|child|dude|Brother|Father)\b",
    re.IGNORECASE,
)
ONE = re.compile(r"\b(du|dich|dir|dein\w*)\b", re.IGNORECASE)  # one person is addressed
SEVERAL = re.compile(r"\b(ihr|[Ee]uch|[Ee]uer|[Ee]ure\w*)\b")  # more than one, unless "ihr" is "her"
STATEMENT = re.compile(r"(I|We|He|She|They|There|This|That|The|An?|My|Our|His|Her)\b[^,;:!?\"“”]*\.")
NO_FILLER = re.compile(r"\b(you|your|yours|yourself|it|its)\b", re.IGNORECASE)
GENERATED = 300  # documents
GENERATED_SENTENCES = 12  # of each of them
WINDOWS = (12, 24, 60)  # sentences; all corpora are cut into windows of each of these sizes
SHORT_WINDOW = 12  # sentences, to which spliced ones are added
ADDRESSED, FAVOUR = 3, 4  # a window with as many sentences of one form of address is as many times as likely
SHORTEST, MAX_CHARACTERS = 3, 400  # of a window, and of a source sentence in it
COPY_SHARE = 0.15  # of the pairs of real windows are searched for spans to replace by copy sentinels


Pairs = list[tuple[str, str]]


def pairs_of(document: ParallelDocument) -> Pairs:
    """Return the sentence pairs of a document."""
    return list(zip(document.source, document.target, strict=True))


def document_of(pairs: Pairs) -> ParallelDocument:
    """Return a document of sentence pairs."""
    return ParallelDocument([source for source, _ in pairs], [target for _, target in pairs])


def windows(document: ParallelDocument, random: Random, size: int) -> Iterator[ParallelDocument]:
    """Yield a document in windows without very long sentences, copy sentinels in some pairs."""
    for start in range(0, len(document.source), size):
        pairs = pairs_of(document)[start : start + size]
        if len(pairs) < SHORTEST or max(len(source) for source, _ in pairs) >= MAX_CHARACTERS:
            continue
        pairs = [(random.random() < COPY_SHARE and with_sentinels(pair, random)) or pair for pair in pairs]
        yield document_of(pairs)


def address_forms(pairs: Pairs) -> list[str]:
    """Return the forms of address that the target sentences show."""
    german = load_language("de")
    return [form for _, target in pairs if (form := form_of(target, german))]


def favoured_sample(found: list[ParallelDocument], count: int, random: Random) -> list[ParallelDocument]:
    """Draw windows without repetition, those with one form of address more often than others."""

    def key(window: ParallelDocument) -> float:
        forms = address_forms(pairs_of(window))
        weight = FAVOUR if len(forms) >= ADDRESSED and len(set(forms)) == 1 else 1
        return random.random() ** (1 / weight)

    return sorted(found, key=key, reverse=True)[:count]


def passages(suite: Path, random: Random) -> Iterator[ParallelDocument]:
    """Yield the end of each item's document up to its pronoun, without the sentences that are kept for probes."""
    for item in read_suite(suite):
        if held_out_sentence(item.source):
            continue
        source, target = [*item.source_context, item.source], [*item.target_context, item.reference]
        last = slice(-random.randint(*PASSAGE), None)
        if max(map(len, source[last])) < MAX_CHARACTERS:
            yield ParallelDocument(source[last], target[last])


def with_threads(window: ParallelDocument, threads: list[ParallelDocument], random: Random) -> ParallelDocument | None:
    """Insert spliced documents at random places of a real one; None if forms of address would be mixed."""
    pairs = pairs_of(window)
    for thread in threads:
        at = random.randint(0, len(pairs))
        pairs[at:at] = pairs_of(thread)
    return document_of(pairs) if len(set(address_forms(pairs))) < 2 else None


def letters(
    address: list[ParallelDocument], pronouns: list[ParallelDocument], random: Random
) -> Iterator[ParallelDocument]:
    """Yield letters: what they say is put together from spliced documents that call nobody by another name."""
    words = everyday_words()
    bodies: dict[str, list[Pairs]] = {form: [] for form in words["letters"]}
    for pairs in map(pairs_of, address):
        forms = set(address_forms(pairs))
        if len(forms) == 1 and not any(SPEECH.search(source) or SEVERAL.search(target) for source, target in pairs):
            bodies[forms.pop()].append(pairs)
    neutral = [pairs for pairs in map(pairs_of, pronouns) if not address_forms(pairs)]
    while True:
        form = random.choice(list(bodies))
        body = [random.choice(bodies[form]), random.choice(neutral)]
        random.shuffle(body)
        opening, phrase, closing = (letter_part(words, form, part, random) for part in words["letters"][form])
        yield document_of([opening, *chain(*body), phrase, closing])


def calls_of(data: Path, folder: Path) -> Calls:
    """Return sentences that call and address somebody, with real ones in two forms of address."""
    files = [(data / name / "train.en.xz", data / name / "train.de.xz") for name in SPOKEN]
    files.append((folder / "augmented" / "examples.en", folder / "augmented" / "examples.de"))
    pairs = list(
        dict.fromkeys(pair for both in files for document in read_parallel(*both) for pair in pairs_of(document))
    )
    return Calls(list(exchanged(pairs, Exchange(target for _, target in pairs))))


def fillers(corpus: list[ParallelDocument]) -> Pairs:
    """Return short statements of a corpus that address nobody, not even by a command or a call, and have no "it"."""
    short = (pair for document in corpus for pair in pairs_of(document) if len(pair[0]) <= LONGEST_FILLER)
    plain = (pair for pair in short if STATEMENT.fullmatch(pair[0]) and not SPEECH.search(pair[0]))
    return [pair for pair in plain if not NO_FILLER.search(pair[0]) and not address_forms([pair])]


def with_call(document: ParallelDocument, calls: Calls, random: Random) -> ParallelDocument:
    """Put a sentence that calls somebody before a document with one form of address, unless it calls somebody."""
    pairs = pairs_of(document)
    forms = set(address_forms(pairs))
    if len(forms) != 1 or any(SPEECH.search(source) for source, _ in pairs):
        return document
    form = forms.pop()
    one, several = (any(words.search(target) for _, target in pairs) for words in (ONE, SEVERAL))
    if form == "T" and several and not one:
        form = "P"
    return document_of([calls.call(calls.vocative(form, random), random), *pairs])


def with_history(window: ParallelDocument, translation: list[str], random: Random) -> ParallelDocument:
    """Replace some target sentences by translations that are read and have no loss."""
    targets = [
        f"{HISTORY} {translated}" if translated and random.random() < HISTORY_SHARE else target
        for target, translated in zip(window.target, translation, strict=True)
    ]
    return ParallelDocument(window.source, targets)


def translated(windows: list[ParallelDocument], random: Random) -> Iterator[ParallelDocument]:
    """Yield windows with translations as history in a share of them."""
    chosen = [window for window in windows if random.random() < HISTORY_SHARE]
    translations = Translator.load(beam=1).translate_documents(window.source for window in chosen)
    with Progress("translating windows", unit="windows") as progress:
        for window, translation in zip(chosen, translations, strict=True):
            progress.advance(1)
            yield with_history(window, translation, random)
    left = {id(window) for window in chosen}
    yield from (window for window in windows if id(window) not in left)


def main(data: Path, folder: Path) -> None:
    """Sample, shuffle and write."""
    random = Random(9)
    calls = calls_of(data, folder)
    generated = read_parallel(folder / "generated" / "train.en", folder / "generated" / "train.de")
    first = slice(GENERATED_SENTENCES)
    mix = [ParallelDocument(d.source[first], d.target[first]) for d in islice(generated, GENERATED)]
    spliced = {
        name: list(read_parallel(folder / kind / f"{name}.en", folder / kind / f"{name}.de"))
        for name, kind in {"pronouns": "spliced", "address": "address", "terms": "spliced"}.items()
    }
    for name, count in SPLICED.items():
        mix += random.sample(spliced[name], min(count, len(spliced[name])))
    mix += [with_call(document, calls, random) for document in random.sample(spliced["address"], CALLED_SPLICED)]
    found = list(passages(folder / "pronouns.jsonl", random))
    mix += random.sample(found, min(PASSAGES, len(found)))
    mix += islice(letters(spliced["address"], spliced["pronouns"], random), LETTERS)
    real: list[ParallelDocument] = []
    between: Pairs = []
    for name, count in REAL.items():
        corpus = list(read_parallel(data / name / "train.en.xz", data / name / "train.de.xz"))
        for size in WINDOWS:
            found = [window for document in corpus for window in windows(document, random, size)]
            real += favoured_sample(found, count // len(WINDOWS), random)
        short = [window for document in corpus for window in windows(document, random, SHORT_WINDOW)]
        random.shuffle(short)
        threaded = (with_threads(window, random.sample(spliced["pronouns"], THREADS), random) for window in short)
        mix += islice((document for document in threaded if document is not None), THREADED[name])
        if name in SPOKEN:
            between += fillers(corpus)
    mix += map(document_of, islice(calls.documents(between, random), CALLED))
    mix += translated(real, random)
    random.shuffle(mix)
    write_parallel(folder / "documents.en", folder / "documents.de", mix)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
