#!/usr/bin/env bash
# SentencePiece joins pieces that its model does not have to a text with U+2581 in it, neither as <unk> nor with their space.
#
#   findings/sentencepiece_decode_keeps_unknown_pieces.sh    needs apt-get and Debian's mirror; takes seconds
#
# Package, nothing else: sentencepiece 0.1.97-3+b1 of Debian 12 or 0.2.0-1+b3 of Debian 13, unpacked in a temporary folder. A model of 34
# pieces is trained on three sentences, and joins pieces of which it has some, as happens where two models share one table of pieces
# (MarianMT's source.spm and target.spm with vocab.json) and a translation has a piece of the other model. Exits 0 if the result is as
# stated below, 1 if it is so no more, 77 if this machine lacks something or has another version.
#
# One expects the mark of the unknown (U+2047), which decoding of ids gives for every id that stands for an unknown piece, or a space
# where a piece begins with U+2581, as for all pieces that the model has. Seen on 29 November 2026, both versions alike:
#
#   ▁the ▁red ▁boat            -> the red boat
#   ▁the ▁xyz z ▁boat          -> the▁xyzz boat
#   ▁the <unk> ▁boat           -> the ⁇  boat
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

# joins PIECES EXPECTED
joins() {
  local text
  text=$("$folder/usr/bin/spm_decode" --model="$folder/small.model" --input_format=piece <<<"$1")
  say "$1 -> $text"
  [ "$text" = "$2" ] || changed+=("$1: found \"$text\", expected \"$2\"")
}

command -v apt-get dpkg >/dev/null || lacking "no apt-get"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
(cd "$folder" && apt-get download -q sentencepiece) >"$folder/log" 2>&1 || lacking "cannot download sentencepiece: $(tail -n 1 "$folder/log")"
package=$(echo "$folder"/sentencepiece_*.deb)
version=$(dpkg-deb --field "$package" Version)
case $version in 0.1.97-3+b1 | 0.2.0-1+b3) ;; *) lacking "found sentencepiece $version, expected 0.1.97-3+b1 or 0.2.0-1+b3" ;; esac
dpkg -x "$package" "$folder"
ldd "$folder/usr/bin/spm_decode" | grep -q 'not found' && lacking "no libsentencepiece, on which the package depends"
say "sentencepiece $version"

for _ in 1 2 3 4 5; do
  printf '%s\n' 'the red boat' 'a boat sails on the sea' 'the old man sees the red boat'
done >"$folder/text"
"$folder/usr/bin/spm_train" --input="$folder/text" --model_prefix="$folder/small" --vocab_size=34 --model_type=bpe >"$folder/log" 2>&1

changed=()
joins '▁the ▁red ▁boat' 'the red boat'
joins '▁the ▁xyz z ▁boat' 'the▁xyzz boat'
joins '▁the <unk> ▁boat' 'the ⁇  boat'
[ ${#changed[@]} = 0 ] || { printf '%s\n' "${changed[@]}" >&2 && exit 1; }
