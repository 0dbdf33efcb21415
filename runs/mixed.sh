#!/usr/bin/env bash
# From the raw files of two corpora to docs/RESULTS.md: a sentence model, then with the same number of updates
#   (b) the sentence model trained on, (c) the paper's memory, gradient depth 1, (d) the memory with full depth,
# two seeds each, and (d) on the source or the target side only; and all three without generated documents, one seed.
#
#   bash runs/mixed.sh DATA [FOLDER]          DATA: with opendocs, europarl-direct and benchmark; FOLDER: runs/mixed
#
# It takes many hours on two cores. Stopped at any time, it goes on where it was when it is run again.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:?give the folder of the corpora}
out=${2:-runs/mixed}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1  text pipeline and ids of both corpora ($out/prepared)"
tram prepare "$out/prepared" --merges 8000 \
    --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
    --train "$data/europarl-direct/train.en.xz" "$data/europarl-direct/train.de.xz" \
    --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de"

# Finetuning sees far fewer documents than there are: all manuals, a tenth of the speeches. Among them, generated ones:
# what a memory is for is rare in real text, and from that alone it learns next to nothing in so few updates.
for language in en de; do
    [ -e "$out/speeches.$language" ] || { # a blank line ends a document
        xz -dc "$data/europarl-direct/train.$language.xz" | awk -v RS= -v ORS='\n\n' 'NR % 10 == 1' > "$out/half"
        mv "$out/half" "$out/speeches.$language"
    }
done
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 8000 --seed 11
real=(--train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" --train "$out/speeches.en" "$out/speeches.de"
    --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de")
tram prepare "$out/real" --text "$out/prepared" "${real[@]}"
tram prepare "$out/documents" --text "$out/prepared" "${real[@]}" --train "$out/generated/train.en" "$out/generated/train.de"

say "2  the sentence model ($out/base)"
tram train configs/mixed-small.yaml data="$out/prepared" output="$out/base"

finetune() { # NAME SETTING ...
    say "3  $1"
    tram train configs/mixed-memory.yaml data="$out/documents" finetune.start="$out/base" output="$out/$1" "${@:2}"
}
runs=(base)
for seed in 1 2; do
    finetune "sentence-$seed" seed=$seed finetune.memory=null
    finetune "depth1-$seed" seed=$seed finetune.memory.depth=1
    finetune "full-$seed" seed=$seed
    runs+=("sentence-$seed" "depth1-$seed" "full-$seed")
done
for side in source target; do
    finetune "$side-1" finetune.memory.side=$side
    runs+=("$side-1")
done
# Without generated documents: rates as they served best there
alone=(data="$out/real" finetune.lr=3e-4 finetune.lr_new=1e-2 finetune.updates=600 finetune.cooldown=200)
finetune realsentence-1 "${alone[@]}" finetune.memory=null
finetune realdepth1-1 "${alone[@]}" finetune.memory.depth=1
finetune realfull-1 "${alone[@]}"
runs+=(realsentence-1 realdepth1-1 realfull-1)

say "4  translations and scores ($out/scores)"
declare -A sources=([opendocs]=opendocs/dev [europarl]=benchmark/europarl.dev [news]=benchmark/news.dev [ted]=benchmark/ted.dev)
for run in "${runs[@]}"; do
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

say "5  the table (docs/RESULTS.md)"
python runs/mixed_table.py "$data" "$out" docs/RESULTS.md
