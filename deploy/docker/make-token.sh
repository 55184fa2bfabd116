#!/usr/bin/env bash
# Makes a token by the administrator's token of the server in this container or in a shared volume, and prints its secret.
#
#   babelring-make-token NAME SCOPE     SCOPE: read, ingest (for all runs that the token begins), operate or admin
#
# BABELRING_SERVER (default http://127.0.0.1:8080) and BABELRING_ADMIN_TOKEN_FILE (default /var/lib/babelring/admin.token)
# name another server.
set -euo pipefail
if [ $# -ne 2 ]; then
  echo "usage: babelring-make-token NAME SCOPE" >&2
  exit 2
fi
runs=''
if [ "$2" = ingest ]; then runs=', "any_run": true'; fi
token=$(cat "${BABELRING_ADMIN_TOKEN_FILE:-/var/lib/babelring/admin.token}")
# The header comes from standard input, so that the token is in no process list.
answer=$(printf 'Authorization: Bearer %s\n' "$token" |
  curl -sS --fail-with-body -H @- -H 'Content-Type: application/json' -d "{\"name\": \"$1\", \"scope\": \"$2\"$runs}" \
    "${BABELRING_SERVER:-http://127.0.0.1:8080}/api/v1/tokens") || {
  echo "babelring-make-token: $answer" >&2
  exit 1
}
sed -nE 's/.*"secret": *"([^"]+)".*/\1/p' <<<"$answer"
