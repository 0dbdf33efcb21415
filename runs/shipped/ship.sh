#!/usr/bin/env bash
# Make the next model that ships with tram, and docs/RESULTS.md. From the present one, on windows of real documents and
# on documents in which context decides, with two seeds each:
#   (c) the model with its memory, trained further,
#   (b) the control: (a), the sentence model inside it, trained as long on the same documents;
# then measure all of them, write the tables, and write (c), seed 1, as float16 to src/tram/shipped with its card.
#
#   bash runs/shipped/ship.sh DATA [FOLDER [START]]
#
# DATA      folder of the corpora
# FOLDER    where everything is written; default: runs/shipped/out
# START     the model to start from; default: src/tram/shipped
#
# Each of the four trainings takes about half an hour on one core. Run it again to resume an interrupted run. RUNS="memory-1"
# does only some of them. BASE_UPDATES=1400 first trains the sentence model further, on single sentences with copy
# sentinels, separators and masks.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora}
out=${2:-runs/shipped/out}
start=${3:-src/tram/shipped}
corpora=(opendocs europarl-direct dialogue prose)
mkdir -p "$out"

raw=() pairs=()
for corpus in "${corpora[@]}"; do
    raw+=(--train "$data/$corpus/train.en.xz" "$data/$corpus/train.de.xz")
    pairs+=(--train "$out/augmented/$corpus.en" "$out/augmented/$corpus.de")
done
if [ "${BASE_UPDATES:-0}" -gt 0 ]; then
    mkdir -p "$out/augmented"
    for corpus in "${corpora[@]}"; do
        [ -e "$out/augmented/$corpus.de" ] || python runs/shipped/augment.py "$data/$corpus/train.en.xz" \
            "$data/$corpus/train.de.xz" "$out/augmented/$corpus.en" "$out/augmented/$corpus.de"
    done
    [ -e "$out/base-start" ] || python runs/shipped/start.py "$start" "$out/base-start"
    tram prepare "$out/pairs" --text "$out/base-start" "${pairs[@]}"
    tram train configs/shipped-base.yaml data="$out/pairs" output="$out/base" train.start="$out/base-start" \
        train.updates="$BASE_UPDATES"
    [ -e "$out/start" ] || python runs/shipped/start.py "$start" "$out/start" --base "$out/base"
fi
[ -e "$out/spliced/README.md" ] || tram splice "$out/spliced" "${raw[@]}" --kinds pronouns=24000,address=12000,terms=9000 --seed 2
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 2200 --seed 22
[ -e "$out/documents.de" ] || python runs/shipped/mix.py "$data" "$out"
tram prepare "$out/documents" --text "$start" --train "$out/documents.en" "$out/documents.de" --held-out 0.01
[ -e "$out/start" ] || cp -r "$start" "$out/start" # the shipped model will be replaced
[ -e "$out/sentence" ] || python runs/shipped/start.py "$out/start" "$out/sentence"

train() { # RUN: train it, then take the mean with the start
    local first="$out/start" none=()
    [ "${1%-*}" = memory ] || first="$out/sentence" none=(finetune.context=null)
    tram train configs/shipped-memory.yaml data="$out/documents" output="$out/trained/$1" seed="${1#*-}" \
        finetune.start="$first" "${none[@]}"
    [ -e "$out/$1" ] || python runs/shipped/average.py "$first" "$out/trained/$1" "$out/$1"
}
for run in ${RUNS:-sentence memory-1 control-1 memory-2 control-2}; do
    [ "$run" = sentence ] || train "$run"
    bash runs/shipped/measure.sh "$data" "$out/$run" "$out/scores/$run"
done
python runs/shipped/scores.py "$data" "$out" docs/results.json
python runs/shipped/table.py docs/results.json docs/RESULTS.md

python runs/shipped/to_float16.py "$out/memory-1" src/tram/shipped
bash runs/shipped/measure.sh "$data" src/tram/shipped "$out/scores/shipped"
python runs/shipped/model_card.py "$out" src/tram/shipped
python runs/shipped/attribution.py "$data" src/tram/shipped/ATTRIBUTION.md
