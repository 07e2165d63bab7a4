# Each target does what it needs first, the SDK included: `make demo` and `make test` work in a fresh clone.

# The SDK that scripts/libtorch.sh lays out: cpu or cuda. LIBTORCH or LIBTORCH_USE_PYTORCH in the environment name one of
# your own instead. Each SDK has its own target folder, because another SDK means building torch-sys anew.
FLAVOUR ?= cpu

ifneq ($(LIBTORCH_USE_PYTORCH),)
SDK := user
else ifneq ($(filter-out $(CURDIR)/.libtorch/%,$(LIBTORCH)),)
SDK := user
export LIBTORCH := $(abspath $(LIBTORCH))
else
SDK := $(or $(notdir $(LIBTORCH)),$(FLAVOUR))
export LIBTORCH := $(CURDIR)/.libtorch/$(SDK)
unexport LIBTORCH_USE_PYTORCH# empty counts as set
endif
export CARGO_TARGET_DIR := $(CURDIR)/target/$(SDK)

lay-out = $(if $(filter user,$(SDK)),scripts/libtorch.sh,env -u LIBTORCH scripts/libtorch.sh $(SDK))
with-cuda-sdk = env -u LIBTORCH_USE_PYTORCH LIBTORCH=$(CURDIR)/.libtorch/cuda
unlinked = env -u LIBTORCH CARGO_TARGET_DIR=$(CURDIR)/target/unlinked cargo

.PHONY: help sdk demo test lint doc bench bench-peers test-unlinked test-downstream test-cuda-sdk exhaustive soak memcheck coverage have-sdk have-cuda-sdk

help: ## this table
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

sdk: ## lay out the SDK in .libtorch/ and write .cargo/config.toml, so that plain cargo finds it (FLAVOUR=cpu|cuda)
	@$(lay-out) --configure

demo: have-sdk ## a year of wind through a turbine's power curve: prints the energy, writes a plot
	cargo run --release --example wind_energy

test: have-sdk ## every test, none skipped for want of a runtime
	TORCHLEAN_REQUIRE_NATIVE=1 cargo test --tests --examples
	TORCHLEAN_REQUIRE_NATIVE=1 cargo test --doc

lint: have-sdk ## rustfmt and clippy, warnings denied, with and without libtorch
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	$(unlinked) clippy --all-targets --no-default-features -- -D warnings

doc: have-sdk ## the documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

bench: have-sdk ## check that all forms agree, then time them against copying (QUICK=1: in seconds)
	cargo bench --bench ops

# torch must be the one that the SDK is cut from. PEERS_PYTHON names an environment of your own.
PEERS_ARGS ?=
ifeq ($(PEERS_PYTHON),)
PEERS_PYTHON := target/peers/venv/bin/python
peers-installed := target/peers/installed
endif

target/peers/installed: benches/peers/requirements.txt
	python3 -m venv target/peers/venv
	target/peers/venv/bin/python -m pip install --quiet --requirement $<
	touch $@

bench-peers: have-sdk $(peers-installed) ## the same lookups by numba, JAX, torch, candle, interpn ...: ratios to ours (PEERS_ARGS="--sizes 100 10000")
	cargo build --release --manifest-path benches/peers/Cargo.toml
	for threads in 1 2; do \
		$(PEERS_PYTHON) benches/peers/compare.py $(CARGO_TARGET_DIR)/release/libtorchlean_peers.so \
			--out $(CARGO_TARGET_DIR)/bench --threads $$threads $(PEERS_ARGS) || exit 1; \
	done

test-unlinked: ## the tests of a build without libtorch: needs no SDK and no C++ compiler
	$(unlinked) test --no-default-features

test-downstream: have-sdk have-cuda-sdk ## a crate outside this repository links, starts and finds its device, with both SDKs
	scripts/test-downstream.sh
	$(with-cuda-sdk) scripts/test-downstream.sh

test-cuda-sdk: have-cuda-sdk ## the device selection with a CUDA SDK and no visible device
	$(with-cuda-sdk) CARGO_TARGET_DIR=$(CURDIR)/target/cuda CUDA_VISIBLE_DEVICES= cargo test --test selection

exhaustive: have-sdk ## floor, positions and lookups over all 2^32 bit patterns (an hour or two)
	OMP_NUM_THREADS=1 cargo test --release --test exhaustive -- --ignored --nocapture

soak: have-sdk ## a billion lookups against a restatement; threads, tapes, fits and millions of random calls
	TORCHLEAN_STRESS=100 TORCHLEAN_REQUIRE_NATIVE=1 \
		cargo test --release --test soak --test stress --test small_tapes --test fit_steps -- --include-ignored --nocapture

memcheck: have-sdk ## random calls under valgrind: no read or write outside memory
	CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="valgrind --quiet --undef-value-errors=no --error-exitcode=9" \
		OMP_NUM_THREADS=1 TORCHLEAN_REQUIRE_NATIVE=1 cargo test --test stress random_calls

target/tools/bin/cargo-tarpaulin:
	CARGO_TARGET_DIR=target/tools/build cargo install cargo-tarpaulin --locked --root target/tools

# tarpaulin binds the tests to one processor: libtorch is told to use two threads all the same.
coverage: have-sdk target/tools/bin/cargo-tarpaulin ## the lines of src/ that the tests run, those of other processes and doc examples left out
	env -u CARGO_TARGET_DIR TORCHLEAN_REQUIRE_NATIVE=1 OMP_NUM_THREADS=2 PATH="$(CURDIR)/target/tools/bin:$$PATH" \
		cargo tarpaulin --engine ptrace --target-dir target/coverage --skip-clean --tests \
		--include-files 'src/*' --exclude-files 'src/bin/*' --out Stdout --timeout 1200

have-sdk:
	@$(lay-out)

have-cuda-sdk:
	@env -u LIBTORCH -u LIBTORCH_USE_PYTORCH -u TORCHLEAN_TORCH_INDEX_URL scripts/libtorch.sh cuda
