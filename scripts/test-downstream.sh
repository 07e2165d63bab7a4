#!/usr/bin/env bash
# Copies tests/downstream out of the repository and builds it there against the SDK that LIBTORCH (or
# LIBTORCH_USE_PYTORCH) names, in every way in which a user would. Nothing but that variable is set at build time, nothing
# at all when the program runs. Called by `make test-downstream`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
repo=$PWD

if [[ -n ${LIBTORCH_USE_PYTORCH:-} ]]; then
    sdk=$(python3 -c 'import torch; print(torch.__path__[0])')
    named=(LIBTORCH_USE_PYTORCH=1)
else
    sdk=$(realpath "$LIBTORCH")
    named=(LIBTORCH="$LIBTORCH")
fi
case $sdk in "$repo"/.libtorch/*) flavour=${sdk##*/} ;; *) flavour=user ;; esac

work=$(mktemp -d)
target=$repo/target/downstream/$flavour # kept: torch-sys takes minutes
renamed=$target-renamed
rm -rf "$renamed" # of an interrupted run
clean_up() {
    rm -rf "$work"
    [[ ! -d $renamed ]] || mv "$renamed" "$target"
}
trap clean_up EXIT

cargo fetch --quiet # below, the network may be out of reach for want of a proxy's variable
toolchain=(PATH="$PATH" HOME="$HOME" CARGO_NET_OFFLINE=true)
for name in CARGO_HOME RUSTUP_HOME RUSTUP_TOOLCHAIN VIRTUAL_ENV; do
    [[ -z ${!name:-} ]] || toolchain+=("$name=${!name}")
done
device=() # TORCHLEAN_LIBTORCH_DEVICE, where the CUDA SDK has no visible device

step() { printf '\ndownstream (%s): %s\n' "$flavour" "$*"; }
die() { printf 'downstream (%s): %s\n' "$flavour" "$*" >&2 && exit 1; }
clean_cargo() { env -i "${toolchain[@]}" "${named[@]}" "${device[@]}" CARGO_TARGET_DIR="$target" cargo "$@"; }

# The program's output, given on standard input, shows the values and the SDK's own libraries, all that it should and no more.
check() {
    local output library name
    output=$(cat) && printf '%s\n' "$output"
    grep -qxF 'values [0.5, 1.0, 5.25, 9.0]' <<<"$output" || die 'the values are missing'
    grep -q "^library $sdk/lib/libtorch_cpu.so" <<<"$output" || die "libtorch_cpu.so was not loaded from $sdk/lib"
    if [[ -f $sdk/lib/libtorch_cuda.so ]]; then
        grep -q "^library $sdk/lib/libtorch_cuda.so" <<<"$output" || die 'the linker dropped libtorch_cuda.so'
        return
    fi
    while read -r _ library; do
        name=${library##*/}
        case $name in
        libtorch* | libc10* | libgomp*) ;;
        *) readelf -d "$sdk/lib/libtorch_cpu.so" | grep -q "NEEDED.*\[$name\]" || die "$library is loaded, which libtorch_cpu.so does not name" ;;
        esac
    done < <(grep '^library ' <<<"$output")
}

crate=$work/downstream
cp -R tests/downstream "$crate"
rm -rf "$crate/target"
sed -i "s|path = \"../..\"|path = \"$repo\"|" "$crate/Cargo.toml"
cp Cargo.lock "$crate/"
cd "$crate"

step 'cargo build'
clean_cargo build

step 'another version, and a folder that is no SDK, are refused in one line'
script=$(ls -t "$target"/debug/build/torchlean-*/build-script-build | head -n 1)
refused() { # $1: a folder; $2: what our build script is to say
    env -i "${toolchain[@]}" CARGO_CFG_TARGET_OS=linux OUT_DIR="$work" LIBTORCH="$1" DEP_TCH_LIBTORCH_LIB="$1/lib" "$script" |
        grep -F "cargo::error=$2" || die "$1 was not refused"
}
mkdir -p "$work"/{empty,old}/lib "$work/old/include/ATen"
touch "$work"/old/{lib/libtorch_cpu.so,include/ATen/Context.h}
echo 2.10.0+cpu >"$work/old/build-version"
refused "$work/empty" "$work/empty/lib has no libtorch_cpu.so: set LIBTORCH"
refused "$work/old" "$work/old is libtorch 2.10.0: set LIBTORCH"

if [[ -f $sdk/lib/libtorch_cuda.so ]] && ! clean_cargo run --quiet >"$work/output" 2>&1; then
    step 'the CUDA SDK without a visible device is refused, not replaced by the host'
    cat "$work/output"
    grep -q "^library $sdk/lib/libtorch_cuda.so" "$work/output" || die 'the linker dropped libtorch_cuda.so'
    grep -q '^device' "$work/output" && die 'a device was selected'
    device=(TORCHLEAN_LIBTORCH_DEVICE=cpu)
fi

step 'cargo run'
clean_cargo run --quiet | check
step 'cargo test'
clean_cargo test --quiet
step 'cargo run --release'
clean_cargo run --quiet --release | check

step 'a renamed target folder'
mv "$target" "$renamed"
target=$renamed clean_cargo run --quiet | check
mv "$renamed" "$target"

step 'a member of a workspace'
mkdir "$work/workspace"
cp -R "$crate" "$work/workspace/member"
mv "$work/workspace/member/Cargo.lock" "$work/workspace/"
printf '[workspace]\nmembers = ["member"]\nresolver = "3"\n' >"$work/workspace/Cargo.toml"
(cd "$work/workspace" && clean_cargo run --quiet --package downstream) | check

step 'started by hand, with the build script that the documentation shows'
cat >build.rs <<'RUST'
fn main() {
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", std::env::var("DEP_TORCHLEAN_LIBTORCH_LIB").unwrap());
}
RUST
clean_cargo build --quiet
env -i "${device[@]}" "$target/debug/downstream" | check

step 'passed'
