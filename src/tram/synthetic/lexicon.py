"""The words of the synthetic documents: English, German and, for nouns, the gender.

No noun changes its form in the singular cases used here (nominative, accusative, dative), so weak nouns are excluded.
Where the German has `<a|b>`, the document decides between the two.
"""

from typing import NamedTuple

from tram.synthetic.grammar import GENDERS, Gender, Word


class Ambiguous(NamedTuple):
    """An English plural with two senses, and the topic that goes with each sense."""

    word: Word
    topics: tuple[Word, Word]


def _words(text: str, gender: Gender = "m") -> tuple[Word, ...]:
    """Parse "table=Tisch, chair=Stuhl"; a word that is the same in both languages is given once."""
    entries = [" ".join(entry.split()) for entry in text.split(",")]
    pairs = [entry.partition("=") for entry in entries]
    return tuple(Word(source, target or source, gender, number) for number, (source, _, target) in enumerate(pairs))


def _numbered(*words: Word) -> tuple[Word, ...]:
    """Renumber words of several lists consecutively."""
    return tuple(word._replace(number=number) for number, word in enumerate(words))


def _ambiguous(text: str) -> tuple[Ambiguous, ...]:
    """Parse one noun per line: English: German one (topic one) | German two (topic two)."""
    entries = []
    for number, line in enumerate(text.strip().splitlines()):
        source, senses = line.strip().split(": ")
        words, topics = zip(*(sense.removesuffix(")").split(" (") for sense in senses.split(" | ")), strict=True)
        first, second = (_words(topic)[0] for topic in topics)
        entries.append(Ambiguous(Word(source, f"<{'|'.join(words)}>", number=number), (first, second)))
    return tuple(entries)


def _terms(text: str) -> tuple[tuple[Word, Word], ...]:
    """Parse one noun per line: English: gender and German one | gender and German two."""
    entries = []
    for number, line in enumerate(text.strip().splitlines()):
        source, translations = line.strip().split(": ")
        first, second = (translation.split(" ") for translation in translations.split(" | "))
        entries.append(
            (Word(source, first[1], _gender(first[0]), number), Word(source, second[1], _gender(second[0]), number))
        )
    return tuple(entries)


def _gender(letter: str) -> Gender:
    return GENDERS["mfn".index(letter)]


# Things that one can own, find, sell and clean: any frame makes sense with any of them.
THINGS: dict[Gender, tuple[Word, ...]] = {
    "m": _words(
        """table=Tisch, chair=Stuhl, spoon=Löffel, bucket=Eimer, hat=Hut, coat=Mantel, carpet=Teppich,
        mirror=Spiegel, pot=Topf, plate=Teller, mug=Becher, suitcase=Koffer, umbrella=Regenschirm, ring=Ring,
        pencil=Bleistift, armchair=Sessel, cupboard=Schrank, backpack=Rucksack, hammer=Hammer, belt=Gürtel,
        sweater=Pullover, skirt=Rock, basket=Korb, comb=Kamm, oven=Ofen, broom=Besen, globe=Globus,
        curtain=Vorhang, sledge=Schlitten, kite=Drachen, stone=Stein, scarf=Schal, glove=Handschuh,
        calendar=Kalender, compass=Kompass, desk=Schreibtisch""",
        "m",
    ),
    "f": _words(
        """lamp=Lampe, clock=Uhr, bottle=Flasche, vase=Vase, bag=Tasche, candle=Kerze, cup=Tasse, fork=Gabel,
        pan=Pfanne, ladder=Leiter, guitar=Gitarre, violin=Geige, flute=Flöte, camera=Kamera, blanket=Decke,
        jacket=Jacke, blouse=Bluse, doll=Puppe, brush=Bürste, needle=Nadel, axe=Axt, shovel=Schaufel,
        bell=Glocke, drum=Trommel, necklace=Halskette, box=Kiste, bowl=Schüssel, teapot=Teekanne,
        map=Landkarte, flag=Fahne, mask=Maske, statue=Statue, trumpet=Trompete, coin=Münze, crown=Krone,
        tie=Krawatte""",
        "f",
    ),
    "n": _words(
        """book=Buch, glass=Glas, knife=Messer, bed=Bett, shelf=Regal, pillow=Kissen, towel=Handtuch,
        dress=Kleid, shirt=Hemd, radio=Radio, piano=Klavier, boat=Boot, painting=Gemälde, tent=Zelt,
        rope=Seil, net=Netz, sofa=Sofa, exercise book=Heft, telescope=Fernrohr, microscope=Mikroskop,
        aquarium=Aquarium, cello=Cello, accordion=Akkordeon, saxophone=Saxofon, bracelet=Armband, album=Album,
        poster=Plakat, sign=Schild, thermometer=Thermometer, puzzle=Puzzle, oar=Ruder, tray=Tablett,
        sieve=Sieb, canoe=Kanu, handkerchief=Taschentuch, barrel=Fass""",
        "n",
    ),
}
ALL_THINGS = tuple(word for gender in GENDERS for word in THINGS[gender])

ANIMALS = _numbered(
    *_words("dog=Hund, hamster=Hamster, donkey=Esel, rooster=Hahn", "m"),
    *_words("cat=Katze, cow=Kuh, goat=Ziege, duck=Ente", "f"),
    *_words("horse=Pferd, sheep=Schaf, pig=Schwein, rabbit=Kaninchen", "n"),
)

# Terms with two good translations: only the first mention shows which one a document uses. The two differ in gender:
# a sentence model learns the same embedding for interchangeable words, and a memory could not distinguish them.
TERMS = _terms(
    """
    car: m Wagen | n Auto
    ferry: f Fähre | n Fährschiff
    hospital: n Krankenhaus | f Klinik
    village: n Dorf | f Ortschaft
    newspaper: f Zeitung | n Blatt
    potato: f Kartoffel | m Erdapfel
    tomato: f Tomate | m Paradeiser
    meatball: f Frikadelle | m Klops
    pub: f Kneipe | n Wirtshaus
    inn: n Gasthaus | f Herberge
    song: n Lied | m Song
    flat: f Wohnung | n Appartement
    tunnel: m Tunnel | f Unterführung
    chimney: m Schornstein | f Esse
    fair: m Jahrmarkt | f Kirmes
    envelope: m Umschlag | n Kuvert
    pavement: m Gehweg | n Trottoir
    dustbin: m Mülleimer | f Mülltonne
    mushroom: m Pilz | n Schwammerl
    hill: m Hügel | f Anhöhe
    prize: m Preis | f Auszeichnung
    restaurant: n Restaurant | f Gaststätte
    ticket: f Fahrkarte | n Ticket
    bread roll: n Brötchen | f Semmel
    phone: n Telefon | m Apparat
    cap: f Mütze | n Käppi
    farm: m Bauernhof | n Gehöft
    castle: n Schloss | f Burg
    ghost: m Geist | n Gespenst
    """
)

# Plurals, so that the article is "die" in every sense. A topic suits one sense of one noun and no other noun.
AMBIGUOUS = _ambiguous(
    """
    banks: Banken (money=Geld) | Ufer (rivers=Flüsse)
    bats: Fledermäuse (caves=Höhlen) | Schläger (baseball=Baseball)
    springs: Quellen (drinking water=Trinkwasser) | Federn (shock absorbers=Stoßdämpfer)
    cranes: Kraniche (migratory birds=Zugvögel) | Kräne (building sites=Baustellen)
    seals: Robben (the Arctic=die Arktis) | Siegel (wax=Wachs)
    plants: Pflanzen (botany=Botanik) | Fabriken (heavy industry=Schwerindustrie)
    keys: Schlüssel (hotels=Hotels) | Tasten (pocket calculators=Taschenrechner)
    letters: Briefe (the mail=die Post) | Buchstaben (spelling=Rechtschreibung)
    pipes: Pfeifen (tobacco=Tabak) | Rohre (sinks=Waschbecken)
    trunks: Rüssel (elephants=Elefanten) | Baumstämme (forests=Wälder)
    bows: Bögen (arrows=Pfeile) | Schleifen (ribbons=Bänder)
    files: Akten (police work=Polizeiarbeit) | Feilen (manicures=Maniküre)
    notes: Noten (music=Musik) | Notizen (lectures=Vorlesungen)
    temples: Tempel (gods=Götter) | Schläfen (headaches=Kopfschmerzen)
    palms: Palmen (beaches=Strände) | Handflächen (fortune tellers=Wahrsager)
    scales: Waagen (weights=Gewichte) | Schuppen (snakes=Schlangen)
    moles: Maulwürfe (meadows=Wiesen) | Muttermale (the skin=die Haut)
    beams: Balken (roofs=Dächer) | Strahlen (lasers=Laser)
    columns: Säulen (palaces=Paläste) | Spalten (spreadsheets=Tabellen)
    pupils: Schüler (schools=Schulen) | Pupillen (eyes=Augen)
    jams: Marmeladen (breakfast=das Frühstück) | Staus (motorways=Autobahnen)
    fans: Fans (pop stars=Popstars) | Ventilatoren (hot weather=Hitze)
    nuts: Nüsse (squirrels=Eichhörnchen) | Muttern (screws=Schrauben)
    ticks: Zecken (parasites=Parasiten) | Häkchen (forms=Formulare)
    """
)

JOBS = _words(
    """teacher=<Lehrer|Lehrerin>, painter=<Maler|Malerin>, baker=<Bäcker|Bäckerin>,
    musician=<Musiker|Musikerin>, engineer=<Ingenieur|Ingenieurin>, architect=<Architekt|Architektin>,
    photographer=<Fotograf|Fotografin>, judge=<Richter|Richterin>, singer=<Sänger|Sängerin>,
    dancer=<Tänzer|Tänzerin>, gardener=<Gärtner|Gärtnerin>, cook=<Koch|Köchin>, pilot=<Pilot|Pilotin>,
    tailor=<Schneider|Schneiderin>, translator=<Übersetzer|Übersetzerin>, chemist=<Chemiker|Chemikerin>,
    programmer=<Programmierer|Programmiererin>, author=<Autor|Autorin>"""
)

# Speakers, addressees and other people have different names.
MEN = _words("Peter, Thomas, Martin, Georg, Stefan, Karl, Daniel, Anton, Hans, Uwe")
WOMEN = _words("Anna, Laura, Sophie, Helene, Katrin, Eva, Hannah, Greta, Lisa, Paula")
FRIENDS = _words("Lena, Tom, Mia, Ben, Leo, Ella, Max, Nele, Jan, Maja")
OTHERS = _words("Paul, Clara, Jakob, Emma, Lukas, Nina, Oskar, Ida, Felix, Marta, Simon, Julia")
_TITLES = _words("Mr=Herr, Mrs=Frau, Professor")
_SURNAMES = _words("Weber, Klein, Schmidt, Fischer, Wagner, Becker, Hoffmann, Schäfer, Neumann, Lehmann")
STRANGERS = tuple(
    Word(f"{title.source} {name.source}", f"{title.target} {name.target}") for title in _TITLES for name in _SURNAMES
)

# Words for the slots that do not affect any answer, by the name of the slot.
FILLERS: dict[str, tuple[Word, ...]] = {
    "who": OTHERS,
    "other": OTHERS,
    "thing": ALL_THINGS,
    "thing2": ALL_THINGS,
    "animal": ANIMALS,
    "city": _words(
        """Hamburg, Berlin, Vienna=Wien, Munich=München, Cologne=Köln, Zurich=Zürich, Dresden, Paris, London,
        Rome=Rom"""
    ),
    "place": _words(
        """in the kitchen=in der Küche, in the garden=im Garten, in the cellar=im Keller,
        in the living room=im Wohnzimmer, in the bedroom=im Schlafzimmer, at the station=am Bahnhof,
        in the library=in der Bibliothek, on the balcony=auf dem Balkon, in the workshop=in der Werkstatt,
        behind the house=hinter dem Haus, next to the door=neben der Tür, at the museum=im Museum"""
    ),
    "look": _words(
        """beautiful=schön, strange=seltsam, unusual=ungewöhnlich, small=klein, big=groß,
        impressive=beeindruckend"""
    ),
    "style": _words("beautiful=schön, strange=seltsam, unusual=ungewöhnlich, impressive=beeindruckend"),
    "excess": _words("expensive=teuer, big=groß, small=klein, old=alt, ugly=hässlich"),
    "weather": _words("warm=warm, cold=kalt, bad=schlecht, nice=schön, windy=windig"),
    "years": _words("two=zwei, three=drei, five=fünf, ten=zehn, twelve=zwölf"),
    "hour": _words("seven=sieben, eight=acht, nine=neun, ten=zehn"),
    "food": _words("bread=Brot, cheese=Käse, rice=Reis, soup=Suppe, cake=Kuchen, salad=Salat, honey=Honig"),
    "drink": _words("tea=Tee, milk=Milch, coffee=Kaffee, water=Wasser, juice=Saft"),
}
