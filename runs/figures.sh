#!/usr/bin/env bash
# docs/figures: every analysis on the model of runs/synthetic.sh and on the one that ships with tram. The runs of
# runs/synthetic.sh, runs/mixed.sh and runs/ship.sh must be there.
#
#   bash runs/figures.sh DATA [SYNTHETIC] [MIXED]     DATA: as for runs/mixed.sh; the folders of the two scripts
#
# The variants of memory-size, placement and window are trained next to the models: many hours. Stopped at any time, it
# goes on where it was when it is run again; a report is made again if its .md is removed.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?give the folder of the corpora}
synthetic=${2:-runs/synthetic}
mixed=${3:-runs/mixed}

analyze() { # FOLDER NAME ARGUMENT ...
    [ -e "docs/figures/$1/$2.md" ] || tram analyze "$2" --output "docs/figures/$1" "${@:3}"
}

figures() { # FOLDER SOURCE REFERENCE MODEL OPTION ...      the options: what `position` compares
    local output=$1 texts=("$2" "$3") model=$4
    analyze "$output" attribution "${texts[@]}" --model "$model" --documents 50
    analyze "$output" position "${texts[@]}" "${@:5}"
    analyze "$output" complexity --model "$model"
}

recipe() { # DATA START RUNS OPTION ...              how the variants of the next analyses are trained
    recipe=(--data "$1" --start "$2" --runs "$3" --updates 500 "${@:4}")
}

test=("$synthetic/raw/test.en" "$synthetic/raw/test.de")
figures synthetic "${test[@]}" "$synthetic/memory" --model "$synthetic/memory" --baseline "$synthetic/memory/train/model"
analyze synthetic attention "${test[@]}" --model "$synthetic/memory"
analyze synthetic planted "$synthetic/raw/suite.jsonl" --model "$synthetic/memory"

dev=("$data/opendocs/dev.en" "$data/opendocs/dev.de")
figures mixed "${dev[@]}" src/tram/model \
    --hypothesis "$mixed/scores/depth1-1/opendocs.de" --baseline-hypothesis "$mixed/scores/sentence-1/opendocs.de"

# The attention map prints its text, and the corpora stay out of the repo: so the letter, and its translation.
letter=("$mixed/letter.en" "$mixed/letter.de")
[ -e "${letter[1]}" ] || python - "${letter[@]}" <<'PYTHON'
import sys
from pathlib import Path
from tram import Translator
from tram.text import split_document

sentences = split_document(Path("examples/letter.txt").read_text(encoding="utf-8"), "en").sentences
for path, lines in zip(sys.argv[1:], (sentences, Translator.load().translate(sentences))):
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
PYTHON
analyze mixed attention "${letter[@]}" --model src/tram/model

# Variants. 512 slots cost twelve times what 16 do: the sizes are compared with fewer documents an update.
from=("$synthetic/prepared" "$synthetic/memory/train/model")
with=(--config configs/synthetic.yaml --share 1)
recipe "${from[@]}" "$synthetic/variants" "${with[@]}"
analyze synthetic placement "${test[@]}" "${recipe[@]}"
analyze synthetic window --train "${recipe[@]}"
recipe "${from[@]}" "$synthetic/sizes" "${with[@]}" --set finetune.documents=8
analyze synthetic memory-size "${test[@]}" "${recipe[@]}"

with=(--config configs/mixed-memory.yaml --share 0.1
    --set finetune.optimizer=adamw --set finetune.lr=2e-4 --set finetune.lr_new=2e-3) # Muon's step costs more than these batches
recipe "$mixed/documents" "$mixed/base" "$mixed/variants" "${with[@]}" --set finetune.documents=2
analyze mixed placement "${dev[@]}" "${recipe[@]}"
analyze mixed window --train "${recipe[@]}"
recipe "$mixed/documents" src/tram/model "$mixed/sizes" "${with[@]}" --set finetune.documents=1
analyze mixed memory-size "${dev[@]}" "${recipe[@]}"
