#!/usr/bin/env bash
# Every system of docs/SYSTEMS.md and docs/UNITS.md, from data to one table (docs/RIVALS.md):
#
#   bash runs/rivals/run.sh [FOLDER [DATA [START]]]
#
# FOLDER    of the runs; default: runs/rivals/out
# DATA      folder of the corpora that runs/shipped/ship.sh reads. With it, the systems are also finetuned on real
#           documents, and translate some: about an hour on one core.
# START     the model whose sentence model they start from; default: src/tram/shipped
#
# One sentence model is trained; every system is finetuned from it on the same documents and target tokens. A system
# whose docs/rivals/NAME.json exists is skipped; remove the file to make it again. Run it again to resume.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-runs/rivals/out}
data=${2:-}
start=${3:-src/tram/shipped}
recipe=configs/synthetic-rivals.yaml
results=docs/rivals

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
systems() { python runs/rivals/systems.py; }

say "1  Generate documents and convert them to ids ($out/prepared)"
[ -e "$out/raw/README.md" ] || tram synthetic "$out/raw" --documents 4000 --seed 1 \
    --phenomenon pronoun --phenomenon address --phenomenon term # three of six need fewer updates
tram prepare "$out/prepared" --train "$out/raw/train.en" "$out/raw/train.de" --merges 2000 --reserved

say "2  Train the sentence model that all systems start from ($out/sentence)"
tram train "$recipe" data="$out/prepared" output="$out/sentence" finetune=null
[ -e "$results/sentence.json" ] || python runs/rivals/result.py sentence "$out" "$results"

for system in $(systems); do
    [ -e "$results/$system.json" ] && continue
    say "3  Finetune and score: $system ($out/$system)"
    python runs/rivals/train.py "$recipe" "$system" "$out"
    python runs/rivals/result.py "$system" "$out" "$results"
done

say "4  Measure training and decoding, all systems side by side"
python runs/rivals/costs.py "$recipe" "$out" "$results/costs"

if [ -n "$data" ]; then
    real=$out/real recipe=runs/rivals/real.yaml
    say "5  Real documents: every system from one sentence model, translations of the test documents ($real)"
    corpora=()
    for corpus in opendocs dialogue prose; do
        corpora+=(--train "$data/$corpus/train.en.xz" "$data/$corpus/train.de.xz")
    done
    [ -e "$real/spliced/README.md" ] || tram splice "$real/spliced" "${corpora[@]}" --kinds pronouns=4000,address=2000 --seed 3
    [ -e "$real/pronouns.jsonl" ] || python runs/rivals/documents.py "$data" "$real"
    [ -e "$real/sentence" ] || python runs/shipped/start.py "$start" "$real/sentence"
    tram prepare "$real/prepared" --text "$real/sentence" --train "$real/train.en" "$real/train.de" --held-out 0.05
    for system in sentence $(systems); do
        [ "$system" = sentence ] || python runs/rivals/train.py "$recipe" "$system" "$real"
        [ -e "$real/$system.jsonl" ] || tram evaluate "$real/test.en" "$real/test.de" --model "$real/$system" --beam 1 \
            --measures address --no-perplexity --json "$real/$system.json" --hypothesis "$real/$system.jsonl"
        [ -e "$real/$system.pronouns.json" ] || tram contrast "$real/pronouns.jsonl" --model "$real/$system" \
            --context own --json "$real/$system.pronouns.json"
        python runs/rivals/real.py "$real" "$results/real" # grows while trainings run
    done
fi

say "6  The table and its figures (docs/RIVALS.md)"
python runs/rivals/table.py "$results" docs
