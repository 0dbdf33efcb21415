"""Directives of messages that programs fill in, such as `%s` and `{}`: a translation has the same ones as its source.

    numbered("%s of %s", {"c-format"})                                # "%1$s of %2$s": what is translated
    restored("%s of %s", "%1$s von %2$s", {"c-format"})               # "%s von %s", True
    restored("%s of %s", "%2$s: %1$s", {"c-format"})                  # "%2$s: %1$s", True
    restored("%d files", "%s Dateien", {"c-format"})                  # "%s Dateien", False: `msgfmt --check` refuses it

The kinds are flags of gettext. Directives without a number or a name are filled in by their order, which a translation
may change, so they are numbered while they are translated.
"""

import re
from collections import Counter
from collections.abc import Collection
from itertools import count

# printf's; a blank is one of its flags
PERCENT = re.compile(
    r"%(?:(?P<number>\d+)\$|(?P<name>\(\w+\)))?(?P<flags>[-+ #0'I]*)(?P<width>\*|\d*)(?P<precision>(?:\.(?:\*|\d*))?)"
    r"(?P<size>hh|h|ll|l|q|L|j|z|t)?(?P<type>[a-zA-Z@%])"
)
NUMBERED = re.compile(r"%(\d+)\$")
BRACES = re.compile(r"\{(?P<field>\w*)(?P<rest>[^{}\s]*)\}")
PERCENT_KINDS = frozenset({"c-format", "objc-format", "php-format", "java-printf-format", "gcc-internal-format"})
NAMED_KINDS = frozenset({"python-format"})  # named directives, or such as cannot be numbered
BRACE_KINDS = frozenset({"python-brace-format"})


def numbered(text: str, kinds: Collection[str]) -> str:
    """Return a message with numbers for directives that have none, if there are several."""
    counter = count(1)
    if not BRACE_KINDS.isdisjoint(kinds) and [m["field"] for m in BRACES.finditer(text)].count("") > 1:
        return BRACES.sub(lambda m: m[0] if m["field"] else f"{{{next(counter) - 1}{m['rest']}}}", text)
    if not (PERCENT_KINDS | NAMED_KINDS).isdisjoint(kinds) and _is_countable(text):
        return PERCENT.sub(lambda m: m[0] if m["type"] == "%" else f"%{next(counter)}${m[0][1:]}", text)
    return text


def _is_countable(text: str) -> bool:
    """Return whether a message has several directives and none with a number, a name or a width that is filled in."""
    found = [match for match in PERCENT.finditer(text) if match["type"] != "%"]
    return len(found) > 1 and not any(
        match["number"] or match["name"] or "*" in match["width"] + match["precision"] or " " in match["flags"]
        for match in found
    )


def restored(source: str, translation: str, kinds: Collection[str]) -> tuple[str, bool]:
    """Return the translation of what `numbered` made of a source, and whether it has the source's directives.

    Numbers stay where the order has changed, unless the programming language does not have them.
    """
    text = translation
    if numbered(source, kinds) != source:
        pattern, first = (BRACES, 0) if not BRACE_KINDS.isdisjoint(kinds) else (PERCENT, 1)
        matches = [match for match in pattern.finditer(text) if match[0] != "%%"]
        numbers = [match["number"] if first else match["field"] for match in matches]
        is_ordered = numbers == [str(number) for number in range(first, first + len(numbers))]
        if is_ordered or not NAMED_KINDS.isdisjoint(kinds):
            text = NUMBERED.sub("%", text) if first else BRACES.sub(r"{\g<rest>}", text)
        if not is_ordered and not NAMED_KINDS.isdisjoint(kinds):
            return text, False
        if not is_ordered:
            source = numbered(source, kinds)
    return text, _is_consistent(source, text, kinds)


def _is_consistent(source: str, target: str, kinds: Collection[str]) -> bool:
    """Return whether a translation has the directives of its source, as `msgfmt --check` understands them."""
    if not BRACE_KINDS.isdisjoint(kinds):
        return Counter(BRACES.findall(source)) == Counter(BRACES.findall(target))
    if (PERCENT_KINDS | NAMED_KINDS).isdisjoint(kinds):
        return True
    return _arguments(source) == _arguments(target)


def _arguments(text: str) -> Counter[tuple[str, str]]:
    """Return which argument is filled in as what."""
    found = (match for match in PERCENT.finditer(text) if match["type"] not in "%m")
    return Counter(
        (match["number"] or match["name"] or str(i), (match["size"] or "") + match["type"])
        for i, match in enumerate(found, start=1)
    )
