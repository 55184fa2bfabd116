#!/usr/bin/env bash
# Gets a parallel corpus and writes OUTPUT/{train,valid,test}.{LANGUAGE} with a report.json.
#
#   scripts/fetch_corpus.sh [--corpus libreoffice] OUTPUT   English-German help pages of LibreOffice, 5 MB of Debian packages
#   scripts/fetch_corpus.sh --corpus wmt16 OUTPUT           WMT16 English-German, 1.7 GB from statmt.org; resumes when run again.
#                                                           The test set is newstest2014; also writes OUTPUT/newstest2016.{en,de}
#   scripts/fetch_corpus.sh --corpus SOURCE,TARGET OUTPUT   any two text files, plain or compressed
#
#   --downloads DIR   where downloads are kept (default OUTPUT/downloads)
#   --help            this text
#
# Does nothing when OUTPUT/report.json is there. The report (counts, dropped pairs by reason) is printed on standard
# output as one JSON line. BABELRING_WMT16_ARCHIVES names another list of archives (see scripts/corpus/wmt16.archives).
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

HELP_PACKAGES=(libreoffice-help-en-us libreoffice-help-de)
WMT16_ARCHIVES=${BABELRING_WMT16_ARCHIVES:-$ROOT/scripts/corpus/wmt16.archives}

corpus=libreoffice output='' downloads=''

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --corpus)
        corpus=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --downloads)
        downloads=$(option_value "$1" $# "${2:-}")
        shift
        ;;
      --help | -h) print_header && exit 0 ;;
      -*) usage_error "unknown option $1" ;;
      *)
        [ -z "$output" ] || usage_error "one output folder expected, found $output and $1"
        output=$1
        ;;
    esac
    shift
  done
  [ -n "$output" ] || usage_error "an output folder is expected"
  downloads=${downloads:-$output/downloads}
}

# --- LibreOffice ------------------------------------------------------------------------------------------------------

# Prints the folder that has the help pages: the system's when both packages are installed, else a freshly unpacked one.
libreoffice_root() {
  local root=$downloads/libreoffice
  if [ -d /usr/share/libreoffice/help/en-US/text ] && [ -d /usr/share/libreoffice/help/de/text ]; then
    printf '/'
    return
  fi
  [ -e "$root/unpacked" ] || download_and_unpack_help "$root"
  printf '%s' "$root"
}

# apt-get download needs no root, but the list of packages must be there: a fresh container has none.
download_and_unpack_help() {
  local root=$1 log=$1/download.log package
  mkdir -p "$root"
  command -v apt-get >/dev/null || die "this corpus comes from Debian's packages ${HELP_PACKAGES[*]} and apt-get is not here;" \
    "put both unpacked under $root (usr/share/libreoffice/help/…) and run: touch $root/unpacked"
  if ! (cd "$root" && apt-get -q download "${HELP_PACKAGES[@]}") >"$log" 2>&1; then
    refresh_package_lists >>"$log" 2>&1 || true
    (cd "$root" && quietly "$log" "apt-get download" apt-get -q download "${HELP_PACKAGES[@]}") || exit 1
  fi
  for package in "${HELP_PACKAGES[@]}"; do
    quietly "$log" "unpacking $package" unpack_newest "$root" "$package" || exit 1
  done
  touch "$root/unpacked"
}

unpack_newest() {
  local files=("$1/$2"_*.deb)
  dpkg-deb -x "${files[-1]}" "$1"
}

refresh_package_lists() {
  if [ "$(id -u)" -eq 0 ]; then apt-get -q update; else sudo -n apt-get -q update; fi
}

# --- WMT16 ------------------------------------------------------------------------------------------------------------

# fetch URL FILE: resumes FILE.part, retries what may pass; the file gets its name when it is whole.
fetch() {
  local url=$1 file=$2 status attempt answer
  for attempt in 1 2 3; do
    status=0
    answer=$(curl --fail --location --silent --show-error --retry 3 --connect-timeout 30 --speed-time 60 --speed-limit 1024 \
      --continue-at - --output "$file.part" --write-out '%{http_code}' "$url") || status=$?
    case $status:$answer in
      0:*) mv "$file.part" "$file" && return ;;
      33:* | *:416) rm -f "$file.part" ;; # no ranges there, or the part is no part of this file: from the beginning
      18:* | 28:* | 56:*) say "fetch: $url broke off (curl $status), attempt $attempt of 3" ;;
      *) break ;;
    esac
  done
  die "$url: curl exit code $status, HTTP status $answer; run again to resume"
}

# verify FILE sha256:HEX|md5:HEX|recorded. A wrong file is removed, so the next run fetches it again.
verify() {
  local file=$1 kind=${2%%:*} expected=${2#*:} found
  if [ "$kind" = recorded ]; then
    kind=sha256
    [ -e "$file.sha256" ] || sha256sum "$file" | cut -d ' ' -f 1 >"$file.sha256"
    expected=$(cat "$file.sha256")
  fi
  found=$("${kind}sum" "$file" | cut -d ' ' -f 1)
  if [ "$found" != "$expected" ]; then
    rm -f "$file"
    die "$file: $kind is $found, expected $expected; removed it, run again to fetch it anew"
  fi
}

download_wmt16() {
  local url digest file
  mkdir -p "$downloads"
  while read -r url digest; do
    file=$downloads/${url##*/}
    if [ ! -e "$file" ]; then
      say "fetch: $url"
      fetch "$url" "$file"
    fi
    verify "$file" "$digest"
  done < <(grep -v '^#' "$WMT16_ARCHIVES")
}

# ----------------------------------------------------------------------------------------------------------------------

main() {
  local root
  parse_arguments "$@"
  if [ -e "$output/report.json" ]; then
    python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))))' "$output/report.json"
    return
  fi
  mkdir -p "$output"
  case $corpus in
    libreoffice)
      root=$(libreoffice_root)
      python3 "$ROOT/scripts/corpus/libreoffice.py" "$root" "$output"
      ;;
    wmt16)
      download_wmt16
      python3 "$ROOT/scripts/corpus/wmt16.py" "$downloads" "$output"
      ;;
    *,*) python3 "$ROOT/scripts/corpus/files.py" "${corpus%%,*}" "${corpus#*,}" "$output" ;;
    *) usage_error "--corpus: found '$corpus', expected libreoffice, wmt16 or SOURCE,TARGET" ;;
  esac
}

main "$@"
