//! What would this turbine have made in a year? Measured wind through power curves.
//!
//!     cargo run --example wind_energy
//!     cargo run --example wind_energy -- --wind wind.csv --curve turbine.csv --out energy.svg
//!
//! The forward lookup gives the power in each hour. Its coordinate gradient is kW per m/s: what an error of the
//! anemometer costs. Its table gradient is the time that rests on each knot of the curve: which part of it earns the
//! energy. A turbine stands still outside its curve, and a lookup clamps: the zero is the caller's to map, see
//! [`Turbine::coords`].

mod common;
#[path = "wind_energy/plot.rs"]
mod plot;
#[path = "wind_energy/turbine.rs"]
mod turbine;

use anyhow::{Result, ensure};
use clap::Parser;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use torchlean::{Buffer, Tape};
use turbine::{Turbine, read_wind};

/// Rows per lookup. Sums of float32 lose digits as they grow (a sum of ones stops at 2^24), so the times on the knots
/// are summed in float64 from block to block.
const BLOCK: usize = 1 << 12;

/// Energy, and where it comes from, of wind turbines in a measured wind.
#[derive(Parser)]
struct Args {
    /// csv file of wind speeds, one row per interval; a header ends in (m/s), (km/h), (kn) or (mph). Default: a year
    /// at Greensboro
    #[arg(long)]
    wind: Option<PathBuf>,
    /// csv file of a power curve: a speed column, and a power column whose header ends in (kW), (W) or (MW). May be
    /// given again
    #[arg(long)]
    curve: Vec<PathBuf>,
    /// Minutes that each row of the wind file stands for
    #[arg(long, default_value_t = 60.0, allow_negative_numbers = true)]
    minutes: f64,
    /// Step of the table, in the curve's unit of speed. Default: the coarsest decimal step that holds every point of
    /// the curve
    #[arg(long, allow_negative_numbers = true)]
    step: Option<f64>,
    /// The plot. Default: target/demo/wind_energy.svg
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What a turbine did in the wind.
struct Year {
    mwh: f64,
    /// With the lookup's own clamping and no padding.
    clamped_mwh: f64,
    /// MWh per 1 % of the wind speed, to first order.
    per_percent_mwh: f64,
    /// Hours on each knot of the padded table.
    hours: Vec<f64>,
}

impl Year {
    /// What a turbine makes of the speeds, with `hours` to each: powers are float32, sums over blocks float64.
    fn of(turbine: &Turbine, speeds: &[f64], hours: f64) -> Result<Year> {
        let padded = turbine.padded();
        let table = Buffer::from_slice(&padded, &[padded.len()])?;
        let unpadded = Buffer::from_slice(&turbine.table, &[turbine.table.len()])?;
        let mut year = Year {
            mwh: 0.0,
            clamped_mwh: 0.0,
            per_percent_mwh: 0.0,
            hours: vec![0.0; padded.len()],
        };
        for block in speeds.chunks(BLOCK) {
            let shape = [block.len()];
            let tape = Tape::new();
            let curve = tape.leaf(table.clone())?;
            let wind = tape.leaf(Buffer::from_slice(&turbine.coords(block), &shape)?)?;
            let power = tape.table_lookup(curve, wind)?;
            year.mwh += sum(&tape.value(power)?)? * hours / 1e3;

            let gradients = tape.backward(power, Some(&Buffer::full(&shape, 1.0)?))?;
            if let Some(on_knots) = gradients.get(curve)? {
                for (total, rows) in year.hours.iter_mut().zip(on_knots.to_vec()?) {
                    *total += f64::from(rows) * hours;
                }
            }
            if let Some(slopes) = gradients.get(wind)? {
                // kW per cell over m/s per cell, times 1 % of the speed.
                let kw = slopes
                    .to_vec()?
                    .into_iter()
                    .zip(block)
                    .map(|(d, v)| f64::from(d) / turbine.grid.step() * 0.01 * v);
                year.per_percent_mwh += kw.sum::<f64>() * hours / 1e3;
            }
            let clamped = Buffer::from_slice(&turbine.grid.coords(block), &shape)?;
            year.clamped_mwh += sum(&unpadded.table_lookup(&clamped)?)? * hours / 1e3;
        }
        Ok(year)
    }
}

fn sum(values: &Buffer) -> Result<f64> {
    Ok(values.to_vec()?.into_iter().map(f64::from).sum())
}

fn report(
    wind: &Path,
    speeds: &[f64],
    minutes: f64,
    turbines: &[(Turbine, Year)],
) -> Result<String> {
    let mut text = String::new();
    let (n, hours) = (speeds.len(), speeds.len() as f64 * minutes / 60.0);
    let (mean, max) = (
        speeds.iter().sum::<f64>() / n as f64,
        speeds.iter().copied().fold(0.0, f64::max),
    );
    writeln!(text, "wind    {}", wind.display())?;
    writeln!(
        text,
        "        {n} rows of {minutes} min = {hours} h; mean {mean:.3}, highest {max:.1} m/s; \
         no correction to hub height"
    )?;
    writeln!(text, "device  {}\n", torchlean::device_kind()?)?;
    let width = turbines
        .iter()
        .map(|(t, _)| t.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(7);
    for (t, _) in turbines {
        writeln!(
            text,
            "{:width$}  curve {} to {} m/s on {}",
            t.name, t.first, t.last, t.note
        )?;
    }
    writeln!(
        text,
        "\n{:width$}  {:>12} {:>14} {:>12} {:>12}",
        "", "energy", "if clamped", "per 1 %", "at rest"
    )?;
    writeln!(
        text,
        "{:width$}  {:>12} {:>14} {:>12} {:>12}",
        "turbine", "MWh", "(wrong) MWh", "of wind, MWh", "h"
    )?;
    for (t, y) in turbines {
        let at_rest = y.hours.first().unwrap_or(&0.0) + y.hours.last().unwrap_or(&0.0);
        let (mwh, clamped, percent) = (y.mwh, y.clamped_mwh, y.per_percent_mwh);
        writeln!(
            text,
            "{:width$}  {mwh:>12.3} {clamped:>14.3} {percent:>12.3} {at_rest:>12.0}",
            t.name
        )?;
    }
    writeln!(
        text,
        "\nif clamped: with the ends of the curve held, wind below cut-in earns what it does at cut-in; do not use.\n\
         per 1 %: what an anemometer that reads 1 % off changes, to first order (the coordinate gradient).\n\
         at rest: below cut-in or above cut-out.\n\n\
         Hours resting on the curve around each m/s (the table gradient), and the MWh they earn:\n"
    )?;
    write!(text, "{:>5}", "m/s")?;
    for k in 1..=turbines.len() {
        write!(text, "  {:>8} {:>9}", format!("h [{k}]"), "MWh")?;
    }
    let bins: Vec<_> = turbines.iter().map(|(t, y)| t.by_speed(y)).collect();
    let earning = |b: &&(usize, f64, f64)| b.1 > 0.0;
    let (first, last) = bins
        .iter()
        .flatten()
        .filter(earning)
        .fold((usize::MAX, 0), |(a, z), b| (a.min(b.0), z.max(b.0)));
    for at in first..=last {
        write!(text, "\n{at:>5}")?;
        for bins in &bins {
            let (h, mwh) = bins
                .iter()
                .find(|b| b.0 == at)
                .map_or((0.0, 0.0), |b| (b.1, b.2));
            write!(text, "  {h:>8.1} {mwh:>9.3}")?;
        }
    }
    text.push('\n');
    for (k, (t, _)) in turbines.iter().enumerate() {
        write!(
            text,
            "{}[{}] {}",
            if k == 0 { "      " } else { "  " },
            k + 1,
            t.name
        )?;
    }
    text.push('\n');
    Ok(text)
}

fn run(args: Args) -> Result<()> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data");
    let wind = args
        .wind
        .unwrap_or_else(|| data.join("wind_723170_greensboro.csv"));
    let curves = match args.curve {
        given if !given.is_empty() => given,
        _ => [
            "NREL_Reference_5MW_126.csv",
            "VestasV82_1.65MW_82.csv",
            "VestasV27_225kW_27.csv",
        ]
        .map(|f| data.join(f))
        .into(),
    };
    ensure!(
        args.minutes > 0.0 && args.minutes <= 527_040.0,
        "--minutes {} is no interval; wanted: above zero, at most a year",
        args.minutes
    );
    torchlean::require_native_runtime()?;
    let speeds = read_wind(&wind)?;
    let mut turbines = Vec::new();
    for curve in &curves {
        let turbine = Turbine::read(curve, args.step)?;
        let year = Year::of(&turbine, &speeds, args.minutes / 60.0)?;
        turbines.push((turbine, year));
    }
    common::print(&report(&wind, &speeds, args.minutes, &turbines)?)?;
    let out = args
        .out
        .map_or_else(|| common::demo_output("wind_energy.svg"), Ok)?;
    let inputs: Vec<&Path> = curves.iter().chain([&wind]).map(PathBuf::as_path).collect();
    common::write_whole(&out, plot::svg(&turbines)?.as_bytes(), &inputs)?;
    common::print(&format!("\nplot    {}\n", out.display()))
}

fn main() -> std::process::ExitCode {
    common::exit(run(Args::parse()))
}

#[cfg(test)]
#[path = "wind_energy/tests.rs"]
mod tests;
