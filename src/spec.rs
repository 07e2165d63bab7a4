//! What every operation means: an executable reference on slices, in integer arithmetic.
//!
//! Each function has the name of the operation on [`Buffer`](crate::Buffer), and `.._vjp` is its gradient for a
//! cotangent, here called `g`. They need no libtorch and no device, and are slow: they exist to be compared with, bit
//! for bit (or both NaN). Matrices are given as slices with the length of a row.
//!
//! ```
//! use torchlean::spec;
//! assert_eq!(spec::table_lookup(&[1.0, 0.1], &[0.8])?[0].to_bits(), 0x3e8f_5c2a);
//! # Ok::<(), torchlean::Error>(())
//! ```

pub use crate::binary32::Binary32;
pub use crate::ops::arithmetic::reference::{
    add, add_vjp, div, div_vjp, mul, mul_vjp, neg, neg_vjp, scale, scale_vjp, sqrt, sqrt_vjp, sub,
    sub_vjp,
};
pub use crate::ops::index::reference::{
    gather_at, gather_at_vjp, index_select, index_select_vjp, scatter_add, scatter_add_at,
    scatter_add_at_vjp, scatter_add_vjp,
};
pub use crate::ops::lookup::reference::{
    layered_table_lookup, layered_table_lookup_vjp, table_lookup, table_lookup_vjp,
};
pub use crate::ops::ordering::reference::{
    abs, abs_vjp, clamp, clamp_vjp, floor, max, max_vjp, min, min_vjp, relu, relu_vjp,
};
pub use crate::ops::reduce::reference::{mean, mean_vjp, mse, mse_vjp, sum, sum_vjp};
