//! One case per operation: its value and its gradients, recorded on a tape and by the reference.

use torchlean::{Buffer, Result, Tape, Var, runtime, spec};

use super::data::Inputs;

/// What an operation gave and what the reference says.
pub struct Outcome {
    pub label: &'static str,
    pub got: Vec<f32>,
    pub want: Vec<f32>,
    /// It adds, in an order that only the host promises.
    pub adds: bool,
}

type Run = dyn Fn(&Inputs) -> Result<Vec<Outcome>>;

pub struct Case {
    /// As in `torchlean::ops::OPS`.
    pub op: &'static str,
    pub run: Box<Run>,
}

/// The value and the gradients of a function of some inputs, by the tape.
fn on_tape(
    inputs: &[(&[f32], &[usize])],
    seed: &[f32],
    f: impl Fn(&Tape, &[Var]) -> Result<Var>,
) -> Result<(Vec<f32>, Vec<Vec<f32>>)> {
    let tape = Tape::new();
    let vars = inputs
        .iter()
        .map(|(x, shape)| tape.leaf(Buffer::from_slice(x, shape)?))
        .collect::<Result<Vec<_>>>()?;
    let output = f(&tape, &vars)?;
    let value = tape.value(output)?;
    assert_eq!(
        Some(value.device_kind()),
        super::session(),
        "where the result lives"
    );
    let gradients = tape.backward(output, Some(&Buffer::from_slice(seed, value.shape())?))?;
    let all = vars
        .iter()
        .map(|&var| gradients.get(var)?.unwrap().to_vec())
        .collect::<Result<Vec<_>>>()?;

    // Asked for alone, each gradient has the same bits.
    for wanted in 0..inputs.len() {
        let tape = Tape::new();
        let put = |k: usize, buffer| {
            if k == wanted {
                tape.leaf(buffer)
            } else {
                tape.constant(buffer)
            }
        };
        let vars = inputs
            .iter()
            .enumerate()
            .map(|(k, (x, shape))| put(k, Buffer::from_slice(x, shape)?));
        let vars = vars.collect::<Result<Vec<_>>>()?;
        let output = f(&tape, &vars)?;
        let gradients = tape.backward(output, Some(&Buffer::from_slice(seed, value.shape())?))?;
        let alone = gradients.get(vars[wanted])?.unwrap().to_vec()?;
        super::assert_bits_eq("a gradient asked for alone", &alone, &all[wanted]);
    }
    Ok((value.to_vec()?, all))
}

fn exact(label: &'static str, got: Vec<f32>, want: Vec<f32>) -> Outcome {
    Outcome {
        label,
        got,
        want,
        adds: false,
    }
}

fn sum(label: &'static str, got: Vec<f32>, want: Vec<f32>) -> Outcome {
    Outcome {
        label,
        got,
        want,
        adds: true,
    }
}

fn unary(
    op: &'static str,
    f: impl Fn(&Tape, Var) -> Result<Var> + 'static,
    value: impl Fn(&[f32]) -> Vec<f32> + 'static,
    vjp: impl Fn(&[f32], &[f32]) -> Result<Vec<f32>> + 'static,
) -> Case {
    let run = move |inputs: &Inputs| {
        let n = [inputs.a.len()];
        let (got, d) = on_tape(&[(&inputs.a, &n)], &inputs.g, |tape, x| f(tape, x[0]))?;
        Ok(vec![
            exact("value", got, value(&inputs.a)),
            exact("d_x", d[0].clone(), vjp(&inputs.a, &inputs.g)?),
        ])
    };
    Case {
        op,
        run: Box::new(run),
    }
}

fn binary(
    op: &'static str,
    f: impl Fn(&Tape, Var, Var) -> Result<Var> + 'static,
    value: impl Fn(&[f32], &[f32]) -> Result<Vec<f32>> + 'static,
    vjp: impl Fn(&[f32], &[f32], &[f32]) -> Result<(Vec<f32>, Vec<f32>)> + 'static,
) -> Case {
    let run = move |inputs: &Inputs| {
        let (a, b, n) = (&inputs.a, &inputs.b, [inputs.a.len()]);
        let (got, d) = on_tape(&[(a, &n), (b, &n)], &inputs.g, |tape, x| {
            f(tape, x[0], x[1])
        })?;
        let (da, db) = vjp(a, b, &inputs.g)?;
        Ok(vec![
            exact("value", got, value(a, b)?),
            exact("d_a", d[0].clone(), da),
            exact("d_b", d[1].clone(), db),
        ])
    };
    Case {
        op,
        run: Box::new(run),
    }
}

fn reduction(
    op: &'static str,
    f: impl Fn(&Tape, Var) -> Result<Var> + 'static,
    value: impl Fn(&[f32]) -> f32 + 'static,
    vjp: impl Fn(&[f32], f32) -> Vec<f32> + 'static,
) -> Case {
    let run = move |inputs: &Inputs| {
        let _on = runtime::deterministic_scope()?;
        let n = inputs.a.len();
        let g = inputs.g.first().copied().unwrap_or(1.0);
        let (got, d) = on_tape(&[(&inputs.a, &[n])], &[g], |tape, x| f(tape, x[0]))?;
        Ok(vec![
            exact("value", got, vec![value(&inputs.a)]),
            exact("d_x", d[0].clone(), vjp(&inputs.a, g)),
        ])
    };
    Case {
        op,
        run: Box::new(run),
    }
}

/// Every operation of the crate.
pub fn cases() -> Vec<Case> {
    let (lo, hi) = (-1.0, 1.5);
    vec![
        binary("add", Tape::add, spec::add, |_, _, g| Ok(spec::add_vjp(g))),
        binary("sub", Tape::sub, spec::sub, |_, _, g| Ok(spec::sub_vjp(g))),
        binary("mul", Tape::mul, spec::mul, spec::mul_vjp),
        binary("div", Tape::div, spec::div, spec::div_vjp),
        binary("min", Tape::min, spec::min, spec::min_vjp),
        binary("max", Tape::max, spec::max, spec::max_vjp),
        unary("neg", Tape::neg, spec::neg, |_, g| Ok(spec::neg_vjp(g))),
        unary(
            "scale",
            |t, x| t.scale(x, -0.3),
            |x| spec::scale(x, -0.3),
            |_, g| Ok(spec::scale_vjp(-0.3, g)),
        ),
        unary("sqrt", Tape::sqrt, spec::sqrt, spec::sqrt_vjp),
        unary("floor", Tape::floor, spec::floor, |x, _| {
            Ok(vec![0.0; x.len()])
        }),
        unary("abs", Tape::abs, spec::abs, spec::abs_vjp),
        unary("relu", Tape::relu, spec::relu, spec::relu_vjp),
        unary(
            "clamp",
            move |t, x| t.clamp(x, lo, hi),
            move |x| spec::clamp(x, lo, hi).unwrap(),
            move |x, g| spec::clamp_vjp(x, lo, hi, g),
        ),
        reduction("sum", Tape::sum, spec::sum, spec::sum_vjp),
        reduction("mean", Tape::mean, spec::mean, spec::mean_vjp),
        Case {
            op: "mse",
            run: Box::new(mse),
        },
        Case {
            op: "index_select",
            run: Box::new(index_select),
        },
        Case {
            op: "scatter_add",
            run: Box::new(scatter_add),
        },
        Case {
            op: "gather_at",
            run: Box::new(gather_at),
        },
        Case {
            op: "scatter_add_at",
            run: Box::new(scatter_add_at),
        },
        Case {
            op: "table_lookup",
            run: Box::new(table_lookup),
        },
        Case {
            op: "layered_table_lookup",
            run: Box::new(layered_table_lookup),
        },
    ]
}

fn mse(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let _on = runtime::deterministic_scope()?;
    let (a, b, n) = (&inputs.a, &inputs.b, [inputs.a.len()]);
    let g = inputs.g.first().copied().unwrap_or(1.0);
    let (got, d) = on_tape(&[(a, &n), (b, &n)], &[g], |tape, x| tape.mse(x[0], x[1]))?;
    let (da, db) = spec::mse_vjp(a, b, g)?;
    Ok(vec![
        exact("value", got, vec![spec::mse(a, b)?]),
        exact("d_a", d[0].clone(), da),
        exact("d_b", d[1].clone(), db),
    ])
}

/// Host indices from coordinates: inside the rows, repeated.
fn indices(inputs: &Inputs, rows: usize) -> Vec<i64> {
    inputs
        .coords
        .iter()
        .map(|u| (u.to_bits() as usize % rows) as i64)
        .collect()
}

fn index_select(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let (x, row) = (&inputs.table, inputs.width);
    let count = x.len() / row;
    let indices = indices(inputs, count);
    let g: Vec<f32> = (0..indices.len() * row)
        .map(|k| inputs.g[k % inputs.g.len()])
        .collect();
    let (got, d) = on_tape(&[(x, &[count, row])], &g, |tape, v| {
        tape.index_select(v[0], &indices)
    })?;
    Ok(vec![
        exact("value", got, spec::index_select(x, row, &indices)?),
        sum(
            "d_x",
            d[0].clone(),
            spec::index_select_vjp(x, row, &indices, &g)?,
        ),
    ])
}

fn scatter_add(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let (base, row) = (&inputs.table, inputs.width);
    let count = base.len() / row;
    let indices = indices(inputs, count);
    let cycled = |x: &[f32], n: usize| (0..n).map(|k| x[k % x.len()]).collect::<Vec<_>>();
    let values = cycled(&inputs.a, indices.len() * row);
    let g = if inputs.g.is_empty() {
        vec![1.0; base.len()]
    } else {
        cycled(&inputs.g, base.len())
    };
    let shapes: [(&[f32], &[usize]); 2] = [(base, &[count, row]), (&values, &[indices.len(), row])];
    let (got, d) = on_tape(&shapes, &g, |tape, v| {
        tape.scatter_add(v[0], &indices, v[1])
    })?;
    let (d_base, d_values) = spec::scatter_add_vjp(row, &indices, &g)?;
    Ok(vec![
        sum(
            "value",
            got,
            spec::scatter_add(base, row, &indices, &values)?,
        ),
        exact("d_base", d[0].clone(), d_base),
        exact("d_values", d[1].clone(), d_values),
    ])
}

fn gather_at(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let (table, p, n) = (&inputs.table, &inputs.coords, [inputs.coords.len()]);
    let (got, d) = on_tape(&[(table, &[table.len()]), (p, &n)], &inputs.g, |tape, v| {
        tape.gather_at(v[0], v[1])
    })?;
    Ok(vec![
        exact("value", got, spec::gather_at(table, p)?),
        sum(
            "d_table",
            d[0].clone(),
            spec::gather_at_vjp(table, p, &inputs.g)?,
        ),
        exact("d_positions", d[1].clone(), vec![0.0; p.len()]),
    ])
}

fn scatter_add_at(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let (size, p, n) = (inputs.table.len(), &inputs.coords, [inputs.coords.len()]);
    let g = &inputs.table;
    let (got, d) = on_tape(&[(p, &n), (&inputs.a, &n)], g, |tape, v| {
        tape.scatter_add_at(size, v[0], v[1])
    })?;
    Ok(vec![
        sum("value", got, spec::scatter_add_at(size, p, &inputs.a)?),
        exact("d_positions", d[0].clone(), vec![0.0; p.len()]),
        exact("d_values", d[1].clone(), spec::scatter_add_at_vjp(p, g)?),
    ])
}

fn table_lookup(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let (table, u, n) = (
        &inputs.table[..inputs.width],
        &inputs.coords,
        [inputs.coords.len()],
    );
    let (got, d) = on_tape(&[(table, &[table.len()]), (u, &n)], &inputs.g, |tape, v| {
        tape.table_lookup(v[0], v[1])
    })?;
    let (d_table, d_coords) = spec::table_lookup_vjp(table, u, &inputs.g)?;
    Ok(vec![
        exact("value", got, spec::table_lookup(table, u)?),
        sum("d_table", d[0].clone(), d_table),
        exact("d_coords", d[1].clone(), d_coords),
    ])
}

fn layered_table_lookup(inputs: &Inputs) -> Result<Vec<Outcome>> {
    let Inputs {
        table,
        width,
        coords,
        layers,
        g,
        ..
    } = inputs;
    let (n, shape) = ([coords.len()], [table.len() / width, *width]);
    let leaves: [(&[f32], &[usize]); 3] = [(table, &shape), (coords, &n), (layers, &n)];
    let (got, d) = on_tape(&leaves, g, |tape, v| {
        tape.layered_table_lookup(v[0], v[1], v[2])
    })?;
    let (d_table, d_coords) = spec::layered_table_lookup_vjp(table, *width, coords, layers, g)?;
    Ok(vec![
        exact(
            "value",
            got,
            spec::layered_table_lookup(table, *width, coords, layers)?,
        ),
        sum("d_table", d[0].clone(), d_table),
        exact("d_coords", d[1].clone(), d_coords),
        exact("d_layers", d[2].clone(), vec![0.0; layers.len()]),
    ])
}
