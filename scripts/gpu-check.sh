#!/usr/bin/env bash
# Runs the test suite on a machine with a GPU that needs no Rust.
#
#   scripts/gpu-check.sh build [FOLDER]    here: test binaries against the CUDA SDK, stripped, and this script
#   FOLDER/gpu-check.sh                    there: run them on CUDA, then on the host, and compare the bits
#
# The SDK there is the torch 2.11.0 that python3 imports, or a folder that LIBTORCH names.
set -euo pipefail

say() { printf 'gpu-check: %s\n' "$*"; }
die() { say "$*" >&2 && exit 1; }

build() {
    cd "$(dirname "${BASH_SOURCE[0]}")/.."
    local folder=${1:-target/gpu-check} binary name size
    scripts/libtorch.sh cuda
    rm -rf "$folder"
    mkdir -p "$folder"
    # The feature `cuda` stays off, so that the same binaries run on the host too.
    LIBTORCH=$PWD/.libtorch/cuda CARGO_TARGET_DIR=$PWD/target/cuda \
        cargo test --release --lib --tests --bins --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' |
        while read -r binary; do
            name=${binary##*/}
            case $name in
            exhaustive-*) continue ;;                                            # hours
            readme-* | real_data-* | wind_energy-* | thermocouple-*) continue ;; # need the repository
            torchlean_doctor-*) continue ;;                                      # no tests
            esac
            [[ $name =~ ^(.*)-[0-9a-f]{16}$ ]] && name=${BASH_REMATCH[1]} # a test's, by Cargo
            strip -o "$folder/$name" "$binary"
        done
    cp "${BASH_SOURCE[0]}" "$folder/gpu-check.sh"
    size=$(du -sm "$folder" | cut -f1)
    say "$(find "$folder" -type f | wc -l) files, $size MB in $folder"
    ((size < 60)) || die "more than the 60 MB that the folder may have"
}

# $1: the name of a pass; the environment says the device
pass() {
    local binary failed=0
    for binary in *; do
        [[ -x $binary && $binary != gpu-check.sh && $binary != torchlean-doctor ]] || continue
        say "$1: $binary"
        TORCHLEAN_TEST_OUTPUTS=$PWD/$1.outputs "./$binary" >"$1.$binary.log" 2>&1 || { failed=1 && tail -n 40 "$1.$binary.log"; }
        grep -h '^test result' "$1.$binary.log" || failed=1
    done
    return $failed
}

run() {
    cd "$(dirname "${BASH_SOURCE[0]}")"
    local lib failed=0
    if [[ -n ${LIBTORCH:-} ]]; then
        lib=$LIBTORCH/lib
    else
        lib=$(python3 -c 'import torch; assert torch.__version__.startswith("2.11.0"), torch.__version__; print(torch.__path__[0] + "/lib")') ||
            die 'python3 cannot import torch 2.11.0: install it, or set LIBTORCH to a folder with its lib/'
    fi
    export LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    rm -f ./*.outputs ./*.log
    ./torchlean-doctor || failed=1
    TORCHLEAN_REQUIRE_CUDA=1 pass cuda || failed=1
    TORCHLEAN_REQUIRE_NATIVE=1 TORCHLEAN_LIBTORCH_DEVICE=cpu pass cpu || failed=1
    if [[ ! -s cuda.outputs || ! -s cpu.outputs ]]; then
        say 'no results to compare'
        failed=1
    elif cmp cuda.outputs cpu.outputs; then
        say "$(wc -l <cuda.outputs) results have the same bits on CUDA and on the host"
    else
        diff <(cut -c1-120 cuda.outputs) <(cut -c1-120 cpu.outputs) | head -n 20 || true
        failed=1
    fi
    ((failed == 0)) && say 'all passed' || die 'something failed: see above'
}

case ${1:-run} in
build) build "${2:-}" ;;
run) run ;;
*) die "$1 is neither build nor run" ;;
esac
