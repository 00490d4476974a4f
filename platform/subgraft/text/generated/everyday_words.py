"""Everyday adjectives, adverbials, places and names."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.text.generated.words import Adjective, Adverbial, Noun, adjective, adverbials, listed, noun, rows

# English | German | gender | plural | English and German prepositions of place (case 2) and of direction.
_PLACES = """
cinema | Kino | n | Kinos | at | in | to | in
theatre | Theater | n | Theater | at | in | to | in
museum | Museum | n | Museen | at | in | to | in
restaurant | Restaurant | n | Restaurants | in | in | to | in
café | Café | n | Cafés | in | in | to | in
supermarket | Supermarkt | m | Supermärkte | at | in | to | in
school | Schule | f | Schulen | at | in | to | in
office | Büro | n | Büros | in | in | to | in
library | Bibliothek | f | Bibliotheken | in | in | to | in
hospital | Krankenhaus | n | Krankenhäuser | in | in | to | in
church | Kirche | f | Kirchen | in | in | to | in
town | Stadt | f | Städte | in | in | to | in
village | Dorf | n | Dörfer | in | in | to | in
park | Park | m | Parks | in | in | to | in
forest | Wald | m | Wälder | in | in | to | in
garden | Garten | m | Gärten | in | in | to | in
kitchen | Küche | f | Küchen | in | in | to | in
cellar | Keller | m | Keller | in | in | to | in
hotel | Hotel | n | Hotels | at | in | to | in
factory | Fabrik | f | Fabriken | in | in | to | in
workshop | Werkstatt | f | Werkstätten | in | in | to | in
bakery | Bäckerei | f | Bäckereien | in | in | to | in
pharmacy | Apotheke | f | Apotheken | in | in | to | in
swimming pool | Schwimmbad | n | Schwimmbäder | at | in | to | in
station | Bahnhof | m | Bahnhöfe | at | an | to | zu
airport | Flughafen | m | Flughäfen | at | an | to | zu
harbour | Hafen | m | Häfen | at | an | to | zu
beach | Strand | m | Strände | on | an | to | an
lake | See | m | Seen | by | an | to | an
river | Fluss | m | Flüsse | by | an | to | an
market | Markt | m | Märkte | at | auf | to | auf
bank | Bank | f | Banken | at | bei | to | zu
post office | Post | f | - | at | auf | to | zu
town hall | Rathaus | n | Rathäuser | in | in | to | in
"""
# A place: the noun, then (English, German) prepositions of rest and of direction.
PLACES: tuple[tuple[Noun, tuple[str, str], tuple[str, str]], ...] = tuple(
    (noun(*row[:4]), (row[4], row[5]), (row[6], row[7])) for row in rows(_PLACES)
)

# English | German | classes of nouns it is said of.
_ADJECTIVES = """
young | jung | person animal
old | alt | person animal thing text building
friendly | freundlich | person animal
polite | höflich | person
clever | klug | person animal
hard-working | fleißig | person
tired | müde | person animal
ill | krank | person animal
healthy | gesund | person animal
lonely | einsam | person
famous | berühmt | person
rich | reich | person
poor | arm | person
happy | glücklich | person
unhappy | unglücklich | person
patient | geduldig | person
new | neu | thing text building
big | groß | thing building animal
small | klein | thing building animal
beautiful | schön | thing building animal event
heavy | schwer | thing
cheap | billig | thing
expensive | teuer,teur | thing building
broken | kaputt | thing
practical | praktisch | thing
valuable | wertvoll | thing
worthless | wertlos | thing
fresh | frisch | food
warm | warm | food
hot | heiß | food
cold | kalt | food
sweet | süß | food
good | gut | food text event
red | rot | clothes
blue | blau | clothes
green | grün | clothes
black | schwarz | clothes
white | weiß | clothes
brown | braun | clothes
dark | dunkel,dunkl | clothes
dirty | schmutzig | clothes
clean | sauber,saubr | clothes
important | wichtig | matter text
difficult | schwierig | matter
simple | einfach | matter
strange | seltsam | matter text
necessary | notwendig | matter
high | hoch,hoh | bill
low | niedrig | bill
long | lang | event text
short | kurz | event text
boring | langweilig | event text
interesting | interessant | event text
wonderful | wunderbar | event
terrible | schrecklich | mishap
small | klein | mishap
"""


def _by_class(table: str) -> dict[str, tuple[Adjective, ...]]:
    found: dict[str, list[Adjective]] = {}
    for english, german, kinds in rows(table):
        for kind in kinds.split():
            found.setdefault(kind, []).append(adjective(english, german))
    return {kind: tuple(words) for kind, words in found.items()}


ADJECTIVES: Mapping[str, tuple[Adjective, ...]] = _by_class(_ADJECTIVES)

COMPARATIVES = adverbials("""
bigger | größer
smaller | kleiner
older | älter
newer | neuer
cheaper | billiger
more expensive | teurer
heavier | schwerer
more beautiful | schöner
more interesting | interessanter
better | besser
""")

DEGREES = adverbials("""
very | sehr
too | zu
really | wirklich
""")

PAST_TIMES = adverbials("""
yesterday | gestern
last week | letzte Woche
last year | letztes Jahr
last month | letzten Monat
this morning | heute Morgen
yesterday evening | gestern Abend
on Monday | am Montag
on Tuesday | am Dienstag
on Friday | am Freitag
on Saturday | am Samstag
two days ago | vor zwei Tagen
an hour ago | vor einer Stunde
three weeks ago | vor drei Wochen
in summer | im Sommer
in winter | im Winter
""")
FUTURE_TIMES = adverbials("""
tomorrow | morgen
next week | nächste Woche
next month | nächsten Monat
next year | nächstes Jahr
tonight | heute Abend
soon | bald
in an hour | in einer Stunde
in two days | in zwei Tagen
later | später
on Sunday | am Sonntag
""")
HABITS = adverbials("""
every day | jeden Tag
every week | jede Woche
every morning | jeden Morgen
every evening | jeden Abend
every year | jedes Jahr
on Sundays | sonntags
on Saturdays | samstags
in the evening | am Abend
in the afternoon | am Nachmittag
""")
NOW = adverbials("""
now | jetzt
right now | gerade
at the moment | im Moment
""")
FREQUENCIES = adverbials("""
often | oft
always | immer
never | nie
sometimes | manchmal
rarely | selten
usually | meistens
""")
MANNERS = adverbials("""
quietly | leise
alone | allein
for a long time | lange
""")
NUMERALS = adverbials("""
two | zwei
three | drei
four | vier
five | fünf
six | sechs
seven | sieben
eight | acht
ten | zehn
twelve | zwölf
""")
QUESTION_WORDS = adverbials("""
why | warum
when | wann
where | wo
""")

WOMEN = listed("Anna Maria Lena Sophie Julia Katrin Eva Laura Petra Clara Helga Ingrid Sabine Nina Marta")
MEN = listed("Peter Paul Thomas Max Felix Lukas Jan Karl Martin Simon Jonas Otto Anton Emil Stefan")
TOWNS = tuple(
    Adverbial(*fields)
    for fields in rows("""
Berlin | Berlin
Hamburg | Hamburg
Munich | München
Cologne | Köln
Vienna | Wien
Zurich | Zürich
Bremen | Bremen
Leipzig | Leipzig
Paris | Paris
Rome | Rom
London | London
Prague | Prag
""")
)
