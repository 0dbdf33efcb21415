"""Making contrastive items with pronouns: suitable and unsuitable sentences, and the format of an item."""

import pytest

from tram.data.corpus import ParallelDocument
from tram.evaluation.language import load_language
from tram.evaluation.noun_genders import NounGenders
from tram.evaluation.pronoun_suite import make_pronouns
from tram.evaluation.suite import ContrastiveItem

german, english = load_language("de"), load_language("en")
GENDERS = NounGenders(german).learn(
    [
        "Der Brief, dem Brief, einen Brief.",
        "Die Lampe, eine Lampe, einer Lampe.",
        "Das Paket, ein Paket, dem Paket.",
        "Der Tisch, den Tisch, einen Tisch.",
        "Die Kommission, der Kommission, zur Kommission, eine Kommission.",
    ]
)
LETTER = ("The letter has arrived.", "Der Brief ist angekommen.")
LAMP = ("The lamp is new.", "Die Lampe ist neu.")
PARCEL = ("The parcel has arrived.", "Das Paket ist angekommen.")


def made(*pairs: tuple[str, str]) -> list[ContrastiveItem]:
    document = ParallelDocument([a for a, _ in pairs], [b for _, b in pairs], "letters")
    return make_pronouns([document], english, german, GENDERS)


def test_an_item_has_its_whole_context_and_the_forms_of_the_other_genders() -> None:
    (item,) = made(("Hello there.", "Hallo."), LETTER, ("It is in the kitchen.", "Er ist in der Küche."))
    assert item.source_context == ("Hello there.", LETTER[0])
    assert item.target_context == ("Hallo.", LETTER[1])
    assert (item.source, item.reference) == ("It is in the kitchen.", "Er ist in der Küche.")
    assert item.contrastive == ("Sie ist in der Küche.", "Es ist in der Küche.")
    assert (item.phenomenon, item.distance, item.document, item.pronoun) == ("subject", 1, "letters", "er")


@pytest.mark.parametrize(
    ("before", "pair", "phenomenon", "variants"),
    [
        (
            LAMP,
            ("Now it is also in the kitchen.", "Jetzt ist sie auch in der Küche."),
            "subject",
            ("Jetzt ist er auch in der Küche.", "Jetzt ist es auch in der Küche."),
        ),
        (
            PARCEL,
            ("It weighs three pounds.", "Es wiegt drei Pfund."),
            "subject",
            ("Er wiegt drei Pfund.", "Sie wiegt drei Pfund."),
        ),
        (
            LETTER,
            ("I have read it twice.", "Ich habe ihn zweimal gelesen."),
            "object",
            ("Ich habe sie zweimal gelesen.", "Ich habe es zweimal gelesen."),
        ),
        (
            LAMP,
            ("Please switch it on now.", "Schalten Sie sie bitte jetzt ein."),
            "object",
            ("Schalten Sie ihn bitte jetzt ein.", "Schalten Sie es bitte jetzt ein."),
        ),
        (
            PARCEL,
            ("We opened it at once.", "Wir haben es sofort geöffnet."),
            "object",
            ("Wir haben ihn sofort geöffnet.", "Wir haben sie sofort geöffnet."),
        ),
        (
            LAMP,
            ("We cannot read without it now.", "Ohne sie können wir jetzt nicht lesen."),
            "object",
            ("Ohne ihn können wir jetzt nicht lesen.", "Ohne es können wir jetzt nicht lesen."),
        ),
        (LAMP, ("Its light is very warm.", "Ihr Licht ist sehr warm."), "possessive", ("Sein Licht ist sehr warm.",)),
        (
            LETTER,
            ("Its words are very kind.", "Seine Worte sind sehr nett."),
            "possessive",
            ("Ihre Worte sind sehr nett.",),
        ),
    ],
)
def test_suitable_pronouns(
    before: tuple[str, str], pair: tuple[str, str], phenomenon: str, variants: tuple[str, ...]
) -> None:
    (item,) = made(before, pair)
    assert item.phenomenon == phenomenon
    assert item.contrastive == variants


@pytest.mark.parametrize(
    ("before", "pair"),
    [
        (LAMP, ("It is in the kitchen.", "Er ist in der Küche.")),  # no noun of that gender
        (LETTER, ("The letter says that it is late.", "Der Brief sagt, dass er spät ist.")),  # in the sentence itself
        (LETTER, ("The table is old, but it is nice.", "Der Tisch ist alt, aber er ist schön.")),
        (LETTER, ("It is a long letter indeed.", "Er ist wirklich ein langer Brief.")),  # "es" would be right as well
        (LETTER, ("He says it is here.", "Er sagt, es ist hier.")),  # a person
        (LETTER, ("He has it with him.", "Er hat alles bei sich.")),
        (PARCEL, ("It is important to wait.", "Es ist wichtig zu warten.")),  # refers to nothing
        (PARCEL, ("It seems that all is well.", "Es scheint alles gut zu sein.")),
        (PARCEL, ("It happened in the night.", "Es geschah in der Nacht.")),  # an event
        (LETTER, ("It weighs three pounds.", "Es wiegt drei Pfund.")),  # a neuter without a noun
        (LAMP, ("It has come at last.", "Sie sind endlich gekommen.")),  # the verb gives the answer away
        (LETTER, ("It opens the door of its room.", "Er öffnet die Tür seines Zimmers.")),  # a second pronoun
        (LAMP, ("You can see it is new.", "Sie sehen, dass alles neu ist.")),  # the polite form
        (LAMP, ("Although it is new, nobody uses this lamp.", "Obwohl sie neu ist, nutzt niemand diese Lampe.")),
        (LAMP, ("It is in the kitchen.", "Die Lampe ist in der Küche.")),  # no pronoun
        (LETTER, ("It is here, and I have read it.", "Er ist hier, und ich habe sie gelesen.")),  # two genders
        (LETTER, ("It was, without any doubt, the best of all.", "Er war ohne Zweifel der beste.")),  # "es", too
        (LETTER, ("It seems to be old.", "Er scheint alt zu sein.")),
        (LETTER, ("It is appropriate because nobody was there.", "Er ist angebracht, weil niemand da war.")),
        (LAMP, ("This is what we see when it comes to light.", "Sie zeigt sich bei Licht.")),
        (LAMP, ("That reason is why it was bought.", "Sie wurde deshalb gekauft.")),  # the translation of "that reason"
        (LAMP, ("The IT office was too small.", "Sie war zu klein.")),  # IT is not "it"
        (LETTER, ("It is so old that it is yellow.", "Der ist so alt, dass er gelb ist.")),  # "der" shows the gender
        (LAMP, ("Take the tables and pull it.", "Nehmen Sie die Tische und ziehen Sie sie.")),  # several things
        (LAMP, ("Does the table hold it?", "Hält sie der Tisch?")),  # "it" is an object, "sie" may be one
        (("He sent the letter.", "Er schickte den Brief."), ("It was sad to read.", "Er war sehr traurig.")),
        (("The letter is with the lamp.", "Der Brief ist bei der Lampe."), ("It is new.", "Sie ist neu.")),
        (("The words are good.", "Die Worte sind gut."), ("Its words are very kind.", "Ihre Worte sind sehr nett.")),
        (PARCEL, ("It has proved possible to wait.", "Es hat sich bewährt zu warten.")),  # refers to nothing
        (
            ("The letter is from Mr Weber.", "Der Brief ist von Herrn Weber."),  # a person
            ("It was sad to read.", "Er war sehr traurig."),
        ),
    ],
)
def test_unsuitable_pronouns(before: tuple[str, str], pair: tuple[str, str]) -> None:
    assert made(before, pair) == []


def test_a_title_that_addresses_somebody_is_no_antecedent() -> None:
    before = ("Mr President, the letter has arrived.", "Herr Präsident, der Brief ist angekommen.")
    assert len(made(before, ("It is in the kitchen.", "Er ist in der Küche."))) == 1


def test_the_first_sentence_of_a_document_has_nothing_to_refer_to() -> None:
    assert made(("It is in the kitchen.", "Er ist in der Küche.")) == []


def test_the_distance_is_that_of_the_nearest_noun_of_the_gender() -> None:
    kitchen = ("It is in the kitchen.", "Er ist in der Küche.")
    hello = ("Hello there.", "Hallo.")
    (item,) = made(LAMP, LETTER, hello, hello, kitchen)
    assert item.distance == 3
    assert made(LETTER, hello, hello, hello, kitchen) == []


def test_another_noun_in_between_would_be_the_antecedent() -> None:
    kitchen = ("It is in the kitchen.", "Er ist in der Küche.")
    assert made(LETTER, LAMP, kitchen) == []
    first, second = made(LETTER, ("It came with the parcel.", "Er kam mit dem Paket."), kitchen)
    assert (first.distance, second.distance) == (1, 2)  # the pronoun is repeated


def test_all_pronouns_of_a_sentence_are_exchanged_together() -> None:
    (item,) = made(LETTER, ("It is here, and I have read it.", "Er ist hier, und ich habe ihn gelesen."))
    assert item.contrastive == (
        "Sie ist hier, und ich habe sie gelesen.",
        "Es ist hier, und ich habe es gelesen.",
    )
    (item,) = made(LAMP, ("It has lost its old light.", "Sie hat ihr Licht verloren."))
    assert item.contrastive == ("Er hat sein Licht verloren.", "Es hat sein Licht verloren.")


def test_the_neuter_needs_its_noun_in_the_sentence_just_before() -> None:
    weighs = ("It weighs three pounds.", "Es wiegt drei Pfund.")
    assert len(made(PARCEL, weighs)) == 1
    assert made(PARCEL, LAMP, weighs) == []
