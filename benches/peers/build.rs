//! So that the library finds libtorch where Python has not loaded it already.

fn main() {
    let lib = std::env::var("DEP_TORCHLEAN_LIBTORCH_LIB").expect("torchlean names its SDK");
    println!("cargo::rustc-link-arg-cdylib=-Wl,-rpath,{lib}");
}
