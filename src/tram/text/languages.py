"""Codes of languages, as ISO 639-1 has them."""

import re

from tram.errors import InputError

_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en"
    " eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv"
    " ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne"
    " ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss"
    " st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
CODES = frozenset(_ISO_639_1.split())
LONG = re.compile(r"([a-z]{2})[-_][A-Za-z0-9]{2,8}|[a-z]{3}(?:[-_][A-Za-z0-9]{2,8})?")  # de-AT, deu, deu_Latn


def check_language(code: str) -> None:
    """Refuse what is no language code."""
    match = LONG.fullmatch(code)
    if code not in CODES and (match is None or match[1] not in {None, *CODES}):
        raise InputError(f"language {code!r}: is not a language code; give one of ISO 639, for example en or de")
