#!/usr/bin/env bash
# From nothing to proof that the memory remembers, in about twenty minutes of two slow cores:
#
#   bash runs/synthetic.sh [FOLDER] [SEED]          default: runs/synthetic, 1
#
# Stopped, it goes on where it was when it is run again. Another seed gives other documents: use another folder then.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/synthetic}
seed=${2:-1}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
contrast() { # NAME MODEL [OPTION ...]
    [ -e "$out/$1.json" ] || tram contrast "$out/raw/suite.jsonl" --model "$2" "${@:3}" --json "$out/$1.json"
}

say "1  documents from a small grammar ($out/raw)"
[ -e "$out/raw/README.md" ] || tram synthetic "$out/raw" --documents 4000 --seed "$seed"

say "2  text pipeline and ids ($out/prepared)"
tram prepare "$out/prepared" --train "$out/raw/train.en" "$out/raw/train.de" --merges 2000

say "3  a sentence model, then the memory ($out/memory)"
tram train configs/synthetic.yaml data="$out/prepared" output="$out/memory"

say "4  the sentence model: chance, whatever the phenomenon"
contrast sentence "$out/memory/train/model"

say "5  with the memory"
contrast memory "$out/memory/finetune/model"

say "6  controls: the memory reset before each item, and the context of another item"
contrast reset "$out/memory/finetune/model" --history none
contrast other "$out/memory/finetune/model" --context other

say "7  all of it in one table"
python runs/synthetic_table.py "$out"
