#!/usr/bin/env bash
# Make the next model that ships with tram, and docs/RESULTS.md. The present one is trained further on documents in which
# context decides, some inside windows of real documents, with two seeds; the control is the sentence model inside it,
# trained as long on the same documents. Each is averaged with the model that it started from. Then measure the sentence
# model (a), the control (b) and both memories (c), write the tables, and write the memory of seed 1 to src/tram/shipped
# with its card.
#
#   bash runs/shipped/ship.sh DATA [FOLDER [START]]
#
# DATA      folder of the corpora
# FOLDER    where everything is written; default: runs/shipped/out
# START     the model to start from; default: src/tram/shipped
#
# Each training of the memory takes about half an hour on one core, each measuring about twenty minutes. Run it again to
# resume an interrupted run. RUNS="memory-1" does only some of them. BASE_UPDATES=1550 first trains the sentence model
# further, on single sentences with copy sentinels, separators and masks, and on everyday ones; DICTIONARY=FILE adds the
# examples and common words of Ding's dictionary to these (runs/shipped/everyday.py, dictionary.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora}
out=${2:-runs/shipped/out}
start=${3:-src/tram/shipped}
corpora=(opendocs europarl-direct dialogue prose)
mkdir -p "$out"

everyday=(--train "$out/augmented/everyday.en" "$out/augmented/everyday.de")
raw=("${everyday[@]}") pairs=("${everyday[@]}")
declare -A share=([opendocs]=0.6 [europarl-direct]=0.22 [dialogue]=1 [prose]=1) # of the documents, for the sentence model
sources=()
for corpus in "${corpora[@]}"; do
    raw+=(--train "$data/$corpus/train.en.xz" "$data/$corpus/train.de.xz")
    pairs+=(--train "$out/augmented/$corpus.en" "$out/augmented/$corpus.de")
    sources+=("$data/$corpus/train.en.xz")
done
mkdir -p "$out/augmented"
[ -e "$out/augmented/everyday.de" ] || python runs/shipped/everyday.py "$out/augmented/everyday.en" \
    "$out/augmented/everyday.de" ${DICTIONARY:+"$DICTIONARY"}
if [ "${BASE_UPDATES:-0}" -gt 0 ]; then
    for corpus in "${corpora[@]}"; do
        [ -e "$out/augmented/$corpus.de" ] || python runs/shipped/augment.py "$data/$corpus/train.en.xz" \
            "$data/$corpus/train.de.xz" "$out/augmented/$corpus.en" "$out/augmented/$corpus.de" 5 "${share[$corpus]}"
    done
    if [ -n "${DICTIONARY:-}" ]; then
        [ -e "$out/augmented/words.de" ] || python runs/shipped/dictionary.py "$DICTIONARY" "$out/augmented/words.en" \
            "$out/augmented/words.de" "${sources[@]}"
        pairs+=(--train "$out/augmented/words.en" "$out/augmented/words.de")
    fi
    [ -e "$out/base-start" ] || python runs/shipped/start.py "$start" "$out/base-start"
    tram prepare "$out/pairs" --text "$out/base-start" "${pairs[@]}" --held-out 0.003
    tram train configs/shipped-base.yaml data="$out/pairs" output="$out/base" train.start="$out/base-start" \
        train.updates="$BASE_UPDATES"
    [ -e "$out/start" ] || python runs/shipped/start.py "$start" "$out/start" --base "$out/base"
fi
[ -e "$out/spliced/README.md" ] || tram splice "$out/spliced" "${raw[@]}" --kinds pronouns=16000,terms=9000 --seed 7
# Made sentences would be most of those that address somebody, so only the dictionary's own examples are used here.
if [ ! -e "$out/address/README.md" ]; then
    python runs/shipped/everyday.py "$out/augmented/examples.en" "$out/augmented/examples.de" ${DICTIONARY:+"$DICTIONARY"} --examples
    examples=(--train "$out/augmented/examples.en" "$out/augmented/examples.de")
    [ -s "$out/augmented/examples.en" ] || examples=()
    tram splice "$out/address" "${examples[@]}" "${raw[@]:3}" --kinds address=8000 --seed 7
fi
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 2200 --seed 24
if [ ! -e "$out/pronouns.jsonl" ]; then # real passages that end with a pronoun
    more=()
    for corpus in "${corpora[@]:1}"; do more+=(--add "$data/$corpus/train.en.xz,$data/$corpus/train.de.xz"); done
    tram suite pronouns "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" "$out/pronouns.jsonl" "${more[@]}"
fi
[ -e "$out/start" ] || cp -r "$start" "$out/start" # the shipped model will be replaced
[ -e "$out/documents.de" ] || python runs/shipped/mix.py "$data" "$out"
tram prepare "$out/documents" --text "$start" --train "$out/documents.en" "$out/documents.de" --held-out 0.01
[ -e "$out/sentence" ] || python runs/shipped/start.py "$out/start" "$out/sentence"

train() { # RUN START SETTING ...
    tram train configs/shipped-memory.yaml data="$out/documents" output="$out/trained/$1" finetune.start="$out/$2" "${@:3}"
    [ -e "$out/$1" ] || python runs/shipped/average.py "$out/trained/$1" "$out/$2" "$out/$1"
}
for run in ${RUNS:-sentence control memory-1 memory-2}; do
    case $run in
    control) train "$run" sentence finetune.context=null ;;
    memory-*) train "$run" start seed="${run#*-}" ;;
    esac
    bash runs/shipped/measure.sh "$data" "$out/$run" "$out/scores/$run"
done
python runs/shipped/scores.py "$data" "$out" docs/results.json
python runs/shipped/table.py docs/results.json docs/RESULTS.md

cp "$out"/memory-1/* src/tram/shipped
python runs/shipped/model_card.py "$out" src/tram/shipped
python runs/shipped/attribution.py "$data" src/tram/shipped/ATTRIBUTION.md
