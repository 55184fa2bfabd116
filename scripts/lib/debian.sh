# shellcheck shell=bash
# New Debian systems in folders, with this machine's mirror and proxy. Sourced after common.sh, never run.

# here FIELD: of this machine's /etc/os-release.
here() { (. /etc/os-release && printf '%s' "${!1:-}"); }

# The address that this machine's apt takes its own release's main packages from.
mirror() {
  local found
  # shellcheck disable=SC2016  # the dollar signs are apt-get's
  found=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v release="$(here VERSION_CODENAME)" '$1 == release && $2 == "main" && !seen++ { print $3 }')
  [ -n "$found" ] || die "apt has no source of $(here VERSION_CODENAME) main on this machine"
  printf '%s' "$found"
}

# apt's settings for downloads: proxies, time-outs, checks of dates.
download_settings() { apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|Check-|ForceIPv)' | grep -v ' "";$' || true; }

# Debootstrap and what it calls read proxies from variables.
export_proxies() {
  local kind proxy
  for kind in http https; do
    proxy=''
    eval "$(apt-config shell proxy "Acquire::$kind::Proxy")" # proxy='…', quoted, or nothing
    [ -z "$proxy" ] || export "${kind}_proxy=$proxy"
  done
}

# debian_system RELEASE FOLDER PACKAGE...: Debian's minimal system with these packages in an empty folder, as root.
debian_system() {
  local release=$1 folder=$2 from
  shift 2
  from=$(mirror)
  export_proxies
  quietly "$folder/debootstrap.log" debootstrap \
    debootstrap --variant=minbase --include="$(printf '%s\n' "$@" | paste -sd ,)" "$release" "$folder" "$from" || exit 1
}
