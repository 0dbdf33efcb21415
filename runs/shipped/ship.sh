#!/usr/bin/env bash
# Make the model that ships with tram: train its sentence model further, then its memory on documents in which context
# decides; write it as float16 to src/tram/shipped, score that folder and write the scores into its card.
#
#   bash runs/shipped/ship.sh DATA [FOLDER]      DATA: the folder of the corpora; FOLDER: runs/shipped/out
#
# BASE_UPDATES (default 1400) is the length of the first stage. Run it again to resume an interrupted run.
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora}
out=${2:-runs/shipped/out}
old=src/tram/shipped
corpora=(opendocs europarl-direct dialogue prose)
mkdir -p "$out"

[ -e "$out/start" ] || python runs/shipped/start.py $old "$out/start"
pairs=() raw=()
for corpus in "${corpora[@]}"; do
    [ -e "$out/$corpus.de" ] || python runs/shipped/augment.py "$data/$corpus/train.en.xz" "$data/$corpus/train.de.xz" \
        "$out/$corpus.en" "$out/$corpus.de"
    pairs+=(--train "$out/$corpus.en" "$out/$corpus.de")
    raw+=(--train "$data/$corpus/train.en.xz" "$data/$corpus/train.de.xz")
done
tram prepare "$out/sentences" --text "$out/start" "${pairs[@]}"
tram train configs/shipped-base.yaml data="$out/sentences" output="$out/base" train.start="$out/start" \
    train.updates="${BASE_UPDATES:-1400}"

[ -e "$out/spliced/README.md" ] || tram splice "$out/spliced" "${raw[@]}" --kinds pronouns=24000,address=9000,terms=9000
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 2200 --seed 21
[ -e "$out/memory-start" ] || python runs/shipped/start.py $old "$out/memory-start" --base "$out/base"
stage() { # NAME START SETTING ...
    [ -e "$out/$1.de" ] || python runs/shipped/mix.py "$1" "$data" "$out"
    tram prepare "$out/$1-documents" --text "$out/start" --train "$out/$1.en" "$out/$1.de" --held-out 0.02
    tram train configs/shipped-memory.yaml data="$out/$1-documents" output="$out/$1" finetune.start="$out/$2" "${@:3}"
}
stage memory memory-start
# Without a few generated documents the model forgets what it learned from them: "Mr Weber" is Sie, everyday words
stage polish memory finetune.lr=7e-4 finetune.warmup=10 finetune.cooldown=110 finetune.updates=120

python runs/shipped/to_float16.py "$out/polish" $old
bash runs/shipped/measure.sh "$data" $old "$out/scores"
python runs/shipped/model_card.py "$out" $old
