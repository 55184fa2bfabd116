#!/usr/bin/env bash
# What takes too long for each change: tests labelled slow, clang-tidy over every source, every check of the sanitizers.
# Takes test.sh's place in nightly jobs.
set -euo pipefail
exec "$(dirname "${BASH_SOURCE[0]}")/test.sh" --slow
