#!/usr/bin/env bash
# The runs that docs/ANALYSIS.md uses, on real documents alone (what came of them: docs/LOG.md, eleventh session). Train
# (a), a sentence model; then, from it, with the same documents and the same number of updates, with two seeds each:
#   (b) the sentence model, finetuned as long (the control),
#   (c) the paper's memory, gradient depth 1,
#   (d) the memory with full gradient depth;
# and (c) on the source side or the target side only.
#
#   bash runs/mixed/run.sh DATA [FOLDER [START]]
#
# DATA      folder with the corpora opendocs, europarl-direct, benchmark and contrapro-sample
# FOLDER    where everything is written; default: runs/mixed/out
# START     a tram model, such as src/tram/shipped, whose sentence model is used as (a) instead of training one for hours
#
# It takes many hours on two cores. Run it again to resume an interrupted run. JOBS=2 works on two runs at a time, which
# on two cores is faster (with OMP_NUM_THREADS=1) than two threads for one run.
set -euo pipefail
cd "$(dirname "$0")/../.."
export data=${1:?give the folder of the corpora}
export out=${2:-runs/mixed/out}
start=${3:-}

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

train() { # RUN, such as depth1-2: its kind and its seed
    # read=scaled: at the scale of the large states of a pre-norm model (docs/LOG.md, ninth session)
    local settings=(finetune.memory.read=scaled)
    case ${1%-*} in
        sentence) settings=(finetune.memory=null) ;;
        depth1) settings+=(finetune.memory.depth=1) ;;
        full) settings+=(finetune.memory.depth=full) ;;
        source | target) settings+=(finetune.memory.side="${1%-*}") ;;
    esac
    tram train configs/mixed-memory.yaml output="$out/$1" data="$out/real" finetune.start="$out/base" seed="${1#*-}" \
        finetune.lr=3e-4 finetune.lr_new=2e-3 finetune.updates=300 finetune.cooldown=150 "${settings[@]}"
}

score() { # RUN: translate and score all sets; perplexity by history on opendocs; pronouns
    local scores=$out/scores/$1 set name more
    for set in opendocs/dev benchmark/europarl.dev benchmark/news.dev benchmark/ted.dev; do
        name=$(basename "${set/\/dev/}" .dev)
        more=(--no-perplexity)
        [ $name != opendocs ] || more=()
        [ -e "$scores/$name.json" ] || tram evaluate "$data/$set.en" "$data/$set.de" --model "$out/$1" \
            --hypothesis "$scores/$name.de" --json "$scores/$name.json" "${more[@]}"
    done
    [ -e "$scores/contrapro.json" ] || tram contrast "$data/contrapro-sample/contrapro.jsonl" \
        --model "$out/$1" --json "$scores/contrapro.json"
}

row() { # RUN
    [ "$1" = base ] || { say "3  $1: finetune ($out/$1)"; train "$1"; }
    say "4  $1: translate and score ($out/scores/$1)"
    score "$1"
}
export -f say train score row

if [ -n "$start" ]; then
    say "1  (a) Extract the sentence model of $start ($out/base)"
    text=$start
    [ -e "$out/base" ] || python - "$start" "$out/base" <<'PYTHON'
import sys
from tram import Translator

translator = Translator.load(sys.argv[1])
Translator(translator.model.without_context(), translator.text).save(sys.argv[2])
PYTHON
else
    say "1  (a) Prepare both corpora ($out/prepared) and train the sentence model ($out/base)"
    text=$out/prepared
    tram prepare "$out/prepared" --merges 8000 \
        --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" \
        --train "$data/europarl-direct/train.en.xz" "$data/europarl-direct/train.de.xz" \
        --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de"
    tram train configs/mixed-small.yaml data="$out/prepared" output="$out/base"
fi

say "2  Prepare whole documents: opendocs and a tenth of europarl-direct, more than finetuning reads ($out/real)"
for language in en de; do
    [ -e "$out/speeches.$language" ] || {
        xz -dc "$data/europarl-direct/train.$language.xz" | awk -v RS= -v ORS='\n\n' "NR % 10 == 1" > "$out/half"
        mv "$out/half" "$out/speeches.$language"
    }
done
tram prepare "$out/real" --text "$text" --dev "$data/opendocs/dev.en" "$data/opendocs/dev.de" \
    --train "$data/opendocs/train.en.xz" "$data/opendocs/train.de.xz" --train "$out/speeches.en" "$out/speeches.de"

runs=(sentence-1 depth1-1 full-1 sentence-2 depth1-2 full-2 source-1 target-1 base)
# Exit code 255 makes xargs stop: after a kill or a failure no further run is started
printf '%s\n' "${runs[@]}" | xargs -P "${JOBS:-1}" -I{} bash -c 'set -eEuo pipefail; trap "exit 255" ERR; row {}'

say "5  Compare all runs with the control on opendocs/dev"
rest=()
for run in "${runs[@]:1}"; do rest+=("$out/scores/$run/opendocs.de"); done
tram score "$data/opendocs/dev.de" -i "$out/scores/sentence-1/opendocs.de" "${rest[@]}"
