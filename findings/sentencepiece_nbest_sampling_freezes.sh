#!/usr/bin/env bash
# SentencePiece's sampling from the n best segmentations of a long line always gives the best one; sampling from all does not.
#
#   findings/sentencepiece_nbest_sampling_freezes.sh    needs apt-get and Debian's mirror; takes seconds
#
# Package, nothing else: sentencepiece 0.1.97-3+b1 of Debian 12, unpacked in a temporary folder. A unigram model of 300 pieces is trained
# on 400 lines of made words, and cuts the same line 200 times. Exits 0 if the result is as stated below, 1 if it is so no more, 77 if this
# machine lacks something or has another version.
#
# Subword regularisation (Kudo 2018) draws one of the n best segmentations with probability in proportion to P(x)^alpha. One expects that
# alpha alone says how much a draw varies, as the probabilities are divided by their sum. They are computed as floats first, not relative to
# the best: from about alpha * log P(best) = -103 on all of them are 0, and every draw is the best. So lines above a length, which a smaller
# alpha only moves, are never varied in training, and nothing tells. With nbest_size -1 (all segmentations, by the lattice) lines of
# any length vary. Seen on 30 November 2026, different segmentations among 200 draws at alpha 0.5:
#
#   words   nbest_size 64   nbest_size -1
#       8        29 to 35        33 to 44
#      96               1             200
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

# distinct WORDS NBEST-SIZE: the number of different segmentations among 200 draws of the text's first words.
distinct() {
  local line
  line=$(tr '\n' ' ' <"$folder/text" | cut -d ' ' -f "1-$1")
  for _ in {1..200}; do echo "$line"; done |
    "$folder/usr/bin/spm_encode" --model="$folder/made.model" --output_format=sample_piece --nbest_size="$2" --alpha=0.5 2>"$folder/log" |
    sort -u | wc -l
}

# expect WORDS NBEST-SIZE LEAST MOST
expect() {
  local found
  found=$(distinct "$1" "$2")
  say "$1 words, nbest_size $2: $found different of 200"
  ((found >= $3 && found <= $4)) || changed+=("$1 words, nbest_size $2: found $found different, expected $3 to $4")
}

command -v apt-get dpkg >/dev/null || lacking "no apt-get"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && apt-get download -q sentencepiece) >"$folder/log" 2>&1 || lacking "cannot download sentencepiece: $(tail -n 1 "$folder/log")"
package=$(echo "$folder"/sentencepiece_*.deb)
version=$(dpkg-deb --field "$package" Version)
[ "$version" = 0.1.97-3+b1 ] || lacking "found sentencepiece $version, expected 0.1.97-3+b1"
dpkg -x "$package" "$folder"
ldd "$folder/usr/bin/spm_encode" | grep -q 'not found' && lacking "no libsentencepiece, on which the package depends"
say "sentencepiece $version"

# Words of one to four syllables, drawn by a linear congruential generator (Park and Miller 1988).
awk 'function draw(n) { state = state * 16807 % 2147483647; return state % n }
  BEGIN {
    state = 5
    for (i = 0; i < 300; ++i) for (k = draw(4); k >= 0; --k) word[i] = word[i] substr("bdfgklmnprst", draw(12) + 1, 1) substr("aeiou", draw(5) + 1, 1)
    for (line = 0; line < 400; ++line) for (i = 1; i <= 12; ++i) printf "%s%s", word[draw(300)], i < 12 ? " " : "\n"
  }' >"$folder/text"
"$folder/usr/bin/spm_train" --input="$folder/text" --model_prefix="$folder/made" --vocab_size=300 --model_type=unigram >"$folder/log" 2>&1

changed=()
expect 8 64 10 200
expect 8 -1 10 200
expect 96 64 1 1
expect 96 -1 100 200
[ ${#changed[@]} = 0 ] || { printf '%s\n' "${changed[@]}" >&2 && exit 1; }
