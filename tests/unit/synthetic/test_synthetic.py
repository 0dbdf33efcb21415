"""Synthetic documents: the German agrees, the suite is exactly balanced, the stated distances are right."""

import json
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tram.data.corpus import read_parallel
from tram.errors import InputError
from tram.synthetic import SyntheticItem, generate, suite, write_folder
from tram.synthetic.grammar import GENDERS, Frame, Word, choose_answer, fill, inflect
from tram.synthetic.lexicon import ALL_THINGS, AMBIGUOUS, ANIMALS, FILLERS, JOBS, TERMS, THINGS
from tram.synthetic.threads import SplitName

SPLITS: tuple[SplitName, ...] = ("train", "dev", "test")
SEEDS = st.integers(0, 10**9)
ANSWERS = {"pronoun": 3, "possessive": 2, "address": 2, "speaker": 2, "sense": 2, "term": 2}

# How a reader recognises the deciding sentences, written independently of the frames.
ANNOUNCED = re.compile(
    r"(?:Today we are talking about|Now we come to|The next story is about|Our next topic is"
    r"|Let us now look at|Our topic is now) (?:a|an) (?:very special )?(?P<noun>[\w ]+)\."
)
TOPIC = r"This chapter is about|gave a talk on|We saw a film about|I know a lot about|is interested in"
INTRODUCED = re.compile(r"My name is (\w+)\.|I am ([A-Z]\w+)\.|This is (\w+) speaking\.|Everyone calls me (\w+)\.")
GREETED = re.compile(
    r"(?:Hello|Good morning|Good evening|Welcome|Thank you for the visit|Happy birthday), (?P<who>.+)\."
)
OPENINGS = {
    "pronoun": ANNOUNCED,
    "possessive": ANNOUNCED,
    "address": GREETED,
    "speaker": INTRODUCED,
    "sense": re.compile(TOPIC),
    "term": re.compile(r"There (?:is|was) an? |The film begins with|has drawn|told us about|I am writing about"),
}


@pytest.fixture(scope="module")
def items() -> list[SyntheticItem]:
    return list(suite(seed=5, items_per_cell=24, distances=(1, 2, 7, 30)))


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def groups(items: list[SyntheticItem]) -> list[list[SyntheticItem]]:
    found = defaultdict(list)
    for item in items:
        found[item.group].append(item)
    return list(found.values())


# The German.


@pytest.mark.parametrize(
    ("noun", "nominative", "accusative", "dative"),
    [
        ("table", "der alte Tisch", "einen alten Tisch", "meinem alten Tisch"),
        ("umbrella", "der alte Regenschirm", "einen alten Regenschirm", "meinem alten Regenschirm"),
        ("hammer", "der alte Hammer", "einen alten Hammer", "meinem alten Hammer"),
        ("clock", "die alte Uhr", "eine alte Uhr", "meiner alten Uhr"),
        ("axe", "die alte Axt", "eine alte Axt", "meiner alten Axt"),
        ("fork", "die alte Gabel", "eine alte Gabel", "meiner alten Gabel"),
        ("knife", "das alte Messer", "ein altes Messer", "meinem alten Messer"),
        ("shelf", "das alte Regal", "ein altes Regal", "meinem alten Regal"),
        ("barrel", "das alte Fass", "ein altes Fass", "meinem alten Fass"),
    ],
)
def test_articles_and_adjectives_agree_with_the_noun(noun: str, nominative: str, accusative: str, dative: str) -> None:
    word = next(word for word in ALL_THINGS if word.source == noun)
    frame = Frame("-", "{der alte x}, {einen alten x}, {meinem alten x}")
    assert fill(frame, {"x": word}).target == f"D{nominative[1:]}, {accusative}, {dative}"


@pytest.mark.parametrize(
    ("masculine", "feminine", "neuter"),
    [
        ("der", "die", "das"),
        ("den", "die", "das"),
        ("dem", "der", "dem"),
        ("ein", "eine", "ein"),
        ("keinen", "keine", "kein"),
        ("einem", "einer", "einem"),
        ("Ihren", "Ihre", "Ihr"),
        ("Dein", "Deine", "Dein"),
        ("unser", "unsere", "unser"),
        ("diesen", "diese", "dieses"),
        ("ein ganz besonderer", "eine ganz besondere", "ein ganz besonderes"),
        ("den großen", "die große", "das große"),
        ("dem neuen", "der neuen", "dem neuen"),
    ],
)
def test_determiners_are_inflected_from_the_masculine(masculine: str, feminine: str, neuter: str) -> None:
    assert [inflect(masculine, gender) for gender in GENDERS] == [masculine, feminine, neuter]


def test_an_unknown_determiner_is_refused() -> None:
    with pytest.raises(ValueError, match="welchen"):
        inflect("welchen", "f")


@pytest.mark.parametrize(("noun", "said"), [("oven", "an oven"), ("table", "a table"), ("umbrella", "an umbrella")])
def test_english_article_goes_by_the_sound(noun: str, said: str) -> None:
    assert fill(Frame("I see {a x}.", ""), {"x": Word(noun, "")}).source == f"I see {said}."


def test_the_same_answer_is_chosen_everywhere() -> None:
    assert choose_answer("<er|sie> kommt und <er|sie> bleibt.", 1) == "Sie kommt und sie bleibt."


def test_every_noun_has_one_entry_and_the_genders_are_equally_frequent() -> None:
    nouns = [*ALL_THINGS, *ANIMALS, *(term for term, _ in TERMS), *JOBS, *(noun.word for noun in AMBIGUOUS)]
    assert len({word.source for word in nouns}) == len(nouns)
    targets = [target for word in nouns for target in word.target.strip("<>").split("|")]
    assert len(set(targets)) == len(targets)
    assert all(target[0].isupper() for target in targets)
    assert {len(things) for things in THINGS.values()} == {36}
    topics = [topic.source for noun in AMBIGUOUS for topic in noun.topics]
    assert len(set(topics)) == len(topics)


# The documents.


@settings(max_examples=25, deadline=None)
@given(
    seed=SEEDS,
    split=st.sampled_from(SPLITS),
    distances=st.sampled_from((None, (3,), (1, 12))),
)
def test_documents_are_well_formed(seed: int, split: SplitName, distances: tuple[int, ...] | None) -> None:
    for document in generate(seed, 3, distances, split=split):
        assert len(document.source) == len(document.target) >= 10
        for sentence in (*document.source, *document.target):
            assert re.fullmatch(r"[A-ZÄÖÜ][\w ,']+[.?]", sentence), sentence
            assert not re.search(r"  | [.,?]", sentence)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_the_seed_decides_everything(seed: int) -> None:
    assert list(generate(seed, 4)) == list(generate(seed, 4))
    assert list(suite(seed, 2, (2,))) == list(suite(seed, 2, (2,)))


def test_more_documents_do_not_change_the_first_ones() -> None:
    assert list(generate(3, 5)) == list(generate(3, 9))[:5]


def test_seeds_and_splits_share_no_document() -> None:
    texts = [
        tuple(document.source) for seed in (1, 2) for split in SPLITS for document in generate(seed, 150, split=split)
    ]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("bounds", [(10, 40), (2, 2), (60, 61)])
def test_documents_have_the_requested_length(bounds: tuple[int, int]) -> None:
    assert all(bounds[0] <= len(document.source) <= bounds[1] for document in generate(1, 40, sentences=bounds))


@pytest.mark.parametrize("distance", [1, 4, 60])
def test_pronouns_occur_only_at_the_given_distance(distance: int) -> None:
    found = 0
    for document in generate(8, 30, (distance,)):
        announced = None
        for position, sentence in enumerate(document.source):
            if ANNOUNCED.fullmatch(sentence):
                announced = position
            if re.search(r"\bits?\b", sentence, re.I):
                found += 1
                assert announced == position - distance
    assert found > 10


def test_only_the_requested_phenomena_occur() -> None:
    pronouns = [sentence for document in generate(9, 40, phenomena=("pronoun",)) for sentence in document.source]
    assert sum(bool(re.search(r"\bit\b", sentence, re.I)) for sentence in pronouns) > 100
    assert not any(
        GREETED.fullmatch(sentence) or re.search(r"\b(its|your?)\b", sentence, re.I) for sentence in pronouns
    )


def test_it_follows_the_thing_announced_last() -> None:
    """The stated rule, applied with a list of genders, is never wrong."""
    gender = {word.source: word.gender for word in ALL_THINGS}
    said = {"m": {"er", "ihn"}, "f": {"sie"}, "n": {"es"}}
    for document in generate(11, 100):
        noun = ""
        for source, target in zip(document.source, document.target, strict=True):
            if match := ANNOUNCED.fullmatch(source):
                noun = match["noun"]
            elif re.search(r"\bit\b", source, re.I):
                assert {word.lower() for word in words(target)} & {"er", "ihn", "sie", "es"} <= said[gender[noun]]
            elif re.search(r"\bits\b", source, re.I):
                assert bool(re.search(r"\b(sein|ihr)", target, re.I))
                assert bool(re.search(r"\bihr", target, re.I)) == (gender[noun] == "f")


def test_you_follows_whoever_was_greeted_last() -> None:
    for document in generate(12, 100):
        formal = False
        for source, target in zip(document.source, document.target, strict=True):
            if match := GREETED.fullmatch(source):
                formal = " " in match["who"]
            elif re.search(r"\byour?\b", source, re.I):
                assert bool(re.search(r"\b(Sie|Ihnen|Ihr(e|en)?)\b", target)) == formal
                assert bool(re.search(r"\b(du|dir|dich|deine?n?)\b", target, re.I)) != formal


def test_half_of_the_sentences_need_context() -> None:
    patterns = [*(word.source for word in JOBS), *(noun.word.source for noun in AMBIGUOUS), "its?", "your?"]
    terms = [f"the {term.source}" for term, _ in TERMS]
    asked = re.compile(rf"\b({'|'.join(patterns + terms)})\b", re.I)
    sentences = [sentence for document in generate(13, 200) for sentence in document.source]
    assert 0.45 < sum(bool(asked.search(sentence)) for sentence in sentences) / len(sentences) < 0.6


def test_training_has_all_answers_about_equally_often() -> None:
    gender = {"er": "m", "ihn": "m", "sie": "f", "es": "n"}
    pronouns: Counter[str] = Counter()
    possessives: Counter[bool] = Counter()
    women: Counter[bool] = Counter()
    jobs = [job for word in JOBS for job in word.target.strip("<>").split("|")]
    for document in generate(13, 600):
        for source, target in zip(document.source, document.target, strict=True):
            if re.search(r"\bit\b", source, re.I):
                pronouns.update(gender[word.lower()] for word in words(target) if word.lower() in gender)
            elif re.search(r"\bits\b", source, re.I):
                possessives[bool(re.search(r"\bihr", target, re.I))] += 1
            elif any(job in words(target) for job in jobs):
                women[any(job in words(target) for job in jobs if job.endswith("in"))] += 1
    assert set(pronouns) == {"m", "f", "n"}
    for counts in (pronouns, possessives, women):
        assert max(counts.values()) < 1.25 * min(counts.values())


def test_the_test_split_has_only_new_combinations() -> None:
    """No test sentence about a noun occurs in training, though every noun does; openings are free."""
    nouns = [*ALL_THINGS, *ANIMALS, *(term for term, _ in TERMS), *JOBS, *(noun.word for noun in AMBIGUOUS)]
    about = re.compile(rf"\b({'|'.join(word.source for word in nouns)})\b")

    def sentences(split: SplitName, documents: int) -> set[str]:
        made = generate(14, documents, split=split)
        free = OPENINGS.values()
        return {
            sentence
            for document in made
            for sentence in document.source
            if about.search(sentence) and not any(opening.search(sentence) for opening in free)
        }

    test, train = sentences("test", 100), sentences("train", 1000)
    assert len(test) > 500
    assert not test & train
    assert {match[1] for sentence in train for match in about.finditer(sentence)} == {word.source for word in nouns}


def test_the_test_split_has_questions_that_training_does_not() -> None:
    slots = {word.source: slot for slot, filler in FILLERS.items() for word in filler if slot != "thing2"}
    any_filler = re.compile(rf"\b({'|'.join(sorted(slots, key=len, reverse=True))})\b")

    def combinations(split: SplitName, documents: int) -> set[tuple[str, str]]:
        found = set()
        for document in generate(15, documents, split=split):
            noun = ""
            for sentence in document.source:
                if match := ANNOUNCED.fullmatch(sentence):
                    noun = match["noun"]
                elif re.search(r"\bits?\b", sentence, re.I):
                    found.add((noun, any_filler.sub("_", sentence)))
        return found

    test, train = combinations("test", 100), combinations("train", 1000)
    assert len(test) > 100
    assert not test & train
    assert {sentence for _, sentence in test} <= {sentence for _, sentence in train}


# The suite.


def test_variants_differ_in_the_deciding_words_only(items: list[SyntheticItem]) -> None:
    most = {"pronoun": 1, "possessive": 1, "address": 2, "speaker": 1, "sense": 1, "term": 2}
    for item in items:
        variants = [item.reference, *item.contrastive]
        assert len(set(variants)) == ANSWERS[item.phenomenon]
        for variant in item.contrastive:
            left, right = words(item.reference), words(variant)
            assert len(left) == len(right)
            assert 1 <= sum(a != b for a, b in zip(left, right, strict=True)) <= most[item.phenomenon]


def test_verbs_and_possessives_agree_with_the_address() -> None:
    verbs = {"hast": "haben", "brauchst": "brauchen", "kannst": "können", "bekommst": "bekommen", "kennst": "kennen"}
    pronouns = {"du": "Sie", "dir": "Ihnen", "dich": "Sie"}
    possessives = {"dein": "Ihr", "deine": "Ihre", "deinen": "Ihren"}
    seen: set[str] = set()
    for informal, formal in pairwise(suite(6, 600, (1,), ("address",))):
        if informal.group == formal.group:
            pairs = zip(words(informal.reference), words(formal.reference), strict=True)
            differing = {left.lower(): right for left, right in pairs if left != right}
            for left, right in differing.items():
                assert right.lower() == verbs[left] if left in verbs else right == (pronouns | possessives)[left]
            assert bool(differing.keys() & verbs) == ("du" in differing)
            seen |= differing.keys()
    assert seen == verbs.keys() | pronouns.keys() | possessives.keys()


def test_each_source_sentence_has_each_answer_equally_often(items: list[SyntheticItem]) -> None:
    references: dict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        references[item.phenomenon, item.distance, item.source][item.reference] += 1
    for (phenomenon, _, _), counts in references.items():
        assert len(counts) == ANSWERS[phenomenon]
        assert len(set(counts.values())) == 1


def test_a_group_shares_all_but_the_deciding_sentence(items: list[SyntheticItem]) -> None:
    for group in groups(items):
        assert {item.source for item in group} == {group[0].source}
        assert {frozenset([item.reference, *item.contrastive]) for item in group} == {
            frozenset([group[0].reference, *group[0].contrastive])
        }
        for left, right in pairwise(group):
            place = len(left.target_context) - left.distance
            differing = [
                position
                for position, (a, b) in enumerate(zip(left.target_context, right.target_context, strict=True))
                if a != b
            ]
            assert differing == [place]
            same = [a == b for a, b in zip(left.source_context, right.source_context, strict=True)]
            assert same[place] == (left.phenomenon == "term")
            assert all(same[:place] + same[place + 1 :])


def test_the_distance_is_to_the_last_sentence_that_decides(items: list[SyntheticItem]) -> None:
    for item in items:
        context = item.source_context
        assert OPENINGS[item.phenomenon].search(context[-item.distance])
        if item.phenomenon in ("pronoun", "possessive", "address", "speaker"):
            later = context[len(context) - item.distance + 1 :]
            assert not any(OPENINGS[item.phenomenon].fullmatch(sentence) for sentence in later)


def test_nothing_in_between_reveals_the_answer(items: list[SyntheticItem]) -> None:
    patterns = {
        "pronoun": r"\b[Ii]ts?\b",
        "possessive": r"\b[Ii]ts?\b",
        "address": r"\b[Yy]our?\b",
        "speaker": "|".join(word.source for word in JOBS),
    }
    for item in items:
        subject = next((noun for noun in _subjects(item.phenomenon) if noun in words(item.source)), None)
        pattern = patterns.get(item.phenomenon) or rf"\b{subject}\b"
        between = item.source_context[len(item.source_context) - item.distance + 1 :]
        assert not any(re.search(pattern, sentence) for sentence in between)


def _subjects(phenomenon: str) -> list[str]:
    if phenomenon == "term":
        return [term.source for term, _ in TERMS]
    return [noun.word.source for noun in AMBIGUOUS]


def test_terms_are_copied_from_the_first_mention(items: list[SyntheticItem]) -> None:
    nouns = {word.target for term in TERMS for word in term}
    for item in items:
        if item.phenomenon == "term":
            (first,) = nouns & set(words(item.target_context[-item.distance]))
            (answer,) = nouns & set(words(item.reference))
            (wrong,) = nouns & set(words(item.contrastive[0]))
            assert answer == first != wrong


def test_distractors_of_other_genders_occur_in_between(items: list[SyntheticItem]) -> None:
    gender = {word.source: word.gender for word in (*ALL_THINGS, *ANIMALS)}
    far = [item for item in items if item.phenomenon == "pronoun" and item.distance == 30]
    for item in far:
        text = " ".join(item.source_context[-29:])
        assert len({gender[word] for word in words(text) if word in gender}) >= 2


def test_cells_are_filled_up_to_whole_groups() -> None:
    counts = Counter((item.phenomenon, item.distance) for item in suite(1, 4, (1, 9), ("pronoun", "sense")))
    assert counts == {("pronoun", 1): 6, ("pronoun", 9): 6, ("sense", 1): 4, ("sense", 9): 4}


# The folder.


def test_the_folder_contains_documents_suite_and_description(tmp_path: Path) -> None:
    out = tmp_path / "synthetic"
    write_folder(out, documents=40, distance=5, seed=3, items_per_cell=6)
    expected = {f"{split}.{side}" for split in SPLITS for side in ("en", "de")}
    assert {path.name for path in out.iterdir()} == expected | {"suite.jsonl", "README.md"}
    read = list(read_parallel(out / "train.en", out / "train.de"))
    made = list(generate(3, 40, (5,)))
    assert [(pair.source, pair.target) for pair in read] == [(pair.source, pair.target) for pair in made]
    lines = [json.loads(line) for line in (out / "suite.jsonl").read_text(encoding="utf-8").splitlines()]
    fields = {
        "source_context",
        "target_context",
        "source",
        "reference",
        "contrastive",
        "phenomenon",
        "distance",
    }
    assert all(set(line) == fields for line in lines)
    assert {line["distance"] for line in lines} == {5}
    assert Counter(line["phenomenon"] for line in lines) == dict.fromkeys(ANSWERS, 6)
    assert "seed 3" in (out / "README.md").read_text(encoding="utf-8")


def test_a_folder_of_some_phenomena_has_no_other_ones(tmp_path: Path) -> None:
    """Neither in its documents nor in its suite, where sentences of other phenomena would be between two sentences."""
    names = ("pronoun", "term")
    write_folder(tmp_path, documents=20, seed=3, items_per_cell=6, phenomena=names)
    read = list(read_parallel(tmp_path / "train.en", tmp_path / "train.de"))
    assert [pair.source for pair in read] == [pair.source for pair in generate(3, 20, phenomena=names)]
    items = [json.loads(line) for line in (tmp_path / "suite.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {item["phenomenon"] for item in items} == set(names)
    between = {sentence for item in items for sentence in item["source_context"]}
    assert len(between) > 100
    assert not any(sentence.startswith(("Hello", "My name")) for sentence in between)


def test_writing_twice_results_in_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_folder(tmp_path / name, documents=3, distance=2, items_per_cell=2)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


# Bad input.


@pytest.mark.parametrize("distances", [(), (0,), (3, -1)])
def test_impossible_distances_are_refused(distances: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="distances="):
        generate(1, 1, distances)
    with pytest.raises(InputError, match="distances="):
        suite(1, 1, distances)


@pytest.mark.parametrize("bounds", [(1, 5), (9, 8)])
def test_impossible_lengths_are_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(InputError, match="sentences="):
        generate(1, 1, sentences=bounds)


def test_an_unknown_phenomenon_is_refused() -> None:
    with pytest.raises(InputError, match=r"'gender' is not known: choose from pronoun"):
        suite(1, 1, phenomena=("gender",))
    with pytest.raises(InputError, match=r"'gender' is not known"):
        generate(1, 1, phenomena=("pronoun", "gender"))


def test_bad_settings_leave_no_file_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="documents=0"):
        write_folder(tmp_path / "out", documents=0)
    with pytest.raises(InputError, match="distances="):
        write_folder(tmp_path / "out", documents=1, distance=0)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("taken")
    with pytest.raises(InputError, match="out"):
        write_folder(tmp_path / "out", documents=1, distance=1, items_per_cell=2)
