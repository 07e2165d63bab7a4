#!/usr/bin/env bash
# Lays out a libtorch SDK for this repository:
#
#   scripts/libtorch.sh [cpu|cuda] [--configure]
#
# The SDK (include/, lib/, build-version) goes to .libtorch/cpu (the default) or .libtorch/cuda, put together from pinned
# wheels of the Python package index. Nothing is installed and a second run is instant. `--configure` also writes the
# git-ignored .cargo/config.toml, so that plain `cargo` finds the SDK.
#
#   LIBTORCH, LIBTORCH_USE_PYTORCH   name an SDK of your own, as for torch-sys: it is checked and nothing is laid out
#   TORCHLEAN_TORCH_INDEX_URL        the package index to ask, such as https://download.pytorch.org/whl/cpu
set -euo pipefail

torch_version=2.11.0 # what tch 0.24 binds
cpu_packages=(
    torch==$torch_version
    # The wheel is a CUDA build: its libtorch_cpu.so names these two libraries, and no other of CUDA.
    nvidia-cuda-runtime==13.0.96
    nvidia-cuda-cupti==13.0.85
)
cuda_packages=(
    "${cpu_packages[@]}"
    nvidia-cublas==13.1.0.3 nvidia-cuda-nvrtc==13.0.88 nvidia-cudnn-cu13==9.19.0.56 nvidia-cufft==12.0.0.61
    nvidia-cufile==1.15.1.6 nvidia-curand==10.4.0.35 nvidia-cusolver==12.0.4.66 nvidia-cusparse==12.6.3.3
    nvidia-cusparselt-cu13==0.8.0 nvidia-nccl-cu13==2.28.9 nvidia-nvjitlink==13.0.88 nvidia-nvshmem-cu13==3.4.5
    nvidia-nvtx==13.0.85
)

say() { printf 'libtorch.sh: %s\n' "$*"; }
die() { say "$*" >&2 && exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: install it ($2), or set LIBTORCH to a libtorch $torch_version"; }

# ---- .cargo/config.toml -------------------------------------------------------------------------------------------

config=.cargo/config.toml
mark='# Written by `make sdk`, which overwrites it. A variable of the shell wins over the one below.'

ours() { [[ -f $config && $(head -n1 "$config") == "$mark" ]]; }

# A config that names a folder that is gone would end deep in a C++ compiler's messages.
drop_stale_config() {
    local named
    ours || return 0
    named=$(sed -n 's/^LIBTORCH = .*"\(.*\)".*$/\1/p' "$config")
    [[ -z $named || -d $named ]] || rm -f "$config"
}

# $1: the line of [env] that names the SDK, $2: the target folder
write_config() {
    [[ $configure == yes ]] || return 0
    if [[ -f $config ]] && ! ours; then
        say "$config is your own and stays as it is; plain cargo needs this in its [env]: $1"
        return
    fi
    mkdir -p .cargo
    printf '%s\n\n[env]\n%s\n\n[build]\ntarget-dir = "%s"\n' "$mark" "$1" "$2" >"$config.new"
    mv "$config.new" "$config"
}

# ---- an SDK of the user's own -------------------------------------------------------------------------------------

use_pytorch() {
    local python=python3 found
    [[ -z ${VIRTUAL_ENV:-} ]] || python=python # as torch-sys chooses
    found=$("$python" -c 'import torch; print(torch.__version__.split("+")[0], torch.__path__[0])' 2>/dev/null) ||
        die "LIBTORCH_USE_PYTORCH is set, but $python cannot import torch: activate the environment that has it, or unset the variable"
    [[ $found == "$torch_version "* ]] ||
        die "LIBTORCH_USE_PYTORCH is set, but $python has torch ${found%% *}: torch $torch_version is needed"
    say "using the PyTorch of $python, ${found#* } (LIBTORCH_USE_PYTORCH)"
    write_config 'LIBTORCH_USE_PYTORCH = "1"' target/user
}

use_libtorch() {
    local root found
    root=$(cd "$LIBTORCH" 2>/dev/null && pwd) || die "LIBTORCH is $LIBTORCH, which is no folder: correct it, or unset it to have an SDK laid out here"
    [[ -d ${LIBTORCH_INCLUDE:-$root}/include && -f ${LIBTORCH_LIB:-$root}/lib/libtorch_cpu.so ]] ||
        die "LIBTORCH is $LIBTORCH, which is no SDK (it needs include/ and lib/libtorch_cpu.so): correct it, or unset it to have one laid out here"
    if [[ -f $root/build-version ]]; then
        found=$(<"$root/build-version")
        [[ ${found%%+*} == "$torch_version" ]] || die "LIBTORCH is $LIBTORCH, which is libtorch $found: $torch_version is needed"
    fi
    say "using the SDK in $root (LIBTORCH)"
    case $root in
    "$PWD/.libtorch/cpu") write_config "$(inside cpu)" target/cpu ;;
    "$PWD/.libtorch/cuda") write_config "$(inside cuda)" target/cuda ;;
    *) write_config "LIBTORCH = \"$(sed 's/[\\"]/\\&/g' <<<"$root")\"" target/user ;;
    esac
}

inside() { printf 'LIBTORCH = { value = ".libtorch/%s", relative = true }' "$1"; }

# ---- an SDK laid out here -----------------------------------------------------------------------------------------

complete() { [[ -f $sdk/lib/libtorch_cpu.so && -f $sdk/build-version && $(cat "$sdk/.pins" 2>/dev/null) == "$pins" ]]; }

lay_out() {
    local packages package step=0 free old=.libtorch/.$flavour.old
    stage=.libtorch/.$flavour.stage # not local: the trap needs it after the return
    [[ $(uname -sm) == 'Linux x86_64' ]] || die "an SDK can be laid out on Linux x86-64 only: set LIBTORCH to a libtorch $torch_version for $(uname -sm)"
    need python3 'apt-get install python3 python3-pip'
    need flock 'apt-get install util-linux'
    python3 -m pip --version >/dev/null 2>&1 || die "pip is missing: install it (apt-get install python3-pip), or set LIBTORCH to a libtorch $torch_version"

    { mkdir -p .libtorch && exec 9>".libtorch/.$flavour.lock"; } 2>/dev/null || die "cannot write to $PWD/.libtorch: free its disk or correct its permissions"
    # The kernel lets go of the lock when its holder dies, however it dies.
    flock -n 9 || { say "waiting for another run that lays out $sdk" && flock 9; }
    ! complete || return 0

    rm -rf "$stage" "$old" # of interrupted runs
    trap 'rm -rf "$stage"' EXIT
    trap 'exit 130' INT TERM HUP
    free=$(($(df -Pk .libtorch | awk 'END { print $4 }') / 1024))
    ((free >= disk)) || die "$free MB are free in $PWD/.libtorch, $disk MB are needed: free some space and run this again"
    mkdir -p "$stage/tmp" "$stage/sdk/include" "$stage/sdk/lib"
    say "laying out libtorch $torch_version ($flavour) in $sdk"

    read -ra packages <<<"$pins"
    for package in "${packages[@]}"; do
        say "[$((++step))/${#packages[@]}] ${package/==/ }"
        download "$package"
        unpack
        [[ $flavour == cuda || -f $stage/needs-cuda-runtime ]] || break # the wheel is a CPU build: no other package is needed
    done

    ! ldd "$stage/sdk/lib/libtorch_cpu.so" | grep -q 'not found' ||
        die "$(ldd "$stage/sdk/lib/libtorch_cpu.so" 2>&1 | grep -m1 'not found' | xargs): this system cannot load the wheel; set LIBTORCH to a libtorch $torch_version that it can"
    echo "$pins" >"$stage/sdk/.pins"
    [[ ! -e $sdk ]] || mv "$sdk" "$old"
    mv "$stage/sdk" "$sdk"
    rm -rf "$old"
}

# Any Python will do: the wheels asked for are those of CPython 3.12, of which only the C++ part is used.
download() {
    local package=$1 log minor options=(--no-deps --only-binary=:all: --no-cache-dir --disable-pip-version-check --retries 2
        --python-version 3.12 --implementation cp --abi cp312 --abi none --platform manylinux2014_x86_64)
    for minor in {17..28}; do options+=(--platform "manylinux_2_${minor}_x86_64"); done
    [[ -z ${TORCHLEAN_TORCH_INDEX_URL:-} ]] || options+=(--index-url "$TORCHLEAN_TORCH_INDEX_URL")
    # pip's temporary folder would otherwise be on another, maybe smaller, disk.
    { log=$(TMPDIR=$PWD/$stage/tmp python3 -m pip download "${options[@]}" --dest "$stage" "$package" 2>&1 >&3); } 3>&1 ||
        failed "$package" "$log"
}

# $1: the package, $2: what was said about it
failed() {
    case $2 in
    *'No space left'*) die "the disk is full: free some space and run this again" ;;
    *Retrying* | *onnection* | *'Max retries'* | *resolve*)
        die "cannot reach the package index for ${1/==/ }: check the network (or PIP_INDEX_URL, TORCHLEAN_TORCH_INDEX_URL), or set LIBTORCH to a libtorch $torch_version"
        ;;
    esac
    die "cannot get ${1/==/ } ($(grep -m1 ERROR <<<"$2" || tail -n1 <<<"$2")): correct that, or set LIBTORCH to a libtorch $torch_version"
}

# Takes the headers and libraries out of the wheels in the stage and deletes the wheels.
unpack() {
    local log
    log=$(python3 -c "$unpack" "$stage" "$flavour" "$torch_version" 2>&1) || failed "$package" "$log"
}

unpack=$(
    cat <<'PYTHON'
import pathlib, shutil, sys, zipfile

stage, flavour, version = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
sdk = stage / "sdk"
lib = sdk / "lib"

def take(wheel, name, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wheel.open(name) as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)

for path in stage.glob("*.whl"):
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if not name.endswith("/")]
        libraries = {name.split("/")[-1]: name for name in names if "/lib/lib" in name and ".so" in name}
        libraries.pop("libtorch_python.so", None)
        is_torch, is_cuda = "libtorch_cpu.so" in libraries, "libtorch_cuda.so" in libraries
        if flavour == "cpu" and not is_torch:
            libraries = {name: libraries[name] for name in libraries if name.startswith(("libcudart.so", "libcupti.so"))}
        elif flavour == "cpu" and is_cuda:
            libraries = {name: libraries[name] for name in libraries if name in ("libtorch_cpu.so", "libc10.so", "libgomp.so.1")}
            (stage / "needs-cuda-runtime").touch()
            # The wheel's own names libtorch_cuda.so.
            (lib / "libtorch.so").write_text("INPUT(-ltorch_cpu)\n")
        elif flavour == "cuda" and is_torch and not is_cuda:
            sys.exit("ERROR: the index holds a CPU build")
        for name, member in libraries.items():
            take(wheel, member, lib / name)
        if is_torch:
            for name in names:
                if name.startswith("torch/include/"):
                    take(wheel, name, sdk / name[len("torch/"):])
            (sdk / "build-version").write_text(version + {"cpu": "+cpu", "cuda": "+cu130"}[flavour] + "\n")
    path.unlink()
PYTHON
)

# -------------------------------------------------------------------------------------------------------------------

flavour=cpu configure=no
for argument in "$@"; do
    case $argument in
    cpu | cuda) flavour=$argument ;;
    --configure) configure=yes ;;
    *) die "$argument is neither cpu, cuda nor --configure: usage is scripts/libtorch.sh [cpu|cuda] [--configure]" ;;
    esac
done
case $flavour in
cpu) pins=${cpu_packages[*]} disk=1500 ;;
cuda) pins=${cuda_packages[*]} disk=5500 ;;
esac
sdk=.libtorch/$flavour

cd "$(dirname "${BASH_SOURCE[0]}")/.."
drop_stale_config
if [[ -n ${LIBTORCH_USE_PYTORCH:-} ]]; then
    use_pytorch
elif [[ -n ${LIBTORCH:-} ]]; then
    use_libtorch
else
    complete || lay_out
    say "libtorch $torch_version is in $sdk"
    write_config "$(inside "$flavour")" "target/$flavour"
fi
