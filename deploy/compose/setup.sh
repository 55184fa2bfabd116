#!/usr/bin/env bash
# Run by the service setup: makes the key pair that the hosts share, and the tokens of trainings and Prometheus. What is there
# stays.
set -euo pipefail
keys=/home/babelring/.ssh tokens=/run/babelring
if [ ! -s "$keys/authorized_keys" ]; then
  rm -f "$keys/id_rsa" "$keys/id_rsa.pub"
  ssh-keygen -q -t ed25519 -N '' -C babelring -f "$keys/id_rsa"
  cp "$keys/id_rsa.pub" "$keys/authorized_keys"
fi
# token FILE SCOPE MODE: the token is in a file with that mode.
token() {
  [ ! -s "$tokens/$1" ] || return 0
  babelring-make-token "compose-${1%.token}" "$2" >"$tokens/$1.new"
  chmod "$3" "$tokens/$1.new"
  mv "$tokens/$1.new" "$tokens/$1"
}
chmod 711 "$tokens" # Prometheus runs as another user
token training.token ingest 600
token prometheus.token read 644
