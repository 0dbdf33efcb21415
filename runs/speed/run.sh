#!/usr/bin/env bash
# Everything that docs/SPEED.md reports, as files in docs/speed; files that exist are kept. About 25 minutes in which
# nothing else may run.
#
#   git worktree add --detach ../old 596f58d
#   bash runs/speed/run.sh DATA ../old
#   python runs/speed/table.py docs/speed docs/SPEED.md
set -euo pipefail
cd "$(dirname "$0")/../.."
data=${1:?give the folder of the corpora} old=${2:?give a checkout of 596f58d}
export OMP_NUM_THREADS=1
out=docs/speed text=$data/opendocs/dev.en
mkdir -p $out

measure() { # NAME COMMAND ...
    [ -e "$out/$1.json" ] || "${@:2}" --json "$out/$1.json"
}

for beam in 5 1; do
    measure document-beam$beam tram bench document --text "$text" --sentences 16 --beam $beam
    measure documents16-beam$beam tram bench document --text "$text" --documents 16 --sentences 48 --beam $beam --quick
    measure documents64-beam$beam tram bench document --text "$text" --documents 64 --sentences 128 --beam $beam --quick
done
for batch in 1 16; do
    for size in small base; do
        measure decode-$size-$batch tram bench decode --rounds 9 --batch $batch --beam 5 --beam 1 --size $size --quick
    done
done
measure speculation python runs/speed/speculation.py "$text"
for documents in 1 16; do # the model of that commit, which both read
    for beam in 5 1; do
        measure torch$documents-beam$beam python runs/speed/checkouts.py "$old" decoding --text "$text" \
            --sentences $((documents == 1 ? 16 : 32)) --documents $documents --beams $beam \
            --model "$old/src/tram/model" --old-model "$old/src/tram/model"
    done
done
measure training python runs/speed/checkouts.py "$old" training
measure muon python runs/speed/checkouts.py "$old" muon
measure load tram bench load --rounds 3
measure identity tram bench identity --text "$text" --sentences 1000 --logits 200
for set in opendocs dialogue; do # these need no quiet machine
    [ -e $out/int8-$set.json ] || {
        folder=$(mktemp -d)
        tram export int8 src/tram/shipped "$folder/int8" --check "$data/$set/dev.en" "$data/$set/dev.de" \
            --json $out/int8-$set.json
        rm -r "$folder"
    }
done
