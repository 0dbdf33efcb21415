"""Documents whose right translation needs what stood sentences before, from a small English–German grammar.

    generate(seed=1, documents=1000)    # parallel documents to train on
    suite(seed=1, items_per_cell=48)    # contrastive items with a stated distance to the deciding sentence
    write(Path("synthetic"))            # all of it as files

`lexicon` has the words, `frames` the sentences, `grammar` joins them, `threads` says what decides what.
"""

from tram.synthetic.documents import generate
from tram.synthetic.folder import write
from tram.synthetic.suite import Item, suite

__all__ = ["Item", "generate", "suite", "write"]
