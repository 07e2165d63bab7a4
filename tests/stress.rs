//! Threads and random calls. Short by default; `make soak` sets TORCHLEAN_STRESS to run them for long.

mod common;

use std::time::{Duration, Instant};

use common::data::EDGES;
use torchlean::{Buffer, Gradients, Grid, Result, Tape, Var, runtime, spec};

/// The bits of one fit step on a shared table.
fn work(table: &Buffer, seed: u64) -> Result<Vec<u32>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let n = random.usize(1..2000);
    let coords: Vec<f32> = (0..n).map(|_| random.f32() * 300.0 - 20.0).collect();
    let tape = Tape::new();
    let t = tape.leaf(table.clone())?;
    let u = tape.leaf(Buffer::from_slice(&coords, &[n])?)?;
    let value = tape.table_lookup(t, u)?;
    let gradients = tape.backward(value, Some(&Buffer::full(&[n], 0.7)?))?;
    let mut bits = tape.value(value)?.to_vec()?;
    bits.extend(gradients.get(u)?.unwrap().to_vec()?);
    bits.extend(gradients.get(t)?.unwrap().to_vec()?);
    Ok(bits.iter().map(|x| x.to_bits()).collect())
}

#[test]
fn eight_threads_and_one_table_give_the_same_bits_as_one_thread() -> Result<()> {
    need_device_or_ok!();
    let _on = runtime::deterministic_scope()?;
    let entries: Vec<f32> = (0..256).map(|k| (k as f32 * 0.37).sin()).collect();
    let table = Buffer::from_slice(&entries, &[256])?;
    let alone: Vec<_> = (0..64)
        .map(|seed| work(&table, seed))
        .collect::<Result<_>>()?;
    let end = Instant::now() + Duration::from_secs(2 * common::stress_factor() as u64);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (table, alone) = (&table, &alone);
            scope.spawn(move || {
                for seed in (thread..).step_by(3) {
                    assert_eq!(work(table, seed % 64).unwrap(), alone[seed as usize % 64]);
                    if Instant::now() > end {
                        break;
                    }
                }
            });
        }
    });
    Ok(())
}

/// A player that calls whatever the API has with whatever comes to mind. Errors are fine; panics, aborts and wrong
/// bits are not.
struct Player {
    random: fastrand::Rng,
    buffers: Vec<Buffer>,
    tapes: Vec<Tape>,
    vars: Vec<Var>,
    gradients: Vec<Gradients>,
}

impl Player {
    fn float(&mut self) -> f32 {
        match self.random.u8(..4) {
            0 => f32::from_bits(self.random.u32(..)),
            1 => EDGES[self.random.usize(..EDGES.len())],
            _ => self.random.f32() * 12.0 - 3.0,
        }
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    fn size(&mut self) -> usize {
        match self.random.u8(..20) {
            0 => self.random.usize(..),
            1 => usize::MAX >> self.random.u8(..64),
            _ => self.random.usize(..6),
        }
    }

    fn shape(&mut self) -> Vec<usize> {
        (0..self.random.usize(..4)).map(|_| self.size()).collect()
    }

    /// A shape that can be made without filling the machine's memory.
    fn small_shape(&mut self) -> Vec<usize> {
        (0..self.random.usize(..4))
            .map(|_| self.random.usize(..6))
            .collect()
    }

    fn buffer(&mut self) -> Buffer {
        self.buffers[self.random.usize(..self.buffers.len())].clone()
    }

    fn var(&mut self) -> Var {
        self.vars[self.random.usize(..self.vars.len())]
    }

    fn indices(&mut self) -> Vec<i64> {
        let n = self.random.usize(..5);
        (0..n)
            .map(|_| {
                if self.random.u8(..8) == 0 {
                    self.random.i64(..)
                } else {
                    self.random.i64(-1..5)
                }
            })
            .collect()
    }

    fn keep(&mut self, result: Result<Buffer>) {
        if let Ok(buffer) = result {
            assert_eq!(buffer.to_vec().unwrap().len(), buffer.len());
            if self.buffers.len() > 40 {
                let place = self.random.usize(4..self.buffers.len());
                self.buffers.swap_remove(place);
            }
            self.buffers.push(buffer);
        }
    }

    fn on_buffers(&mut self) {
        let (a, b, c) = (self.buffer(), self.buffer(), self.buffer());
        let (x, y) = (self.float(), self.float());
        let indices = self.indices();
        let result = match self.random.u8(..28) {
            0 => a.add(&b),
            1 => a.sub(&b),
            2 => a.mul(&b),
            3 => a.div(&b),
            4 => a.min(&b),
            5 => a.max(&b),
            6 => a.neg(),
            7 => a.scale(x),
            8 => a.sqrt(),
            9 => a.floor(),
            10 => a.clamp(x, y),
            11 => a.abs(),
            12 => a.relu(),
            13 => a.sum(),
            14 => a.mean(),
            15 => a.mse(&b),
            16 => a.index_select(&indices),
            17 => a.scatter_add(&indices, &b),
            18 => a.gather_at(&b),
            19 => {
                // A size that fits is made; one that does not is refused before anything is touched.
                let size = self.size();
                if (1 << 24..1 << 40).contains(&size) {
                    Ok(a)
                } else {
                    Buffer::scatter_add_at(size, &a, &b)
                }
            }
            20 => {
                let value = a.table_lookup(&b);
                if let Ok(value) = &value {
                    let want =
                        spec::table_lookup(&a.to_vec().unwrap(), &b.to_vec().unwrap()).unwrap();
                    common::assert_bits_eq("a random lookup", &value.to_vec().unwrap(), &want);
                }
                value
            }
            21 => a.layered_table_lookup(&b, &c),
            22 => {
                let shape = self.shape();
                a.reshape(&shape)
            }
            23 => {
                let shape = self.shape();
                let n = shape
                    .iter()
                    .try_fold(1_usize, |n, &axis| n.checked_mul(axis))
                    .unwrap_or(usize::MAX);
                if (1 << 24..1 << 40).contains(&n) {
                    Ok(a)
                } else {
                    Buffer::full(&shape, x)
                }
            }
            24 => {
                let (shape, n) = (self.shape(), self.random.usize(..20));
                Buffer::from_slice(&self.floats(n), &shape)
            }
            25 => {
                let mut a = a;
                drop(a.axpy(x, &b));
                let mut fresh = Buffer::full(b.shape(), 1.0).unwrap();
                fresh.axpy(x, &b).map(|()| fresh)
            }
            26 => {
                let mut out = vec![0.0; self.random.usize(..8)];
                drop(a.copy_to_slice(&mut out));
                drop(a.item());
                Ok(a)
            }
            _ => {
                let shape = self.small_shape();
                let n = shape.iter().product();
                Buffer::from_slice(&self.floats(n), &shape)
            }
        };
        self.keep(result);
    }

    fn on_tapes(&mut self) {
        let which = self.random.usize(..self.tapes.len());
        let (a, b, c, buffer) = (self.var(), self.var(), self.var(), self.buffer());
        let (x, y, size) = (self.float(), self.float(), self.random.usize(..6));
        let indices = self.indices();
        let pick = self.random.u8(..30);
        let tape = &self.tapes[which];
        let recorded = match pick {
            0 => tape.add(a, b),
            1 => tape.sub(a, b),
            2 => tape.mul(a, b),
            3 => tape.div(a, b),
            4 => tape.min(a, b),
            5 => tape.max(a, b),
            6 => tape.neg(a),
            7 => tape.scale(a, x),
            8 => tape.sqrt(a),
            9 => tape.floor(a),
            10 => tape.clamp(a, x, y),
            11 => tape.abs(a),
            12 => tape.relu(a),
            13 => tape.sum(a),
            14 => tape.mean(a),
            15 => tape.mse(a, b),
            16 => tape.index_select(a, &indices),
            17 => tape.scatter_add(a, &indices, b),
            18 => tape.gather_at(a, b),
            19 => tape.scatter_add_at(size, a, b),
            20 => tape.table_lookup(a, b),
            21 => tape.layered_table_lookup(a, b, c),
            22 | 23 => tape.leaf(buffer),
            24 => tape.constant(buffer),
            25 => {
                drop(tape.retain(a));
                drop(tape.value(b));
                return;
            }
            26 if size == 0 => {
                drop(tape.clear());
                return;
            }
            _ => {
                if let Ok(gradients) = tape
                    .backward(a, Some(&buffer))
                    .or_else(|_| tape.backward(a, None))
                {
                    self.gradients.truncate(5);
                    self.gradients.insert(0, gradients);
                }
                for gradients in &mut self.gradients {
                    drop(gradients.get(b));
                    drop(gradients.take(c));
                }
                return;
            }
        };
        if let Ok(var) = recorded {
            self.vars.push(var);
        }
        if self.vars.len() > 60 {
            self.vars.swap_remove(0);
            if self.tapes[which].len().unwrap() > 500 {
                self.tapes[which] = Tape::new(); // its Vars become foreign
            }
        }
    }
}

#[test]
fn random_calls_neither_panic_nor_abort() -> Result<()> {
    need_device_or_ok!();
    let start = Buffer::from_slice(&[1.0, 2.0, 3.0], &[3])?;
    let tapes = vec![Tape::new(), Tape::new()];
    let vars = vec![tapes[0].leaf(start.clone())?, tapes[1].leaf(start.clone())?];
    let matrix = Buffer::from_slice(&[1.0, -2.0, 3.0, 0.5, 0.0, 8.0], &[2, 3])?;
    let buffers = vec![start, matrix, Buffer::scalar(0.5)?, Buffer::zeros(&[0])?];
    let mut player = Player {
        random: fastrand::Rng::with_seed(0x70_7c4),
        buffers,
        tapes,
        vars,
        gradients: Vec::new(),
    };
    for turn in 0..20_000 * common::stress_factor() {
        match turn % 5 {
            0 | 1 => player.on_buffers(),
            2 => {
                let (origin, step) = (f64::from(player.float()), f64::from(player.float()));
                let count = player.random.usize(..5);
                if let Ok(grid) = Grid::new(origin, step, count) {
                    let points: Vec<f64> = player.floats(4).iter().map(|&x| x.into()).collect();
                    assert_eq!(grid.coords(&points).len(), 4);
                    drop(grid.resample(&points, &points));
                }
            }
            _ => player.on_tapes(),
        }
    }
    Ok(())
}
