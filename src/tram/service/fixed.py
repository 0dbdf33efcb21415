"""The service's translator, whose model never changes."""

from tram.translation.translator import Translator


class FixedTranslator(Translator):
    """A translator with the model of another one, which does not look for changed weights at every request."""

    def __init__(self, translator: Translator) -> None:
        vars(self).update(vars(translator))
        self._name = translator.fingerprint

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that identify the weights."""
        return self._name
