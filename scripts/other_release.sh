#!/usr/bin/env bash
# Runs the project's two commands, from an empty clone of HEAD, on Debian's other release: 13 (trixie) where this machine has 12, and
# 12 (bookworm) where it has 13. That system is a folder made by debootstrap, with this machine's mirror and proxy.
#
#   scripts/other_release.sh [option...]
#     --root DIR   keeps the system in DIR and uses it again, with its packages and compiled objects (default: a temporary folder)
#     --only WHAT  quickstart (scripts/quickstart.sh --minutes 2) or test (scripts/test.sh); default both
#     --help       this text
#
# Needs root, debootstrap, and hours on a small machine when compiled from nothing. Everything runs in namespaces of processes and mounts,
# which end with this script. The last lines are minutes and counts. Exits 0 when nothing failed, 1 when something did, 2 for
# wrong usage and 77 when this machine lacks something, which it names.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=scripts/lib/debian.sh
source "$ROOT/scripts/lib/debian.sh"

LACKING=77
PROGRAMS=(debootstrap git apt-get apt-config unshare setpriv pivot_root mount)
MARK=.babelring-other-release # in the folder of the system: its release, after "unfinished" until it is complete
CLONE=/babelring              # in the system
root='' only=both kept=no inside=no

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      --root)
        root=$(option_value "$1" $# "${2:-}") kept=yes
        shift
        ;;
      --only)
        only=$(option_value "$1" $# "${2:-}")
        case $only in quickstart | test) ;; *) usage_error "--only: found '$only', expected quickstart or test" ;; esac
        shift
        ;;
      --inside) inside=yes ;; # this script's call of itself in its namespaces
      --help | -h) print_header && exit 0 ;;
      *) usage_error "unknown option $1" ;;
    esac
    shift
  done
}

lacking() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit $LACKING
}

# other_release "ID VERSION_ID": the name of Debian's other release; fails elsewhere.
other_release() {
  case $1 in
    "debian 12") printf trixie ;;
    "debian 13") printf bookworm ;;
    *) return 1 ;;
  esac
}

require_what_is_needed() {
  local name absent=()
  release=$(other_release "$(here ID) $(here VERSION_ID)") || lacking "this is $(here ID) $(here VERSION_ID), expected Debian 12 or 13"
  for name in "${PROGRAMS[@]}"; do
    command -v "$name" >/dev/null || absent+=("$name")
  done
  [ ${#absent[@]} -eq 0 ] || lacking "programs are missing: ${absent[*]} (scripts/setup.sh --test installs debootstrap)"
  [ "$(id -u)" -eq 0 ] || lacking "needs root, to make and enter a system; this is user $(id -un)"
}

# Refuses a folder that holds something else.
check_folder() {
  [ "$kept" = yes ] || return 0
  mkdir -p "$root"
  root=$(cd "$root" && pwd)
  if [ -e "$root/$MARK" ]; then
    [[ $(cat "$root/$MARK") =~ (^| )$release$ ]] || die "--root: $root holds $(cat "$root/$MARK"), expected $release or an empty folder"
  else
    [ -z "$(ls -A "$root")" ] || die "--root: $root is not empty and not from this script"
  fi
}

# --- in the namespaces, on this machine's files -----------------------------------------------------------------------

make_system() {
  if [ "$(cat "$root/$MARK" 2>/dev/null)" = "$release" ]; then return; fi
  find "$root" -mindepth 1 -maxdepth 1 -exec rm -rf --one-file-system {} +
  printf 'unfinished %s' "$release" >"$root/$MARK"
  say "other_release: making $release in $root"
  debian_system "$release" "$root" ca-certificates
  printf '%s' "$release" >"$root/$MARK"
}

# Names, addresses, download settings and certificates of this machine, anew each time.
configure_system() {
  local file
  for file in hosts resolv.conf; do
    if [ -e "/etc/$file" ]; then cp -L "/etc/$file" "$root/etc/$file"; fi
  done
  download_settings >"$root/etc/apt/apt.conf.d/90machine"
  if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null
  fi
  if [ -e ~/.npmrc ]; then cp ~/.npmrc "$root/root/.npmrc"; fi
}

# The release's own Node if it is new enough (20.19, of Debian 13); else this machine's, which has to run there.
add_node() {
  local modules
  if in_system bash -c "source $CLONE/scripts/lib/common.sh; has_node"; then return; fi
  if [ "$release" = trixie ]; then
    quietly "$root/node.log" "installing nodejs" in_system sh -c 'apt-get -q update && apt-get -qy install --no-install-recommends nodejs npm' || exit 1
  elif has_node; then
    modules=$(dirname "$(dirname "$(dirname "$(readlink -f "$(command -v npm)")")")")
    mkdir -p "$root/usr/local/lib/node_modules"
    cp -L "$(command -v node)" "$root/usr/local/bin/node"
    cp -a "$modules/npm" "$root/usr/local/lib/node_modules/"
    ln -sf ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/local/bin/npm"
    ln -sf ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/local/bin/npx"
  fi
  in_system bash -c "source $CLONE/scripts/lib/common.sh; has_node" ||
    say "other_release: no Node 20.19 that runs on $release: tests of the dashboard are skipped"
}

# Nothing of this machine's environment, which the other release need not have.
environment() {
  env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb DEBIAN_FRONTEND=noninteractive \
    ${NODE_EXTRA_CA_CERTS:+NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt} ${BABELRING_JOBS:+BABELRING_JOBS=$BABELRING_JOBS} "$@"
}

in_system() { environment chroot "$root" "$@"; }

clone_head() {
  rm -rf --one-file-system "${root:?}$CLONE"
  git clone --quiet --no-hardlinks "$ROOT" "$root$CLONE"
}

# `root` is a mount point by now.
mount_system() {
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
}

# --- in the system ----------------------------------------------------------------------------------------------------

# timed NAME COMMAND...: runs it in the clone, adds a line to `results` and sets `failed` if it fails. Its last line is the count.
timed() {
  local name=$1 began=$SECONDS status=0
  shift
  say "other_release: $name on $release"
  (cd "$CLONE" && environment "$@") | tee "$CLONE.$name.out" || status=$?
  results+=("$(printf '%-10s %7s min  exit code %s  %s' "$name" "$(minutes $((SECONDS - began)))" "$status" "$(count_of "$name")")")
  [ "$status" -eq 0 ] || failed=yes
}

# count_of NAME: test.sh's last lines; of the quickstart's summary the updates and the score.
count_of() {
  if [ "$1" = test ]; then
    tail -n 2 "$CLONE.$1.out" | sed -E 's/^in all +//' | paste -sd ';' | sed 's/;/; /'
  else
    tail -n 1 "$CLONE.$1.out" | cut -c 1-200
  fi
}

run_commands() {
  local results=() failed=no
  if [ "$only" != test ]; then
    timed quickstart scripts/quickstart.sh --minutes 2
    (cd "$CLONE" && environment scripts/quickstart.sh --stop) || failed=yes
  fi
  [ "$only" = quickstart ] || timed test scripts/test.sh
  printf '\n%s: clone of %s\n' "$release" "$(cd "$CLONE" && git log -1 --format='%h %s')"
  printf '%s\n' "${results[@]}"
  [ "$failed" = no ]
}

main_inside() {
  mount --bind "$root" "$root"
  make_system
  mount_system
  configure_system
  clone_head
  add_node
  cd "$root" # no chroot: tests make mounts and user namespaces
  pivot_root . mnt
  umount -l /mnt
  cd /
  run_commands
}

# ----------------------------------------------------------------------------------------------------------------------

main() {
  local status=0 namespaces options=()
  parse_arguments "$@"
  require_what_is_needed
  if [ "$inside" = yes ]; then
    main_inside
    return
  fi
  check_folder
  if [ "$kept" = no ]; then
    root=$(mktemp -d "${TMPDIR:-/tmp}/babelring-$release-XXXXXX")
    chmod 755 "$root"
    trap 'rm -rf --one-file-system "$root" || { sleep 1 && rm -rf --one-file-system "$root"; }' EXIT # processes that just end may write
  fi
  [ "$only" = both ] || options=(--only "$only")
  set -m # its own process group: a Ctrl-C reaches this script, which ends all of them at once
  setpriv --pdeathsig KILL unshare --mount --mount-proc --pid --ipc --fork --kill-child \
    bash "${BASH_SOURCE[0]}" --inside --root "$root" "${options[@]}" </dev/null &
  namespaces=$!
  set +m
  trap 'kill -KILL "$namespaces" 2>/dev/null; wait "$namespaces" 2>/dev/null || true; exit 130' INT TERM HUP
  wait "$namespaces" || status=$?
  [ "$status" -eq 0 ] || exit 1
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then main "$@"; fi
