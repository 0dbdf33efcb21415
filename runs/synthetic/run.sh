#!/usr/bin/env bash
# Train a small model on generated documents and show that its memory remembers, from scratch, in about twenty minutes
# on two slow cores:
#
#   bash runs/synthetic/run.sh [FOLDER] [SEED]          defaults: runs/synthetic/out and 1
#
# Run it again to resume an interrupted run. Another seed generates other documents, so give it another folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-runs/synthetic/out}
seed=${2:-1}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
contrast() { # NAME MODEL [OPTION ...]
    [ -e "$out/$1.json" ] || tram contrast "$out/raw/suite.jsonl" --model "$2" "${@:3}" --json "$out/$1.json"
}

say "1  Generate documents from a small grammar ($out/raw)"
[ -e "$out/raw/README.md" ] || tram synthetic "$out/raw" --documents 4000 --seed "$seed"

say "2  Learn the text pipeline and convert the documents to ids ($out/prepared)"
tram prepare "$out/prepared" --train "$out/raw/train.en" "$out/raw/train.de" --merges 2000

say "3  Train a sentence model, then finetune it with the memory ($out/memory)"
tram train configs/synthetic.yaml data="$out/prepared" output="$out/memory"

say "4  Score the sentence model: expected to be at chance for every phenomenon"
contrast sentence "$out/memory/train/model"

say "5  Score the model with its memory"
contrast memory "$out/memory/finetune/model"

say "6  Controls: the memory reset before each item, and the context of another item"
contrast reset "$out/memory/finetune/model" --history none
contrast other "$out/memory/finetune/model" --context other

say "7  All results in one table"
python runs/synthetic/table.py "$out"
