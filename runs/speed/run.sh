#!/usr/bin/env bash
# Everything that docs/SPEED.md reports, as files in docs/speed. Nothing else may run meanwhile: about 20 minutes.
#
#   git worktree add --detach ../old 596f58d
#   bash runs/speed/run.sh TEXT ../old [STEP ...]           TEXT: one sentence per line; STEP: train torch document batch decode load
#   python runs/speed/table.py > docs/SPEED.md
set -euo pipefail
cd "$(dirname "$0")/../.."
text=${1:?give a text} old=${2:?give a checkout of 596f58d}
shift 2
export OMP_NUM_THREADS=1
out=docs/speed
mkdir -p $out
[ $# -gt 0 ] || set -- train torch document batch decode load
for step in "$@"; do
    case $step in
    train)
        python runs/speed/checkouts.py "$old" training --json $out/training.json
        python runs/speed/checkouts.py "$old" muon --json $out/muon.json
        ;;
    torch)
        for beam in 5 1; do
            python runs/speed/checkouts.py "$old" decoding --text "$text" --sentences 32 --beams $beam \
                --model "$old/src/tram/model" --old-model "$old/src/tram/model" --json $out/torch-beam$beam.json
        done
        ;;
    document)
        for beam in 5 1; do
            tram bench document --text "$text" --sentences 24 --beam $beam --json $out/document-beam$beam.json
        done
        ;;
    batch)
        for beam in 5 1; do
            tram bench document --text "$text" --documents 16 --sentences 64 --beam $beam --quick \
                --json $out/documents16-beam$beam.json
            tram bench document --text "$text" --documents 64 --sentences 128 --beam $beam --quick \
                --json $out/documents64-beam$beam.json
        done
        ;;
    decode) tram bench decode --rounds 9 --batch 1 --batch 16 --beam 5 --beam 1 --quick --json $out/decode.json ;;
    load) tram bench load --rounds 5 --json $out/load.json ;;
    *) echo "no step $step" >&2 && exit 2 ;;
    esac
done
