#!/usr/bin/env bash
# What the memory needs to remember: gradient depth 1 or full, 1 to 64 slots, the source side only or both. Writes docs/SYNTHETIC.md.
#
#   bash runs/synthetic-sweep.sh [FOLDER] [UPDATES]    FOLDER: that of runs/synthetic.sh, which runs first if need be
#
# Stopped, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/synthetic}
updates=${2:-800}

bash runs/synthetic.sh "$out"

variant() { # NAME SETTING ...
    local name=$1
    tram train configs/synthetic.yaml train=null finetune.start="$out/memory/train/model" data="$out/prepared" \
        output="$out/sweep/$name" finetune.updates="$updates" finetune.cooldown=$((updates / 4)) "${@:2}"
    [ -e "$out/sweep/$name.json" ] || tram contrast "$out/raw/suite.jsonl" --model "$out/sweep/$name" --json "$out/sweep/$name.json"
}

for slots in 16 4 1 64; do
    for depth in full 1; do
        variant "depth-$depth-slots-$slots" finetune.memory.depth="$depth" finetune.memory.slots="$slots"
    done
done
variant source finetune.memory.side=source
python runs/synthetic_table.py "$out" --output docs/SYNTHETIC.md
