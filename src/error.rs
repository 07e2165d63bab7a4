//! One error type for the whole crate.

use std::fmt;

use crate::runtime::Refusal;

/// Everything that can go wrong, each variant documented with when you get it.
///
/// A message names the operation, what was expected, what came, and what to do. Where libtorch itself failed, its
/// message is the text and its C++ backtrace is [`source`](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A [`Buffer`](crate::Buffer) was asked for in a build without the feature `libtorch`.
    #[error(
        "torchlean was built without libtorch: enable its feature `libtorch` (on by default) to compute on buffers"
    )]
    NotLinked,

    /// No device could be selected; see [`runtime_status`](crate::runtime_status).
    #[error(transparent)]
    Unavailable(#[from] Refusal),

    /// A feature that exists on CUDA alone was asked for where the selected device is not CUDA.
    #[error("{feature} needs a CUDA device: {reason}")]
    CudaRequired {
        /// What was asked for.
        feature: &'static str,
        /// Which of the causes it was.
        reason: String,
    },

    /// Two shapes that must agree do not, or a rank is not the one that the operation takes.
    #[error("{op}: expected {expected}, got shape {found:?}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// The shape or rank that it takes.
        expected: String,
        /// The shape that came.
        found: Vec<usize>,
    },

    /// The number of elements of a shape does not fit the address space.
    #[error(
        "{op}: the shape {shape:?} has more float32 elements than memory can hold; ask for a smaller one"
    )]
    SizeOverflow {
        /// The operation.
        op: &'static str,
        /// The shape asked for.
        shape: Vec<usize>,
    },

    /// A table (or a layer axis, or a scatter target) without entries: there is nothing to read or to add to.
    #[error("{op}: the table is empty; give it at least one entry")]
    EmptyTable {
        /// The operation.
        op: &'static str,
    },

    /// A table axis longer than float32 coordinates can address exactly.
    #[error(
        "{op}: the table's {axis} is {size}, above {limit}, where float32 coordinates stop being exact; split the table, or use gather_at with positions of your own"
    )]
    TableTooLarge {
        /// The operation.
        op: &'static str,
        /// Which axis: its width or its number of layers.
        axis: &'static str,
        /// The axis as it came.
        size: usize,
        /// The largest allowed.
        limit: usize,
    },

    /// An integer index given from the host that lies outside the first axis.
    #[error(
        "{op}: index {index} at place {place} is outside 0..{size}; indices from the host are never clamped (gather_at clamps float32 positions)"
    )]
    IndexOutOfRange {
        /// The operation.
        op: &'static str,
        /// Which of the indices.
        place: usize,
        /// The index as it came.
        index: i64,
        /// The length of the axis.
        size: usize,
    },

    /// A scalar argument outside what the operation takes.
    #[error("{op}: expected {expected}, got {found}")]
    InvalidArgument {
        /// The operation.
        op: &'static str,
        /// What it takes, and what to do.
        expected: String,
        /// What came.
        found: String,
    },

    /// A `tch::Tensor` that is not a float32 tensor without gradient on the selected device.
    #[error("{op}: expected {expected}, got {found}; {remedy}")]
    UnsupportedTensor {
        /// The operation.
        op: &'static str,
        /// What a buffer holds.
        expected: String,
        /// What came.
        found: String,
        /// The call that turns one into the other.
        remedy: &'static str,
    },

    /// Writing into a buffer whose storage something else (a clone, a reshape, a tape) still reads.
    #[error(
        "{op}: the buffer's storage is shared with another buffer or a tape, so it cannot be written; drop those first (Tape::clear, Gradients::take), or compute into a new buffer"
    )]
    SharedStorage {
        /// The operation.
        op: &'static str,
    },

    /// A [`Var`](crate::Var) of another tape, or of this tape before [`Tape::clear`](crate::Tape::clear).
    #[error(
        "{op}: the Var belongs to another tape, or to this tape before it was cleared; use a Var that this tape returned"
    )]
    ForeignVar {
        /// The operation.
        op: &'static str,
    },

    /// `backward` without a seed from an output that has not exactly one element.
    #[error(
        "backward: the output has shape {shape:?}; only a one-element output has a default seed, so give one of that shape"
    )]
    SeedRequired {
        /// The output's shape.
        shape: Vec<usize>,
    },

    /// A tape was used from inside a closure that it was running.
    #[error(
        "{op}: the tape is running an op's closure and cannot be re-entered; compute on the buffers that the closure was given"
    )]
    TapeBusy {
        /// The operation that came from inside.
        op: &'static str,
    },

    /// A user's VJP returned the wrong number of gradients, or one of a wrong shape.
    #[error("{op}: its VJP must return {expected}, but returned {found}")]
    VjpContract {
        /// The op's name.
        op: &'static str,
        /// What its inputs call for.
        expected: String,
        /// What came back.
        found: String,
    },

    /// [`check_vjp`](crate::check_vjp) found a VJP that disagrees with finite differences.
    #[error(
        "check_vjp, sample {sample}: <v, J u> is {numeric} by finite differences, but <J^T v, u> is {analytic} by the VJP (allowed difference {allowed})"
    )]
    VjpMismatch {
        /// Which of the random directions.
        sample: usize,
        /// By finite differences of the forward.
        numeric: f64,
        /// By the VJP.
        analytic: f64,
        /// The difference that was allowed.
        allowed: f64,
    },

    /// Memory for a result could not be had; nothing was lost, and the next operation works.
    #[error(
        "{op}: out of memory, {bytes} bytes were asked for; free some buffers or work in smaller pieces"
    )]
    OutOfMemory {
        /// The libtorch call or the operation.
        op: &'static str,
        /// The size of the allocation that failed.
        bytes: u64,
    },

    /// libtorch refused a call that passed the crate's own checks.
    #[error("libtorch, {call}: {message}")]
    Libtorch {
        /// The call.
        call: &'static str,
        /// The first line of libtorch's message.
        message: String,
        /// The rest of it.
        source: CppTrace,
    },
}

/// The crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The part of a libtorch message below its first line: the C++ context and backtrace.
#[derive(Debug)]
pub struct CppTrace(String);

impl fmt::Display for CppTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CppTrace {}

impl Error {
    /// The same, a lack of memory in the name of the operation that the user called.
    pub(crate) fn in_op(self, op: &'static str) -> Error {
        match self {
            Error::OutOfMemory { bytes, .. } => Error::OutOfMemory { op, bytes },
            other => other,
        }
    }

    /// The one place where a message of libtorch becomes an error.
    #[cfg_attr(not(feature = "libtorch"), allow(dead_code))]
    pub(crate) fn from_libtorch(call: &'static str, text: &str) -> Error {
        if let Some(bytes) = allocation_asked_for(text) {
            return Error::OutOfMemory { op: call, bytes };
        }
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        Error::Libtorch {
            call,
            message: first.trim().to_owned(),
            source: CppTrace(rest.to_owned()),
        }
    }
}

/// The size in a failed allocation's message: `you tried to allocate 4096 bytes` from the host's allocator,
/// `Tried to allocate 2.00 GiB` from CUDA's.
fn allocation_asked_for(text: &str) -> Option<u64> {
    if !(text.contains("can't allocate memory") || text.contains("out of memory")) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let mut words = lower.split("tried to allocate ").nth(1)?.split_whitespace();
    let amount: f64 = words.next()?.parse().ok()?;
    let unit = match words.next()?.trim_end_matches(['.', ',']) {
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    Some((amount * unit) as u64)
}

/// An empty vector with room for `n` values, or an error where memory has none.
pub(crate) fn reserved<T>(op: &'static str, n: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(n) {
        Ok(()) => Ok(values),
        Err(_) => Err(Error::OutOfMemory {
            op,
            bytes: (n as u64).saturating_mul(size_of::<T>() as u64),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_first_line_is_the_message_and_the_rest_the_source() {
        let error = Error::from_libtorch("add", "sizes differ\nException raised from ..\nframe #0");
        assert_eq!(error.to_string(), "libtorch, add: sizes differ");
        let source = error.source().map(ToString::to_string);
        assert_eq!(
            source.as_deref(),
            Some("Exception raised from ..\nframe #0")
        );
    }

    #[test]
    fn failed_allocations_are_recognised_on_both_devices() {
        let host = "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: \
                    you tried to allocate 4000000000000 bytes. Error code 12 (Cannot allocate memory)";
        let cuda =
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of ..";
        assert!(matches!(
            Error::from_libtorch("zeros", host),
            Error::OutOfMemory {
                bytes: 4_000_000_000_000,
                ..
            }
        ));
        assert!(matches!(
            Error::from_libtorch("zeros", cuda),
            Error::OutOfMemory {
                bytes: 2_147_483_648,
                ..
            }
        ));
        assert!(matches!(
            Error::from_libtorch("zeros", "no"),
            Error::Libtorch { .. }
        ));
    }
}
