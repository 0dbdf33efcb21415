#!/usr/bin/env bash
# From the raw files of two corpora to docs/RESULTS.md: a sentence model; then, with the same number of updates and in the
# same two steps, generated documents first, real ones after,
#   (b) the sentence model trained on, (c) the paper's memory, gradient depth 1, (d) the memory with full depth,
# two seeds each, and (c) on the source or the target side only; and (b), (c), (d) on real documents alone, one seed.
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

# What a memory is for is rare in real text, and from that alone it learns next to nothing in so few updates. So it first
# meets generated documents, with a few real ones to keep the language; then the manuals and a tenth of the speeches
# (more than finetuning gets to see), with generated ones among them. A blank line ends a document.
sample() { # CORPUS LANGUAGE EVERY
    xz -dc "$data/$1/train.$2.xz" | awk -v RS= -v ORS='\n\n' "NR % $3 == 1"
}
for language in en de; do
    [ -e "$out/few.$language" ] || {
        sample europarl-direct $language 10 > "$out/speeches.$language"
        { sample opendocs $language 7; sample europarl-direct $language 60; } > "$out/half"
        mv "$out/half" "$out/few.$language"
    }
done
[ -e "$out/generated/README.md" ] || tram synthetic "$out/generated" --documents 8000 --seed 11
prepare() { # FOLDER OPTION ...
    tram prepare "$out/$1" --text "$out/prepared" --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de" "${@:2}"
}
generated=(--train "$out/generated/train.en" "$out/generated/train.de")
real=(--train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" --train "$out/speeches.en" "$out/speeches.de")
prepare warmup "${generated[@]}" --train "$out/few.en" "$out/few.de"
prepare documents "${real[@]}" "${generated[@]}"
prepare real "${real[@]}"

say "2  the sentence model ($out/base)"
tram train configs/mixed-small.yaml data="$out/prepared" output="$out/base"

declare -A memory=([sentence]=finetune.memory=null [depth1]=finetune.memory.depth=1 [full]=finetune.memory.depth=full
    [source]=finetune.memory.side=source [target]=finetune.memory.side=target)
finetune() { # RUN DATA START SETTING ...
    say "3  $1"
    tram train configs/mixed-memory.yaml output="$out/$1" data="$out/$2" finetune.start="$out/$3" "${@:4}"
}
for kind in sentence depth1 full source target; do
    finetune "warm-$kind" warmup base finetune.updates=1200 finetune.cooldown=300 "${memory[$kind]}"
done
runs=(sentence-1 depth1-1 full-1 sentence-2 depth1-2 full-2 source-1 target-1)
for run in "${runs[@]}"; do
    finetune "$run" documents "warm-${run%-*}" seed="${run#*-}" "${memory[${run%-*}]}"
done
for kind in sentence depth1 full; do # at the rates that served best there
    finetune "real$kind-1" real base finetune.lr=3e-4 finetune.lr_new=1e-2 finetune.updates=600 finetune.cooldown=200 \
        "${memory[$kind]}"
    runs+=("real$kind-1")
done

say "4  translations and scores ($out/scores)"
declare -A sources=([opendocs]=opendocs/dev [europarl]=benchmark/europarl.dev [news]=benchmark/news.dev [ted]=benchmark/ted.dev)
for run in base "${runs[@]}"; do
    sets=(opendocs europarl news ted)
    [[ $run != real* ]] || sets=(opendocs europarl) # why generated documents are needed shows there
    for set in "${sets[@]}"; do
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
