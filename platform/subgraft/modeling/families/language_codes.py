"""Codes of one language: two letters (ISO 639-1), three (ISO 639-3), and what published models say for either."""

from __future__ import annotations

# A language a line: its two letters, its three, then those of its largest variety, where models name that.
_CODES = """
af afr | am amh | ar ara arb | as asm | ast ast | az aze azj | ba bak | be bel | bg bul | bn ben | bo bod | br bre
bs bos | ca cat | cs ces | cy cym | da dan | de deu | el ell | en eng | eo epo | es spa | et est ekk | eu eus
fa fas pes | ff ful fuv | fi fin | fr fra | fy fry | ga gle | gd gla | gl glg | gu guj | ha hau | he heb | hi hin
hr hrv | ht hat | hu hun | hy hye | id ind | ig ibo | is isl | it ita | ja jpn | jv jav | ka kat | kk kaz | km khm
kn kan | ko kor | ku kur kmr | ky kir | la lat | lb ltz | lg lug | ln lin | lo lao | lt lit | lv lav lvs
mg mlg plt | mi mri | mk mkd | ml mal | mn mon khk | mr mar | ms msa zsm | mt mlt | my mya | nb nob | ne nep npi
nl nld | nn nno | no nor nob | ny nya | oc oci | om orm gaz | or ori ory | pa pan | pl pol | ps pus pbt | pt por
qu que quy | ro ron | ru rus | sd snd | si sin | sk slk | sl slv | sn sna | so som | sq sqi als | sr srp | ss ssw
st sot | su sun | sv swe | sw swa swh | ta tam | te tel | tg tgk | th tha | ti tir | tk tuk | tl tgl | tn tsn
tr tur | tt tat | ug uig | uk ukr | ur urd | uz uzb uzn | vi vie | wo wol | xh xho | yi yid ydd | yo yor
zh zho cmn | zu zul
"""
_SETS = [frozenset(line.split()) for row in _CODES.strip().splitlines() for line in row.split("|")]


def same_language(code: str) -> frozenset[str]:
    """All codes of the language that this one stands for: `fr` and `fra`; itself alone where it is not known."""
    return frozenset({code}).union(*(codes for codes in _SETS if code in codes))
