"""The compounds of the law, from everyday stems: which parts go together, and what each becomes in English."""

from __future__ import annotations

from subgraft.text.generated.compounds import Compound, build

# German[,linked form where no rule tells] | English as a modifier.
MODIFIERS = """
Kauf | purchase
Verkauf,Verkaufs | sales
Miete,Miet | rental
Arbeit,Arbeits | employment
Dienst | service
Werk | work
Bau | construction
Reise | travel
Ehe | marriage
Erbe,Erb | inheritance
Kredit | credit
Leihe,Leih | loan
Versicherung | insurance
Lieferung,Liefer | delivery
Zahlung | payment
Rückzahlung | repayment
Kündigung | termination
Haftung | liability
Gewährleistung | warranty
Vertrag,Vertrags | contract
Gericht,Gerichts | court
Recht,Rechts | legal
Gesetz,Gesetzes | statute
Schaden,Schadens | damage
Schadensersatz | damages
Pflicht | duty
Frist | deadline
Preis | price
Lohn | wage
Steuer | tax
Gebühr,Gebühren | fee
Geld | money
Rente,Renten | pension
Urlaub,Urlaubs | holiday
Krankheit | illness
Unfall | accident
Brand | fire
Wasser | water
Leben,Lebens | life
Haus | house
Auto | car
Wohnung | residential
Grundstück,Grundstücks | land
Eigentum | property
Familie,Familien | family
Kinder | child
Mieter | tenant
Kunde,Kunden | customer
Verbraucher | consumer
Anwalt,Anwalts | lawyer
Tierhalter | animal keeper
Ware,Waren | goods
Produkt | product
Handel,Handels | trade
Geschäft,Geschäfts | business
Gesellschaft | company
Verkehr,Verkehrs | traffic
Umwelt | environmental
Daten | data
Sicherheit | safety
Strafe,Straf | criminal
Verwaltung | administrative
Aufsicht,Aufsichts | supervisory
Prüfung,Prüf | inspection
Beweis | evidence
Klage | action
Widerruf,Widerrufs | revocation
Rücktritt,Rücktritts | withdrawal
Verjährung | limitation
Sorgfalt,Sorgfalts | care
Auskunft,Auskunfts | information
Aufklärung | disclosure
Beratung | advisory
Reparatur | repair
Nutzung | usage
Garantie | guarantee
Entschädigung | compensation
Probe | probation
Schutz | protection
Beitrag,Beitrags | contribution
Unterhalt,Unterhalts | maintenance
Sache,Sach | material
Folge | consequential
Form | form
Insolvenz | insolvency
Schieds | arbitration
Nachlass | estate
Scheidung | divorce
"""

# Head[,what links it] | gender | plural | English, ~ for the modifier | class | modifiers, =English where it differs.
HEADS = """
Kauf | m | Käufe | ~ purchase | matter |
    Haus, Auto, Grundstück, Ware
Schutz | m | - | ~ protection | protection |
    Kündigung=protection against dismissal, Mieter, Verbraucher, Daten, Umwelt, Arbeit, Kinder,
    Versicherung=insurance cover, Eigentum, Kunde
Vertrag,Vertrags | m | Verträge | ~ contract | agreement |
    Kauf, Miete, Arbeit, Dienst, Werk=contract for work/contracts for work, Bau, Reise, Ehe, Erbe, Kredit,
    Leihe, Versicherung, Lieferung, Gesellschaft, Beratung, Reparatur, Nutzung, Hauskauf, Autokauf,
    Grundstückskauf, Handel, Verkauf
Pflicht | f | Pflichten | ~ obligation | duty |
    Zahlung, Lieferung, Sorgfalt=duty of care/duties of care, Auskunft, Versicherung, Steuer, Prüfung,
    Schutz=duty of protection/duties of protection, Aufklärung,
    Schadensersatz=obligation to pay damages/obligations to pay damages, Unterhalt, Arbeit, Rückzahlung,
    Beratung, Reparatur
Recht,Rechts | n | Rechte | right of ~/rights of ~ | claim |
    Kündigung, Rücktritt, Widerruf, Nutzung, Prüfung, Eigentum=property right/property rights,
    Auskunft=right to information/rights to information, Wohnung=right of residence/rights of residence, Klage
Recht,Rechts | n | - | ~ law | field |
    Arbeit, Miete, Familie, Erbe, Handel, Steuer, Versicherung, Verkehr, Vertrag, Verbraucher, Verwaltung,
    Gesellschaft
Gesetz,Gesetzes | n | Gesetze | ~ act | act |
    Handel, Steuer, Verkehr, Kündigungsschutz=dismissal protection act, Verbraucherschutz, Datenschutz,
    Arbeitsschutz, Mieterschutz, Umweltschutz
Anspruch,Anspruchs | m | Ansprüche | ~ claim | claim |
    Zahlung, Schadensersatz=claim for damages/claims for damages, Lieferung, Rückzahlung, Urlaub, Unterhalt,
    Entschädigung, Lohn, Erbe, Versicherung, Garantie, Gewährleistung
Frist | f | Fristen | ~ deadline | deadline |
    Zahlung, Lieferung, Kündigung=period of notice/periods of notice, Widerruf,
    Verjährung=limitation period/limitation periods, Prüfung, Klage,
    Garantie=guarantee period/guarantee periods, Rücktritt, Rückzahlung, Reparatur,
    Gewährleistung=warranty period/warranty periods
Zeit | f | Zeiten | ~ period | deadline |
    Miete, Probe, Vertrag, Arbeit=working time/working times
Preis | m | Preise | ~ price | sum |
    Kauf, Miete, Reise, Ware
Summe | f | Summen | ~ sum | sum |
    Versicherung, Schaden, Kauf, Kredit, Entschädigung, Haftung
Gebühr,Gebühren | f | Gebühren | ~ fee | sum |
    Gericht, Verwaltung, Anwalt, Beratung, Nutzung, Prüfung
Strafe | f | Strafen | ~ penalty | sum |
    Vertrag=contractual penalty/contractual penalties, Geld=fine/fines
Kaution,Kautions | f | Kautionen | ~ deposit | sum |
    Miete
Beitrag,Beitrags | m | Beiträge | ~ contribution | sum |
    Versicherung, Rente
Verzug,Verzugs | m | - | ~ default | breach |
    Zahlung, Lieferung, Rückzahlung
Verletzung | f | Verletzungen | breach of ~/breaches of ~ | breach |
    Vertrag, Pflicht, Gesetz, Eigentum=infringement of property/infringements of property,
    Recht=infringement of a right/infringements of a right
Verletzung | f | Verletzungen | breach of the ~/breaches of the ~ | breach |
    Kaufvertrag, Mietvertrag, Arbeitsvertrag, Bauvertrag, Werkvertrag, Dienstvertrag, Sorgfaltspflicht,
    Zahlungspflicht, Aufklärungspflicht, Schutzpflicht, Lieferpflicht
Haftung | f | - | ~ liability | liability |
    Produkt, Unfall, Vertrag, Tierhalter=liability of the animal keeper, Umwelt, Anwalt, Brand
Beschränkung | f | Beschränkungen | limitation of ~/limitations of ~ | clause |
    Haftung, Nutzung=restriction of use/restrictions of use, Handel,
    Recht=restriction of rights/restrictions of rights
Ausschluss | m | Ausschlüsse | exclusion of ~/exclusions of ~ | clause |
    Haftung, Gewährleistung, Garantie, Kündigung, Widerruf
Bedingung | f | Bedingungen | ~ condition | clause |
    Vertrag, Zahlung, Lieferung, Versicherung, Geschäft
Gericht,Gerichts | n | Gerichte | ~ court | court |
    Arbeit, Verwaltung, Familie, Schieds, Handel
Behörde | f | Behörden | ~ authority | court |
    Aufsicht, Verwaltung, Steuer, Umwelt, Bau, Verkehr
Urteil | n | Urteile | ~ judgment | document |
    Gericht, Strafe, Scheidung
Schreiben | n | Schreiben | ~ letter | document |
    Kündigung, Widerruf, Rücktritt
Erklärung | f | Erklärungen | declaration of ~/declarations of ~ | document |
    Kündigung, Widerruf, Rücktritt, Haftung, Steuer=tax return/tax returns
Bescheid | m | Bescheide | ~ notice | document |
    Steuer, Gebühr, Rente
Bericht | m | Berichte | ~ report | document |
    Prüfung, Unfall, Schaden, Geschäft
Mittel | n | Mittel | means of ~/means of ~ | document |
    Beweis
Forderung | f | Forderungen | ~ demand | claim |
    Zahlung, Lohn, Miete, Kaufpreis, Steuer, Schadensersatz=demand for damages/demands for damages
Minderung | f | Minderungen | ~ reduction | change |
    Miete=rent reduction/rent reductions, Preis, Kaufpreis, Lohn, Reisepreis
Erhöhung | f | Erhöhungen | ~ increase | change |
    Miete=rent increase/rent increases, Preis, Lohn, Gebühr, Steuer, Beitrag
Verlängerung | f | Verlängerungen | extension of the ~/extensions of the ~ | change |
    Frist, Vertrag, Zahlungsfrist, Lieferfrist, Mietvertrag, Kündigungsfrist
Änderung | f | Änderungen | amendment of the ~/amendments of the ~ | change |
    Vertrag, Gesetz, Mietvertrag, Arbeitsvertrag, Preis=price change/price changes
Klausel | f | Klauseln | ~ clause | clause |
    Haftung, Kündigung, Vertrag, Preis, Schieds, Widerruf, Haftungsausschluss, Preiserhöhung
Schaden,Schadens | m | - | ~ damage | damage |
    Brand, Wasser, Unfall, Sache, Folge, Umwelt
Mangel | m | Mängel | ~ defect | defect |
    Sache, Recht, Bau, Produkt, Miete, Form=defect of form/defects of form
Verfahren,Verfahrens | n | Verfahren | ~ procedure | procedure |
    Gericht, Verwaltung, Strafe, Schieds, Insolvenz, Prüfung, Scheidung
Partner | m | Partner | ~ partner | party |
    Vertrag=contracting partner/contracting partners, Geschäft, Handel
Vertreter | m | Vertreter | ~ representative | party |
    Recht, Handel, Versicherung
Verwalter | m | Verwalter | ~ administrator | party |
    Haus, Insolvenz, Nachlass
Geber | m | Geber | ~ giver | party |
    Kredit=lender/lenders
Nehmer | m | Nehmer | ~ taker | party |
    Kredit=borrower/borrowers, Versicherung=policyholder/policyholders
"""

COMPOUNDS: tuple[Compound, ...] = build(MODIFIERS, HEADS)
