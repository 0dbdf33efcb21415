#!/usr/bin/env bash
# The model that ships with tram: a run of runs/mixed.sh as float16 in src/tram/model, with a card that holds the scores
# of the converted file.
#
#   bash runs/ship.sh DATA RUN [FOLDER]      DATA and FOLDER: as for runs/mixed.sh; RUN: one of its runs, such as depth1-1
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?give the folder of the corpora}
run=${2:?name the run}
out=${3:-runs/mixed}
scores=$out/scores/shipped

python - "$out/$run" <<'PYTHON'
import sys
import torch
from tram import Translator

Translator.load(sys.argv[1], dtype=torch.float16).save("src/tram/model")
PYTHON

for set in opendocs/dev benchmark/europarl.dev benchmark/news.dev benchmark/ted.dev; do
    name=$(basename "${set/\/dev/}" .dev)
    tram evaluate "$data/$set.en" "$data/$set.de" --hypothesis "$scores/$name.de" --json "$scores/$name.json" \
        --no-perplexity
done
tram contrast "$data/contrapro-sample/contrapro.jsonl" --json "$scores/contrapro.json"
python runs/model_card.py "$out" "$run" src/tram/model
