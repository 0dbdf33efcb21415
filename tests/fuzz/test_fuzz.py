"""A small share of the campaign of damaged inputs; `python -m tests.fuzz.run` does the rest."""

from pathlib import Path

import pytest

from fuzz.commands import COMMANDS
from fuzz.kinds import KINDS
from fuzz.run import campaign

ALL = KINDS | COMMANDS
SHARE = {"runs": 10} | dict.fromkeys(COMMANDS, 6)  # inputs of a kind, by default 60; a run takes half a second
SLOW = {"model commands", "foreign commands", "translate commands"}  # to make what is damaged


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in sorted(ALL)]
)
def test_damaged_input_is_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    share = SHARE.get(kind, 60)
    outcome = campaign(ALL[kind](tmp_path / kind), range(10**6, 10**6 + share))
    assert not outcome.failures
    assert outcome.counts["refused"] > 0 or kind in COMMANDS
    assert outcome.counts.total() == share
