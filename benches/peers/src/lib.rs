//! Our forms and the Rust peers behind C functions, so that compare.py times them in its own process, in turn with the
//! Python peers.

use std::hint::black_box;
use std::slice;
use std::time::Instant;

use candle_core::{DType, Device, Tensor, Var};
use interpn::one_dim::{Interp1D as _, RegularGrid1D, linear::LinearHoldLast1D};
use ndarray::{ArrayView1, ArrayViewMut1};
use ndarray_interp::interp1d::{Interp1D, Linear};
use torchlean::host::{self, VjpOutputs};
use torchlean::runtime::{self, Path};
use torchlean::{Buffer, Tape};

/// One problem and room for its results, in the memory that the Python peers use, whose pages may be of another size.
pub struct Case {
    table: &'static [f32],
    coords: &'static [f32],
    g: &'static [f32],
    values: &'static mut [f32],
    d_coords: &'static mut [f32],
    d_table: &'static mut [f32],
    buffers: [Buffer; 4],
}

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

fn copy(from: &Buffer, to: &mut [f32]) {
    from.copy_to_slice(to).unwrap();
}

fn candle(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap()
}

fn composed_in_candle(table: &Tensor, u: &Tensor) -> candle_core::Result<Tensor> {
    let last = (table.dims1()? - 1) as f32;
    let c = u.clamp(0.0_f32, last)?;
    let i = c.detach().floor()?;
    let w = (&c - &i)?;
    let j = (&i + 1.0)?.minimum(last)?;
    let v0 = table.index_select(&i.to_dtype(DType::U32)?, 0)?;
    let v1 = table.index_select(&j.to_dtype(DType::U32)?, 0)?;
    (&v0 + ((v1 - &v0)? * w)?)?.contiguous()
}

/// Seconds per call.
fn time(repeats: u32, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..repeats {
        call();
    }
    start.elapsed().as_secs_f64() / f64::from(repeats)
}

impl Case {
    fn run(&mut self, form: u32, repeats: u32) -> f64 {
        let Case {
            table,
            coords,
            g,
            values,
            d_coords,
            d_table,
            buffers,
        } = self;
        let (table, coords, g) = (*table, black_box(*coords), *g);
        let [t, u, seed, out] = buffers;
        match form {
            0 => time(repeats, || {
                black_box(&mut values[..]).copy_from_slice(coords)
            }),
            1 => time(repeats, || {
                host::table_lookup(table, coords, values).unwrap()
            }),
            2 | 4 => {
                let path = if form == 2 {
                    Path::Fused
                } else {
                    Path::Composed
                };
                let mut last = None;
                let taken = runtime::with_path(path, || {
                    time(repeats, || {
                        last = None; // freed first, as in use
                        last = Some(t.table_lookup(u).unwrap());
                    })
                });
                copy(&last.unwrap(), values);
                taken
            }
            3 => {
                let taken = time(repeats, || t.table_lookup_into(u, out).unwrap());
                copy(out, values);
                taken
            }
            5 => time(repeats, || {
                host::table_lookup(table, coords, values).unwrap();
                let outputs = VjpOutputs {
                    value: None,
                    d_table: Some(d_table),
                    d_coords: Some(d_coords),
                };
                host::table_lookup_vjp(table, coords, g, outputs).unwrap();
            }),
            12 => time(repeats, || {
                let outputs = VjpOutputs {
                    value: Some(values),
                    d_table: Some(d_table),
                    d_coords: Some(d_coords),
                };
                host::table_lookup_vjp(table, coords, g, outputs).unwrap();
            }),
            6 | 7 => {
                let path = if form == 6 {
                    Path::Fused
                } else {
                    Path::Composed
                };
                let mut last = None;
                let taken = runtime::with_path(path, || {
                    time(repeats, || {
                        last = None;
                        let tape = Tape::new();
                        let (t, u) = (tape.leaf(t.clone()).unwrap(), tape.leaf(u.clone()).unwrap());
                        let value = tape.table_lookup(t, u).unwrap();
                        let mut gradients = tape.backward(value, Some(seed)).unwrap();
                        let mut take = |var| gradients.take(var).unwrap().unwrap();
                        last = Some([take(u), take(t), tape.value(value).unwrap()]);
                    })
                });
                let [u, t, value] = last.unwrap();
                (copy(&u, d_coords), copy(&t, d_table), copy(&value, values));
                taken
            }
            8 => {
                let grid = RegularGrid1D::new(0.0, 1.0, table).unwrap();
                let line = LinearHoldLast1D::new(grid);
                time(repeats, || line.eval(coords, values).unwrap())
            }
            9 => {
                let line = Interp1D::builder(ArrayView1::from(table))
                    .strategy(Linear::new().extrapolate(true))
                    .build()
                    .unwrap();
                time(repeats, || {
                    let out = ArrayViewMut1::from(&mut values[..]);
                    line.interp_array_into(&ArrayView1::from(coords), out)
                        .unwrap();
                })
            }
            10 => {
                let (table, coords) = (candle(table), candle(coords));
                let mut last = None;
                let taken = time(repeats, || {
                    last = None;
                    last = Some(composed_in_candle(&table, &coords).unwrap());
                });
                values.copy_from_slice(&last.unwrap().to_vec1().unwrap());
                taken
            }
            11 => {
                let (table, coords) = (candle(table), candle(coords));
                let seed = candle(g);
                let mut last = None;
                let taken = time(repeats, || {
                    last = None;
                    let t = Var::from_tensor(&table).unwrap();
                    let u = Var::from_tensor(&coords).unwrap();
                    let value = composed_in_candle(&t, &u).unwrap();
                    let mut gradients = (&value * &seed).unwrap().backward().unwrap();
                    let mut take = |var: &Var| gradients.remove(var).unwrap();
                    last = Some([take(&u), take(&t), value]);
                });
                let [u, t, value] = last.unwrap().map(|x| x.to_vec1().unwrap());
                (
                    d_coords.copy_from_slice(&u),
                    d_table.copy_from_slice(&t),
                    values.copy_from_slice(&value),
                );
                taken
            }
            _ => f64::NAN,
        }
    }
}

/// libtorch's threads, in this process.
#[unsafe(no_mangle)]
pub extern "C" fn peers_set_threads(threads: i32) {
    torchlean::tch::set_num_threads(threads);
}

/// A problem: a table and coordinates, a cotangent, and room for the values and both gradients.
///
/// # Safety
/// The pointers name as many floats as the lengths say, which stay until the problem is freed and which nothing else
/// touches while [`peers_run`] runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peers_new(
    table: *mut f32,
    d_table: *mut f32,
    width: usize,
    coords: *mut f32,
    g: *mut f32,
    values: *mut f32,
    d_coords: *mut f32,
    n: usize,
) -> *mut Case {
    // SAFETY: the caller's promise.
    let (read, write) = (
        |from: *mut f32, n| unsafe { slice::from_raw_parts(from, n) },
        |to, n| unsafe { slice::from_raw_parts_mut(to, n) },
    );
    let (table, coords, g) = (read(table, width), read(coords, n), read(g, n));
    Box::into_raw(Box::new(Case {
        table,
        coords,
        g,
        values: write(values, n),
        d_coords: write(d_coords, n),
        d_table: write(d_table, width),
        buffers: [buffer(table), buffer(coords), buffer(g), buffer(coords)],
    }))
}

/// Runs a form; its results are there afterwards. Returns seconds per call.
///
/// # Safety
/// `case` comes from [`peers_new`] and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peers_run(case: *mut Case, form: u32, repeats: u32) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { &mut *case }.run(form, repeats)
}

/// Frees a problem.
///
/// # Safety
/// As [`peers_run`]; once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn peers_free(case: *mut Case) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(case) });
}
