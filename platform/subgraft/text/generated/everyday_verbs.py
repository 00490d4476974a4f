"""Everyday verbs and what they govern: English | German | slot.

Irregular principal parts stand behind commas, * marks the verbs of *sein*, a hyphen the separable prefix.
"""

from __future__ import annotations

from subgraft.text.generated.words import listed, verbs

# The slot: classes of the object.
TRANSITIVE = verbs("""
buy,bought,bought | kaufen | thing clothes food vehicle furniture device
sell,sold,sold | verkaufen | thing vehicle building furniture
see,saw,seen | sehen,sieht,sah,gesehen | person animal building vehicle
find,found,found | finden,findet,fand,gefunden | thing clothes
look for | suchen | thing clothes person
read,read,read | lesen,liest,las,gelesen | text
write,wrote,written | schreiben,schreibt,schrieb,geschrieben | text
eat,ate,eaten | essen,isst,aß,gegessen | food dish baked
cook | kochen | dish
bake | backen,backt,backte,gebacken | baked
drink,drank,drunk | trinken,trinkt,trank,getrunken | drink
order | bestellen | drink dish baked
wear,wore,worn | tragen,trägt,trug,getragen | clothes
try on | an-probieren | clothes
repair | reparieren | vehicle device
clean | putzen | opening furniture
wash | waschen,wäscht,wusch,gewaschen | clothes vehicle
open | öffnen | opening
close | schließen,schließt,schloss,geschlossen | opening
visit | besuchen | person relative
invite | ein-laden,lädt,lud,geladen | person relative
ring,rang,rung up | an-rufen,ruft,rief,gerufen | person relative
pick up | ab-holen | person relative thing
know,knew,known | kennen,kennt,kannte,gekannt | person
meet,met,met | treffen,trifft,traf,getroffen | person relative
greet | grüßen | person
love | lieben | relative animal
hear,heard,heard | hören | person animal
forget,forgot,forgotten | vergessen,vergisst,vergaß,vergessen | thing clothes
lose,lost,lost | verlieren,verliert,verlor,verloren | thing clothes
bring,brought,brought along | mit-bringen,bringt,brachte,gebracht | food drink thing
build,built,built | bauen | building
rent | mieten | building vehicle
paint | streichen,streicht,strich,gestrichen | building furniture
draw,drew,drawn | zeichnen | animal person
sign | unterschreiben,unterschreibt,unterschrieb,unterschrieben | text:contract text:letter text:list
pay,paid,paid | bezahlen | bill
need | brauchen | need thing furniture
feed,fed,fed | füttern | animal
turn on | ein-schalten | device
turn off | aus-schalten | device
plan | planen | event
enjoy | genießen,genießt,genoss,genossen | event
understand,understood,understood | verstehen,versteht,verstand,verstanden | matter text
explain | erklären | matter
discuss | besprechen,bespricht,besprach,besprochen | matter event
check | prüfen | matter bill text
cause | verursachen | mishap
notice | bemerken | mishap matter
miss | verpassen | transport event
take,took,taken | nehmen,nimmt,nahm,genommen | transport thing
protect | schützen | animal building
change | ändern | matter:plan matter:rule matter:offer matter:deadline text:contract
use | benutzen | device vehicle
hide,hid,hidden | verstecken | thing
postpone | verschieben,verschiebt,verschob,verschoben | matter:appointment matter:deadline event
""")

PASSIVE = listed("buy sell find repair clean wash open close build paint sign pay discuss check change postpone")
REQUESTED = listed("buy read write clean wash open close sign pay feed check explain repair order")

# English | German | object classes: the one who receives is a person in the dative.
DITRANSITIVE = verbs("""
give,gave,given | geben,gibt,gab,gegeben | thing text clothes
show,showed,shown | zeigen | thing text building
send,sent,sent | schicken | text
lend,lent,lent | leihen,leiht,lieh,geliehen | thing vehicle clothes
bring,brought,brought | bringen,bringt,brachte,gebracht | food drink thing
tell,told,told | erzählen | text:story
offer | an-bieten,bietet,bot,geboten | food drink
sell,sold,sold | verkaufen | vehicle furniture
""")

# English | German | preposition and case | classes of what follows it.
PREPOSITIONAL = verbs("""
wait for | warten | auf 1 person relative transport matter:answer matter:delivery
think,thought,thought of | denken,denkt,dachte,gedacht | an 1 person relative event
talk about | sprechen,spricht,sprach,gesprochen | über 1 matter event person
laugh about | lachen | über 1 matter:idea matter:mistake text:story
ask for | bitten,bittet,bat,gebeten | um 1 need:help need:time need:advice need:information matter:answer
look after | auf-passen | auf 1 animal relative
""")

# English | German: the object is in the dative.
DATIVE_VERBS = verbs("""
help | helfen,hilft,half,geholfen | person relative
thank | danken | person relative
congratulate | gratulieren | person relative
""")

# English | German | places, where it is not done just anywhere.
INTRANSITIVE = verbs("""
sleep,slept,slept | schlafen,schläft,schlief,geschlafen | hotel hospital cellar garden park theatre
work | arbeiten
live | wohnen
sing,sang,sung | singen,singt,sang,gesungen
dance | tanzen | restaurant garden hotel café kitchen
laugh | lachen
cry | weinen
play | spielen
wait | warten
learn | lernen | library school office kitchen café
swim,swam,swum | schwimmen,schwimmt,schwamm,geschwommen* | lake river swimming_pool
""")

MOTION = verbs("""
go,went,gone | gehen,geht,ging,gegangen*
drive,drove,driven | fahren,fährt,fuhr,gefahren*
run,ran,run | laufen,läuft,lief,gelaufen*
come,came,come | kommen,kommt,kam,gekommen*
""")
