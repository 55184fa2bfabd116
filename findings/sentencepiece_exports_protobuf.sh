#!/usr/bin/env bash
# Debian's libsentencepiece.so contains protobuf-lite 3.14.0 and exports all of it: in a program that links it before libprotobuf-lite
# 3.21.12, protobuf's own functions are SentencePiece's copy. The order of two -l options decides, and nothing warns.
#
#   findings/sentencepiece_exports_protobuf.sh    needs root, debootstrap, chroot and Debian's mirror; takes minutes
#
# Packages, nothing else: libsentencepiece-dev 0.1.97-3+b1 and libprotobuf-dev 3.21.12-3+deb12u1 of Debian 12, 0.2.0-1+b3 and
# 3.21.12-11+deb13u1 of Debian 13, each in a temporary system made by debootstrap. A program asks protobuf, as all generated code does before
# anything else, whether the library is the one of its headers. It is linked twice. Where generated code of one version works on
# messages of the other instead of asking, such programs were seen to crash. Exits 0 if both releases behave as stated below, 1 if one
# does not any more, 77 if this machine lacks something.
#
# One expects that a library which takes no other library for its protobuf keeps its copy to itself, as a static copy with hidden
# symbols does. Seen on 29 November 2026:
#
#   both releases, -lprotobuf-lite -lsentencepiece: equal
#   both releases, -lsentencepiece -lprotobuf-lite:
#     This program requires version 3.21.0 of the Protocol Buffer runtime library, but the installed version is 3.14.0.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib/common.sh"
# shellcheck source=scripts/lib/debian.sh
source "$ROOT/scripts/lib/debian.sh"

folder=''

lacking() { say "$(basename "$0"): skipped: $*" && exit 77; }

PROGRAM='
#include <google/protobuf/stubs/common.h>
#include <cstdio>
#include <exception>

int main() {
  try {
    google::protobuf::internal::VerifyVersion(GOOGLE_PROTOBUF_VERSION, GOOGLE_PROTOBUF_MIN_LIBRARY_VERSION, "program");
    std::puts("equal");
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
}
'

# expect WHAT FOUND EXPECTED: FOUND must begin with EXPECTED.
expect() {
  say "$1: $2"
  [ "${2#"$3"}" != "$2" ] || changed+=("$1: found \"$2\", expected \"$3\"")
}

# check RELEASE VERSION-OF-SENTENCEPIECE VERSION-OF-PROTOBUF: makes the system and links the program there. Sets `changed`.
check() {
  local system=$folder/$1 library
  mkdir "$system"
  say "making $1"
  (debian_system "$1" "$system" g++ libsentencepiece-dev libprotobuf-dev) || lacking "debootstrap made no $1"
  printf '%s' "$PROGRAM" >"$system/program.cc"
  # shellcheck disable=SC2016  # the dollar sign is dpkg-query's
  expect "$1, packages" "$(chroot "$system" dpkg-query -W -f '${Version} ' libprotobuf-dev libsentencepiece-dev)" "$3 $2"
  for library in protobuf-lite sentencepiece; do
    chroot "$system" g++ /program.cc -o "/with-$library-first" -Wl,--no-as-needed "-l$library" -lsentencepiece -lprotobuf-lite
  done
  expect "$1, protobuf first" "$(chroot "$system" /with-protobuf-lite-first 2>/dev/null)" equal
  expect "$1, SentencePiece first" "$(chroot "$system" /with-sentencepiece-first 2>/dev/null)" \
    "This program requires version 3.21.0 of the Protocol Buffer runtime library, but the installed version is 3.14.0"
}

main() {
  local changed=()
  if [ "${1:-}" = --help ]; then print_header && exit 0; fi
  [ $# -eq 0 ] || usage_error "unknown option $1"
  [ "$(id -u)" -eq 0 ] || lacking "needs root"
  command -v debootstrap >/dev/null || lacking "there is no debootstrap"
  folder=$(mktemp -d "${TMPDIR:-/tmp}/babelring-finding-XXXXXX")
  trap 'rm -rf --one-file-system "$folder"' EXIT
  check bookworm 0.1.97-3+b1 3.21.12-3+deb12u1
  check trixie 0.2.0-1+b3 3.21.12-11+deb13u1
  if [ ${#changed[@]} -gt 0 ]; then
    printf 'changed: %s\n' "${changed[@]}"
    exit 1
  fi
  echo "as stated: the library that is linked first decides which protobuf runs"
}

main "$@"
