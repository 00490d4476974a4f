"""What is said of the words of the law: verbs, adverbials, numbers, names."""

from __future__ import annotations

from subgraft.text.generated.words import adverbials, listed, verbs

# English | German | classes of the object.
LAW_VERBS = verbs("""
conclude | ab-schließen,schließt,schloss,geschlossen | agreement
terminate | kündigen | agreement
amend | ändern | agreement clause
contest | an-fechten,ficht,focht,gefochten | agreement document clause
examine | prüfen | agreement claim document clause status
extend | verlängern | deadline agreement
notarise | beurkunden | agreement change
dissolve | auf-lösen | agreement
fulfil,fulfilled,fulfilled | erfüllen | duty agreement
enforce | durch-setzen | claim
assign | ab-treten,tritt,trat,getreten | claim
reject | ab-lehnen | claim change liability
recognise | an-erkennen,erkennt,erkannte,erkannt | claim duty liability
exclude | aus-schließen,schließt,schloss,geschlossen | claim liability
transfer,transferred,transferred | übertragen,überträgt,übertrug,übertragen | claim property
lose,lost,lost | verlieren,verliert,verlor,verloren | claim
breach | verletzen | duty
assume | übernehmen,übernimmt,übernahm,übernommen | duty liability
neglect | vernachlässigen | duty
observe | ein-halten,hält,hielt,gehalten | deadline
miss | versäumen | deadline
set,set,set | fest-legen | deadline
shorten | verkürzen | deadline
pay,paid,paid | bezahlen | sum
refund | erstatten | sum
reduce | mindern | sum
increase | erhöhen | sum
owe | schulden | sum
deposit | hinterlegen | sum
submit,submitted,submitted | vor-legen | document
publish | veröffentlichen | document
receive | erhalten,erhält,erhielt,erhalten | document sum
confirm | bestätigen | document change status
cause | verursachen | damage defect
commit,committed,committed | begehen,begeht,beging,begangen | breach
remedy,remedied,remedied | beheben,behebt,behob,behoben | damage defect
report | melden | damage breach defect
prove | beweisen,beweist,bewies,bewiesen | damage breach defect status
compensate | ersetzen | damage
rent | mieten | property
sell,sold,sold | verkaufen | property
buy,bought,bought | kaufen | property
agree on | vereinbaren | change clause protection
demand | verlangen | sum change protection
discontinue | ein-stellen | procedure
continue | fort-setzen | procedure
postpone | verschieben,verschiebt,verschob,verschoben | procedure
""")

MANNERS = adverbials("""
in writing | schriftlich
in due time | rechtzeitig
without delay | unverzüglich
in full | vollständig
""")
UNITS = adverbials("""
days | Tagen
weeks | Wochen
months | Monaten
years | Jahren
""")
NUMBERS = adverbials("""
two | zwei
three | drei
four | vier
six | sechs
eight | acht
ten | zehn
twelve | zwölf
14 | 14
30 | 30
90 | 90
""")
MONTHS = adverbials("""
January | Januar
February | Februar
March | März
April | April
May | Mai
June | Juni
July | Juli
August | August
September | September
October | Oktober
November | November
December | Dezember
""")
SURNAMES = listed("Krause Lindner Vogt Schreiber Kowalski Brandt Seidel Petersen Nowak Yılmaz Hartwig Jensen")
COMPANIES = tuple(
    f"{name} {form}"
    for name, form in zip(
        listed(
            "Nordheim Salvandis Orbena Kessler Tervola Meridia Arkadena Lohbrink Quintaro Baltika Veritanis Rhenova"
        ),
        ("GmbH", "AG", "GmbH", "KG") * 3,
        strict=True,
    )
)
TOWNS = listed("Lübeck Mainz Kassel Erfurt Trier Rostock Passau Münster Bonn Ulm")
