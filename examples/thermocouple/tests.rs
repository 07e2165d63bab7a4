use super::*;

/// How far float32 can tell temperatures apart: one ulp of the voltage over the slope, and one ulp of the coordinate.
fn resolution(target: f64, t: f64, slope: f64) -> f64 {
    inverse::ulp(target as f32) * slope.abs() + inverse::ulp((t - type_k::RANGE.0) as f32)
}

#[test]
fn known_temperatures() -> Result<()> {
    if !common::native("known_temperatures") {
        return Ok(());
    }
    let table = type_k_table()?;
    let junction = table.value(&[23.4])?[0];
    let targets = [4.096, 12.209, 20.644, 41.276, 8.100 + junction, -6.0];
    let found: Vec<f64> = table
        .solve(&targets, 0.5)?
        .into_iter()
        .flatten()
        .map(|tip| tip.0)
        .collect();
    // The printed tables round to 0.001 mV: half of that is up to 0.013 degC above zero.
    for (t, want) in found.iter().zip([100.0, 300.0, 500.0, 1000.0]) {
        assert!((t - want).abs() <= 0.013, "{t}, not {want}");
    }
    // Two decimals.
    assert!((found[4] - 222.376).abs() < 0.005, "{}", found[4]);
    assert!((found[5] + 207.46).abs() < 0.005, "{}", found[5]);
    Ok(())
}

#[test]
fn every_target_is_found_from_every_start() -> Result<()> {
    if !common::native("every_target_is_found_from_every_start") {
        return Ok(());
    }
    let table = type_k_table()?;
    let (low, high) = table.range();
    // Some of these, like -5.004, send the plain iteration from a high start round in a cycle.
    let targets: Vec<f64> = (0..=20_000)
        .map(|k| low + (high - low) * f64::from(k) / 20_000.0)
        .chain([-5.004, low, high])
        .collect();
    for start in [0.0, 0.02, 0.5, 0.98, 1.0] {
        let found = table.solve(&targets, start)?;
        assert!(found.iter().all(Option::is_some), "from {start}");
        for (target, (t, slope)) in targets.iter().zip(found.into_iter().flatten()) {
            // Against the function itself, by Newton's step from the answer: 2.8e-5 mV are the straight line between
            // knots.
            let off = (type_k::millivolts(t) - target) * slope;
            let allowed = 2.0 * resolution(*target, t, slope) + 2.8e-5 * slope;
            assert!(
                off.abs() <= allowed,
                "{target} mV from {start}: {t} degC is {off} off, {allowed} allowed"
            );
            assert!(
                slope.is_finite() && slope > 0.0,
                "{target} mV: dT/dE {slope}"
            );
        }
    }
    Ok(())
}

#[test]
fn nothing_is_clamped() -> Result<()> {
    if !common::native("nothing_is_clamped") {
        return Ok(());
    }
    let table = type_k_table()?;
    let (low, high) = table.range();
    let outside = [
        low.next_down(),
        high.next_up(),
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    assert_eq!(table.solve(&outside, 0.5)?, [None; 5]);
    assert!(
        table
            .value(&[-270.1, 1372.1, f64::NAN])?
            .iter()
            .all(|v| v.is_nan())
    );
    assert_eq!(table.value(&[-270.0, 1372.0])?, [low, high]);
    assert_eq!(
        (table.solve(&[], 0.5)?.len(), table.value(&[])?.len()),
        (0, 0)
    );
    Ok(())
}

#[test]
fn tables_without_an_inverse_are_refused() -> Result<()> {
    let grid = || Grid::new(0.0, 1.0, 4);
    for (f, reason) in [
        ((|x: f64| (x - 1.0).abs()) as fn(f64) -> f64, "from 0 to 1"),
        (|x| x.min(2.0), "from 2 to 3"),
        (|_| f64::NAN, "from 0 to 1"),
        (|x| 1.0 / (3.0 - x), "finite"),
    ] {
        let e = Inverse::new(grid()?, f)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(e.contains(reason), "{reason}: {e:?}");
    }
    assert!(Inverse::new(Grid::new(0.0, 1.0, 1)?, |x| x).is_err());
    Ok(())
}

#[test]
fn the_sample_and_its_output() -> Result<()> {
    if !common::native("the_sample_and_its_output") {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/thermocouple_sample.csv");
    let (sheet, table) = (Sheet::read(&path)?, type_k_table()?);
    let readings = read(&sheet, None, &table)?;
    let text = String::from_utf8(to_csv(&sheet, 0, &readings)?)?;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + sheet.len());
    assert_eq!(
        lines[0],
        "time (s),voltage (mV),temperature (degC),dT/dE (degC/mV)"
    );
    assert_eq!(
        (lines[7], lines[8], lines[9]),
        ("3.0,,,", "3.5,61.3,,", "4.0,,,")
    );
    assert!(lines[2].starts_with("0.5,8.1,222.37"), "{}", lines[2]);
    let report = report(&sheet, 0, &readings, &table)?;
    for text in [
        "3 of 10 rows of ",
        "line 8: no voltage",
        "line 9: 61.3 mV with the junction at 24.1 degC makes 62.2638 mV, not within -6.4577 to 54.8864 mV",
        "line 10: no voltage",
    ] {
        assert!(report.contains(text), "{text:?} in {report}");
    }
    Ok(())
}

#[test]
fn bad_files_are_refused() -> Result<()> {
    if !common::native("bad_files_are_refused") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (path, table) = (folder.path().join("bad.csv"), type_k_table()?);
    for (text, junction, reason) in [
        (
            "time,E (mV),cold (C)\n1,OL,2\n",
            None,
            "line 2, column \"E (mV)\": \"OL\" is no number",
        ),
        (
            "time,E (mV),cold (C)\n1,2,\"2,5\"\n",
            None,
            "write a decimal point",
        ),
        (
            "time,E,cold (C)\n1,2,3\n",
            None,
            "no column for the voltage",
        ),
        ("time,E (mV)\n1,2\n", None, "no --cold-junction given: "),
        (
            "time,E (mV),cold (C)\n1,2,3\n",
            Some(20.0),
            "leave out --cold-junction",
        ),
        ("time,E (mV)\n1,2\n", Some(1e4), "not within -270 to 1372"),
        (
            "time,E (mV)\n1,2\n",
            Some(f64::NAN),
            "not within -270 to 1372",
        ),
    ] {
        std::fs::write(&path, text)?;
        let e = read(&Sheet::read(&path)?, junction, &table)
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default();
        assert!(e.contains(reason), "{text:?}: {e:?}");
    }
    std::fs::write(&path, "E (mV),cold (C)\n1,2\n")?;
    let e = Sheet::read(&path)?
        .titled("time")
        .err()
        .map(|e| e.to_string())
        .unwrap_or_default();
    assert!(e.contains("no column named \"time\""), "{e:?}");

    // Rows without an answer are told apart.
    std::fs::write(
        &path,
        "time,E (V),cold (°C)\n1,0.001,\n2,0.001,-300\n3,0.001,20\n",
    )?;
    let sheet = Sheet::read(&path)?;
    let readings = read(&sheet, None, &table)?;
    assert!(refusal(&readings[0], &table).contains("no temperature of the cold junction"));
    assert!(
        refusal(&readings[1], &table).contains("the cold junction at -300 degC is not within -270")
    );
    assert!(
        readings[2]
            .tip
            .is_some_and(|(t, _)| (44.0..45.0).contains(&t))
    );
    Ok(())
}
