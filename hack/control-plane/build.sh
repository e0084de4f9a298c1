#!/usr/bin/env bash
# Builds the control plane that tests run against: kube-apiserver, kube-scheduler, kubectl and etcd.
#
#   build.sh           build what is missing, print the folder
#   build.sh --where   only print the folder, whether or not the binaries are there
#
# The versions are those of go.mod. The folder lies outside the tree and carries the versions in its name, so a finished
# build is never touched again. KUBEBUILDER_ASSETS, as in envtest, names a folder with binaries of your own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

programs=(kube-apiserver kube-scheduler kubectl etcd)
pinned() { awk -v module="$1" '$1 == module && $2 ~ /^v/ { print $2; exit }' go.mod; }
kubernetes=$(pinned k8s.io/kubernetes)
etcd=$(pinned go.etcd.io/etcd/server/v3)
folder=${KUBEBUILDER_ASSETS:-${XDG_CACHE_HOME:-$HOME/.cache}/stowplan/control-plane/kubernetes-$kubernetes-etcd-$etcd}

missing() {
    local program absent=()
    for program in "${programs[@]}"; do
        [ -x "$folder/$program" ] || absent+=("$program")
    done
    echo "${absent[*]}"
}

if [ "${1:-}" = --where ] || [ -z "$(missing)" ]; then
    echo "$folder"
    exit 0
fi
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    echo "KUBEBUILDER_ASSETS=$folder lacks: $(missing). Put them there, or unset it to build them here." >&2
    exit 1
fi
if ! command -v go >/dev/null; then
    echo "The control plane is built from source and needs Go $(awk '$1 == "go" { print $2 }' go.mod) or newer:" \
        "install it from https://go.dev/dl/ and try again." >&2
    exit 1
fi

# What `kubectl version` and the server's /version say. The date is the release's, not today's: same input, same binary.
released=$(go list -m -f '{{.Time.Format "2006-01-02T15:04:05Z"}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kubernetes#v}"
stamp="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamp+=" -X $package.gitVersion=$kubernetes -X $package.gitMajor=$major -X $package.gitMinor=$minor"
    stamp+=" -X $package.gitTreeState=clean -X $package.buildDate=$released"
done

mkdir -p "$(dirname "$folder")"
unfinished=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$unfinished"' EXIT
started=$SECONDS
echo "Building Kubernetes $kubernetes and etcd $etcd into $folder (once; about 6 minutes on two idle cores)" >&2
export CGO_ENABLED=0
build() { nice go build -trimpath -buildvcs=false "$@"; }
build -o "$unfinished/etcd" go.etcd.io/etcd/server/v3
for program in kube-apiserver kube-scheduler kubectl; do
    build -ldflags "$stamp" -o "$unfinished/$program" "k8s.io/kubernetes/cmd/$program"
    echo "$program after $((SECONDS - started)) s" >&2
done
chmod 755 "$unfinished"
# A rename: whoever looks sees all four or none. Someone else's finished build (same versions) is as good as ours.
mv -T "$unfinished" "$folder" 2>/dev/null || [ -z "$(missing)" ]
echo "$folder"
