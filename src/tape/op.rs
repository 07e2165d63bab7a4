//! [`Op`]: an operation of the user's own.

use std::sync::Arc;

use super::{Tape, Var, VjpArgs};
use crate::buffer::Buffer;
use crate::error::Result;

/// An operation made of a forward and a VJP closure, as good on a tape as the crate's own.
///
/// The forward gets the input buffers in order and returns one buffer. The VJP gets the [`VjpArgs`] and returns one
/// entry per input: its gradient, in its shape, or `None` where nothing flows or [`VjpArgs::needs`] says that none is
/// needed. Both must be pure, and may not touch the tape that runs them.
///
/// ```
/// use torchlean::{Buffer, Op, Tape, check_vjp};
/// # if torchlean::device_kind().is_ok() {
/// let square = Op::new(
///     "square",
///     |x| x[0].mul(x[0]),
///     |args| {
///         let x = args.input(0)?;
///         Ok(vec![args.when_needed(0, || args.cotangent().mul(&x.scale(2.0)?))?])
///     },
/// );
/// let tape = Tape::new();
/// let x = tape.leaf(Buffer::from_slice(&[3.0], &[1])?)?;
/// let y = tape.apply(&square, &[x])?;
/// assert_eq!(tape.backward(y, None)?.get(x)?.unwrap().to_vec()?, [6.0]);
///
/// // In its tests: the VJP against finite differences.
/// let point = Buffer::from_slice(&[1.0, -2.0, 0.5], &[3])?;
/// check_vjp(|tape, x| tape.apply(&square, x), &[&point], 1.0 / 64.0, 1e-3)?;
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
#[derive(Clone)]
pub struct Op {
    name: &'static str,
    forward: Arc<Forward>,
    vjp: Arc<Vjp>,
}

type Forward = dyn Fn(&[&Buffer]) -> Result<Buffer> + Send + Sync;
type Vjp = dyn Fn(&VjpArgs<'_>) -> Result<Vec<Option<Buffer>>> + Send + Sync;

impl Op {
    /// An operation from its name, which errors carry, its forward and its VJP.
    pub fn new(
        name: &'static str,
        forward: impl Fn(&[&Buffer]) -> Result<Buffer> + Send + Sync + 'static,
        vjp: impl Fn(&VjpArgs<'_>) -> Result<Vec<Option<Buffer>>> + Send + Sync + 'static,
    ) -> Op {
        Op {
            name,
            forward: Arc::new(forward),
            vjp: Arc::new(vjp),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Tape {
    /// Records an operation of the user's own.
    ///
    /// # Errors
    /// What the forward returns; [`Error::ForeignVar`](crate::Error::ForeignVar);
    /// [`Error::TapeBusy`](crate::Error::TapeBusy) from inside an op's closure.
    pub fn apply(&self, op: &Op, inputs: &[Var]) -> Result<Var> {
        let vjp = Arc::clone(&op.vjp);
        self.record(
            op.name,
            inputs,
            |values| (op.forward)(values),
            move |args| vjp(args),
        )
    }
}
