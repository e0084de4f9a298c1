#!/usr/bin/env bash
# Builds the program that measures upstream's scheduling algorithm, for benchmarks/core.py to compare with.
#
#   build-corebench.sh           build it if it is missing, print where it is
#   build-corebench.sh --where   only print where it is or would be
#
# The binary lies outside the tree, under the version of Kubernetes and of its own source, so it is never out of date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

kubernetes=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit }' go.mod)
source=$(cat go.mod corebench/*.go | sha256sum | cut -c 1-12)
binary=${XDG_CACHE_HOME:-$HOME/.cache}/stowplan/corebench/kubernetes-$kubernetes-$source/corebench

if [ "${1:-}" = --where ] || [ -x "$binary" ]; then
    echo "$binary"
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "corebench is built from source and needs Go $(awk '$1 == "go" { print $2 }' go.mod) or newer:" \
        "install it from https://go.dev/dl/ and try again." >&2
    exit 1
fi
echo "Building corebench for Kubernetes $kubernetes (once; several minutes unless its packages are cached)" >&2
mkdir -p "$(dirname "$binary")"
unfinished=$(mktemp "$binary.XXXXXX")
trap 'rm -f "$unfinished"' EXIT
CGO_ENABLED=0 nice go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$unfinished" ./corebench
chmod 755 "$unfinished"
mv "$unfinished" "$binary"
echo "$binary"
