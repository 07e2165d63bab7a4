//! The operations, one family per file; a family that owns kernels is a folder.
//!
//! In each: the contract, the methods of [`Buffer`](crate::Buffer) with the form made of ATen calls, the VJPs as
//! methods of [`Tape`](crate::Tape), and `reference`, what the operations mean.

pub(crate) mod arithmetic;
pub(crate) mod index;
pub(crate) mod lookup;
pub(crate) mod ordering;
pub(crate) mod reduce;

pub use lookup::MAX_WIDTH;

/// How far an operation's bits are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exactness {
    /// On every device, value and gradients.
    Everywhere,
    /// The value on every device; the gradient adds, in the source's order on the host and in the SDK's on CUDA.
    GradientOrderOnHost,
    /// It adds in the source's order on the host and in the SDK's on CUDA.
    OrderOnHost,
    /// On every device with determinism on; with it off the sum is the SDK's.
    WithDeterminism,
}

/// One operation of the crate.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name, the same on [`Buffer`](crate::Buffer), [`Tape`](crate::Tape) and in [`spec`](crate::spec).
    pub name: &'static str,
    /// How far its bits are the reference's.
    pub exactness: Exactness,
}

/// Every operation: what the conformance tests iterate, and fail for where one has no case.
pub const OPS: &[Entry] = &[
    op("add", Exactness::Everywhere),
    op("sub", Exactness::Everywhere),
    op("mul", Exactness::Everywhere),
    op("div", Exactness::Everywhere),
    op("neg", Exactness::Everywhere),
    op("scale", Exactness::Everywhere),
    op("sqrt", Exactness::Everywhere),
    op("floor", Exactness::Everywhere),
    op("clamp", Exactness::Everywhere),
    op("min", Exactness::Everywhere),
    op("max", Exactness::Everywhere),
    op("abs", Exactness::Everywhere),
    op("relu", Exactness::Everywhere),
    op("sum", Exactness::WithDeterminism),
    op("mean", Exactness::WithDeterminism),
    op("mse", Exactness::WithDeterminism),
    op("index_select", Exactness::GradientOrderOnHost),
    op("scatter_add", Exactness::OrderOnHost),
    op("gather_at", Exactness::GradientOrderOnHost),
    op("scatter_add_at", Exactness::OrderOnHost),
    op("table_lookup", Exactness::GradientOrderOnHost),
    op("layered_table_lookup", Exactness::GradientOrderOnHost),
];

const fn op(name: &'static str, exactness: Exactness) -> Entry {
    Entry { name, exactness }
}
