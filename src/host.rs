//! The fused kernels on slices: reading, adding and looking up in the host's memory, without libtorch.
//!
//! The names, checks, errors and bits are those of [`Buffer`](crate::Buffer) and of [`spec`](crate::spec); results go
//! into slices of the caller's, of which every element is written. Alignment does not matter. Large inputs are shared
//! among libtorch's intra-op threads, and stay on one thread in a build without libtorch.
//!
//! ```
//! use torchlean::host;
//! let mut out = [0.0; 3];
//! host::table_lookup(&[10.0, 20.0, 40.0], &[0.5, 1.25, f32::INFINITY], &mut out)?;
//! assert_eq!(out, [15.0, 25.0, 40.0]);
//! # Ok::<(), torchlean::Error>(())
//! ```

pub use crate::ops::index::slices::{gather_at, scatter_add_at};
pub use crate::ops::lookup::slices::{
    VjpOutputs, layered_table_lookup, layered_table_lookup_vjp, table_lookup, table_lookup_vjp,
};
pub use crate::simd::InstructionSet;
