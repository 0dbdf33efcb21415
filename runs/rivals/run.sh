#!/usr/bin/env bash
# Every system of docs/SYSTEMS.md and docs/UNITS.md, from data to one table (docs/RIVALS.md):
#
#   bash runs/rivals/run.sh [FOLDER] [DATA]
#
# FOLDER    of the runs; default: runs/rivals/out
# DATA      folder with real documents: train, dev and test, .en and .de each, a blank line between documents. With it,
#           the systems are also trained and scored on these, which takes hours.
#
# One sentence model is trained; every system is finetuned from it on the same documents and target tokens. A system
# whose docs/rivals/NAME.json exists is skipped; remove the file to make it again. Run it again to resume.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-runs/rivals/out}
data=${2:-}
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
    say "5  Real documents: one sentence model, every system from it, translations of the test documents ($out/real)"
    real=$out/real recipe=configs/rivals/unit-base.yaml
    tram prepare "$real/prepared" --train "$data/train.en" "$data/train.de" --dev "$data/dev.en" "$data/dev.de" \
        --merges 8000 --reserved
    tram train "$recipe" data="$real/prepared" output="$real/sentence" finetune=null
    [ -e "$real/pronouns.jsonl" ] || tram suite pronouns "$data/test.en" "$data/test.de" "$real/pronouns.jsonl"
    for system in sentence $(systems); do
        # Without patience: all see the same number of target tokens
        [ "$system" = sentence ] || python runs/rivals/train.py "$recipe" "$system" "$real" finetune.patience=0
        [ -e "$real/$system.jsonl" ] || tram evaluate "$data/test.en" "$data/test.de" --model "$real/$system" \
            --no-perplexity --json "$real/$system.json" --hypothesis "$real/$system.jsonl"
        [ -e "$real/$system.pronouns.json" ] || tram contrast "$real/pronouns.jsonl" --model "$real/$system" \
            --json "$real/$system.pronouns.json"
        python runs/rivals/real.py "$data/test" "$real" "$results/real" # grows while trainings run
    done
fi

say "6  The table and its figures (docs/RIVALS.md)"
python runs/rivals/table.py "$results" docs
