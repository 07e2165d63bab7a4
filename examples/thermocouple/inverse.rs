//! The inverse of a lookup in an increasing table: Newton's iteration through the tape, kept in a bracket.

use anyhow::{Context, Result, bail, ensure};
use std::cmp::Ordering;
use torchlean::{Buffer, Grid, Tape};

/// The bracket halves at least every third evaluation, from 2^24 cells (the most a table can have) to 2^-23 of one:
/// 47 halvings.
const MOST_EVALUATIONS: usize = 150;

/// A function sampled on a grid, to be read both ways.
pub struct Inverse {
    grid: Grid,
    table: Buffer,
    first: f64,
    last: f64,
}

/// A target that is still looked for: its row, and between which coordinates it lies.
struct Search {
    row: usize,
    target: f64,
    u: f32,
    low: f32,
    high: f32,
    /// Widths of the bracket one and two evaluations ago.
    widths: [f64; 2],
}

impl Inverse {
    /// Samples `f` on the grid. It must increase from knot to knot, in float32, or the inverse would not be one.
    pub fn new(grid: Grid, f: impl FnMut(f64) -> f64) -> Result<Inverse> {
        let table = grid.sample(f);
        let level = table
            .windows(2)
            .position(|pair| pair[0].partial_cmp(&pair[1]) != Some(Ordering::Less));
        if let Some(k) = level {
            bail!(
                "the table does not increase from {} to {}: it has no inverse there",
                grid.point(k),
                grid.point(k + 1)
            );
        }
        let (&[first, .., last], true) = (&table[..], table.iter().all(|v| v.is_finite())) else {
            bail!("an inverse needs two finite knots at least");
        };
        let table = Buffer::from_slice(&table, &[table.len()])?;
        Ok(Inverse {
            grid,
            table,
            first: first.into(),
            last: last.into(),
        })
    }

    /// The values between which targets can be found.
    pub fn range(&self) -> (f64, f64) {
        (self.first, self.last)
    }

    /// The function itself, NaN outside the grid: the lookup alone would clamp.
    pub fn value(&self, x: &[f64]) -> Result<Vec<f64>> {
        let ends = self.grid.origin()..=self.grid.point(self.grid.count() - 1);
        let coords = Buffer::from_slice(&self.grid.coords(x), &[x.len()])?;
        let values = self.table.table_lookup(&coords)?.to_vec()?;
        Ok(x.iter()
            .zip(values)
            .map(|(x, v)| if ends.contains(x) { v.into() } else { f64::NAN })
            .collect())
    }

    /// For each target the `x` where the table has that value, with dx/dvalue; `None` for NaN and for what is out of
    /// range.
    ///
    /// `start` says where the iteration starts, from 0 (the first knot) to 1 (the last); the answer does not depend
    /// on it by more than the resolution below.
    ///
    /// # Resolution
    /// A coordinate is found when the table's value there is one float32 ulp of the target away or less, or when the
    /// bracket is one ulp of the coordinate wide (2^-23 of a cell at least): float32 can tell no better.
    pub fn solve(&self, targets: &[f64], start: f32) -> Result<Vec<Option<(f64, f64)>>> {
        let end = (self.grid.count() - 1) as f32;
        let inside = |t: &f64| (self.first..=self.last).contains(t);
        let mut coords: Vec<Option<f32>> = vec![None; targets.len()];
        let mut open: Vec<Search> = targets
            .iter()
            .enumerate()
            .filter(|(_, t)| inside(t))
            .map(|(row, &target)| Search {
                row,
                target,
                u: end * start.clamp(0.0, 1.0),
                low: 0.0,
                high: end,
                widths: [f64::INFINITY; 2],
            })
            .collect();
        for _ in 0..MOST_EVALUATIONS {
            if open.is_empty() {
                break;
            }
            let at: Vec<f32> = open.iter().map(|s| s.u).collect();
            let (values, slopes) = self.evaluate(&at)?;
            let mut seen = values.iter().zip(&slopes);
            open.retain_mut(|search| {
                let Some((&value, &slope)) = seen.next() else {
                    return true;
                };
                let found = search.step(value, slope);
                if found {
                    coords[search.row] = Some(search.u);
                }
                !found
            });
        }
        ensure!(
            open.is_empty(),
            "{} targets not found in {MOST_EVALUATIONS} evaluations; a fault of this program",
            open.len()
        );

        // At the table's very ends the coordinate gradient is zero by definition: take the slope within the outer
        // cells.
        let within: Vec<f32> = coords
            .iter()
            .map(|u| u.unwrap_or(0.0).clamp(0.5, (end - 0.5).max(0.5)))
            .collect();
        let (_, slopes) = self.evaluate(&within)?;
        let answer = |(u, slope): (&Option<f32>, f32)| {
            u.map(|u| {
                (
                    self.grid.origin() + self.grid.step() * f64::from(u),
                    self.grid.step() / f64::from(slope),
                )
            })
        };
        Ok(coords.iter().zip(slopes).map(answer).collect())
    }

    /// Values and slopes (per cell) at coordinates.
    fn evaluate(&self, coords: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        let shape = [coords.len()];
        let tape = Tape::new();
        let table = tape.constant(self.table.clone())?;
        let u = tape.leaf(Buffer::from_slice(coords, &shape)?)?;
        let value = tape.table_lookup(table, u)?;
        // A seed of ones: each value depends on its own coordinate alone.
        let mut gradients = tape.backward(value, Some(&Buffer::full(&shape, 1.0)?))?;
        let slope = gradients
            .take(u)?
            .context("the coordinates have no gradient")?;
        Ok((tape.value(value)?.to_vec()?, slope.to_vec()?))
    }
}

impl Search {
    /// Takes in what the table says at `u`; true if that is the answer, else `u` moves on.
    fn step(&mut self, value: f32, slope: f32) -> bool {
        let residual = f64::from(value) - self.target;
        if residual.abs() <= ulp(value).max(ulp(self.target as f32)) {
            return true;
        }
        if residual < 0.0 {
            self.low = self.u;
        } else {
            self.high = self.u;
        }
        let width = f64::from(self.high) - f64::from(self.low);
        if width <= ulp(self.high.max(1.0)) {
            return true;
        }
        let newton = (f64::from(self.u) - residual / f64::from(slope)) as f32;
        // Plain Newton cycles between segments for some targets. So: a step out of the bracket (as from a slope of
        // zero), one that stands still, or a bracket that two steps have not halved, and the bracket is cut in the
        // middle instead.
        let shrinks = width <= self.widths[1] / 2.0;
        self.widths = [width, self.widths[0]];
        self.u = if shrinks && newton != self.u && (self.low..=self.high).contains(&newton) {
            newton
        } else {
            self.low + (self.high - self.low) / 2.0
        };
        false
    }
}

/// The distance to the next larger float32.
pub fn ulp(x: f32) -> f64 {
    let x = x.abs();
    f64::from(x.next_up()) - f64::from(x)
}
