//! The process-wide switch for sums and scatters whose bits repeat.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::{Error, Result};
use crate::sys;

/// Sets the switch at the start of the process: unset, empty or `0` is off, anything else on.
const START_VARIABLE: &str = "TORCHLEAN_CUDA_DETERMINISTIC_REDUCTIONS";

/// What was last set, and how many guards keep the switch on meanwhile.
struct Switch {
    set: bool,
    guards: usize,
}

impl Switch {
    fn on(&self) -> bool {
        self.set || self.guards > 0
    }
}

fn switch() -> MutexGuard<'static, Switch> {
    static SWITCH: OnceLock<Mutex<Switch>> = OnceLock::new();
    SWITCH
        .get_or_init(|| {
            let set = std::env::var_os(START_VARIABLE)
                .is_some_and(|value| !value.is_empty() && value != "0");
            Mutex::new(Switch { set, guards: 0 })
        })
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// Changes the switch and tells libtorch; on an error nothing has changed.
fn change(switch: &mut Switch, to: Switch) -> Result<()> {
    sys::set_deterministic(to.on())?;
    *switch = to;
    Ok(())
}

/// Hands the start value to libtorch.
pub(super) fn start() -> Result<()> {
    sys::set_deterministic(switch().on())
}

/// Whether sums, means and scatters are computed so that their bits repeat.
///
/// On: [`sum`](crate::Buffer::sum), `mean` and `mse` are a fixed fold, the same bits on every device and for any
/// number of threads, and libtorch's deterministic algorithms are on, so that scatters on CUDA repeat from run to
/// run. Off (the start value, unless `TORCHLEAN_CUDA_DETERMINISTIC_REDUCTIONS` says otherwise): the SDK's sum.
/// Scatters on the host always add in the order of the source.
///
/// # Errors
/// [`Error::NotLinked`].
pub fn deterministic() -> Result<bool> {
    if cfg!(not(feature = "libtorch")) {
        return Err(Error::NotLinked);
    }
    Ok(switch().on())
}

/// Sets the switch for the whole process and returns what it was set to before.
///
/// While a [`DeterminismGuard`] lives, determinism stays on; the value set here holds when the last one is gone.
///
/// # Errors
/// [`Error::NotLinked`].
///
/// ```
/// # use torchlean::runtime;
/// # if torchlean::device_kind().is_ok() {
/// let before = runtime::set_deterministic(true)?;
/// assert!(runtime::deterministic()?);
/// runtime::set_deterministic(before)?;
/// # }
/// # Ok::<(), torchlean::Error>(())
/// ```
pub fn set_deterministic(on: bool) -> Result<bool> {
    let mut switch = switch();
    let prior = switch.set;
    let guards = switch.guards;
    change(&mut switch, Switch { set: on, guards })?;
    Ok(prior)
}

/// Determinism for as long as the guard lives, on every thread of the process.
///
/// Guards nest and may overlap between threads: it stays on until the last one is dropped, by the end of a scope, an
/// early return or a panic, and then is what it was set to.
///
/// # Errors
/// [`Error::NotLinked`].
pub fn deterministic_scope() -> Result<DeterminismGuard> {
    let mut switch = switch();
    let to = Switch {
        set: switch.set,
        guards: switch.guards.saturating_add(1),
    };
    change(&mut switch, to)?;
    Ok(DeterminismGuard {
        private: PhantomData,
    })
}

/// Keeps determinism on; see [`deterministic_scope`].
#[derive(Debug)]
#[must_use = "determinism is on only as long as the guard lives"]
pub struct DeterminismGuard {
    private: PhantomData<()>,
}

impl Drop for DeterminismGuard {
    fn drop(&mut self) {
        let mut switch = switch();
        let guards = switch.guards.saturating_sub(1);
        let to = Switch {
            set: switch.set,
            guards,
        };
        // The count must fall whatever libtorch says.
        if change(&mut switch, to).is_err() {
            switch.guards = guards;
        }
    }
}
