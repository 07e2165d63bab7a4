//! How hot is the tip? Millivolts of a type K thermocouple, and the temperature of its cold junction, to degrees.
//!
//!     cargo run --example thermocouple
//!     cargo run --example thermocouple -- --input log.csv --out degrees.csv
//!     cargo run --example thermocouple -- --input log.csv --cold-junction 23.4 --out degrees.csv
//!
//! A thermocouple shows the difference of two voltages: add the cold junction's voltage, never its temperature, and
//! look up the sum backwards. The inverse is a Newton iteration on the table, all rows at once, with the slopes from
//! the tape.

mod common;
#[path = "thermocouple/inverse.rs"]
mod inverse;
#[path = "common/type_k.rs"]
mod type_k;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use common::{Column, Sheet, Unit, unit};
use inverse::Inverse;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use torchlean::Grid;

const VOLTAGE: &[Unit] = &[
    unit("mV", 1.0, 1.0),
    unit("uV", 1.0, 1000.0),
    unit("µV", 1.0, 1000.0),
    unit("V", 1000.0, 1.0),
];
const TEMPERATURE: &[Unit] = &[
    unit("degC", 1.0, 1.0),
    unit("°C", 1.0, 1.0),
    unit("C", 1.0, 1.0),
];
/// Rows per inversion: bounds what is on the device at a time.
const BLOCK: usize = 1 << 20;
/// Rows shown, and rows without a temperature named one by one; the file has them all.
const SHOWN: usize = 20;

/// Temperatures of a type K thermocouple (ITS-90) from its millivolts.
#[derive(Parser)]
struct Args {
    /// csv file with a column `time ..`, one that ends in (mV), (uV) or (V) and, unless --cold-junction is given, one
    /// that ends in (degC). Default: a made-up sample
    #[arg(long)]
    input: Option<PathBuf>,
    /// Temperature of the cold junction in degrees Celsius, for every row
    #[arg(long, allow_negative_numbers = true)]
    cold_junction: Option<f64>,
    /// The csv file to write. Default: target/demo/thermocouple.csv
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One row, and what was made of it.
struct Reading {
    millivolts: f64,
    junction: f64,
    /// The voltage against a junction at 0 degC.
    total: f64,
    /// Degrees Celsius, and degrees per millivolt.
    tip: Option<(f64, f64)>,
}

/// The type K table, 1 degC apart: between its knots a straight line is within 2.8e-5 mV (0.0007 degC) of the
/// function. A finer one would not be better: a float32 coordinate has the same 24 bits, and the slopes would lose
/// some of theirs.
fn type_k_table() -> Result<Inverse> {
    let (low, high) = type_k::RANGE;
    Inverse::new(
        Grid::new(low, 1.0, (high - low) as usize + 1)?,
        type_k::millivolts,
    )
}

/// Every row of the sheet. What is no number is an error; a number without a temperature is kept, with none.
fn read(sheet: &Sheet, junction: Option<f64>, table: &Inverse) -> Result<Vec<Reading>> {
    let voltage = sheet.column("voltage", VOLTAGE)?;
    let column = sheet.find("cold junction", TEMPERATURE)?;
    if let Some(t) = junction {
        let (low, high) = type_k::RANGE;
        ensure!(
            (low..=high).contains(&t),
            "--cold-junction {t} is not within {low} to {high} degC"
        );
        ensure!(
            column.is_none(),
            "the file has a column for the cold junction; leave out --cold-junction, or the column"
        );
    } else if column.is_none() {
        sheet
            .column("cold junction", TEMPERATURE)
            .context("no --cold-junction given")?;
    }
    let number = |row, column: Column| match sheet.is_blank(row, column) {
        true => Ok(f64::NAN),
        false => sheet.number(row, column).map(|v| column.unit.convert(v)),
    };
    let mut readings = Vec::with_capacity(sheet.len());
    for row in 0..sheet.len() {
        let junction = match column {
            Some(column) => number(row, column)?,
            None => junction.unwrap_or(f64::NAN),
        };
        readings.push(Reading {
            millivolts: number(row, voltage)?,
            junction,
            total: f64::NAN,
            tip: None,
        });
    }
    for block in readings.chunks_mut(BLOCK) {
        // Voltages add up, temperatures do not: the slope at the junction is not that at the tip.
        let junctions: Vec<f64> = block.iter().map(|r| r.junction).collect();
        let totals: Vec<f64> = block
            .iter()
            .zip(table.value(&junctions)?)
            .map(|(r, e)| r.millivolts + e)
            .collect();
        for ((reading, &total), tip) in block
            .iter_mut()
            .zip(&totals)
            .zip(table.solve(&totals, 0.5)?)
        {
            (reading.total, reading.tip) = (total, tip);
        }
    }
    Ok(readings)
}

/// Why a reading has no temperature.
fn refusal(reading: &Reading, table: &Inverse) -> String {
    let Reading {
        millivolts,
        junction,
        total,
        ..
    } = reading;
    let ((low, high), (coldest, hottest)) = (table.range(), type_k::RANGE);
    if millivolts.is_nan() {
        "no voltage (empty or NaN): an open circuit?".into()
    } else if junction.is_nan() {
        "no temperature of the cold junction (empty or NaN)".into()
    } else if total.is_nan() {
        format!("the cold junction at {junction} degC is not within {coldest} to {hottest} degC")
    } else {
        format!(
            "{millivolts} mV with the junction at {junction} degC makes {total:.4} mV, \
             not within {low:.4} to {high:.4} mV ({coldest} to {hottest} degC)"
        )
    }
}

/// The result as csv: a row for each of the input, its temperature empty where there is none.
fn to_csv(sheet: &Sheet, time: usize, readings: &[Reading]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        sheet.title(time),
        "voltage (mV)",
        "temperature (degC)",
        "dT/dE (degC/mV)",
    ])?;
    for (row, reading) in readings.iter().enumerate() {
        let millivolts = if reading.millivolts.is_nan() {
            String::new()
        } else {
            reading.millivolts.to_string()
        };
        let (t, slope) = reading.tip.map_or_else(Default::default, |(t, d)| {
            (format!("{t:.3}"), format!("{d:.4}"))
        });
        writer.write_record([sheet.field(row, time), &millivolts, &t, &slope])?;
    }
    writer.into_inner().context("cannot make the csv text")
}

fn report(sheet: &Sheet, time: usize, readings: &[Reading], table: &Inverse) -> Result<String> {
    let mut text = format!("device  {}\n\n", torchlean::device_kind()?);
    let width = readings
        .iter()
        .take(SHOWN)
        .enumerate()
        .map(|(row, _)| sheet.field(row, time).chars().count())
        .max()
        .unwrap_or(0);
    let width = width.max(sheet.title(time).chars().count());
    writeln!(
        text,
        "{:width$}  {:>10}  {:>11}  {:>10}  {:>13}",
        sheet.title(time),
        "E, mV",
        "junction, C",
        "T, C",
        "dT/dE, C/mV"
    )?;
    let shown = |value: f64, digits| match value.is_nan() {
        true => "-".to_owned(),
        false => format!("{value:.digits$}"),
    };
    for (row, reading) in readings.iter().enumerate().take(SHOWN) {
        let (t, slope) = reading.tip.unwrap_or((f64::NAN, f64::NAN));
        writeln!(
            text,
            "{:width$}  {:>10}  {:>11}  {:>10}  {:>13}",
            sheet.field(row, time),
            shown(reading.millivolts, 3),
            shown(reading.junction, 2),
            shown(t, 2),
            shown(slope, 3)
        )?;
    }
    if readings.len() > SHOWN {
        writeln!(text, "and {} more rows", readings.len() - SHOWN)?;
    }
    let without: Vec<_> = readings
        .iter()
        .enumerate()
        .filter(|(_, r)| r.tip.is_none())
        .collect();
    if !without.is_empty() {
        writeln!(
            text,
            "\n{} of {} rows of {} have no temperature:",
            without.len(),
            readings.len(),
            sheet.file().display()
        )?;
    }
    for (row, reading) in without.iter().take(SHOWN) {
        writeln!(
            text,
            "line {}: {}",
            sheet.line(*row),
            refusal(reading, table)
        )?;
    }
    if without.len() > SHOWN {
        writeln!(
            text,
            "and {} more; they are empty in the output",
            without.len() - SHOWN
        )?;
    }
    Ok(text)
}

fn run(args: Args) -> Result<()> {
    let sample =
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/thermocouple_sample.csv");
    let input = args.input.unwrap_or_else(sample);
    torchlean::require_native_runtime()?;
    let sheet = Sheet::read(&input)?;
    let time = sheet.titled("time")?;
    let table = type_k_table()?;
    let readings = read(&sheet, args.cold_junction, &table)?;
    let out = args
        .out
        .map_or_else(|| common::demo_output("thermocouple.csv"), Ok)?;
    common::write_whole(&out, &to_csv(&sheet, time, &readings)?, &[&input])?;
    common::print(&report(&sheet, time, &readings, &table)?)?;
    common::print(&format!("\noutput  {}\n", out.display()))
}

fn main() -> std::process::ExitCode {
    common::exit(run(Args::parse()))
}

#[cfg(test)]
#[path = "thermocouple/tests.rs"]
mod tests;
