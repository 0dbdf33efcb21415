#!/usr/bin/env bash
# From generated raw text to scored translations in under three minutes, once the environment is there.
# In these documents the sentence before decides: what "it" is, whether "you" is du or Sie. Only a memory can know.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "1  documents from a small grammar (demo/raw)"
rm -rf demo
tram synthetic demo/raw --documents 800 --distance 1 --seed 1
head -n 6 demo/raw/test.en

say "2  text pipeline and ids (demo/prepared)"
tram prepare demo/prepared --train demo/raw/train.en demo/raw/train.de --dev demo/raw/dev.en demo/raw/dev.de --merges 1500

say "3  a sentence model, then the memory (demo/run)"
tram train configs/demo.yaml

say "4  a scored translation"
tram evaluate demo/raw/test.en demo/raw/test.de --model demo/run --hypothesis demo/memory.de

say "5  does it remember? The sentence model cannot:"
tram contrast demo/raw/suite.jsonl --model demo/run/train/model

say "6  with the memory:"
tram contrast demo/raw/suite.jsonl --model demo/run/finetune/model

say "7  one document"
paste -d '|' <(head -n 8 demo/raw/test.en) <(head -n 8 demo/memory.de) | column -t -s '|'
