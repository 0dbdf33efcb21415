"""What decides the form of address in the first sentence that shows one: cues in the source, or a habit.

python runs/shipped/cues.py [MODEL] [--json FILE]

Every opening is followed by every request. The table shows how often the translation of the request is formal (*Sie*),
after the opening, and how much of that is due to the memory: the same requests translated alone.
"""

import argparse
from collections import Counter
from pathlib import Path

from tram import Translator
from tram.analysis.report import markdown_table
from tram.evaluation.address import form_of
from tram.evaluation.language import load_language
from tram.files import write_json

OPENINGS = {
    "title and surname": ("Dear Mrs Lange,", "Dear Mr Weber,", "Good morning, Mr Schmidt.", "Thank you, Dr Braun."),
    "sir, madam": ("Good evening, sir.", "Excuse me, madam.", "Yes, sir.", "Of course, madam."),
    "first name": ("Dear Anna,", "Hi Tom!", "Hello Lisa.", "Thanks, Peter."),
    "family": ("Dear Grandma,", "Hello Dad.", "Mum, listen.", "My dear brother,"),
    "service": ("Welcome to our hotel.", "Thank you for calling our office.", "The doctor will see the patients now."),
    "none": ("The weather is nice today.", "The train was late again.", "We bought a new table."),
}
REQUESTS = (
    "Can you help me?",
    "Do you have a minute?",
    "I hope you are well.",
    "Where do you live?",
    "You can open the window.",
    "What would you like to eat?",
    "Have you read the letter?",
    "Did you sleep well?",
    "I have a question for you.",
    "You do not have to wait.",
)


def main() -> None:
    """Translate, count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    translator = Translator.load(given.model)
    source, target = load_language("en"), load_language("de")

    def forms(documents: list[list[str]]) -> Counter[str]:
        """Count the forms of the last sentences."""
        translated = translator.translate_documents(documents)
        pairs = zip(documents, translated, strict=True)
        found = (form_of(result[-1], target, document[-1], source) for document, result in pairs)
        return Counter(form for form in found if form)

    cases = {name: [[first, ask] for first in openings for ask in REQUESTS] for name, openings in OPENINGS.items()}
    cases = {"(alone)": [[ask] for ask in REQUESTS]} | cases
    counts = {name: forms(documents) for name, documents in cases.items()}
    rows = [
        [name, f"{count['V'] / max(count.total(), 1):.0%}", f"{count.total()} of {len(cases[name])}"]
        for name, count in counts.items()
    ]
    print(markdown_table(["sentence before", "formal", "requests that show a form"], rows))
    if given.json:
        write_json(given.json, {name: dict(count) for name, count in counts.items()})


if __name__ == "__main__":
    main()
