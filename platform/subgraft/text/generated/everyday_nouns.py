"""Everyday nouns by the class that verbs and templates draw from: English | German | gender (w: weak) | plural."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.text.generated.words import Noun, listed, nouns

_TABLES = {
    "person": """
man/men | Mann | m | Männer
woman/women | Frau | f | Frauen
child/children | Kind | n | Kinder
boy | Junge | w | Jungen
girl | Mädchen | n | Mädchen
friend | Freund | m | Freunde
neighbour | Nachbar | w | Nachbarn
teacher | Lehrer | m | Lehrer
pupil | Schüler | m | Schüler
student | Student | w | Studenten
doctor | Arzt | m | Ärzte
nurse | Krankenschwester | f | Krankenschwestern
colleague | Kollege | w | Kollegen
boss | Chef | m | Chefs
customer | Kunde | w | Kunden
guest | Gast | m | Gäste
visitor | Besucher | m | Besucher
cook | Koch | m | Köche
waiter | Kellner | m | Kellner
baker | Bäcker | m | Bäcker
gardener | Gärtner | m | Gärtner
farmer | Bauer | w | Bauern
driver | Fahrer | m | Fahrer
pilot | Pilot | w | Piloten
police officer | Polizist | w | Polizisten
craftsman/craftsmen | Handwerker | m | Handwerker
artist | Künstler | m | Künstler
singer | Sänger | m | Sänger
musician | Musiker | m | Musiker
tourist | Tourist | w | Touristen
secretary | Sekretärin | f | Sekretärinnen
seller | Verkäufer | m | Verkäufer
""",
    "relative": """
mother | Mutter | f | Mütter
father | Vater | m | Väter
sister | Schwester | f | Schwestern
brother | Bruder | m | Brüder
daughter | Tochter | f | Töchter
son | Sohn | m | Söhne
grandmother | Großmutter | f | Großmütter
grandfather | Großvater | m | Großväter
aunt | Tante | f | Tanten
uncle | Onkel | m | Onkel
cousin | Cousin | m | Cousins
grandson | Enkel | m | Enkel
""",
    "animal": """
dog | Hund | m | Hunde
cat | Katze | f | Katzen
horse | Pferd | n | Pferde
bird | Vogel | m | Vögel
cow | Kuh | f | Kühe
rabbit | Hase | w | Hasen
sheep/sheep | Schaf | n | Schafe
pig | Schwein | n | Schweine
duck | Ente | f | Enten
animal | Tier | n | Tiere
""",
    "food": """
apple | Apfel | m | Äpfel
pear | Birne | f | Birnen
banana | Banane | f | Bananen
orange | Orange | f | Orangen
potato | Kartoffel | f | Kartoffeln
tomato | Tomate | f | Tomaten
carrot | Karotte | f | Karotten
egg | Ei | n | Eier
roll | Brötchen | n | Brötchen
sausage | Wurst | f | Würste
pizza | Pizza | f | Pizzen
bread | Brot | n | -
cheese | Käse | m | -
butter | Butter | f | -
meat | Fleisch | n | -
fish | Fisch | m | -
rice | Reis | m | -
honey | Honig | m | -
chocolate | Schokolade | f | -
ice cream | Eis | n | -
salad | Salat | m | -
""",
    "baked": """
cake | Kuchen | m | Kuchen
pie | Torte | f | Torten
biscuit | Keks | m | Kekse
""",
    "dish": """
soup | Suppe | f | Suppen
stew | Eintopf | m | Eintöpfe
meal | Mahlzeit | f | Mahlzeiten
vegetables | Gemüse | n | -
""",
    "drink": """
coffee | Kaffee | m | -
tea | Tee | m | -
milk | Milch | f | -
water | Wasser | n | -
juice | Saft | m | -
beer | Bier | n | -
wine | Wein | m | -
lemonade | Limonade | f | -
""",
    "text": """
book | Buch | n | Bücher
letter | Brief | m | Briefe
newspaper | Zeitung | f | Zeitungen
magazine | Zeitschrift | f | Zeitschriften
message | Nachricht | f | Nachrichten
report | Bericht | m | Berichte
story | Geschichte | f | Geschichten
contract | Vertrag | m | Verträge
poem | Gedicht | n | Gedichte
list | Liste | f | Listen
""",
    "thing": """
bag | Tasche | f | Taschen
key | Schlüssel | m | Schlüssel
picture | Bild | n | Bilder
cup | Tasse | f | Tassen
plate | Teller | m | Teller
knife/knives | Messer | n | Messer
spoon | Löffel | m | Löffel
fork | Gabel | f | Gabeln
bottle | Flasche | f | Flaschen
glass | Glas | n | Gläser
suitcase | Koffer | m | Koffer
umbrella | Regenschirm | m | Regenschirme
candle | Kerze | f | Kerzen
ball | Ball | m | Bälle
gift | Geschenk | n | Geschenke
ring | Ring | m | Ringe
basket | Korb | m | Körbe
blanket | Decke | f | Decken
pillow | Kissen | n | Kissen
guitar | Gitarre | f | Gitarren
flower | Blume | f | Blumen
toy | Spielzeug | n | Spielzeuge
pencil | Bleistift | m | Bleistifte
parcel | Paket | n | Pakete
tool | Werkzeug | n | Werkzeuge
ticket | Fahrkarte | f | Fahrkarten
map | Landkarte | f | Landkarten
glove | Handschuh | m | Handschuhe
product | Produkt | n | Produkte
""",
    "device": """
lamp | Lampe | f | Lampen
radio | Radio | n | Radios
computer | Computer | m | Computer
camera | Kamera | f | Kameras
telephone | Telefon | n | Telefone
clock | Uhr | f | Uhren
heater | Heizung | f | Heizungen
oven | Ofen | m | Öfen
machine | Maschine | f | Maschinen
television | Fernseher | m | Fernseher
""",
    "furniture": """
table | Tisch | m | Tische
chair | Stuhl | m | Stühle
bed | Bett | n | Betten
cupboard | Schrank | m | Schränke
shelf/shelves | Regal | n | Regale
carpet | Teppich | m | Teppiche
sofa | Sofa | n | Sofas
mirror | Spiegel | m | Spiegel
""",
    "clothes": """
coat | Mantel | m | Mäntel
shirt | Hemd | n | Hemden
dress | Kleid | n | Kleider
shoe | Schuh | m | Schuhe
hat | Hut | m | Hüte
jacket | Jacke | f | Jacken
skirt | Rock | m | Röcke
jumper | Pullover | m | Pullover
scarf/scarves | Schal | m | Schals
boot | Stiefel | m | Stiefel
suit | Anzug | m | Anzüge
tie | Krawatte | f | Krawatten
""",
    "vehicle": """
car | Auto | n | Autos
bicycle | Fahrrad | n | Fahrräder
lorry | Lastwagen | m | Lastwagen
motorcycle | Motorrad | n | Motorräder
boat | Boot | n | Boote
""",
    "transport": """
bus | Bus | m | Busse
train | Zug | m | Züge
tram | Straßenbahn | f | Straßenbahnen
ship | Schiff | n | Schiffe
""",
    "opening": """
door | Tür | f | Türen
window | Fenster | n | Fenster
box | Kiste | f | Kisten
gate | Tor | n | Tore
drawer | Schublade | f | Schubladen
""",
    "building": """
house | Haus | n | Häuser
flat | Wohnung | f | Wohnungen
room | Zimmer | n | Zimmer
garage | Garage | f | Garagen
wall | Mauer | f | Mauern
fence | Zaun | m | Zäune
roof | Dach | n | Dächer
balcony | Balkon | m | Balkone
""",
    "bill": """
rent | Miete | f | Mieten
bill | Rechnung | f | Rechnungen
tax | Steuer | f | Steuern
fee | Gebühr | f | Gebühren
debt | Schuld | f | Schulden
wage | Lohn | m | Löhne
contribution | Beitrag | m | Beiträge
penalty | Strafe | f | Strafen
price | Preis | m | Preise
""",
    "need": """
money | Geld | n | -
time | Zeit | f | -
help | Hilfe | f | -
work | Arbeit | f | -
protection | Schutz | m | -
luck | Glück | n | -
advice | Beratung | f | -
information | Auskunft | f | -
safety | Sicherheit | f | -
replacement | Ersatz | m | -
""",
    "matter": """
problem | Problem | n | Probleme
question | Frage | f | Fragen
answer | Antwort | f | Antworten
idea | Idee | f | Ideen
plan | Plan | m | Pläne
reason | Grund | m | Gründe
right | Recht | n | Rechte
duty | Pflicht | f | Pflichten
rule | Regel | f | Regeln
mistake | Fehler | m | Fehler
appointment | Termin | m | Termine
deadline | Frist | f | Fristen
offer | Angebot | n | Angebote
insurance | Versicherung | f | Versicherungen
repair | Reparatur | f | Reparaturen
delivery | Lieferung | f | Lieferungen
payment | Zahlung | f | Zahlungen
purchase | Kauf | m | Käufe
decision | Entscheidung | f | Entscheidungen
change | Änderung | f | Änderungen
""",
    "mishap": """
accident | Unfall | m | Unfälle
damage | Schaden | m | -
fire | Brand | m | Brände
loss | Verlust | m | Verluste
""",
    "event": """
party | Feier | f | Feiern
journey | Reise | f | Reisen
trip | Ausflug | m | Ausflüge
concert | Konzert | n | Konzerte
wedding | Hochzeit | f | Hochzeiten
holiday | Urlaub | m | Urlaube
film | Film | m | Filme
meeting | Sitzung | f | Sitzungen
course | Kurs | m | Kurse
game | Spiel | n | Spiele
""",
}
_TRADES = listed("Lehrer Student Arzt Koch Kellner Bäcker Gärtner Bauer Pilot Polizist Künstler Musiker")

NOUNS: Mapping[str, tuple[Noun, ...]] = {kind: nouns(table) for kind, table in _TABLES.items()} | {
    "trade": tuple(noun for noun in nouns(_TABLES["person"]) if noun.german in _TRADES)
}
