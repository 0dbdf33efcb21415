#!/usr/bin/env bash
# The model that ships with tram: the sentence model of runs/mixed.sh, finetuned with a memory on generated and real
# documents, as float16 in src/tram/model, with a card that holds the scores of the converted file.
#
#   bash runs/ship.sh DATA [FOLDER]      DATA and FOLDER: as for runs/mixed.sh, whose base must be there, trained from raw files
#
# Stopped at any time, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?give the folder of the corpora}
out=${2:-runs/mixed}
scores=$out/scores/shipped

# What a memory is for is rare in real text. So it first meets generated documents, with a few real ones to keep the
# language; then the manuals and a tenth of the speeches, with generated ones among them. A blank line ends a document.
sample() { # CORPUS LANGUAGE EVERY
    xz -dc "$data/$1/train.$2.xz" | awk -v RS= -v ORS='\n\n' "NR % $3 == 1"
}
for language in en de; do
    [ -e "$out/few.$language" ] || {
        { sample opendocs $language 7; sample europarl-direct $language 60; } > "$out/half"
        mv "$out/half" "$out/few.$language"
    }
done
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 8000 --seed 11
prepare() { # FOLDER OPTION ...
    tram prepare "$out/$1" --text "$out/prepared" --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de" "${@:2}"
}
generated=(--train "$out/generated/train.en" "$out/generated/train.de")
prepare warmup "${generated[@]}" --train "$out/few.en" "$out/few.de"
prepare documents --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
    --train "$out/speeches.en" "$out/speeches.de" "${generated[@]}"

finetune() { # RUN DATA START SETTING ...
    tram train configs/mixed-memory.yaml output="$out/$1" data="$out/$2" finetune.start="$out/$3" "${@:4}"
}
finetune warm warmup base finetune.updates=1200 finetune.cooldown=300
finetune shipped documents warm

python - "$out/shipped" <<'PYTHON'
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
python runs/model_card.py "$out" src/tram/model
