"""Language codes: those of ISO 639-1, and the longer codes of other programs for the same languages."""

import difflib
import re
from collections.abc import Iterable

from tram.errors import InputError

_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en"
    " eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv"
    " ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne"
    " ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss"
    " st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
# Pairs of ISO 639-3 and 639-1 codes; for macrolanguages also the member that translation models use (arb, cmn).
_ISO_639_3 = (
    "aar aa abk ab afr af aka ak als sq amh am ara ar arb ar arg an asm as ava av aym ay ayr ay aze az azj az bak ba"
    " bam bm bel be ben bn bod bo bos bs bre br bul bg cat ca ces cs cha ch che ce chv cv cmn zh cor kw cos co cym cy"
    " dan da deu de div dv dzo dz ell el eng en epo eo est et eus eu ewe ee fao fo fas fa fij fj fin fi fra fr fry fy"
    " ful ff fuv ff gaz om gla gd gle ga glg gl glv gv grn gn guj gu hat ht hau ha hbs sh heb he hin hi hrv hr hun hu"
    " hye hy ibo ig iku iu ind id isl is ita it jav jv jpn ja kal kl kan kn kas ks kat ka kaz kk khk mn khm km kik ki"
    " kin rw kir ky kmr ku kon kg kor ko kur ku lao lo lat la lav lv lim li lin ln lit lt ltz lb lub lu lug lg lvs lv"
    " mal ml mar mr mkd mk mlg mg mlt mt mon mn mri mi msa ms mya my nav nv nep ne nld nl nno nn nob nb nor no npi ne"
    " nya ny oci oc ori or orm om ory or oss os pan pa pbt ps pes fa plt mg pol pl por pt pus ps que qu quy qu roh rm"
    " ron ro run rn rus ru sag sg san sa sin si slk sk slv sl sme se smo sm sna sn snd sd som so sot st spa es sqi sq"
    " srd sc srp sr ssw ss sun su swa sw swe sv swh sw tah ty tam ta tat tt tel te tgk tg tgl tl tha th tir ti ton to"
    " tsn tn tso ts tuk tk tur tr twi tw uig ug ukr uk urd ur uzb uz uzn uz ven ve vie vi wln wa wol wo xho xh ydd yi"
    " yid yi yor yo zha za zho zh zsm ms zul zu"
)
CODES = frozenset(_ISO_639_1.split())
LONG = re.compile(r"([a-z]{2})[-_][A-Za-z0-9]{2,8}|[a-z]{3}(?:[-_][A-Za-z0-9]{2,8})?")  # de-AT, deu, deu_Latn
SHORT = dict(zip(_ISO_639_3.split()[::2], _ISO_639_3.split()[1::2], strict=True))
UNDETERMINED = "und"


def check_language(code: str, where: str = "") -> None:
    """Raise InputError unless `code` is a language code; where: prefix of the error message."""
    match = LONG.fullmatch(code)
    if code not in CODES and (match is None or match[1] not in {None, *CODES}):
        raise InputError(f"{where}language {code!r}: is not a language code; give one of ISO 639, for example en or de")


def short_code(code: str) -> str:
    """Return the ISO 639-1 code for a longer one (deu_Latn, de_DE → de), or its language part if there is none."""
    language = re.split("[-_]", code, maxsplit=1)[0].lower()
    return SHORT.get(language, language)


def find_language(code: str, known: Iterable[str], where: str) -> str:
    """Resolve a language code to one of the codes that a model knows: an exact match, or the only one of that language.

    where: prefix of the error message
    """
    codes = list(known)
    if code in codes:
        return code
    same = [each for each in codes if short_code(each) == short_code(code)]
    is_bare = re.fullmatch("[a-z]{2,3}", code) is not None  # without script or region
    if is_bare and len(same) == 1:
        return same[0]
    near = same or difflib.get_close_matches(code, codes, n=3, cutoff=0.4) or sorted(codes)[:3]
    problem = "matches several languages of this model" if is_bare and same else "is not a language of this model"
    raise InputError(f"{where}: language {code!r} {problem}; give, for example, {', '.join(near)}")
