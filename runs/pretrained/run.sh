#!/usr/bin/env bash
# Show that a memory on top of a frozen, imported Marian model remembers: a sentence model with Marian's layout is trained
# on generated documents, exported for transformers, imported again and frozen; then a memory alone is finetuned on it.
#
#   bash runs/pretrained/run.sh [FOLDER] [SEED]          defaults: runs/pretrained/out and 1
#
# Run it again to resume an interrupted run. Expected: every phenomenon near chance before, and pronouns and address at
# least 95% after. It takes a few minutes of one core.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-runs/pretrained/out}
seed=${2:-1}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
contrast() { # NAME MODEL
    [ -e "$out/$1.json" ] || tram contrast "$out/suite.jsonl" --model "$2" --json "$out/$1.json"
}

say "1  Generate documents from a small grammar ($out/raw)"
[ -e "$out/raw/README.md" ] || tram synthetic "$out/raw" --documents 4000 --seed "$seed"
train=("$out/raw/train.en" "$out/raw/train.de")

say "2  A Marian model with random weights, imported ($out/random)"
[ -e "$out/stand-in/README.md" ] || python runs/pretrained/stand_in.py "${train[@]}" "$out/stand-in" --size small
[ -e "$out/random/README.md" ] || tram import hf "$out/stand-in" "$out/random"

say "3  Train it as a sentence model ($out/sentence)"
tram prepare "$out/data" --train "${train[@]}" --text "$out/random"
tram train configs/pretrained-synthetic.yaml data="$out/data" output="$out/sentence" train.start="$out/random" finetune=null

say "4  Export it for transformers and import it again: the frozen base ($out/base)"
[ -e "$out/hf/README.md" ] || tram export hf "$out/sentence" "$out/hf"
[ -e "$out/base/README.md" ] || tram import hf "$out/hf" "$out/base"

say "5  Finetune a memory alone ($out/memory)"
tram train configs/pretrained-synthetic.yaml data="$out/data" output="$out/memory" train=null finetune.start="$out/base"

say "6  The memory as an adapter; the rest of the model must still be the base ($out/adapter)"
[ -e "$out/adapter/README.md" ] || tram export adapter "$out/memory" "$out/adapter" --base "$out/base"

say "7  Score the base, and the base with the adapter, also with the context of another item and with none"
[ -e "$out/whole/README.md" ] || tram export tram "$out/base" "$out/whole" --adapter "$out/adapter"
[ -e "$out/suite.jsonl" ] || python runs/pretrained/table.py suite "$out/raw/suite.jsonl" "$out/suite.jsonl"
contrast sentence "$out/base"
contrast memory "$out/whole"

say "8  All results in one table"
python runs/pretrained/table.py gather "$out/results.json" --synthetic "$out"
