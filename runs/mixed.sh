#!/usr/bin/env bash
# From the raw files of two corpora to docs/RESULTS.md: (a) a sentence model; then from it, with the same documents and the
# same number of updates,
#   (b) the sentence model trained on, (c) the paper's memory, gradient depth 1, (d) the memory with full depth,
#   (e) the memory with depth 1 that is also asked to foretell what comes,
# two seeds each, and (c) on the source or the target side only.
#
#   bash runs/mixed.sh DATA [FOLDER [START]]
#
# DATA: with opendocs, europarl-direct and benchmark. FOLDER: runs/mixed. START: a model of ours whose sentence model is
# taken as (a), such as src/tram/model, instead of the hours that it takes to train one.
#
# It takes many hours on two cores. Stopped at any time, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?give the folder of the corpora}
out=${2:-runs/mixed}
start=${3:-}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1  text pipeline and ids of both corpora ($out/prepared)"
tram prepare "$out/prepared" --merges 8000 \
    --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
    --train "$data/europarl-direct/train.en.xz" "$data/europarl-direct/train.de.xz" \
    --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de"

# In whole documents: the manuals and a tenth of the speeches, more than finetuning gets to see.
for language in en de; do
    [ -e "$out/speeches.$language" ] || {
        xz -dc "$data/europarl-direct/train.$language.xz" | awk -v RS= -v ORS='\n\n' "NR % 10 == 1" > "$out/half"
        mv "$out/half" "$out/speeches.$language"
    }
done
tram prepare "$out/real" --text "$out/prepared" --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de" \
    --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" --train "$out/speeches.en" "$out/speeches.de"

say "2  (a) the sentence model ($out/base)"
if [ -n "$start" ]; then
    [ -e "$out/base" ] || python - "$start" "$out/base" <<'PYTHON'
import sys
from tram import Translator

translator = Translator.load(sys.argv[1])
Translator(translator.model.without_memory(), translator.text).save(sys.argv[2])
PYTHON
else
    tram train configs/mixed-small.yaml data="$out/prepared" output="$out/base"
fi

declare -A settings=([sentence]=finetune.memory=null [depth1]=finetune.memory.depth=1 [full]=finetune.memory.depth=full
    [told]=finetune.foretell=0.5 [source]=finetune.memory.side=source [target]=finetune.memory.side=target)
runs=(sentence-1 depth1-1 full-1 told-1 sentence-2 depth1-2 full-2 told-2 source-1 target-1)
for run in "${runs[@]}"; do
    kind=${run%-*}
    read=finetune.memory.read=scaled # loud enough for the large states of a pre-norm model (docs/LOG.md, ninth session)
    [ $kind != sentence ] || read=
    say "3  $run"
    tram train configs/mixed-memory.yaml output="$out/$run" data="$out/real" finetune.start="$out/base" seed="${run#*-}" \
        finetune.lr=3e-4 finetune.lr_new=2e-3 finetune.updates=400 finetune.cooldown=200 $read "${settings[$kind]}"
done

say "4  translations and scores ($out/scores)"
declare -A sources=([opendocs]=opendocs/dev [europarl]=benchmark/europarl.dev [news]=benchmark/news.dev [ted]=benchmark/ted.dev)
for run in base "${runs[@]}"; do
    for set in opendocs europarl news ted; do
        source=$data/${sources[$set]}
        more=(--no-perplexity)
        [ $set != opendocs ] || more=()
        [ -e "$out/scores/$run/$set.json" ] || tram evaluate "$source.en" "$source.de" --model "$out/$run" \
            --hypothesis "$out/scores/$run/$set.de" --json "$out/scores/$run/$set.json" "${more[@]}"
    done
    [ -e "$out/scores/$run/contrapro.json" ] || tram contrast "$data/contrapro-sample/contrapro.jsonl" \
        --model "$out/$run" --json "$out/scores/$run/contrapro.json"
done

say "5  the numbers (docs/results.json) and the table (docs/RESULTS.md)"
python runs/mixed_scores.py "$data" "$out" docs/results.json
python runs/mixed_table.py docs/results.json docs/RESULTS.md
