#!/usr/bin/env bash
# Make the model that ships with tram: finetune the sentence model of runs/mixed/run.sh with a memory on generated and
# real documents, write it as float16 to src/tram/shipped, score that folder and write the scores into its model card.
#
#   bash runs/shipped/ship.sh DATA [FOLDER]      DATA and FOLDER as for runs/mixed/run.sh
#
# FOLDER must contain the base of runs/mixed/run.sh, trained from raw files (without START).
# Run it again to resume an interrupted run.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora}
out=${2:-runs/mixed/out}
scores=$out/scores/shipped

# Real text rarely needs a memory. So training starts with generated documents and a few real ones, which keep the
# language; then follow opendocs and a tenth of europarl-direct, mixed with generated ones. A blank line ends a document.
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

Translator.load(sys.argv[1], dtype=torch.float16).save("src/tram/shipped")
PYTHON

for set in opendocs/dev benchmark/europarl.dev benchmark/news.dev benchmark/ted.dev; do
    name=$(basename "${set/\/dev/}" .dev)
    tram evaluate "$data/$set.en" "$data/$set.de" --hypothesis "$scores/$name.de" --json "$scores/$name.json" \
        --no-perplexity
done
tram contrast "$data/contrapro-sample/contrapro.jsonl" --json "$scores/contrapro.json"
python runs/shipped/model_card.py "$out" src/tram/shipped
