//! Gradients by other ways than the reference: elementary nodes, duality, finite differences, libtorch's autograd.

mod common;

use common::{assert_bits_eq, data};
use torchlean::{Buffer, Error, Op, Result, Tape, Var, check_vjp};

fn buffer(values: &[f32]) -> Buffer {
    Buffer::from_slice(values, &[values.len()]).unwrap()
}

/// The lookup recorded from elementary nodes; `read` reads the table at whole coordinates.
fn elementary(tape: &Tape, u: Var, width: usize, read: impl Fn(Var) -> Result<Var>) -> Result<Var> {
    let last = (width - 1) as f32;
    let c = tape.clamp(u, 0.0, last)?;
    let i = tape.floor(c)?;
    let w = tape.sub(c, i)?;
    let one = tape.constant(Buffer::full(tape.value(u)?.shape(), 1.0)?)?;
    let j = tape.clamp(tape.add(i, one)?, 0.0, last)?;
    let v0 = read(i)?;
    let v1 = read(j)?;
    let m = tape.mul(tape.sub(v1, v0)?, w)?;
    tape.add(v0, m)
}

/// Value and both gradients of a function of a table and coordinates.
fn value_and_gradients(
    (table, shape): (&[f32], &[usize]),
    u: &[f32],
    g: &[f32],
    f: impl Fn(&Tape, Var, Var) -> Result<Var>,
) -> Result<[Vec<f32>; 3]> {
    let tape = Tape::new();
    let (t, u) = (
        tape.leaf(Buffer::from_slice(table, shape)?)?,
        tape.leaf(buffer(u))?,
    );
    let value = f(&tape, t, u)?;
    let mut gradients = tape.backward(value, Some(&buffer(g)))?;
    let [dt, du] = [t, u].map(|var| gradients.take(var).unwrap().unwrap().to_vec());
    Ok([tape.value(value)?.to_vec()?, dt?, du?])
}

fn assert_all_bits_eq(got: &[Vec<f32>; 3], want: &[Vec<f32>; 3]) {
    for (k, what) in ["value", "d_table", "d_coords"].iter().enumerate() {
        assert_bits_eq(what, &got[k], &want[k]);
    }
}

/// Coordinates in and around a table, with the special ones; and cotangents.
fn draw(seed: u64, width: usize, n: usize) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let table = (0..width).map(|_| random.f32() * 4.0 - 2.0).collect();
    let special = [
        0.0,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        1e30,
        width as f32 - 1.0,
        1.0,
    ];
    let u = (0..n).map(|k| match special.get(k) {
        Some(&u) => u,
        None => random.f32() * (width as f32 + 2.0) - 1.5,
    });
    let u = u.collect();
    (table, u, (0..n).map(|_| random.f32() * 2.0 - 1.0).collect())
}

#[test]
fn lookups_equal_the_same_function_of_elementary_nodes() {
    common::in_every_form_on_the_device(lookups_equal_the_same_function_of_elementary_nodes_here);
}

fn lookups_equal_the_same_function_of_elementary_nodes_here() -> Result<()> {
    for (seed, width) in [(1, 1), (2, 2), (3, 5), (4, 300)] {
        for &n in data::LENGTHS {
            let (table, u, g) = draw(seed, width, n);
            let shape = [width];
            let lookup = value_and_gradients((&table, &shape), &u, &g, |tape, t, u| {
                tape.table_lookup(t, u)
            })?;
            let nodes = value_and_gradients((&table, &shape), &u, &g, |tape, t, u| {
                elementary(tape, u, width, |index| tape.gather_at(t, index))
            })?;
            assert_all_bits_eq(&lookup, &nodes);
            // index_select with the same places, from the host
            let place = |u: f32, next: f32| {
                (u.clamp(0.0, (width - 1) as f32).floor() + next).min((width - 1) as f32)
            };
            let [lower, upper] =
                [0.0, 1.0].map(|next| u.iter().map(|&u| place(u, next) as i64).collect::<Vec<_>>());
            let places = std::cell::RefCell::new(vec![upper, lower]);
            let selected = value_and_gradients((&table, &shape), &u, &g, |tape, t, u| {
                elementary(tape, u, width, |_| {
                    tape.index_select(t, &places.borrow_mut().pop().unwrap())
                })
            })?;
            assert_all_bits_eq(&lookup, &selected);
        }
    }
    Ok(())
}

#[test]
fn layered_lookups_equal_the_same_function_of_elementary_nodes() {
    common::in_every_form_on_the_device(
        layered_lookups_equal_the_same_function_of_elementary_nodes_here,
    );
}

fn layered_lookups_equal_the_same_function_of_elementary_nodes_here() -> Result<()> {
    let (layers, width) = (3, 7);
    for &n in data::LENGTHS {
        let (table, u, g) = draw(n as u64, layers * width, n);
        let u: Vec<f32> = u.iter().map(|u| u / 2.0).collect();
        let selectors: Vec<f32> = (0..n)
            .map(|k| [0.0, 1.0, 1.9, 2.0, 5.0, -3.0, f32::NAN][k % 7])
            .collect();
        let shape = [layers, width];
        let lookup = value_and_gradients((&table, &shape), &u, &g, |tape, t, u| {
            tape.layered_table_lookup(t, u, tape.constant(buffer(&selectors))?)
        })?;
        // A table of n rows of width entries, each element's own layer, read flat by its own offset.
        let flat = [layers * width];
        let offsets: Vec<f32> = selectors
            .iter()
            .map(|&s| (s as i64).clamp(0, 2) as f32 * width as f32)
            .collect();
        let nodes = value_and_gradients((&table, &flat), &u, &g, |tape, t, u| {
            let offsets = tape.constant(buffer(&offsets))?;
            elementary(tape, u, width, |index| {
                tape.gather_at(t, tape.add(index, offsets)?)
            })
        })?;
        assert_all_bits_eq(&lookup, &nodes);
    }
    Ok(())
}

#[test]
fn gather_at_equals_index_select() {
    common::in_every_form_on_the_device(gather_at_equals_index_select_here);
}

fn gather_at_equals_index_select_here() -> Result<()> {
    let table = [1.0, -2.0, 3.5];
    let positions = [
        0.0,
        2.0,
        2.9,
        -7.0,
        1.0,
        1.99,
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -0.5,
        3.0,
    ];
    let indices = [0, 2, 2, 0, 1, 1, 2, 2, 0, 0, 0, 2];
    let g: Vec<f32> = (0..12).map(|k| k as f32 - 5.5).collect();
    let tape = Tape::new();
    let t = tape.leaf(buffer(&table))?;
    let gathered = tape.gather_at(t, tape.constant(buffer(&positions))?)?;
    let selected = tape.index_select(t, &indices)?;
    assert_bits_eq(
        "value",
        &tape.value(gathered)?.to_vec()?,
        &tape.value(selected)?.to_vec()?,
    );
    let [a, b] = [gathered, selected].map(|var| {
        let gradients = tape.backward(var, Some(&buffer(&g))).unwrap();
        gradients.get(t).unwrap().unwrap().to_vec().unwrap()
    });
    assert_bits_eq("d_table", &a, &b);
    Ok(())
}

/// `<gather_at(t, p), g> == <t, scatter_add_at(n, p, g)>`, exactly on dyadic data.
#[test]
fn gather_and_scatter_are_adjoint() {
    common::in_every_form_on_the_device(gather_and_scatter_are_adjoint_here);
}

fn gather_and_scatter_are_adjoint_here() -> Result<()> {
    for &n in data::LENGTHS {
        let inputs = data::dyadic_inputs(99, n);
        let dot =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let (p, g) = (buffer(&inputs.coords), buffer(&inputs.g));
        let gathered = buffer(&inputs.table).gather_at(&p)?.to_vec()?;
        let scattered = Buffer::scatter_add_at(inputs.table.len(), &p, &g)?.to_vec()?;
        assert_eq!(
            dot(&gathered, &inputs.g),
            dot(&inputs.table, &scattered),
            "{n} positions"
        );
    }
    Ok(())
}

/// Every node's VJP against finite differences, away from kinks. Step 1/64 keeps the second-order terms of smooth
/// functions of values near 1 below 1e-3; piecewise linear ones are exact up to float32.
#[test]
fn check_vjp_of_every_node() {
    common::in_every_form_on_the_device(check_vjp_of_every_node_here);
}

fn check_vjp_of_every_node_here() -> Result<()> {
    let x = buffer(&[0.7, 1.3, -0.6, 2.25, -1.7]);
    let y = buffer(&[1.9, 0.55, -1.1, 0.8, 1.4]);
    let positive = buffer(&[0.7, 1.3, 2.25, 4.0, 0.9]);
    let table = buffer(&[0.5, -1.0, 2.0, 0.25, 1.5, -0.75]);
    let coords = buffer(&[0.3, 1.5, 2.7, 3.4, 4.6]);
    let matrix = table.reshape(&[2, 3])?;
    let within = buffer(&[0.3, 1.5, 0.7, 1.4, 1.6]);
    let layers = buffer(&[0.0, 1.0, 1.0, 0.0, 1.9]);
    let places = buffer(&[1.0, 4.0, 1.0, -3.0, 99.0]);
    let indices = [1_i64, 0, 1];
    let rows = buffer(&[1.0, -0.5, 2.0, 0.25, 1.5, -0.75, 0.1, 0.2, 0.3]).reshape(&[3, 3])?;

    type Node<'a> = (
        &'static str,
        Box<dyn Fn(&Tape, &[Var]) -> Result<Var> + 'a>,
        Vec<&'a Buffer>,
    );
    let constant = |tape: &Tape, x: &Buffer| tape.constant(x.clone());
    let nodes: Vec<Node<'_>> = vec![
        ("add", Box::new(|t, v| t.add(v[0], v[1])), vec![&x, &y]),
        ("sub", Box::new(|t, v| t.sub(v[0], v[1])), vec![&x, &y]),
        ("mul", Box::new(|t, v| t.mul(v[0], v[1])), vec![&x, &y]),
        ("div", Box::new(|t, v| t.div(v[0], v[1])), vec![&x, &y]),
        ("neg", Box::new(|t, v| t.neg(v[0])), vec![&x]),
        ("scale", Box::new(|t, v| t.scale(v[0], -1.7)), vec![&x]),
        ("sqrt", Box::new(|t, v| t.sqrt(v[0])), vec![&positive]),
        ("floor", Box::new(|t, v| t.floor(v[0])), vec![&x]),
        ("clamp", Box::new(|t, v| t.clamp(v[0], -1.0, 1.0)), vec![&x]),
        ("min", Box::new(|t, v| t.min(v[0], v[1])), vec![&x, &y]),
        ("max", Box::new(|t, v| t.max(v[0], v[1])), vec![&x, &y]),
        ("abs", Box::new(|t, v| t.abs(v[0])), vec![&x]),
        ("relu", Box::new(|t, v| t.relu(v[0])), vec![&x]),
        ("sum", Box::new(|t, v| t.sum(v[0])), vec![&x]),
        ("mean", Box::new(|t, v| t.mean(v[0])), vec![&x]),
        ("mse", Box::new(|t, v| t.mse(v[0], v[1])), vec![&x, &y]),
        (
            "index_select",
            Box::new(|t, v| t.index_select(v[0], &indices)),
            vec![&matrix],
        ),
        (
            "scatter_add",
            Box::new(|t, v| t.scatter_add(v[0], &indices, v[1])),
            vec![&matrix, &rows],
        ),
        (
            "gather_at",
            Box::new(|t, v| t.gather_at(v[0], constant(t, &places)?)),
            vec![&table],
        ),
        (
            "scatter_add_at",
            Box::new(|t, v| t.scatter_add_at(6, constant(t, &places)?, v[0])),
            vec![&x],
        ),
        (
            "table_lookup",
            Box::new(|t, v| t.table_lookup(v[0], v[1])),
            vec![&table, &coords],
        ),
        (
            "layered_table_lookup",
            Box::new(|t, v| t.layered_table_lookup(v[0], v[1], constant(t, &layers)?)),
            vec![&matrix, &within],
        ),
    ];
    let mut checked: Vec<_> = nodes.iter().map(|(op, ..)| *op).collect();
    let mut listed: Vec<_> = torchlean::ops::OPS.iter().map(|op| op.name).collect();
    checked.sort_unstable();
    listed.sort_unstable();
    assert_eq!(checked, listed, "a node without a check");
    for (op, f, inputs) in &nodes {
        check_vjp(f, inputs, 1.0 / 64.0, 1e-3).unwrap_or_else(|error| panic!("{op}: {error}"));
    }
    Ok(())
}

#[test]
fn check_vjp_finds_a_wrong_vjp() -> Result<()> {
    need_device_or_ok!();
    let wrong = Op::new(
        "wrong",
        |x| x[0].mul(x[0]),
        |args| Ok(vec![Some(args.cotangent().mul(args.input(0)?)?)]),
    );
    let x = buffer(&[1.0, -2.0, 0.5]);
    let result = check_vjp(|tape, v| tape.apply(&wrong, v), &[&x], 1.0 / 64.0, 1e-3);
    assert!(
        matches!(result, Err(Error::VjpMismatch { .. })),
        "{result:?}"
    );
    let nan = Op::new(
        "nan",
        |x| Ok(x[0].clone()),
        |args| Ok(vec![Some(args.cotangent().scale(f32::NAN)?)]),
    );
    assert!(check_vjp(|tape, v| tape.apply(&nan, v), &[&x], 1.0 / 64.0, 1e-3).is_err());
    Ok(())
}

/// libtorch's own autograd on the same composition, away from the bounds, where its clamp differs.
#[cfg(feature = "libtorch")]
#[test]
fn lookup_gradients_equal_libtorchs_autograd() -> Result<()> {
    use torchlean::tch::{Kind, Tensor};
    if need_device_or_ok!() != torchlean::DeviceKind::Host {
        return Ok(()); // its scatter on CUDA adds in an order of its own
    }
    let width = 9;
    for &n in data::LENGTHS {
        let (table, _, g) = draw(n as u64, width, n);
        let mut random = fastrand::Rng::with_seed(n as u64);
        let u: Vec<f32> = (0..n).map(|_| 0.01 + random.f32() * 7.98).collect();
        let ours = value_and_gradients((&table, &[width]), &u, &g, |tape, t, u| {
            tape.table_lookup(t, u)
        })?;

        let t = Tensor::from_slice(&table).set_requires_grad(true);
        let x = Tensor::from_slice(&u).set_requires_grad(true);
        let c = x.clamp(0.0, width as f64 - 1.0);
        let i = c.floor();
        let w = &c - &i;
        let [v0, v1] = [i.to_kind(Kind::Int64), (&i + 1.0).to_kind(Kind::Int64)]
            .map(|index| t.index_select(0, &index));
        let value = &v0 + (&v1 - &v0) * w;
        let gradients = Tensor::run_backward(
            &[(&value * Tensor::from_slice(&g)).sum(Kind::Float)],
            &[&t, &x],
            false,
            false,
        );
        let theirs = |tensor: &Tensor| Vec::<f32>::try_from(tensor).unwrap();
        assert_bits_eq("value", &ours[0], &theirs(&value.detach()));
        assert_bits_eq("d_coords", &ours[2], &theirs(&gradients[1]));
        assert_bits_eq("d_table", &ours[1], &theirs(&gradients[0]));
    }
    Ok(())
}
