//! One body compiled for several instruction sets, of which one is chosen at run time.
//!
//! The bodies are plain loops that the compiler vectorises, so that every set computes the same IEEE operations; no
//! set allows a fused multiply-add to be made from two operations. A body and what it calls must be inlined: a function
//! or closure that is not loses the instruction set of its caller and runs five to ten times slower.

use std::fmt;

/// Instructions that the kernels of the host are compiled for and that this CPU has.
///
/// A value is a proof that the CPU has them, so there is no way to name one but [`available`](Self::available) and
/// [`best`](Self::best). The choice changes the speed and never a bit of a result.
///
/// ```
/// use torchlean::host::InstructionSet;
/// assert!(InstructionSet::available().contains(&InstructionSet::best()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstructionSet(pub(crate) Level);

/// The sets by name, in rising order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl InstructionSet {
    /// The sets that this CPU has, the one that the build assumes anyway first, the widest last.
    pub fn available() -> &'static [InstructionSet] {
        const ALL: &[InstructionSet] = &[
            InstructionSet(Level::Baseline),
            #[cfg(target_arch = "x86_64")]
            InstructionSet(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            InstructionSet(Level::Avx512),
        ];
        &ALL[..=widest()]
    }

    /// The widest of them, used where nothing else is asked for.
    pub fn best() -> InstructionSet {
        let all = InstructionSet::available();
        all[widest()]
    }
}

/// The place of the widest set in the list; the standard library keeps what it found out about the CPU.
fn widest() -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi2") {
        let wide = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        return if wide { 2 } else { 1 };
    }
    0
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Level::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        })
    }
}

/// Declares a function that takes an [`InstructionSet`] before its own arguments, and compiles its body for each.
///
/// In the body the constant `WIDE` says how many floats its widest vectors hold: 0 where that is not known, 8 with AVX2,
/// 16 with AVX-512.
macro_rules! compiled_for_each_set {
    ($(#[$attribute:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        fn $name(set: $crate::simd::InstructionSet, $($arg: $ty),*) {
            #[inline(always)]
            #[allow(clippy::extra_unused_type_parameters)]
            fn body<const WIDE: usize>($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi2")]
            fn avx2($($arg: $ty),*) {
                body::<8>($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $ty),*) {
                body::<16>($($arg),*)
            }

            match set.0 {
                $crate::simd::Level::Baseline => body::<0>($($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a value of `InstructionSet` exists only for what the CPU was found to have.
                $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
            }
        }
    };
}
pub(crate) use compiled_for_each_set;

/// The alignment that stores past the cache need, of whatever width.
pub(crate) const ALIGNMENT: usize = 32;

/// Writes values without reading their cache lines first, and without keeping them: for results beyond the cache.
///
/// # Safety
/// `out` is aligned to [`ALIGNMENT`]; [`fence`] comes before anything else may read it.
#[inline(always)]
pub(crate) unsafe fn store_past_cache(out: &mut [f32; 8], values: &[f32; 8]) {
    #[cfg(target_arch = "x86_64")]
    for (out, values) in out.chunks_exact_mut(4).zip(values.chunks_exact(4)) {
        // SAFETY: SSE is part of x86-64; both hold four floats, and the caller promised the alignment.
        unsafe {
            use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
            _mm_stream_ps(out.as_mut_ptr(), _mm_loadu_ps(values.as_ptr()));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        *out = *values;
    }
}

/// Orders the stores of [`store_past_cache`] before what follows.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for the cache lines of some values to come, in the second-level cache: the first has the table and the sums in
/// it. A place past the end is no harm.
#[inline(always)]
pub(crate) fn prefetch(values: &[f32], from: usize, n: usize) {
    #[cfg(target_arch = "x86_64")]
    for k in (from..from.saturating_add(n)).step_by(16) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().wrapping_add(k).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, from, n);
}
