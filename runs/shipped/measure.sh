#!/usr/bin/env bash
# Everything that docs/RESULTS.md and the model card report about a model, as files in a folder. Files that exist are kept.
#
#   bash runs/shipped/measure.sh DATA MODEL SCORES
#
# SCORES/../agreement.jsonl, inside.jsonl and pronouns.jsonl are suites for all models, made when they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora} model=${2:?give a model folder} scores=${3:?give a folder for the scores}
suites=$(dirname "$scores")
mkdir -p "$scores"

precision=(--precision int8) # twice as fast as float32, the default

evaluate() { # NAME FILES OPTION ...
    [ -e "$scores/$1.jsonl" ] || tram evaluate "$data/$2.en" "$data/$2.de" --model "$model" --no-perplexity "${precision[@]}" \
        --hypothesis "$scores/$1.jsonl" --json "$scores/$1.json" "${@:3}"
}
contrast() { # NAME SUITE OPTION ...
    [ -e "$scores/$1.json" ] || tram contrast "$2" --model "$model" "${precision[@]}" --json "$scores/$1.json" "${@:3}"
}

agreement() { # NAME OPTION ...: of the nouns and sentences that training leaves out, the half that nothing is chosen on
    [ -e "$suites/$1.jsonl" ] || tram suite agreement "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
        "$suites/$1.jsonl" --add "$data/europarl-direct/train.en.xz,$data/europarl-direct/train.de.xz" \
        --add "$data/prose/train.en.xz,$data/prose/train.de.xz" \
        --add "$data/dialogue/train.en.xz,$data/dialogue/train.de.xz" --words second-half "${@:2}"
}
agreement agreement
agreement inside --before 6 --items 200
[ -e "$suites/pronouns.jsonl" ] || tram suite pronouns "$data/opendocs/dev.en" "$data/opendocs/dev.de" \
    "$suites/pronouns.jsonl" --add "$data/prose/dev.en,$data/prose/dev.de" \
    --add "$data/benchmark/europarl.dev.en,$data/benchmark/europarl.dev.de" --genders "$data/opendocs/train.de.xz" \
    --genders "$data/europarl-direct/train.de.xz" --genders "$data/prose/train.de.xz"

contrast agreement "$suites/agreement.jsonl"
contrast inside "$suites/inside.jsonl"
contrast contrapro "$data/contrapro-sample/contrapro.jsonl"
contrast pronouns "$suites/pronouns.jsonl"
evaluate opendocs opendocs/dev
evaluate conversation conversation-nc/dev
evaluate prose prose/dev
evaluate europarl benchmark/europarl.dev
evaluate dialogue dialogue/dev
if grep -q 'kind: memory' "$model/config.yaml"; then # a sentence model has no history
    evaluate conversation-gold conversation-nc/dev --history gold
    evaluate prose-gold prose/dev --history gold
fi
evaluate news benchmark/news.dev
evaluate ted benchmark/ted.dev
contrast formality "$data/suites/ctxpro-formality.jsonl"
contrast auxiliary "$data/suites/ctxpro-auxiliary.jsonl"
