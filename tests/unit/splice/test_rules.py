"""The rules of splicing on single pairs of sentences: what they accept, what they refuse, what they change."""

from collections import Counter

import pytest

from tram.errors import InputError
from tram.evaluation.language import Gender
from tram.splice.address import UNMARKED, AddressSentences, Forms, slips_case
from tram.splice.anaphors import Anaphor, find_anaphor, replace_noun
from tram.splice.antecedents import Antecedent, find_antecedent
from tram.splice.bystanders import Bystanders, lacks_referent
from tram.splice.dictionary import Dictionary
from tram.splice.genders import GenderLexicon, NounCounts, has_slip
from tram.splice.rules import Rules, load_rules
from tram.splice.words import Pair, Tokenized

LEXICON: dict[str, Gender] = {
    "Bericht": "m", "Liste": "f", "Haus": "n", "Kommission": "f", "Brief": "m", "Lampe": "f", "Pelz": "m",
}  # fmt: skip


@pytest.fixture(scope="module")
def rules() -> Rules:
    return load_rules("en", "de")


@pytest.fixture(scope="module")
def lexicon(rules: Rules) -> GenderLexicon:
    evidence = {noun: Counter({gender: 30}) for noun, gender in LEXICON.items()}
    verbs = {*rules.singular_verbs, "enthält", "zeigt"}
    return GenderLexicon(LEXICON, evidence, {"Minister"}, {"minister"}, ("mann",), verbs)


@pytest.fixture(scope="module")
def dictionary() -> Dictionary:
    found = Dictionary()
    words = {"report": "Bericht", "list": "Liste", "house": "Haus", "commission": "Kommission", "letter": "Brief"}
    for source, target in words.items():
        for number in range(5):
            found.add(tokens(f"x{number} {source}", f"x{number} {target}"))
    return found


def tokens(source: str, target: str) -> Tokenized:
    return Tokenized(Pair(source, target, 0))


def anaphor(source: str, target: str, rules: Rules) -> Anaphor:
    found = find_anaphor(tokens(source, target), rules)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("source", "target", "masculine", "feminine", "neuter"),
    [
        ("It is old.", "Sie ist alt.", "Er ist alt.", "Sie ist alt.", "Es ist alt."),
        ("But it is old.", "Er ist jedoch alt.", "Er ist jedoch alt.", "Sie ist jedoch alt.", "Es ist jedoch alt."),
        ("We must read it.", "Wir müssen ihn lesen.", "Wir müssen ihn lesen.", "Wir müssen sie lesen.",
         "Wir müssen es lesen."),
        ("I think it is good.", "Ich denke, dass sie gut ist.", "Ich denke, dass er gut ist.",
         "Ich denke, dass sie gut ist.", "Ich denke, dass es gut ist."),
        ("Its price is high.", "Ihr Preis ist hoch.", "Sein Preis ist hoch.", "Ihr Preis ist hoch.",
         "Sein Preis ist hoch."),
        ("It has its seat here.", "Er hat seinen Sitz hier.", "Er hat seinen Sitz hier.", "Sie hat ihren Sitz hier.",
         "Es hat seinen Sitz hier."),
        ("Did you read it?", "Haben Sie ihn gelesen?", "Haben Sie ihn gelesen?", "Haben Sie sie gelesen?",
         "Haben Sie es gelesen?"),
        ("We must help it.", "Wir müssen ihm helfen.", "Wir müssen ihm helfen.", "Wir müssen ihr helfen.",
         "Wir müssen ihm helfen."),
    ],
)  # fmt: skip
def test_pronouns_are_exchanged_for_those_of_another_gender(
    source: str, target: str, masculine: str, feminine: str, neuter: str, rules: Rules
) -> None:
    found = anaphor(source, target, rules)
    assert [found.target(gender, rules) for gender in ("m", "f", "n")] == [masculine, feminine, neuter]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It is raining.", "Es regnet."),  # may refer to nothing
        ("It is a good report.", "Er ist ein guter Bericht."),  # says what the thing is
        ("If the report is good, I will read it.", "Wenn der Bericht gut ist, lese ich ihn."),  # refers inside
        ("It is one of the best.", "Er ist einer der besten."),  # another word agrees
        ("It contains many files.", "Sie enthalten viele Dateien."),  # plural
        ("She has read it.", "Sie hat ihn gelesen."),  # a person
        ("In its report, the Council says no.", "In seinem Bericht sagt der Rat nein."),  # refers forward
        ("It is for it.", "Wir sind für ihn."),  # "für es" is not German
        ("Of course I know it.", "Natürlich weiß ich sie."),  # "weiß ihn" is wrong for most things
        ("You can open it.", "Sie können es öffnen."),
        ("It is hard, my way.", "Er ist schwer, mein Weg."),  # explained later
    ],
)
def test_sentences_whose_pronoun_could_be_wrong_are_left_out(source: str, target: str, rules: Rules) -> None:
    assert find_anaphor(tokens(source, target), rules) is None


@pytest.mark.parametrize(
    ("source", "target", "noun", "gender"),
    [
        ("The report is good.", "Der Bericht ist gut.", "Bericht", "m"),
        ("The new list shows all names.", "Die neue Liste zeigt alle Namen.", "Liste", "f"),
        ("Our house is old.", "Unser Haus ist alt.", "Haus", "n"),
        ("The price list is old.", "Die Preisliste ist alt.", "Preisliste", "f"),  # a compound
        ("We need a new report.", "Wir brauchen einen neuen Bericht.", "Bericht", "m"),
        ("That is a letter.", "Das ist ein Brief.", "Brief", "m"),
        ("The spoon is clean.", "Der Löffel ist sauber.", "Löffel", "m"),  # unknown, but its article shows it
    ],
)
def test_a_sentence_brings_up_a_thing(
    source: str, target: str, noun: str, gender: str, rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> None:
    found = find_antecedent(tokens(source, target), rules, lexicon, dictionary)
    assert found is not None
    assert (found.noun, found.gender) == (noun, gender)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("The minister is here.", "Der Minister ist hier."),  # a person
        ("The statesman is here.", "Der Staatsmann ist hier."),
        ("The lists are long.", "Die Listen sind lang."),  # plural
        ("The new lists are long.", "Die neue Liste ist lang."),  # plural in the source only
        ("The Commission must be helped.", "Der Kommission muss geholfen werden."),  # dative
        ("The truth is that we lost.", "Die Wahrheit ist, dass wir verloren haben."),  # no thing
        ("This report I must read.", "Diesen Bericht muss ich lesen."),
        ("We have a letter and a report.", "Wir haben einen Brief und einen Bericht."),  # two nouns
        ("The report is in his hand.", "Der Bericht ist in seiner Hand."),
        ("You are the house.", "Du bist das Haus."),
        ("Someone opened a house.", "Ein Haus wurde geöffnet."),  # the source's subject is another word
    ],
)
def test_sentences_without_a_sure_antecedent_are_left_out(
    source: str, target: str, rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> None:
    assert find_antecedent(tokens(source, target), rules, lexicon, dictionary) is None


def antecedent(source: str, target: str, rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary) -> Antecedent:
    found = find_antecedent(tokens(source, target), rules, lexicon, dictionary)
    assert found is not None
    return found


def test_a_pronoun_replaces_a_definite_noun_phrase(
    rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> None:
    found = replace_noun(
        antecedent("The new list is old.", "Die neue Liste ist alt.", rules, lexicon, dictionary), rules
    )
    assert found is not None
    assert found.pair.source == "It is old."
    assert [found.target(gender, rules) for gender in ("m", "f", "n")] == ["Er ist alt.", "Sie ist alt.", "Es ist alt."]


def test_a_pronoun_replaces_an_object_behind_the_verb(
    rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> None:
    found = replace_noun(antecedent("I read the letter.", "Ich lese den Brief.", rules, lexicon, dictionary), rules)
    assert found is not None
    assert (found.pair.source, found.target("f", rules)) == ("I read it.", "Ich lese sie.")


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("A list is long.", "Eine Liste ist lang."),  # new: "it" would refer to nothing
        ("The list is a help.", "Die Liste ist eine Hilfe."),  # "er ist eine Hilfe"
        ("I have today the letter.", "Ich habe heute den Brief."),  # "Ich habe heute ihn"
    ],
)
def test_noun_phrases_that_no_pronoun_can_replace(
    source: str, target: str, rules: Rules, lexicon: GenderLexicon, dictionary: Dictionary
) -> None:
    assert replace_noun(antecedent(source, target, rules, lexicon, dictionary), rules) is None


def test_genders_are_counted_from_determiners(rules: Rules) -> None:
    counts = NounCounts(rules)
    for _ in range(4):
        counts.add("x", "Ich sehe einen Wagen, eine Straße und das Tor mit dem Wagen an der Straße zum Tor.")
        counts.add("the driver who waits", "Die Fahrerin und der Fahrer mit einer Fahrerin")
        counts.add("x", "das Ding und der Ding")
    lexicon = counts.lexicon()
    assert [lexicon.gender(noun) for noun in ("Wagen", "Straße", "Tor")] == ["m", "f", "n"]
    assert lexicon.gender("Landstraße") == "f"
    assert lexicon.gender("Fahrer") is None
    assert lexicon.is_person("Fahrer")
    assert "driver" in lexicon.source_persons
    assert lexicon.gender("Unbekanntes") is None


@pytest.mark.parametrize(
    ("target", "slip"),
    [
        ("Das Pelz ist nass und kalt.", True),
        ("Der Pelz ist nass und kalt.", False),
        ("Ich sehe das neues Haus dort.", True),
        ("Ich sehe das neue Haus dort.", False),
        ("Ich bin mit einer Lampe dort.", False),
    ],
)
def test_wrong_articles_of_the_corpora_are_seen(target: str, slip: bool, rules: Rules, lexicon: GenderLexicon) -> None:
    assert has_slip(tokens("x", target), rules, lexicon) is slip


def test_a_sentence_that_breaks_off_or_doubles_its_article_is_seen(rules: Rules, lexicon: GenderLexicon) -> None:
    assert has_slip(tokens("I want a.", "Ich will ein."), rules, lexicon)
    assert has_slip(tokens("Enter the code.", "Geben Sie die den Code ein."), rules, lexicon)
    assert not has_slip(tokens("The rule, which the code has.", "Die Regel, die der Code hat."), rules, lexicon)


@pytest.mark.parametrize(
    ("source", "target", "lacking"),
    [
        ("We should not do that.", "Wir sollten diese nicht erwarten.", True),
        ("This also helps a lot.", "Die hilft auch sehr.", True),
        ("We should not expect these.", "Wir sollten diese nicht erwarten.", False),  # the source has several, too
        ("We need this list.", "Wir brauchen diese lange Liste.", False),
        ("The list helps a lot.", "Die Liste hilft sehr.", False),
    ],
)
def test_a_demonstrative_needs_what_it_refers_to(source: str, target: str, lacking: bool, rules: Rules) -> None:
    assert lacks_referent(tokens(source, target), rules) is lacking


@pytest.mark.parametrize(
    ("source", "target", "slip"),
    [
        ("You proved that you can do it not.", "Sie haben gezeigt, dass sie es nicht können.", False),  # "it": unsure
        ("You have proved that you are late.", "Sie haben gezeigt, dass sie zu spät kommen.", True),
        ("You know that they are late.", "Sie wissen, dass sie zu spät kommen.", False),
        ("They are late.", "Ich weiß, dass sie zu spät kommen.", False),
        ("You are late.", "Sie kommen zu spät.", False),
    ],
)
def test_a_polite_pronoun_in_lower_case_is_seen(source: str, target: str, slip: bool, rules: Rules) -> None:
    assert slips_case(tokens(source, target), rules) is slip


def test_no_aside_has_an_object_that_it_could_be(rules: Rules) -> None:
    bystanders = Bystanders()
    bystanders.add(tokens("We need my old lamp.", "Wir brauchen meine alte Lampe."), rules)
    bystanders.add(tokens("We were in the house.", "Wir waren in dem Haus."), rules)
    assert [pair.target for pair in bystanders.asides] == ["Wir waren in dem Haus."]
    assert len(bystanders.openers) == 2


def test_expletives_and_neutral_sentences_are_told_apart(rules: Rules) -> None:
    bystanders = Bystanders()
    bystanders.add(tokens("It is good to see that.", "Es ist gut, das zu sehen."), rules)
    bystanders.add(tokens("It is central to the plan.", "Es ist zentral, um zu planen."), rules)
    bystanders.add(tokens("We must go now.", "Wir müssen jetzt gehen."), rules)
    bystanders.add(tokens("The list is long.", "Die Liste ist lang."), rules)
    bystanders.add(tokens("She is here now.", "Sie ist jetzt hier."), rules)
    assert [pair.source for pair in bystanders.expletives] == ["It is good to see that."]
    assert [pair.source for pair in bystanders.neutral] == ["We must go now."]
    assert [pair.source for pair in bystanders.openers] == ["The list is long."]


def test_sentences_are_sorted_by_form_of_address(rules: Rules) -> None:
    sentences, forms = AddressSentences(), Forms(rules)
    for source, target in [
        ("You are late.", "Du bist spät dran."),
        ("You are late.", "Sie sind spät dran."),
        ("You are all late.", "Ihr habt euch alle verspätet."),
        ("Mr Brown, you are late.", "Herr Brown, Sie sind spät dran."),
        ("You are late, my friend.", "Du bist spät dran, mein Freund."),
        ("Run, you fools!", "Rennt, Ihr Deppen!"),  # neither
        ("I will give it to you.", "Ich gebe sie dir."),  # what is it?
        ("I beg you, my lord.", "Ich bitte Euch, Herr."),  # at court
    ]:
        pair = Pair(source, target, 0)
        sentences.add(Tokenized(pair), forms.of(pair), rules)
    assert [pair.target for pair in sentences.by_form["T"]] == ["Du bist spät dran."]
    assert [pair.target for pair in sentences.by_form["V"]] == ["Sie sind spät dran."]
    assert [pair.target for pair in sentences.plural["T"]] == ["Ihr habt euch alle verspätet."]
    assert {form: len(found) for form, found in sentences.cues.items()} == {"V": 1, "T": 1}


def test_an_imperative_without_a_pronoun_has_its_own_form(rules: Rules) -> None:
    forms = Forms(rules)
    for number in range(3):
        forms.learn(tokens(f"We must take {number}.", "x"))
    assert forms.of(Pair("Here, take the key.", "Hier, nimm den Schlüssel.", 0)) == UNMARKED
    assert forms.of(Pair("Take the key.", "Nehmen Sie den Schlüssel.", 0)) == "V"
    assert forms.of(Pair("The key is here.", "Der Schlüssel ist hier.", 0)) is None


def test_a_language_without_rules_is_refused() -> None:
    with pytest.raises(InputError, match="xx"):
        load_rules("en", "xx")
