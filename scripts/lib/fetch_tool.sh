# shellcheck shell=bash
# Programs that tests need, of Debian's packages, whose installation would start a daemon. Sourced after common.sh.

TOOLS=$ROOT/build/tools

# has_package PACKAGE: whether this release has it under this name.
has_package() { [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]; }

# fetch_tool FILE PACKAGE...: a program, unpacked into $TOOLS from packages, the last ones its libraries. Packages that this release
# does not have (libraries' other names) are left out.
fetch_tool() {
  local file=$1 program=${1##*/} folder package packages
  shift
  if command -v "$program" >/dev/null || [ -x "$TOOLS/$program" ] || [ "${BABELRING_SKIP_SETUP:-}" = 1 ]; then return 0; fi
  folder=$TOOLS/$program.files
  rm -rf "$folder" && mkdir -p "$folder/packages"
  mapfile -t packages < <(for package in "$@"; do if has_package "$package"; then echo "$package"; fi; done)
  if ! (cd "$folder/packages" && apt-get -qq download "${packages[@]:-$1}" && for package in *.deb; do dpkg-deb -x "$package" .. || exit; done && [ -x "../$file" ]); then
    echo "$program is not available: its test is skipped"
    return 0
  fi
  rm -rf "$folder/packages"
  # shellcheck disable=SC2016
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s/usr/lib/%s-linux-gnu exec %s/%s "$@"\n' "$folder" "$(uname -m)" "$folder" "$file" >"$TOOLS/$program"
  chmod +x "$TOOLS/$program"
}
