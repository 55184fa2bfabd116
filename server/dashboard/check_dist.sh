#!/bin/sh
# Checks that the committed dist/ is exactly what the sources build; neither has ONNX Runtime's WebAssembly file, only its digest. Needs Node and network access or a filled npm cache.
set -eu
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
  echo "check_dist: skipped, npm is not installed"
  exit 0
fi
[ -d node_modules ] || npm ci --silent
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
npm run --silent types
npx tsc --noEmit
npx vite build --logLevel warn --outDir "$fresh" --emptyOutDir
if ! diff -r dist "$fresh"; then
  echo "check_dist: server/dashboard/dist differs from a fresh build: run 'npm run build' there and commit dist/"
  exit 1
fi
echo "check_dist: dist/ equals a fresh build"
