//! A power curve and how wind is mapped onto it: units, the grid, zero outside. The lookup itself is the example's.

use super::Year;
use super::common::{Column, Sheet, Unit, unit};
use anyhow::{Result, bail, ensure};
use std::fmt::Write;
use std::path::Path;
use torchlean::Grid;

pub const SPEED: &[Unit] = &[
    unit("m/s", 1.0, 1.0),
    unit("km/h", 1000.0, 3600.0),
    unit("kn", 1852.0, 3600.0),
    unit("mph", 0.44704, 1.0),
];
pub const POWER: &[Unit] = &[
    unit("kW", 1.0, 1.0),
    unit("W", 1.0, 1000.0),
    unit("MW", 1000.0, 1.0),
];
/// The fastest gust on record (Barrow Island, 1996) was 113 m/s; more is a code for a missing value.
pub const FASTEST: f64 = 113.0;
/// In kW; all the world's electricity is three times as much. More is a wrong unit.
const STRONGEST: f64 = 1e9;
/// float32 has 24 bits: with 2^16 knots, 8 of them are left for the place within a cell.
const MOST_KNOTS: usize = 1 << 16;
/// A power curve on a uniform grid, zero outside.
pub struct Turbine {
    pub name: String,
    pub first: f64,
    pub last: f64,
    /// The curve as given, in m/s and kW.
    pub points: Vec<(f64, f64)>,
    /// The curve on the grid, in kW.
    pub table: Vec<f32>,
    /// The grid of `table`, and that of [`Turbine::padded`]: one knot more below, two more above.
    pub grid: Grid,
    padded_grid: Grid,
    /// How the grid was made, for the reader.
    pub note: String,
}

impl Turbine {
    pub fn read(path: &Path, step: Option<f64>) -> Result<Turbine> {
        let sheet = Sheet::read(path)?;
        let (speed, power) = (
            sheet.column("wind speed", SPEED)?,
            sheet.column("power", POWER)?,
        );
        let (mut speeds, mut powers) = (Vec::new(), Vec::new());
        for row in 0..sheet.len() {
            let (v, p) = (sheet.number(row, speed)?, sheet.number(row, power)?);
            wind_speed(&sheet, row, speed)?;
            if speeds.last().is_some_and(|&before| v <= before) {
                return Err(sheet.refusal(
                    row,
                    speed,
                    "is not above the row before; sort the curve by speed, each speed once",
                ));
            }
            if !(0.0..=STRONGEST).contains(&power.unit.convert(p)) {
                let reason = format_args!(
                    "is no power; wanted: 0 to {STRONGEST:e} kW, and 0 where a turbine draws power"
                );
                return Err(sheet.refusal(row, power, reason));
            }
            speeds.push(v);
            powers.push(power.unit.convert(p));
        }
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Self::new(name, &speeds, &powers, speed.unit, step)
            .map_err(|e| e.context(path.display().to_string()))
    }

    /// Speeds are in `unit`, so that the step is found in the decimals of the file; powers in kW.
    pub fn new(
        name: String,
        speeds: &[f64],
        powers: &[f64],
        unit: Unit,
        step: Option<f64>,
    ) -> Result<Turbine> {
        let (&[first, .., last], Some(native)) = (speeds, step.or_else(|| decimal_step(speeds)))
        else {
            ensure!(speeds.len() > 1, "a curve needs two points at least");
            bail!(
                "no decimal step of 1e-6 or more holds every point of the curve; give one with --step"
            );
        };
        ensure!(
            native > 0.0 && native <= last - first,
            "--step {native:?} is no step; wanted: above zero, at most the length of the curve, {} {}",
            last - first,
            unit.name
        );
        // The last knot stands at the last point or, where the step does not hold it, past it.
        let cells = ((last - first) / native - 1e-6).ceil().max(1.0);
        ensure!(
            cells < MOST_KNOTS as f64,
            "a step of {native} {} needs {cells} cells, more than {MOST_KNOTS}; give a coarser one with --step",
            unit.name
        );
        let (count, step) = (cells as usize + 1, unit.convert(native));
        let metres: Vec<f64> = speeds.iter().map(|&v| unit.convert(v)).collect();
        let grid = Grid::new(unit.convert(first), step, count)?;
        let table = grid.resample(&metres, powers)?;
        let (off, worst) = off_grid(&grid, &table, &metres, powers);
        let mut note = format!("{count} knots, {native} {} apart", unit.name);
        match off {
            0 => note += ", hold every point",
            _ => write!(
                note,
                ", miss {off} of {} points, by up to {worst:.3} kW",
                speeds.len()
            )?,
        }
        let padded_grid = Grid::new(unit.convert(first) - step, step, count + 3)?;
        Ok(Turbine {
            name,
            first: unit.convert(first),
            last: unit.convert(last),
            points: metres.into_iter().zip(powers.iter().copied()).collect(),
            table,
            grid,
            padded_grid,
            note,
        })
    }

    /// Zero, the curve, its last value again, zero.
    ///
    /// At a knot the slope is that of the cell to its right: without the repetition, at the very cut-out speed it
    /// would be the fall to zero.
    pub fn padded(&self) -> Vec<f32> {
        let end = self.table.last().copied();
        [0.0]
            .into_iter()
            .chain(self.table.iter().copied())
            .chain(end)
            .chain([0.0])
            .collect()
    }

    /// Coordinates in the padded table. Speeds outside the curve go *onto* an outer knot, never into the cell before
    /// it: there the lookup runs from zero to the curve's end, and would give power to wind that is too slow or too
    /// fast.
    pub fn coords(&self, speeds: &[f64]) -> Vec<f32> {
        let mut coords = self.padded_grid.coords(speeds);
        for (u, &v) in coords.iter_mut().zip(speeds) {
            if v < self.first {
                *u = 0.0;
            } else if v > self.last {
                *u = (self.padded_grid.count() - 1) as f32;
            }
        }
        coords
    }

    /// Hours and MWh that rest on the knots around each whole m/s: `(m/s, hours, MWh)`, the padding left out.
    pub fn by_speed(&self, year: &Year) -> Vec<(usize, f64, f64)> {
        let mut bins: Vec<(usize, f64, f64)> = Vec::new();
        for (k, (&kw, hours)) in self.table.iter().zip(&year.hours[1..]).enumerate() {
            let at = self.grid.point(k).round() as usize;
            if bins.last().is_none_or(|bin| bin.0 != at) {
                bins.push((at, 0.0, 0.0));
            }
            if let Some(bin) = bins.last_mut() {
                bin.1 += hours;
                bin.2 += hours * f64::from(kw) / 1e3;
            }
        }
        bins
    }
}

/// The coarsest step 10^-d * n, d up to 6, on which every speed lies, counted from the first.
pub fn decimal_step(speeds: &[f64]) -> Option<f64> {
    (0..=6).map(|d| 10f64.powi(d)).find_map(|scale| {
        // A decimal read as float64 and scaled is off by parts in 1e16: 1e-7 at the most here.
        let whole: Option<Vec<i64>> = speeds
            .iter()
            .map(|v| v * scale)
            .map(|v| ((v - v.round()).abs() < 1e-6).then_some(v.round() as i64))
            .collect();
        let step = whole?.windows(2).map(|pair| pair[1] - pair[0]).fold(0, gcd);
        (step > 0).then(|| step as f64 / scale)
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many points of the curve are not on the grid, and how far the table is from the curve: two broken lines that
/// agree at the grid's knots are furthest apart at the curve's own points.
fn off_grid(grid: &Grid, table: &[f32], speeds: &[f64], powers: &[f64]) -> (usize, f64) {
    let (mut off, mut worst) = (0, 0.0f64);
    for (v, p) in speeds.iter().zip(powers) {
        let u = (v - grid.origin()) / grid.step();
        if (u - u.round()).abs() < 1e-6 {
            continue;
        }
        off += 1;
        let (left, w) = (u.floor() as usize, u - u.floor());
        if let [a, b, ..] = table[left.min(table.len())..] {
            worst = worst.max((f64::from(a) + w * f64::from(b - a) - p).abs());
        }
    }
    (off, worst)
}

/// The speeds in a file, in m/s.
pub fn read_wind(path: &Path) -> Result<Vec<f64>> {
    let sheet = Sheet::read(path)?;
    let column = sheet.column("wind speed", SPEED)?;
    (0..sheet.len())
        .map(|row| wind_speed(&sheet, row, column))
        .collect()
}

/// A speed in m/s, or why it is none.
fn wind_speed(sheet: &Sheet, row: usize, column: Column) -> Result<f64> {
    let v = column.unit.convert(sheet.number(row, column)?);
    if (0.0..=FASTEST).contains(&v) {
        return Ok(v);
    }
    Err(sheet.refusal(
        row,
        column,
        format_args!("is no wind speed; wanted: 0 to {FASTEST} m/s"),
    ))
}
