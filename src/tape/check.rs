//! [`check_vjp`]: a VJP against finite differences, by duality.

use super::{Tape, Var};
use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// Random directions tried.
const SAMPLES: usize = 8;

/// Checks the VJP of a function recorded on a tape against finite differences of its forward.
///
/// For random `u` (of +1 and -1) and `v` (small dyadic numbers) the product `<v, J u>`, with
/// `J u = (f(x + step u) - f(x - step u)) / (2 step)`, must equal `<J^T v, u>`, with `J^T v` from `backward`. The
/// difference allowed is `tolerance * (1 + |v| . |J u|)`. The function is evaluated in float32, so a step near 1/64
/// and a tolerance near 1e-3 suit smooth functions of values near 1; a piecewise linear one must not have a kink
/// within `step` of the inputs. The directions are the same at every call.
///
/// # Errors
/// [`Error::VjpMismatch`]; whatever recording or `backward` returns.
///
/// ```
/// use torchlean::{Buffer, check_vjp};
/// # if torchlean::device_kind().is_ok() {
/// let a = Buffer::from_slice(&[1.0, 2.0], &[2])?;
/// let b = Buffer::from_slice(&[4.0, 0.5], &[2])?;
/// check_vjp(|tape, x| tape.div(x[0], x[1]), &[&a, &b], 1.0 / 64.0, 1e-3)?;
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn check_vjp(
    f: impl Fn(&Tape, &[Var]) -> Result<Var>,
    inputs: &[&Buffer],
    step: f32,
    tolerance: f64,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(0);
    for sample in 0..SAMPLES {
        let directions = inputs
            .iter()
            .map(|x| random_like(x, || if random.bool() { 1.0 } else { -1.0 }))
            .collect::<Result<Vec<_>>>()?;

        let tape = Tape::new();
        let leaves = inputs
            .iter()
            .map(|&x| tape.leaf(x.clone()))
            .collect::<Result<Vec<_>>>()?;
        let output = f(&tape, &leaves)?;
        let value = tape.value(output)?;
        let seed = random_like(&value, || random.i32(-8..=8) as f32 / 8.0)?;
        let gradients = tape.backward(output, Some(&seed))?;

        let (above, below) = (
            shifted(&f, inputs, &directions, step)?,
            shifted(&f, inputs, &directions, -step)?,
        );
        let (mut numeric, mut scale) = (0.0, 1.0);
        for ((v, above), below) in seed.to_vec()?.into_iter().zip(above).zip(below) {
            let term =
                f64::from(v) * (f64::from(above) - f64::from(below)) / (2.0 * f64::from(step));
            numeric += term;
            scale += term.abs();
        }
        let mut analytic = 0.0;
        for (&leaf, direction) in leaves.iter().zip(&directions) {
            if let Some(gradient) = gradients.get(leaf)? {
                let terms = gradient.to_vec()?.into_iter().zip(direction.to_vec()?);
                analytic += terms.map(|(g, u)| f64::from(g) * f64::from(u)).sum::<f64>();
            }
        }
        let allowed = tolerance * scale;
        // Written so that a NaN on either side is a mismatch.
        let agrees = (numeric - analytic).abs() <= allowed;
        if !agrees {
            return Err(Error::VjpMismatch {
                sample,
                numeric,
                analytic,
                allowed,
            });
        }
    }
    Ok(())
}

fn random_like(x: &Buffer, mut value: impl FnMut() -> f32) -> Result<Buffer> {
    let values: Vec<f32> = (0..x.len()).map(|_| value()).collect();
    Buffer::from_slice(&values, x.shape())
}

/// `f` at the inputs moved by `step` along the directions.
fn shifted(
    f: &impl Fn(&Tape, &[Var]) -> Result<Var>,
    inputs: &[&Buffer],
    directions: &[Buffer],
    step: f32,
) -> Result<Vec<f32>> {
    let tape = Tape::new();
    let moved = inputs
        .iter()
        .zip(directions)
        .map(|(x, direction)| tape.constant(x.add(&direction.scale(step)?)?))
        .collect::<Result<Vec<_>>>()?;
    tape.value(f(&tape, &moved)?)?.to_vec()
}
