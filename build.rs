//! Takes the SDK that torch-sys found and makes programs that use this crate link, start and keep CUDA. Without the
//! feature `libtorch`, and for documentation (`tch/doc-only`), it does nothing.
//!
//! - `csrc/` is compiled against the SDK. With a CUDA SDK it refers to a symbol of `libtorch_cuda.so`, which Rust's
//!   linker, called with `--as-needed`, would otherwise drop: everything would run on the host without a word.
//! - `OUT_DIR/libtorch` is a link to the SDK, and the search path goes through it: Cargo puts the search paths that lie
//!   in the target folder on the library path of `cargo run` and `cargo test`, in every crate downstream.
//! - `DEP_TORCHLEAN_LIBTORCH_LIB` tells the build script of a dependent where the libraries are, for an rpath.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(torchlean_cuda_sdk)");
    #[cfg(feature = "libtorch")]
    if let Err(reason) = sdk::link() {
        println!("cargo::error={reason}");
    }
}

#[cfg(feature = "libtorch")]
mod sdk {
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// The version that the `tch` in Cargo.toml binds.
    const TORCH_VERSION: &str = "2.11.0";

    struct Sdk {
        /// The folder that holds `lib`.
        root: PathBuf,
        lib: PathBuf,
        include: PathBuf,
        version: String,
        has_cuda: bool,
    }

    pub fn link() -> Result<(), String> {
        let Some(sdk) = find()? else { return Ok(()) };
        rerun_if_it_changes(&sdk);
        check_version(&sdk)?;
        compile_csrc(&sdk)?;

        let lib = link_into_target(&sdk)?;
        println!("cargo::rustc-link-search=native={}", lib.display());
        println!("cargo::metadata=libtorch_lib={}", sdk.lib.display());
        println!("cargo::rustc-env=TORCHLEAN_SDK_VERSION={}", sdk.version);
        println!("cargo::rustc-env=TORCHLEAN_SDK_ROOT={}", sdk.root.display());
        if sdk.has_cuda {
            println!("cargo::rustc-cfg=torchlean_cuda_sdk");
            println!("cargo::rustc-link-lib=torch_cuda");
        } else if env::var_os("CARGO_FEATURE_CUDA").is_some() {
            println!(
                "cargo::warning=feature `cuda`: the libtorch in {} has no CUDA, so nothing can run on a CUDA device",
                sdk.root.display()
            );
        }
        println!("cargo::rustc-link-lib=c10");
        println!("cargo::rustc-link-lib=gomp");
        Ok(())
    }

    /// Finds the SDK as torch-sys did, which has run before and says where the libraries are; it says nothing where it
    /// was told to look for none (`tch/doc-only`).
    fn find() -> Result<Option<Sdk>, String> {
        let Some(lib) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else {
            return match env::var("CARGO_CFG_TARGET_OS").as_deref() {
                Ok("linux" | "macos") => Ok(None),
                _ => Err("torch-sys says where libtorch is on Linux and macOS only".into()),
            };
        };
        let root = lib.parent().unwrap_or(&lib).to_path_buf();
        let include = if variable("LIBTORCH_USE_PYTORCH").is_some() {
            root.clone()
        } else {
            variable("LIBTORCH_INCLUDE")
                .or_else(|| variable("LIBTORCH"))
                .map_or_else(|| root.clone(), PathBuf::from)
        }
        .join("include");
        for (folder, file) in [
            (&lib, library("torch_cpu")),
            (&include, "ATen/Context.h".into()),
        ] {
            if !folder.join(&file).is_file() {
                return Err(format!(
                    "{} has no {file}: set LIBTORCH to a folder with include/ and lib/ of libtorch {TORCH_VERSION}",
                    folder.display()
                ));
            }
        }
        Ok(Some(Sdk {
            version: version(&root, &include),
            has_cuda: lib.join(library("torch_cuda")).is_file(),
            root,
            lib,
            include,
        }))
    }

    /// The SDK's own version file (`2.11.0+cpu`), which wheels do not have, or what its headers say.
    fn version(root: &Path, include: &Path) -> String {
        if let Ok(text) = fs::read_to_string(root.join("build-version")) {
            return text.trim().to_owned();
        }
        let header =
            fs::read_to_string(include.join("torch/headeronly/version.h")).unwrap_or_default();
        let number = |name: &str| {
            header
                .lines()
                .find_map(|line| {
                    line.strip_prefix("#define TORCH_VERSION_")?
                        .strip_prefix(name)
                })
                .map_or("?", str::trim)
        };
        format!(
            "{}.{}.{}",
            number("MAJOR "),
            number("MINOR "),
            number("PATCH ")
        )
    }

    /// torch-sys checks only an SDK that has a version file, and not again when the folder gets another SDK.
    fn check_version(sdk: &Sdk) -> Result<(), String> {
        let found = sdk.version.split('+').next().unwrap_or_default();
        if found == TORCH_VERSION || variable("LIBTORCH_BYPASS_VERSION_CHECK").is_some() {
            return Ok(());
        }
        Err(format!(
            "{} is libtorch {found}: set LIBTORCH to a folder with include/ and lib/ of libtorch {TORCH_VERSION}",
            sdk.root.display()
        ))
    }

    /// A file that is missing would count as changed in every build, so the library folder stands for one to come.
    fn rerun_if_it_changes(sdk: &Sdk) {
        let files = [
            sdk.lib.join(library("torch_cuda")),
            sdk.root.join("build-version"),
        ];
        for path in files.iter().filter(|file| file.exists()).chain([&sdk.lib]) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }

    fn compile_csrc(sdk: &Sdk) -> Result<(), String> {
        println!("cargo::rerun-if-changed=csrc/controls.cpp");
        let abi = env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".to_owned());
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .flag_if_supported("-fopenmp")
            .flag("-isystem")
            .flag(&sdk.include)
            .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
            .file("csrc/controls.cpp");
        if sdk.has_cuda {
            build.define("TORCHLEAN_CUDA_SDK", None);
        }
        build.try_compile("torchlean_controls").map_err(|error| {
            let reason = error.to_string();
            format!(
                "cannot compile csrc/controls.cpp: {}",
                reason.lines().next().unwrap_or_default()
            )
        })
    }

    /// `OUT_DIR/libtorch -> SDK`; gives the library folder as seen through the link.
    fn link_into_target(sdk: &Sdk) -> Result<PathBuf, String> {
        #[cfg(unix)]
        {
            let link = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("libtorch");
            if fs::read_link(&link).ok().as_deref() != Some(&sdk.root) {
                let _ = fs::remove_file(&link);
                std::os::unix::fs::symlink(&sdk.root, &link).map_err(|error| {
                    format!(
                        "cannot link {} to {}: {error}",
                        link.display(),
                        sdk.root.display()
                    )
                })?;
            }
            Ok(link.join(sdk.lib.file_name().unwrap_or_default()))
        }
        #[cfg(not(unix))]
        Ok(sdk.lib.clone())
    }

    fn variable(name: &str) -> Option<std::ffi::OsString> {
        println!("cargo::rerun-if-env-changed={name}");
        env::var_os(name)
    }

    fn library(name: &str) -> String {
        match env::var("CARGO_CFG_TARGET_OS").as_deref() {
            Ok("macos") => format!("lib{name}.dylib"),
            Ok("windows") => format!("{name}.dll"),
            _ => format!("lib{name}.so"),
        }
    }
}
