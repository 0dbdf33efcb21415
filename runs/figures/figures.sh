#!/usr/bin/env bash
# Make docs/figures: every analysis of the model of runs/synthetic/run.sh and of the one that ships with tram. Needs the
# finished runs of runs/synthetic/run.sh, runs/mixed/run.sh and runs/shipped/ship.sh.
#
#   bash runs/figures/figures.sh DATA [SYNTHETIC] [MIXED]
#
# DATA                folder of the corpora, as for runs/mixed/run.sh
# SYNTHETIC, MIXED    output folders of runs/synthetic/run.sh and runs/mixed/run.sh
#
# It trains the variants of memory-size, placement and window, which takes many hours. Run it again to resume. A report
# whose .md is in docs/figures is skipped; remove the .md to make it again. Pages and PNG pictures go to docs/figures;
# the full numbers (JSON) and SVG pictures stay in runs/figures/out.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora}
synthetic=${2:-runs/synthetic/out}
mixed=${3:-runs/mixed/out}
out=runs/figures/out

analyze() { # FOLDER NAME ARGUMENT ...
    [ -e "docs/figures/$1/$2.md" ] && return
    tram analyze "$2" --output "$out/$1" "${@:3}"
    mkdir -p "docs/figures/$1"
    cp "$out/$1/$2.png" "$out/$1/$2.md" "docs/figures/$1"
}

figures() { # FOLDER SOURCE REFERENCE MODEL OPTION ...      the options: what `position` compares
    local folder=$1 texts=("$2" "$3") model=$4
    analyze "$folder" attribution "${texts[@]}" --model "$model" --documents 50
    analyze "$folder" position "${texts[@]}" "${@:5}"
    analyze "$folder" complexity --model "$model"
}

recipe() { # DATA START RUNS OPTION ...              how the variants of the next analyses are trained
    recipe=(--data "$1" --start "$2" --runs "$3" --updates 500 "${@:4}")
}

python runs/figures/architecture.py # the picture at the top of the README; needs no run

test=("$synthetic/raw/test.en" "$synthetic/raw/test.de")
figures synthetic "${test[@]}" "$synthetic/memory" --model "$synthetic/memory" --baseline "$synthetic/memory/train/model"
analyze synthetic attention "${test[@]}" --model "$synthetic/memory"
analyze synthetic planted "$synthetic/raw/suite.jsonl" --model "$synthetic/memory"

dev=("$data/opendocs/dev.en" "$data/opendocs/dev.de")
figures mixed "${dev[@]}" src/tram/shipped \
    --hypothesis "$mixed/scores/depth1-1/opendocs.de" --baseline-hypothesis "$mixed/scores/sentence-1/opendocs.de"

# The attention map prints its text, and the corpora are not part of the repository: so it shows the letter of
# `make demo` and its translation.
letter=("$out/letter.en" "$out/letter.de")
[ -e "${letter[1]}" ] || python runs/figures/letter.py "${letter[@]}"
analyze mixed attention "${letter[@]}" --model src/tram/shipped

# Variants. 512 slots cost twelve times as much as 16, so the sizes are compared with fewer documents per update.
from=("$synthetic/prepared" "$synthetic/memory/train/model")
with=(--config configs/synthetic.yaml --share 1)
recipe "${from[@]}" "$synthetic/variants" "${with[@]}"
analyze synthetic placement "${test[@]}" "${recipe[@]}"
analyze synthetic window --train "${recipe[@]}"
recipe "${from[@]}" "$synthetic/sizes" "${with[@]}" --set finetune.documents=8
analyze synthetic memory-size "${test[@]}" "${recipe[@]}"

# AdamW: with batches this small, a step of Muon costs more than the rest of the update.
with=(--config configs/mixed-memory.yaml --share 0.1
    --set finetune.optimizer=adamw --set finetune.lr=2e-4 --set finetune.lr_new=2e-3)
recipe "$mixed/documents" "$mixed/base" "$mixed/variants" "${with[@]}" --set finetune.documents=2
analyze mixed placement "${dev[@]}" "${recipe[@]}"
analyze mixed window --train "${recipe[@]}"
recipe "$mixed/documents" src/tram/shipped "$mixed/sizes" "${with[@]}" --set finetune.documents=1
analyze mixed memory-size "${dev[@]}" "${recipe[@]}"
