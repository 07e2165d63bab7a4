//! Looks values up in a table and shows which libraries and which device that took.

use torchlean::{Buffer, Result, device_kind};

fn lookup() -> Result<Vec<f32>> {
    let squares = Buffer::from_slice(&[0.0, 1.0, 4.0, 9.0], &[4])?;
    let coords = Buffer::from_slice(&[0.5, 1.0, 2.25, 7.0], &[4])?;
    squares.table_lookup(&coords)?.to_vec()
}

/// The loaded libraries of libtorch and CUDA, with their folders.
fn libraries() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| {
            ["libtorch", "libc10", "libcu", "libnv", "libgomp"]
                .iter()
                .any(|name| path.contains(&format!("/{name}")))
        })
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn main() -> Result<()> {
    for path in libraries() {
        println!("library {path}");
    }
    println!("device {}", device_kind()?);
    println!("values {:?}", lookup()?);
    Ok(())
}

#[test]
fn the_lookup_has_the_bits_of_the_contract() {
    assert_eq!(lookup().unwrap(), [0.5, 1.0, 5.25, 9.0]);
}
