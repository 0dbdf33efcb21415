"""Spliced documents: every one keeps its law, nothing held out gets in, and the command refuses bad input.

The corpus is made up: nouns of all genders, sentences with "it", both forms of address, a term with two translations.
"""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Done, contents, refused
from tram.data.corpus import ParallelDocument, read_parallel, write_parallel
from tram.splice.address import AddressDocuments, AddressSentences
from tram.splice.bystanders import Bystanders
from tram.splice.folder import write_folder
from tram.splice.words import Pair
from tram.text.held_out import held_out_noun, held_out_sentence

THINGS = {  # source noun: target noun, its article, accusative article, gender
    "parcel": ("Paket", "Das", "das", "n"),
    "lamp": ("Lampe", "Die", "die", "f"),
    "key": ("Schlüssel", "Der", "den", "m"),
    "bridge": ("Brücke", "Die", "die", "f"),
    "window": ("Fenster", "Das", "das", "n"),
    "letter": ("Brief", "Der", "den", "m"),
    "door": ("Tür", "Die", "die", "f"),
    "table": ("Tisch", "Der", "den", "m"),
    "book": ("Buch", "Das", "das", "n"),
    "clock": ("Uhr", "Die", "die", "f"),
    "ship": ("Schiff", "Das", "das", "n"),
    "hat": ("Hut", "Der", "den", "m"),
}
STATES = {"heavy": "schwer", "old": "alt", "new": "neu", "green": "grün", "small": "klein", "cold": "kalt"}
ITS = {
    "It is on the stairs.": "Er liegt auf der Treppe.",
    "It was very expensive.": "Sie war sehr teuer.",
    "It has two holes.": "Er hat zwei Löcher.",
    "We must repair it.": "Wir müssen ihn reparieren.",
    "I have seen it today.": "Ich habe sie heute gesehen.",
    "It is still in use.": "Sie wird noch benutzt.",
    "Its colour is nice.": "Seine Farbe ist schön.",
    "It belongs to us.": "Er gehört uns.",
    "It works without power.": "Sie läuft ohne Strom.",
    "It stands in the corner.": "Er steht in der Ecke.",
}
DU = {
    "Where are you now?": "Wo bist du jetzt?",
    "I will help you.": "Ich werde dir helfen.",
    "Your coat is wet.": "Dein Mantel ist nass.",
    "You know the way.": "Du kennst den Weg.",
    "Can you see me?": "Kannst du mich sehen?",
    "I saw you there.": "Ich habe dich dort gesehen.",
    "You are late, my friend.": "Du bist spät dran, mein Freund.",
}
SIE = {
    "Where are you going?": "Wohin gehen Sie?",
    "I can help you.": "Ich kann Ihnen helfen.",
    "Your coat is dry.": "Dort ist Ihr Mantel.",
    "Do you know the city?": "Kennen Sie die Stadt?",
    "Can you hear me?": "Können Sie mich hören?",
    "I heard you there.": "Ich habe Sie dort gehört.",
    "Mr Brown, you are late.": "Herr Brown, Sie kommen zu spät.",
}
NEUTRAL = {
    "I think so.": "Ich glaube schon.",
    "We have to go now.": "Wir müssen jetzt gehen.",
    "I was very tired.": "Ich war sehr müde.",
    "We were all happy.": "Wir waren alle froh.",
}
PASSWORDS = {
    "Type the password in field {}.": "Bei {} steht ein {}.",
    "We lost our password on day {}.": "Als {} war, verloren wir unser {}.",
    "This password has {} letters.": "Auf {} kommt das {} hier.",
}


def pairs() -> dict[str, str]:
    """Return every sentence with its translation."""
    result: dict[str, str] = {}
    for noun, (target, article, accusative, _) in THINGS.items():
        for state, translated in STATES.items():
            result[f"The {noun} is {state}."] = f"{article} {target} ist {translated}."
        result[f"I have the {noun}."] = f"Ich habe {accusative} {target}."
        for number in range(4):  # determiners that tell the gender
            dative = "von der" if article == "Die" else "von dem"
            strong = {"Die": "eine", "Das": "durch das", "Der": "für den"}[article]
            result[f"More about the {noun}, part {number}"] = (
                f"Mehr {dative} {target} und {strong} {target}, Teil {number}"
            )
    for number in range(12):
        word = "Kennwort" if number % 2 else "Passwort"
        for source, target in PASSWORDS.items():
            result[source.format(number)] = target.format(number, word)
    for number in range(2000):  # so that no term is among the most frequent words
        result[f"We counted {number} birds."] = f"Wir zählten {number} Vögel."
    for more in (ITS, DU, SIE, NEUTRAL):
        result |= more
    return result


def write_corpus(folder: Path) -> tuple[Path, Path]:
    """Write the corpus as one pair of files."""
    found = pairs()
    documents = [ParallelDocument([source], [target]) for source, target in found.items()]
    write_parallel(folder / "train.en", folder / "train.de", documents)
    return folder / "train.en", folder / "train.de"


@pytest.fixture(scope="module")
def corpus_pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def spliced(corpus_pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("spliced")
    write_folder(out, [corpus_pair], {"pronouns": 300, "address": 100, "terms": 100}, seed=3)
    return out


def documents(folder: Path, name: str) -> list[ParallelDocument]:
    return list(read_parallel(folder / f"{name}.en", folder / f"{name}.de"))


PRONOUNS = {"m": {"er", "ihn", "ihm", "sein"}, "f": {"sie", "ihr"}, "n": {"es", "ihm", "sein"}}
FORMS = {"V": r"\b(Sie|Ihnen|Ihr)\b", "T": r"\b([Dd]u|[Dd]ir|[Dd]ich|[Dd]ein)\b"}
GENDER = {target: gender for target, _, _, gender in THINGS.values()}


def pronoun_of(sentence: str) -> str:
    """The pronoun of the third person in a sentence, without the ending of a possessive."""
    words = [word.lower() for word in re.findall(r"\w+", sentence)]
    found = [word for word in words if re.fullmatch(r"er|sie|es|ih[nm]|(sein|ihr)(e[mnrs]?)?", word)]
    assert len(found) == 1, sentence
    return re.sub(r"^(sein|ihr)e[mnrs]?$", r"\1", found[0])


def test_every_pronoun_agrees_with_the_last_noun_brought_up(spliced: Path) -> None:
    genders: Counter[str] = Counter()
    for document in documents(spliced, "pronouns"):
        gender = None
        for source, target in zip(document.source, document.target, strict=True):
            if re.search(r"\bit(s)?\b", source, re.IGNORECASE):
                assert gender is not None, document
                assert pronoun_of(target) in PRONOUNS[gender], document
                genders[gender] += 1
            elif found := [noun for noun in re.findall(r"\w+", target) if noun in GENDER]:
                gender = GENDER[found[0]]
    assert min(genders.values()) > 0.25 * genders.total()


def test_the_same_sentence_has_pronouns_of_all_genders(spliced: Path) -> None:
    seen: dict[str, set[str]] = {}
    for document in documents(spliced, "pronouns"):
        for source, target in zip(document.source, document.target, strict=True):
            if source.startswith("It "):
                seen.setdefault(source, set()).add(target.split()[0])
    assert {frozenset(words) for words in seen.values()} == {frozenset({"Er", "Sie", "Es"})}


def test_a_document_addresses_in_one_form(spliced: Path) -> None:
    forms: Counter[str] = Counter()
    for document in documents(spliced, "address"):
        marked = [form for line in document.target for form, words in FORMS.items() if re.search(words, line)]
        assert len(set(marked)) == 1, document
        forms[marked[0]] += 1
        assert all(pairs()[source] == target for source, target in zip(document.source, document.target, strict=True))
    assert min(forms.values()) > 0.3 * forms.total()


def test_a_document_keeps_to_one_translation_of_a_term(spliced: Path) -> None:
    chosen: Counter[str] = Counter()
    for document in documents(spliced, "terms"):
        words = [re.findall(r"Kennwort|Passwort", line) for line in document.target]
        used = {word for found in words for word in found}
        assert len(used) == 1, document
        assert sum(map(bool, words)) > 1
        chosen.update(used)
    assert set(chosen) == {"Kennwort", "Passwort"}


def test_nothing_held_out_is_used(spliced: Path) -> None:
    nouns = {
        noun
        for document in documents(spliced, "pronouns")
        for line in document.target
        for noun in GENDER
        if re.search(rf"\b{noun}\b", line)
    }
    lines = {line for document in documents(spliced, "pronouns") for line in document.source if re.match("It ", line)}
    assert any(map(held_out_noun, GENDER)), "some nouns of the test are held out"
    assert any(map(held_out_sentence, ITS)), "some sentences of the test are held out"
    assert not any(map(held_out_noun, nouns))
    assert not any(map(held_out_sentence, lines))


def test_train_has_all_kinds_and_counts_say_so(spliced: Path) -> None:
    counts = json.loads((spliced / "counts.json").read_text())["documents"]
    kinds = [documents(spliced, kind) for kind in ("pronouns", "address", "terms")]
    train = documents(spliced, "train")
    assert Counter(tuple(d.source) for d in train) == Counter(tuple(d.source) for kind in kinds for d in kind)
    assert [counts[kind]["documents"] for kind in ("pronouns", "address", "terms")] == [len(kind) for kind in kinds]
    assert f"| train | {len(train)} |" in (spliced / "README.md").read_text()


def test_a_seed_determines_the_documents(corpus_pair: tuple[Path, Path], spliced: Path, tmp_path: Path) -> None:
    wanted = {"pronouns": 300, "address": 100, "terms": 100}
    write_folder(tmp_path / "same", [corpus_pair], wanted, seed=3)  # type: ignore[arg-type]
    write_folder(tmp_path / "other", [corpus_pair], wanted, seed=4)  # type: ignore[arg-type]
    assert contents(tmp_path / "same") == contents(spliced)
    assert contents(tmp_path / "other")["pronouns.de"] != contents(spliced)["pronouns.de"]


def test_without_replacement_only_real_sentences_have_it(corpus_pair: tuple[Path, Path], tmp_path: Path) -> None:
    write_folder(tmp_path, [corpus_pair], {"pronouns": 100}, replaced=0)
    lines = {line for document in documents(tmp_path, "pronouns") for line in document.source}
    assert all(line in ITS for line in lines if re.match("It ", line))


def test_the_command_writes_what_it_says(
    tram: Callable[..., Done], corpus_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    done = tram(
        "splice", tmp_path / "out", "--train", *corpus_pair, "--kinds", "pronouns=20,address", "--documents", 10
    )
    assert done.code == 0, done.err
    assert "pronouns: 20 documents" in done.out
    assert "address: 10 documents" in done.out
    assert len(documents(tmp_path / "out", "train")) == 30


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kinds", "verbs"], ["verbs", "pronouns"]),
        (["--kinds", "pronouns=many"], ["many"]),
        (["--kinds", "pronouns=0"], ["0"]),
        (["--target-language", "xx"], ["xx", "de"]),
        (["--format", "odd"], ["odd"]),
    ],
)
def test_the_command_refuses_bad_options(
    arguments: list[str], words: list[str], tram: Callable[..., Done], corpus_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    refused(tram("splice", tmp_path / "out", "--train", *corpus_pair, *arguments), *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["pronouns", "address", "terms"])
def test_a_corpus_without_material_is_refused(kind: str, tram: Callable[..., Done], tmp_path: Path) -> None:
    pair = (tmp_path / "a.en", tmp_path / "a.de")
    write_parallel(*pair, [ParallelDocument(["Nothing to see here."], ["Hier ist nichts zu sehen."])])
    refused(tram("splice", tmp_path / "out", "--train", *pair, "--kinds", kind), kind, "give more text")


def test_nouns_without_a_sentence_with_it_are_refused(tram: Callable[..., Done], tmp_path: Path) -> None:
    pair = (tmp_path / "a.en", tmp_path / "a.de")
    rest = [ParallelDocument([source], [target]) for source, target in pairs().items() if source not in ITS]
    write_parallel(*pair, rest)
    arguments = ("splice", tmp_path / "out", "--train", *pair, "--kinds", "pronouns=20")
    refused(tram(*arguments, "--replaced", 0), "it", "give more text")
    assert tram(*arguments).code == 0, "noun phrases can be replaced"


def test_files_that_do_not_fit_are_refused(tram: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("One.\nTwo.\n")
    (tmp_path / "a.de").write_text("Eins.\n")
    refused(tram("splice", tmp_path / "out", "--train", tmp_path / "a.en", tmp_path / "a.de"), "a.en", "a.de")
    refused(tram("splice", tmp_path / "out", "--train", tmp_path / "none.en", tmp_path / "none.de"), "none.en")


def test_a_file_in_place_of_the_folder_is_kept(
    tram: Callable[..., Done], corpus_pair: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "out").write_text("mine")
    refused(tram("splice", tmp_path / "out", "--train", *corpus_pair), "out", "folder")
    assert (tmp_path / "out").read_text() == "mine"


def test_one_person_is_not_called_where_several_are_addressed() -> None:
    one = [Pair(f"Do you see number {n}?", f"Siehst du Nummer {n}?", 0) for n in range(40)]
    several = [Pair(f"Do you all see number {n}?", f"Seht ihr Nummer {n}?", 0) for n in range(40)]
    polite = [Pair(f"Do you have number {n}?", f"Haben Sie Nummer {n}?", 0) for n in range(40)]
    call = Pair("Well done, brother.", "Gut gemacht, Bruder.", 0)
    sentences = AddressSentences({"T": one, "V": polite}, {"T": several}, {"T": [call]})
    made = list(AddressDocuments(sentences, Bystanders()).make(400, seed=1))
    plural = [document for document in made if any("all" in source for source in document.source)]
    assert any(call.source in document.source for document in made)
    assert plural
    assert not any(call.source in document.source for document in plural)
