#!/usr/bin/env bash
# Vary the memory of runs/synthetic/run.sh: gradient depth 1 or full, 1 to 64 slots, the source side only or both sides;
# and show what depth 1 cannot learn. Writes docs/SYNTHETIC.md.
#
#   bash runs/synthetic/sweep.sh [FOLDER] [UPDATES]    FOLDER: that of run.sh, which runs first if necessary
#
# Run it again to resume an interrupted sweep.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-runs/synthetic/out}
updates=${2:-800}

bash runs/synthetic/run.sh "$out"

variant() { # NAME SUITE SETTING ...
    local name=$1 suite=$2
    tram train configs/synthetic.yaml train=null finetune.start="$out/memory/train/model" data="$out/prepared" \
        output="$out/sweep/$name" finetune.updates="$updates" finetune.cooldown=$((updates / 4)) "${@:3}"
    [ -e "$out/sweep/$name.json" ] || tram contrast "$suite" --model "$out/sweep/$name" --json "$out/sweep/$name.json"
}

for slots in 16 4 1 64; do
    for depth in full 1; do
        variant "depth-$depth-slots-$slots" "$out/raw/suite.jsonl" \
            finetune.memory.depth="$depth" finetune.memory.slots="$slots"
    done
done
variant source "$out/raw/suite.jsonl" finetune.memory.side=source

# Documents in which a sentence never depends on one fewer than three sentences back
[ -e "$out/raw-3/README.md" ] || tram synthetic "$out/raw-3" --documents 4000 --distance 3 --seed 3
tram prepare "$out/prepared-3" --train "$out/raw-3/train.en" "$out/raw-3/train.de" --text "$out/prepared"
for depth in full 1; do
    variant "three-$depth" "$out/raw-3/suite.jsonl" data="$out/prepared-3" finetune.memory.depth="$depth"
done
python runs/synthetic/table.py "$out" --output docs/SYNTHETIC.md
