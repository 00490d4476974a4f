"""The words of the law but for compounds: people and things, derivations, loans, adjectives."""

from __future__ import annotations

from collections.abc import Mapping

from subgraft.text.generated.compounds import derived
from subgraft.text.generated.words import Adjective, Noun, noun, nouns, rows

# Simple words: English | German | gender | plural, by class.
_SIMPLE = {
    "party": """
tenant | Mieter | m | Mieter
landlord | Vermieter | m | Vermieter
buyer | Käufer | m | Käufer
seller | Verkäufer | m | Verkäufer
plaintiff | Kläger | m | Kläger
debtor | Schuldner | m | Schuldner
creditor | Gläubiger | m | Gläubiger
heir | Erbe | w | Erben
guarantor | Bürge | w | Bürgen
owner | Eigentümer | m | Eigentümer
employer | Arbeitgeber | m | Arbeitgeber
employee | Arbeitnehmer | m | Arbeitnehmer
possessor | Besitzer | m | Besitzer
consumer | Verbraucher | m | Verbraucher
entrepreneur | Unternehmer | m | Unternehmer
leaseholder | Pächter | m | Pächter
insurer | Versicherer | m | Versicherer
representative | Vertreter | m | Vertreter
supplier | Lieferant | w | Lieferanten
""",
    "agreement": """
agreement | Vereinbarung | f | Vereinbarungen
contract | Vertrag | m | Verträge
""",
    "claim": """
claim | Anspruch | m | Ansprüche
right | Recht | n | Rechte
demand | Forderung | f | Forderungen
""",
    "duty": """
duty | Pflicht | f | Pflichten
""",
    "deadline": """
deadline | Frist | f | Fristen
""",
    "sum": """
rent | Miete | f | Mieten
amount | Betrag | m | Beträge
tax | Steuer | f | Steuern
wage | Lohn | m | Löhne
""",
    "damage": """
damage | Schaden | m | -
loss | Verlust | m | Verluste
""",
    "defect": """
defect | Mangel | m | Mängel
""",
    "court": """
court | Gericht | n | Gerichte
judge | Richter | m | Richter
authority | Behörde | f | Behörden
regional court | Landgericht | n | Landgerichte
local court | Amtsgericht | n | Amtsgerichte
""",
    "document": """
judgment | Urteil | n | Urteile
action | Klage | f | Klagen
decision | Entscheidung | f | Entscheidungen
bill | Rechnung | f | Rechnungen
piece of evidence/pieces of evidence | Beweis | m | Beweise
""",
    "property": """
house | Haus | n | Häuser
flat | Wohnung | f | Wohnungen
plot of land/plots of land | Grundstück | n | Grundstücke
car | Auto | n | Autos
machine | Maschine | f | Maschinen
""",
}

# Loans and old words whose parts, if any, tell nothing: deliberately beyond composition.
_LOANS = {
    "party": """
notary | Notar | m | Notare
client | Mandant | w | Mandanten
assignor | Zedent | w | Zedenten
authorised signatory/authorised signatories | Prokurist | w | Prokuristen
mediator | Mediator | m | Mediatoren
treasury | Fiskus | m | -
trustee | Kurator | m | Kuratoren
""",
    "agreement": """
leasing | Leasing | n | -
licence | Lizenz | f | Lizenzen
mandate | Mandat | n | Mandate
settlement | Vergleich | m | Vergleiche
concession | Konzession | f | Konzessionen
""",
    "claim": """
recourse | Regress | m | Regresse
mortgage | Hypothek | f | Hypotheken
patent | Patent | n | Patente
easement | Servitut | n | Servitute
usufruct | Nießbrauch | m | -
lien | Pfand | n | Pfänder
immunity | Immunität | f | -
""",
    "sum": """
deposit | Kaution | f | Kautionen
commission | Provision | f | Provisionen
bonus | Bonus | m | Boni
discount | Rabatt | m | Rabatte
legacy | Legat | n | Legate
balance | Saldo | m | Salden
royalty | Tantieme | f | Tantiemen
""",
    "document": """
will | Testament | n | Testamente
record | Protokoll | n | Protokolle
file | Akte | f | Akten
decree | Dekret | n | Dekrete
statute | Statut | n | Statuten
dossier | Dossier | n | Dossiers
affidavit | Affidavit | n | Affidavits
alibi | Alibi | n | Alibis
clue | Indiz | n | Indizien
sanction | Sanktion | f | Sanktionen
appeal | Revision | f | Revisionen
codicil | Kodizill | n | Kodizille
""",
    "clause": """
clause | Klausel | f | Klauseln
cession | Zession | f | Zessionen
veto/vetoes | Veto | n | Vetos
quorum | Quorum | n | -
""",
    "procedure": """
trial | Prozess | m | Prozesse
mediation | Mediation | f | Mediationen
bankruptcy | Konkurs | m | Konkurse
amnesty | Amnestie | f | Amnestien
collection | Inkasso | n | -
""",
}

# German base | suffix | English | class: nouns by derivation.
_DERIVED_NOUNS = """
kündigen | ung | termination | change
abtreten | ung | assignment | change
übertragen | ung | transfer | change
auflösen | ung | dissolution | change
anfechten | ung | contestation | change
verpachten | ung | lease | change
kündigen | barkeit | terminability | status
kündigen | un+barkeit | non-terminability | status
übertragen | barkeit | transferability | status
übertragen | un+barkeit | non-transferability | status
anfechten | barkeit | contestability | status
mahnen | ung | reminder | document
beurkunden | ung | notarisation | document
bevollmächtigen | ung | authorisation | document
verpflichten | ung | commitment | duty
erfüllen | ung | fulfilment | change
räumen | ung | eviction/- | procedure
pfänden | ung | seizure | procedure
vollstrecken | ung | enforcement/- | procedure
versteigern | ung | auction | procedure
verhandeln | ung | hearing | procedure
entschädigen | ung | compensation/- | sum
erstatten | ung | refund | sum
vergüten | ung | remuneration/- | sum
beschädigen | ung | impairment | damage
verunreinigen | ung | pollution/- | damage
täuschen | ung | deception | breach
nötigen | ung | coercion/- | breach
wirksam | keit | validity | status
rechtswidrig | keit | unlawfulness | status
"""

# German base | suffix | English | classes: adjectives by derivation.
_DERIVED_ADJECTIVES = """
kündigen | bar | terminable | agreement
kündigen | un+bar | non-terminable | agreement
anfechten | bar | contestable | agreement document
anfechten | un+bar | incontestable | agreement document
übertragen | bar | transferable | claim
übertragen | un+bar | non-transferable | claim
pfänden | bar | seizable | claim sum
zahlen | bar | payable | sum
teilen | bar | divisible | sum claim
teilen | un+bar | indivisible | claim duty
Vertrag | lich | contractual | duty claim
Gesetz | lich | statutory | duty claim deadline
Gericht | lich | judicial | document procedure
Schrift | lich | written | agreement document
Geschäft | lich | commercial | agreement
Grund | los | groundless | claim
Form | los | informal | agreement document
Wert | los | worthless | document claim
Frist | los | immediate | change
strafen | bar | punishable | breach
Rechts | widrig | unlawful | breach change
Vertrags | widrig | non-contractual | change breach
Gebühren | pflichtig | chargeable | sum change
Zahlung | pflichtig | obliged to pay | party
Schadensersatz | pflichtig | liable for damages | party
Arbeits | los | unemployed | party
"""

# English | German | classes: other adjectives.
_ADJECTIVES = """
valid | gültig | agreement document clause claim
invalid | ungültig | agreement document clause claim
void | nichtig | agreement clause
effective | wirksam | change clause agreement
ineffective | unwirksam | change clause agreement
unlimited | unbegrenzt | liability
limited | begrenzt | liability claim
due | fällig | sum claim
new | neu | agreement document
long | lang | deadline procedure
short | kurz | deadline procedure
considerable | erheblich | damage sum breach defect
serious | schwer | breach damage defect
deliberate | vorsätzlich | breach
negligent | fahrlässig | breach
hidden | verborgen | defect
competent | zuständig | court
high | hoch,hoh | sum
"""


def _derived_nouns() -> dict[str, list[Noun]]:
    found: dict[str, list[Noun]] = {}
    for base, suffix, english, kind in rows(_DERIVED_NOUNS):
        word = derived(base, suffix)
        countable = suffix == "ung" and not english.endswith("/-")
        named = noun(english.removesuffix("/-"), word, "f", word + "en" if countable else "-")
        found.setdefault(kind, []).append(named)
    return found


def _adjectives() -> dict[str, list[Adjective]]:
    found: dict[str, list[Adjective]] = {}
    entries = [(english, german, kinds) for english, german, kinds in rows(_ADJECTIVES)]
    entries += [(english, derived(base, suffix), kinds) for base, suffix, english, kinds in rows(_DERIVED_ADJECTIVES)]
    for english, german, kinds in entries:
        plain, _, changed = german.partition(",")
        for kind in kinds.split():
            found.setdefault(kind, []).append(Adjective(english, plain, changed or plain))
    return found


SIMPLE: Mapping[str, tuple[Noun, ...]] = {kind: nouns(table) for kind, table in _SIMPLE.items()}
LOANS: Mapping[str, tuple[Noun, ...]] = {kind: nouns(table) for kind, table in _LOANS.items()}
DERIVED: Mapping[str, tuple[Noun, ...]] = {kind: tuple(words) for kind, words in _derived_nouns().items()}
LAW_ADJECTIVES: Mapping[str, tuple[Adjective, ...]] = {kind: tuple(words) for kind, words in _adjectives().items()}
