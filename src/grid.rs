//! [`Grid`]: physical values to grid coordinates.

use crate::error::{Error, Result};
use crate::ops::MAX_WIDTH;

/// A uniform grid of `count` points `origin + k * step`, in the units of the physical value.
///
/// A table for [`table_lookup`](crate::Buffer::table_lookup) holds one entry per grid point; a coordinate of `k` is
/// the `k`-th point and 0.5 lies half-way between the first two. Physical values are float64 and stay so until
/// the one division is done: time stamps or frequencies lose nothing to float32 before the origin is subtracted.
///
/// A coordinate is a float32: its spacing is 1.2e-4 of a cell between the 1,024th and the 2,048th point and doubles
/// with each doubling, so a table of 2^24 points resolves whole cells only.
///
/// ```
/// use torchlean::Grid;
/// let volts = Grid::new(-0.5, 0.25, 5)?;
/// assert_eq!(volts.coords(&[-0.5, 0.125, 9.0]), [0.0, 2.5, 38.0]); // the lookup clamps, not the grid
/// assert_eq!(volts.sample(|v| v * v), [0.25, 0.0625, 0.0, 0.0625, 0.25]);
/// # Ok::<(), torchlean::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    origin: f64,
    step: f64,
    count: usize,
}

impl Grid {
    /// A grid from its first point, the distance between points and their number.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an origin or a last point that is not finite, a step that is not positive and
    /// finite (flip a descending curve), a count of zero or above 2^24 (the longest table that float32 coordinates
    /// address).
    pub fn new(origin: f64, step: f64, count: usize) -> Result<Grid> {
        let refuse = |expected: &str, found: String| {
            Err(Error::InvalidArgument {
                op: "Grid::new",
                expected: expected.to_owned(),
                found,
            })
        };
        if !origin.is_finite() {
            return refuse("a finite origin", origin.to_string());
        }
        if !(step.is_finite() && step > 0.0) {
            return refuse(
                "a positive, finite step (flip a descending curve)",
                step.to_string(),
            );
        }
        if !(1..=MAX_WIDTH).contains(&count) {
            return refuse(
                "a count from 1 to 2^24, the longest table that float32 coordinates address",
                count.to_string(),
            );
        }
        let grid = Grid {
            origin,
            step,
            count,
        };
        let last = grid.point(count.saturating_sub(1));
        if !last.is_finite() {
            return refuse("a finite last point", last.to_string());
        }
        Ok(grid)
    }

    /// The first point.
    pub fn origin(&self) -> f64 {
        self.origin
    }

    /// The distance between points.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The number of points.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The `k`-th point, `origin + k * step`; past the end it goes on.
    pub fn point(&self, k: usize) -> f64 {
        self.origin + k as f64 * self.step
    }

    /// Grid coordinates of physical values: `(x - origin) / step` in float64, rounded once to float32.
    ///
    /// # Edge cases
    /// NaN gives NaN, infinities stay, values outside the grid give coordinates outside `0..=count-1`; the lookup
    /// clamps them. A quotient beyond float32's range becomes an infinity of its sign.
    ///
    /// ```
    /// use torchlean::Grid;
    /// let time = Grid::new(1505462400.057476, 0.135, 1000)?;
    /// let coords = time.coords(&[1505462400.192459]);
    /// assert!((coords[0] - 0.99987).abs() < 1e-5); // float32 throughout would give 0
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn coords(&self, x: &[f64]) -> Vec<f32> {
        x.iter()
            .map(|&x| ((x - self.origin) / self.step) as f32)
            .collect()
    }

    /// A function at every grid point, in order, rounded to float32: a table.
    pub fn sample(&self, mut f: impl FnMut(f64) -> f64) -> Vec<f32> {
        (0..self.count).map(|k| f(self.point(k)) as f32).collect()
    }

    /// A curve given at points of its own, resampled onto the grid: linear between its points, its end values outside.
    ///
    /// Computed in float64 as `y0 + (y1 - y0) * ((x - x0) / (x1 - x0))`, and exactly `y` at a point of the curve.
    ///
    /// # Errors
    /// [`Error::Shape`] where the lengths differ or there is no point; [`Error::InvalidArgument`], naming the row,
    /// where the abscissae are not finite and strictly increasing.
    ///
    /// ```
    /// use torchlean::Grid;
    /// let grid = Grid::new(0.0, 1.0, 5)?;
    /// assert_eq!(grid.resample(&[1.0, 3.0], &[10.0, 30.0])?, [10.0, 10.0, 20.0, 30.0, 30.0]);
    /// # Ok::<(), torchlean::Error>(())
    /// ```
    pub fn resample(&self, xs: &[f64], ys: &[f64]) -> Result<Vec<f32>> {
        let op = "Grid::resample";
        if xs.is_empty() || xs.len() != ys.len() {
            let expected = format!(
                "as many values as abscissae, {}, and at least one",
                xs.len()
            );
            return Err(Error::Shape {
                op,
                expected,
                found: vec![ys.len()],
            });
        }
        let refuse = |row: usize, found: String| {
            let expected = format!(
                "finite, strictly increasing abscissae (row {row}, from 0; flip a descending curve)"
            );
            Err(Error::InvalidArgument {
                op,
                expected,
                found,
            })
        };
        if let Some(row) = xs.iter().position(|x| !x.is_finite()) {
            return refuse(row, xs[row].to_string());
        }
        let falls = xs.windows(2).zip(1..).find(|(pair, _)| pair[0] >= pair[1]);
        if let Some((pair, row)) = falls {
            return refuse(row, format!("{} after {}", pair[1], pair[0]));
        }
        let at = |x: f64| {
            // The first point that is not below x.
            let right = xs.partition_point(|&point| point < x);
            match right.checked_sub(1) {
                Some(left) if right == xs.len() => ys[left],
                None => ys[right],
                Some(_) if xs[right] == x => ys[right],
                Some(left) => {
                    let (x0, x1, y0, y1) = (xs[left], xs[right], ys[left], ys[right]);
                    y0 + (y1 - y0) * ((x - x0) / (x1 - x0))
                }
            }
        };
        Ok(self.sample(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_grid_is_refused() {
        for (origin, step, count) in [
            (0.0, 0.0, 2),
            (0.0, -1.0, 2),
            (0.0, f64::NAN, 2),
            (0.0, f64::INFINITY, 2),
            (f64::NAN, 1.0, 2),
            (f64::INFINITY, 1.0, 2),
            (0.0, 1.0, 0),
            (0.0, 1.0, MAX_WIDTH + 1),
            (f64::MAX, f64::MAX, 2),
        ] {
            assert!(
                Grid::new(origin, step, count).is_err(),
                "{origin} {step} {count}"
            );
        }
    }

    #[test]
    fn curves_that_are_no_function_are_refused_with_their_row() {
        let grid = Grid::new(0.0, 1.0, 2).unwrap();
        let error = grid
            .resample(&[0.0, 2.0, 2.0], &[0.0; 3])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("row 2") && error.contains("2 after 2"),
            "{error}"
        );
        assert!(grid.resample(&[0.0, f64::NAN], &[0.0; 2]).is_err());
        assert!(grid.resample(&[0.0, 1.0], &[0.0; 3]).is_err());
        assert!(grid.resample(&[], &[]).is_err());
        assert_eq!(grid.resample(&[7.0], &[5.0]).unwrap(), [5.0, 5.0]);
    }

    #[test]
    fn non_finite_physical_values_stay_what_they_are() {
        let coords = Grid::new(1.0, 0.5, 4).unwrap().coords(&[
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
        ]);
        assert!(coords[0].is_nan());
        assert_eq!(
            coords[1..],
            [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY]
        );
    }
}
