#!/usr/bin/env bash
# Everything that the model card reports about a model, as JSON files in a folder. Files that exist are kept.
#
#   bash runs/shipped/measure.sh DATA MODEL SCORES
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora} model=${2:?give a model folder} scores=${3:?give a folder for the scores}
mkdir -p "$scores"

evaluate() { # NAME FILES OPTION ...
    [ -e "$scores/$1.json" ] || tram evaluate "$data/$2.en" "$data/$2.de" --model "$model" --no-perplexity \
        --hypothesis "$scores/$1.jsonl" --json "$scores/$1.json" "${@:3}"
}
contrast() { # NAME SUITE
    [ -e "$scores/$1.json" ] || tram contrast "$2" --model "$model" --json "$scores/$1.json"
}
evaluate opendocs opendocs/dev
evaluate europarl benchmark/europarl.dev
evaluate dialogue dialogue/dev
evaluate prose prose/dev
evaluate conversation conversation-nc/dev
evaluate conversation-gold conversation-nc/dev --history gold
evaluate news benchmark/news.dev
evaluate ted benchmark/ted.dev
[ -e "$scores/agreement.jsonl" ] || tram suite agreement "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
    "$scores/agreement.jsonl" --add "$data/europarl-direct/train.en.xz,$data/europarl-direct/train.de.xz" \
    --add "$data/prose/train.en.xz,$data/prose/train.de.xz" --add "$data/dialogue/train.en.xz,$data/dialogue/train.de.xz"
contrast agreement "$scores/agreement.jsonl"
contrast contrapro "$data/contrapro-sample/contrapro.jsonl"
contrast formality "$data/suites/ctxpro-formality.jsonl"
