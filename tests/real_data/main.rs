//! The library on real calibration data: published tables and logs, checked against published or independently
//! computed values.
//!
//! The data are not part of the crate. `TORCHLEAN_TEST_DATA` names their folder; unset, each test says how many
//! checks did not run.

mod activation;
mod battery;
mod color;
mod dryblock;
mod photometry;
mod rating;
mod read;
mod thermistor;
mod thermocouple;

#[path = "../common/mod.rs"]
mod common;
#[path = "../../examples/thermocouple/inverse.rs"]
mod inverse;
#[path = "../../examples/common/type_k.rs"]
mod type_k;

use inverse::Inverse;
use std::fmt::Debug;
use std::io::Write;
use std::path::PathBuf;
use torchlean::{Buffer, Grid};

/// What a test may use: the data folder, and the checks that it announced.
struct Checks {
    folder: PathBuf,
    test: &'static str,
    announced: usize,
    done: usize,
}

impl Checks {
    /// `None` where the data or a device is missing; what did not run is said on standard error, past the test
    /// harness's capture.
    fn begin(test: &'static str, announced: usize) -> Option<Checks> {
        let missing = match (std::env::var_os("TORCHLEAN_TEST_DATA"), common::session()) {
            (None, _) => "TORCHLEAN_TEST_DATA is not set",
            (_, None) => "there is no device",
            (Some(folder), Some(_)) => {
                let folder = PathBuf::from(folder);
                assert!(
                    folder.is_dir(),
                    "TORCHLEAN_TEST_DATA: {} is no folder",
                    folder.display()
                );
                return Some(Checks {
                    folder,
                    test,
                    announced,
                    done: 0,
                });
            }
        };
        let told = format!("real_data {test}: {announced} checks did not run, {missing}\n");
        let _ = std::io::stderr().write_all(told.as_bytes());
        None
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    #[track_caller]
    fn that(&mut self, what: &str, holds: bool) {
        assert!(holds, "{}: {what}", self.test);
        self.done += 1;
    }

    #[track_caller]
    fn equal<T: PartialEq + Debug>(&mut self, what: &str, have: T, want: T) {
        assert_eq!(have, want, "{}: {what}", self.test);
        self.done += 1;
    }

    #[track_caller]
    fn close(&mut self, what: &str, have: f64, want: f64, tolerance: f64) {
        let off = (have - want).abs();
        assert!(
            off <= tolerance,
            "{}: {what}: {have} is {off} from {want}, allowed {tolerance}",
            self.test
        );
        self.done += 1;
    }

    /// The number announced is the number run, so that what is said when nothing runs is true.
    fn end(self) {
        assert_eq!(
            self.done, self.announced,
            "{}: checks run and announced",
            self.test
        );
    }
}

fn floats(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

/// Values of a table at coordinates.
fn lookup(table: &[f32], coords: &[f32]) -> Vec<f64> {
    let values = buffer(table)
        .table_lookup(&buffer(coords))
        .unwrap()
        .to_vec()
        .unwrap();
    values.into_iter().map(f64::from).collect()
}

/// Values of tables of one length at coordinates, each in its own layer.
fn layered(tables: &[Vec<f32>], coords: &[f32], layers: &[f32]) -> Vec<f64> {
    let table = Buffer::from_slice(&tables.concat(), &[tables.len(), tables[0].len()]).unwrap();
    let values = table
        .layered_table_lookup(&buffer(coords), &buffer(layers))
        .unwrap();
    values
        .to_vec()
        .unwrap()
        .into_iter()
        .map(f64::from)
        .collect()
}

/// The inverse of a table on a grid, with the tables' knots as they are.
fn inverse(grid: Grid, table: &[f32]) -> anyhow::Result<Inverse> {
    let mut knots = table.iter();
    Inverse::new(grid, |_| knots.next().copied().map_or(f64::NAN, f64::from))
}

/// How many of 20,001 targets across a table the inverse misses, from three starts. Plain Newton cycles on several of
/// the real tables for up to a fifth of them.
fn misses(table: &[f32]) -> usize {
    let inverse = inverse(Grid::new(0.0, 1.0, table.len()).unwrap(), table).unwrap();
    let (low, high) = inverse.range();
    let targets: Vec<f64> = (0..=20_000)
        .map(|k| low + (high - low) * f64::from(k) / 20_000.0)
        .collect();
    let mut misses = 0;
    for start in [0.02, 0.5, 0.98] {
        let found = inverse.solve(&targets, start).unwrap();
        let coords: Vec<f32> = found
            .iter()
            .map(|tip| tip.map_or(f32::NAN, |tip| tip.0 as f32))
            .collect();
        for ((target, value), tip) in targets.iter().zip(lookup(table, &coords)).zip(&found) {
            // What float32 can tell: one ulp of the value, or what one ulp of the coordinate makes of the slope here;
            // twice, for the rounding of the lookup itself.
            let slope = tip.map_or(f64::NAN, |tip| 1.0 / tip.1);
            let coordinate = tip.map_or(f64::NAN, |tip| tip.0);
            let resolution = inverse::ulp(*target as f32)
                .max(slope * inverse::ulp((coordinate as f32).max(1.0)));
            // NaN is in no range: missed.
            misses += usize::from(!(0.0..=2.0 * resolution).contains(&(value - target).abs()));
        }
    }
    misses
}
