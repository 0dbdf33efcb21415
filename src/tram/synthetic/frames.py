"""The sentences of the synthetic documents, one frame per line: English = German (see `grammar` for the slots).

Each phenomenon has openings, which decide the answer, and questions, whose translation depends on it; the plain
sentences come last. `{x}` is the word that the phenomenon is about. Only pronoun and possessive questions contain "it"
and "its", only address questions "you" and "your". The index of a frame in its list decides in which combinations it
is held out, so add new frames at the end.
"""

from tram.synthetic.grammar import Frame


def _frames(text: str) -> tuple[Frame, ...]:
    return tuple(Frame(*line.strip().split(" = ")) for line in text.strip().splitlines())


# Announcements of a topic: "it" refers to the last announcement, whatever else is mentioned in between.
ANNOUNCEMENTS = _frames(
    """
    Today we are talking about {a x}. = Heute sprechen wir über {einen x}.
    Now we come to {a x}. = Jetzt kommen wir zu {einem x}.
    The next story is about {a x}. = Die nächste Geschichte handelt von {einem x}.
    Our next topic is {a x}. = Unser nächstes Thema ist {ein x}.
    Let us now look at {a x}. = Betrachten wir nun {einen x}.
    Our topic is now a very special {x}. = Unser Thema ist jetzt {ein ganz besonderer x}.
    """
)
PRONOUN = _frames(
    """
    It is very {look}. = <Er|Sie|Es> ist sehr {look}.
    {who} has cleaned it. = {who} hat <ihn|sie|es> geputzt.
    It is now {place}. = <Er|Sie|Es> ist jetzt {place}.
    {who} bought it in {city}. = {who} hat <ihn|sie|es> in {city} gekauft.
    It belongs to {who}. = <Er|Sie|Es> gehört {who}.
    I found it {place}. = Ich habe <ihn|sie|es> {place} gefunden.
    It did not cost much. = <Er|Sie|Es> hat nicht viel gekostet.
    We looked for it everywhere. = Wir haben <ihn|sie|es> überall gesucht.
    It comes from {city}. = <Er|Sie|Es> kommt aus {city}.
    {who} wants to sell it. = {who} will <ihn|sie|es> verkaufen.
    Yesterday it was still {place}. = Gestern war <er|sie|es> noch {place}.
    Nobody needs it any more. = Niemand braucht <ihn|sie|es> mehr.
    Perhaps it is too {excess}. = Vielleicht ist <er|sie|es> zu {excess}.
    {who} showed it to the children. = {who} hat <ihn|sie|es> den Kindern gezeigt.
    Unfortunately it is dirty. = Leider ist <er|sie|es> schmutzig.
    I like it very much. = Ich mag <ihn|sie|es> sehr.
    """
)
POSSESSIVE = _frames(
    """
    Its colour is {style}. = <Seine|Ihre> Farbe ist {style}.
    {who} likes its shape. = {who} mag <seine|ihre> Form.
    Its price is too high. = <Sein|Ihr> Preis ist zu hoch.
    Nobody knows its age. = Niemand kennt <sein|ihr> Alter.
    Its former owner lives in {city}. = <Sein|Ihr> früherer Besitzer lebt in {city}.
    I have forgotten its price. = Ich habe <seinen|ihren> Preis vergessen.
    Its size surprised {who}. = <Seine|Ihre> Größe hat {who} überrascht.
    {who} asked about its origin. = {who} hat nach <seiner|ihrer> Herkunft gefragt.
    Its value is unknown. = <Sein|Ihr> Wert ist unbekannt.
    We are talking about its value. = Wir sprechen über <seinen|ihren> Wert.
    We all know its history. = Wir alle kennen <seine|ihre> Geschichte.
    {who} is looking for its owner. = {who} sucht <seinen|ihren> Besitzer.
    """
)

GREETINGS = _frames(
    """
    Hello, {x}. = Hallo, {x}.
    Good morning, {x}. = Guten Morgen, {x}.
    Good evening, {x}. = Guten Abend, {x}.
    Welcome, {x}. = Willkommen, {x}.
    Thank you for the visit, {x}. = Danke für den Besuch, {x}.
    Happy birthday, {x}. = Alles Gute zum Geburtstag, {x}.
    """
)
ADDRESS = _frames(
    """
    You have {a x}. = <Du hast|Sie haben> {einen x}.
    Do you need the {x}? = <Brauchst du|Brauchen Sie> {den x}?
    Your {x} is very {look}. = <{Dein x}|{Ihr x}> ist sehr {look}.
    The {x} belongs to you. = {Der x} gehört <dir|Ihnen>.
    You forgot the {x} {place}. = <Du hast|Sie haben> {den x} {place} vergessen.
    {who} bought the {x} for you. = {who} hat {den x} für <dich|Sie> gekauft.
    I like your {x}. = Ich mag <{deinen x}|{Ihren x}>.
    I can show you the {x}. = Ich kann <dir|Ihnen> {den x} zeigen.
    Where did you find the {x}? = Wo <hast du|haben Sie> {den x} gefunden?
    You can take the {x} with you. = <Du kannst|Sie können> {den x} mitnehmen.
    Did you buy the {x} in {city}? = <Hast du|Haben Sie> {den x} in {city} gekauft?
    Tomorrow you will get {a x}. = Morgen <bekommst du|bekommen Sie> {einen x}.
    Do you know this {x}? = <Kennst du|Kennen Sie> {diesen x}?
    {who} is looking for your {x}. = {who} sucht <{deinen x}|{Ihren x}>.
    """
)

INTRODUCTIONS = _frames(
    """
    My name is {x}. = Mein Name ist {x}.
    I am {x}. = Ich bin {x}.
    This is {x} speaking. = Hier spricht {x}.
    Everyone calls me {x}. = Alle nennen mich {x}.
    """
)
SPEAKER = _frames(
    """
    I am {a x}. = Ich bin {x}.
    I work as {a x} in {city}. = Ich arbeite als {x} in {city}.
    Last year I became {a x}. = Letztes Jahr wurde ich {x}.
    I have been {a x} for {years} years. = Ich bin seit {years} Jahren {x}.
    As {a x} I earn very little. = Als {x} verdiene ich sehr wenig.
    I always wanted to be {a x}. = Ich wollte immer {x} werden.
    I like my work as {a x}. = Ich mag meine Arbeit als {x}.
    In {city} I was {a x}. = In {city} war ich {x}.
    I earn my living as {a x}. = Ich verdiene mein Geld als {x}.
    {who} knows that I am {a x}. = {who} weiß, dass ich {x} bin.
    I have been {a x} for a long time. = Ich bin schon lange {x}.
    I would like to be {a x} again. = Ich wäre gern wieder {x}.
    """
)

TOPICS = _frames(
    """
    This chapter is about {x}. = In diesem Kapitel geht es um {x}.
    {who} gave a talk on {x}. = {who} hielt einen Vortrag über {x}.
    We saw a film about {x}. = Wir haben einen Film über {x} gesehen.
    I know a lot about {x}. = Ich weiß viel über {x}.
    {who} is interested in {x}. = {who} interessiert sich für {x}.
    """
)
SENSE = _frames(
    """
    {who} took pictures of the {x}. = {who} fotografierte die {x}.
    The {x} were very {look}. = Die {x} waren sehr {look}.
    Yesterday we saw the {x}. = Gestern sahen wir die {x}.
    Nobody noticed the {x}. = Niemand bemerkte die {x}.
    The {x} surprised {who}. = Die {x} haben {who} überrascht.
    {who} is looking for the {x}. = {who} sucht die {x}.
    I can still see the {x}. = Ich kann die {x} noch sehen.
    {who} described the {x} to us. = {who} hat uns die {x} beschrieben.
    We talked about the {x} for a long time. = Wir haben lange über die {x} gesprochen.
    {who} wants to draw the {x}. = {who} will die {x} zeichnen.
    Where are the {x}? = Wo sind die {x}?
    I remember the {x} well. = Ich erinnere mich gut an die {x}.
    """
)

FIRST_MENTIONS = _frames(
    """
    There is {a x} in {who}'s story. = In der Geschichte von {who} gibt es {einen x}.
    The film begins with {a x}. = Der Film beginnt mit {einem x}.
    {who} has drawn {a x}. = {who} hat {einen x} gezeichnet.
    There was {a x} in my dream. = In meinem Traum gab es {einen x}.
    {who} told us about {a x}. = {who} hat uns von {einem x} erzählt.
    I am writing about {a x}. = Ich schreibe über {einen x}.
    """
)
TERM = _frames(
    """
    Everyone knows the {x}. = Alle kennen {den x}.
    {who} photographed the {x}. = {who} hat {den x} fotografiert.
    Nobody spoke about the {x}. = Niemand sprach über {den x}.
    {who} is waiting for the {x}. = {who} wartet auf {den x}.
    {who} asked about the {x}. = {who} hat nach {dem x} gefragt.
    The {x} surprised us all. = {Der x} hat uns alle überrascht.
    The {x} was on television. = {Der x} war im Fernsehen.
    Yesterday we saw the {x} once more. = Gestern haben wir {den x} noch einmal gesehen.
    The film also shows the {x}. = Der Film zeigt auch {den x}.
    {who} is thinking of the {x}. = {who} denkt an {den x}.
    I am interested in the {x}. = Ich interessiere mich für {den x}.
    We laughed about the {x}. = Wir haben über {den x} gelacht.
    """
)

PLAIN = _frames(
    """
    {who} has bought {a thing}. = {who} hat {einen thing} gekauft.
    {who} needs a new {thing}. = {who} braucht {einen neuen thing}.
    The {thing} is {place}. = {Der thing} ist {place}.
    There is an old {thing} {place}. = {place} gibt es {einen alten thing}.
    {who} is looking for the old {thing}. = {who} sucht {den alten thing}.
    The {animal} is sleeping {place}. = {Der animal} schläft {place}.
    The weather is {weather} today. = Das Wetter ist heute {weather}.
    {who} and {other} are going to {city}. = {who} und {other} fahren nach {city}.
    Yesterday {who} lost a small {thing}. = Gestern hat {who} {einen kleinen thing} verloren.
    The {animal} is afraid of the {thing}. = {Der animal} hat Angst vor {dem thing}.
    The {thing} costs more than the {thing2}. = {Der thing} kostet mehr als {der thing2}.
    {who} paid for the {thing} yesterday. = {who} hat gestern {den thing} bezahlt.
    In the evening {who} reads a lot. = Am Abend liest {who} viel.
    On Sunday we are going to {city}. = Am Sonntag fahren wir nach {city}.
    The children are playing {place}. = Die Kinder spielen {place}.
    {who} left the {thing} {place}. = {who} hat {den thing} {place} gelassen.
    The train to {city} is late. = Der Zug nach {city} hat Verspätung.
    I have lived in {city} for {years} years. = Ich wohne seit {years} Jahren in {city}.
    Tomorrow {who} will pick up the {thing}. = Morgen holt {who} {den thing} ab.
    {who} always gets up at {hour}. = {who} steht immer um {hour} Uhr auf.
    {who} calls {other} every evening. = {who} ruft {other} jeden Abend an.
    The {thing} was too {excess} for {who}. = {Der thing} war für {who} zu {excess}.
    {who} gave {other} a beautiful {thing}. = {who} hat {other} {einen schönen thing} geschenkt.
    {a animal} is running through the garden. = {Ein animal} läuft durch den Garten.
    {who} feeds the {animal} every morning. = {who} füttert jeden Morgen {den animal}.
    The black {animal} belongs to {who}. = {Der schwarze animal} gehört {who}.
    I am going home with {who}. = Ich gehe mit {who} nach Hause.
    We have no {thing}. = Wir haben {keinen thing}.
    My {thing} is from {city}. = {Mein thing} ist aus {city}.
    With the new {thing} everything is easier. = Mit {dem neuen thing} ist alles einfacher.
    In summer {who} works in {city}. = Im Sommer arbeitet {who} in {city}.
    The sun is shining in {city}. = In {city} scheint die Sonne.
    The shop opens at {hour}. = Das Geschäft öffnet um {hour} Uhr.
    When {who} came, {other} was already asleep. = Als {who} kam, schlief {other} schon.
    {who} says that the {thing} is too {excess}. = {who} sagt, dass {der thing} zu {excess} ist.
    {who} wants to buy the big {thing}. = {who} will {den großen thing} kaufen.
    Our {animal} likes the {thing}. = {Unser animal} mag {den thing}.
    {who} has no time today. = {who} hat heute keine Zeit.
    Perhaps {who} knows the way. = Vielleicht kennt {who} den Weg.
    {who} often eats {food}. = {who} isst oft {food}.
    {who} likes to drink {drink}. = {who} trinkt gern {drink}.
    """
)
