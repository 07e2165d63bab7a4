use super::*;
use common::Sheet;
use turbine::{FASTEST, POWER, SPEED, decimal_step};

fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples/data")
        .join(file)
}

fn metres(points: &[(f64, f64)], step: Option<f64>) -> Result<Turbine> {
    let (v, p): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    Turbine::new("t".into(), &v, &p, SPEED[0], step)
}

/// Name, energy with zero outside, with clamped ends, per 1 % of wind (MWh), hours at rest, knots.
type Answer = (&'static str, f64, f64, f64, f64, usize);
/// Energies as published with the data; the last three from a float64 evaluation of the same sums.
const ANSWERS: [Answer; 3] = [
    (
        "NREL_Reference_5MW_126.csv",
        1638.750,
        1816.430,
        57.160,
        4385.0,
        221,
    ),
    (
        "VestasV82_1.65MW_82.csv",
        576.263,
        576.263,
        23.627,
        4385.0,
        18,
    ),
    (
        "VestasV27_225kW_27.csv",
        75.488,
        79.262,
        2.679,
        4388.0,
        1518,
    ),
];

#[test]
fn the_year_at_greensboro() -> Result<()> {
    if !common::native("the_year_at_greensboro") {
        return Ok(());
    }
    let speeds = read_wind(&data("wind_723170_greensboro.csv"))?;
    assert_eq!(speeds.len(), 8760);
    for (file, mwh, clamped, percent, at_rest, knots) in ANSWERS {
        let turbine = Turbine::read(&data(file), None)?;
        let year = Year::of(&turbine, &speeds, 1.0)?;
        // Three decimals are printed, and 8,760 float32 powers are each within 2^-24 of theirs: 1e-4 MWh.
        for (name, have, want) in [
            ("energy", year.mwh, mwh),
            ("clamped", year.clamped_mwh, clamped),
            ("1 %", year.per_percent_mwh, percent),
        ] {
            assert!(
                (have - want).abs() < 1e-3,
                "{file}: {name} {have}, not {want}"
            );
        }
        assert_eq!(turbine.table.len(), knots, "{file}");
        // The padding's knots take whole hours only, and whole numbers below 2^24 are exact.
        assert_eq!(year.hours[0] + year.hours[knots + 2], at_rest, "{file}");
        // A lookup is linear in its table: the hours on the knots account for every hour and every kWh. In each block
        // some thousand float32 weights were added up to some hundred hours, each time off by 2^-24 of the sum at
        // most.
        let hours: f64 = year.hours.iter().sum();
        assert!(
            (hours / 8760.0 - 1.0).abs() < 1e-5,
            "{file}: {hours} h on the knots"
        );
        let earned: f64 = turbine.by_speed(&year).iter().map(|bin| bin.2).sum();
        assert!(
            (earned / mwh - 1.0).abs() < 1e-5,
            "{file}: {earned} MWh on the knots"
        );
        // What the coordinate gradient says of 1 % more wind is what 1 % more wind gives, but for the corners of the
        // curve.
        let faster: Vec<f64> = speeds.iter().map(|v| v * 1.01).collect();
        let gain = Year::of(&turbine, &faster, 1.0)?.mwh - year.mwh;
        assert!((gain / percent - 1.0).abs() < 2e-3, "{file}: {gain}");
    }
    Ok(())
}

#[test]
fn nothing_leaks_past_the_ends() -> Result<()> {
    if !common::native("nothing_leaks_past_the_ends") {
        return Ok(());
    }
    let turbine = Turbine::read(&data("NREL_Reference_5MW_126.csv"), None)?;
    for v in [
        0.0,
        2.9,
        2.95,
        3.0f64.next_down(),
        25.0f64.next_up(),
        25.05,
        25.1,
        FASTEST,
    ] {
        let year = Year::of(&turbine, &[v], 1.0)?;
        assert_eq!((year.mwh, year.per_percent_mwh), (0.0, 0.0), "at {v} m/s");
    }
    for (v, kw, slope) in [(3.0, 40.52f32, 13.715), (25.0, 5000.04, 0.0)] {
        let year = Year::of(&turbine, &[v], 1.0)?;
        assert_eq!(year.mwh, f64::from(kw) / 1e3, "at {v} m/s");
        // kW per 0.1 m/s at cut-in; at the very cut-out speed none. One ulp of the power is 4e-6 kW.
        let want = slope * 10.0 * 0.01 * v / 1e3;
        assert!(
            (year.per_percent_mwh - want).abs() < 1e-7,
            "at {v} m/s: {}",
            year.per_percent_mwh
        );
    }
    Ok(())
}

#[test]
fn every_point_of_a_curve_is_on_its_grid() -> Result<()> {
    for (file, .., knots) in ANSWERS {
        let sheet = Sheet::read(&data(file))?;
        let (speed, power) = (
            sheet.column("wind speed", SPEED)?,
            sheet.column("power", POWER)?,
        );
        let turbine = Turbine::read(&data(file), None)?;
        assert_eq!(turbine.grid.count(), knots);
        for row in 0..sheet.len() {
            // The padded table has one knot more in front.
            let u = turbine.coords(&[sheet.number(row, speed)?])[0];
            assert_eq!(u.fract(), 0.0, "{file}, row {row}");
            assert_eq!(
                turbine.padded()[u as usize],
                sheet.number(row, power)? as f32,
                "{file}, row {row}"
            );
        }
    }
    Ok(())
}

#[test]
fn steps() -> Result<()> {
    assert_eq!(decimal_step(&[3.0, 4.0, 7.1]), Some(0.1));
    assert_eq!(decimal_step(&[3.02, 3.5, 4.01]), Some(0.03));
    assert_eq!(decimal_step(&[2.5, 5.0, 12.5]), Some(2.5));
    assert_eq!(decimal_step(&[0.0, 1.0 / 3.0]), None);

    // A coarser step is taken, and its error told: half way between 3 and 4 the curve is 10 kW, a line from 0 to 40
    // is at 20.
    let coarse = metres(
        &[(3.0, 0.0), (3.5, 10.0), (4.0, 40.0), (4.25, 40.0)],
        Some(1.0),
    )?;
    assert_eq!(
        coarse.note,
        "3 knots, 1 m/s apart, miss 2 of 4 points, by up to 10.000 kW"
    );
    // The last knot is at 5 m/s, but the turbine stops at 4.25.
    assert_eq!(coarse.coords(&[4.25, 4.26]), [2.25, 5.0]);

    for (points, step, reason) in [
        (&[(3.0, 1.0)][..], None, "two points"),
        (&[(0.0, 1.0), (1.0 / 3.0, 2.0)], None, "--step"),
        (&[(0.0, 1.0), (1.0, 1.0), (25.000001, 2.0)], None, "coarser"),
        (&[(0.0, 1.0), (25.0, 2.0)], Some(0.0), "above zero"),
        (&[(0.0, 1.0), (25.0, 2.0)], Some(f64::NAN), "above zero"),
        (
            &[(0.0, 1.0), (25.0, 2.0)],
            Some(25.1),
            "at most the length of the curve, 25 m/s",
        ),
        (
            &[(0.0, 1.0), (25.0, 2.0)],
            Some(1e300),
            "at most the length",
        ),
        (&[(0.0, 1.0), (25.0, 2.0)], Some(1e-300), "coarser"),
    ] {
        let e = metres(points, step)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(e.contains(reason), "{points:?} {step:?}: {e:?}");
    }
    Ok(())
}

#[test]
fn other_units_give_the_same_year() -> Result<()> {
    if !common::native("other_units_give_the_same_year") {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    // The same curve and wind: plain; with byte order mark, CRLF, blank lines, other units, columns in another order.
    let curve = file("a.csv", "speed (m/s),power (kW)\n5,100\n10,800\n25,1000\n")?;
    let other = file(
        "b.csv",
        "\u{feff}Power [MW],x,Speed [km/h]\r\n0.1,,18\r\n\r\n0.8,,36\r\n1,,90\r\n",
    )?;
    let wind = file("c.csv", "speed (m/s)\n4.9\n5\n20\n25\n25.1\n")?;
    let other_wind = file(
        "d.csv",
        "time,\"speed, mean (km/h)\"\n1,17.64\n2,18\n3,72\n4,90\n5,90.36\n",
    )?;
    let year = Year::of(&Turbine::read(&curve, None)?, &read_wind(&wind)?, 0.5)?;
    let other = Year::of(&Turbine::read(&other, None)?, &read_wind(&other_wind)?, 0.5)?;
    // 100 kW + (800 + 200 * 2 / 3) kW + 1000 kW, half an hour each; float32 holds the middle one to 6e-5 kW.
    assert!(
        (year.mwh - 1.0166667).abs() < 1e-7 && (year.mwh - other.mwh).abs() < 1e-7,
        "{} {}",
        year.mwh,
        other.mwh
    );
    assert_eq!((year.hours[0], other.hours[0]), (0.5, 0.5));
    Ok(())
}

#[test]
fn bad_files_are_refused_by_line_and_reason() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bad.csv");
    let cases: [(&[u8], &str); 22] = [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\r\n", "is empty"),
        (b"v (m/s),p (kW)\n", "no rows"),
        (b"v,p (kW)\n1,2\n", "no column for the wind speed"),
        (
            b"v (furlong),p (kW)\n1,2\n",
            "one of m/s, km/h, kn, mph; found: v (furlong) | p (kW)",
        ),
        (b"v (m/s),p (mW)\n1,2\n", "no column for the power"),
        (b"v (m/s),w [m/s],p (kW)\n1,2,3\n", "more than one column"),
        (
            b"v (m/s);p (kW)\n1;2\n",
            "line 1: fields are separated by semicolons",
        ),
        (
            b"v (m/s),p (kW)\n1,2\n2,5,5\n",
            "line 3: 3 fields where the header has 2; look for a decimal comma",
        ),
        (b"v (m/s),p (kW)\r\n1,2\r\n\r\n2\r\n", "line 4: 1 fields"),
        (
            b"v (m/s),p (kW)\n1,2\n\"2,5\",5\n",
            "line 3, column \"v (m/s)\": \"2,5\" is no number; write a decimal point",
        ),
        (
            b"v (m/s),p (kW)\n1,2\n2,full\n",
            "line 3, column \"p (kW)\": \"full\" is no number",
        ),
        (
            b"v (m/s),p (kW)\n1,2\n2,\n",
            "line 3, column \"p (kW)\": \"\" is no number",
        ),
        (
            b"v (m/s),p (kW)\n1,NaN\n",
            "line 2, column \"p (kW)\": \"NaN\" is no power",
        ),
        (
            b"v (m/s),p (kW)\n1,-1\n",
            "line 2, column \"p (kW)\": \"-1\" is no power",
        ),
        (
            b"v (m/s),p (kW)\n1,1e39\n",
            "line 2, column \"p (kW)\": \"1e39\" is no power",
        ),
        (
            b"v (m/s),p (kW)\nnan,1\n",
            "line 2, column \"v (m/s)\": \"nan\" is no wind speed",
        ),
        (
            b"v (m/s),p (kW)\n-1,1\n",
            "line 2, column \"v (m/s)\": \"-1\" is no wind speed",
        ),
        (
            b"v (m/s),p (kW)\n1,1\n999.9,1\n",
            "line 3, column \"v (m/s)\": \"999.9\" is no wind speed",
        ),
        (
            b"v (m/s),p (kW)\n1,1\n1.0,1\n",
            "line 3, column \"v (m/s)\": \"1.0\" is not above the row before",
        ),
        (b"v (m/s),p (kW)\n1,1\n", "two points"),
        (b"v (m/s),p (kW)\n1,1\n2,\xb0\n", "line 3: not UTF-8"),
    ];
    for (text, reason) in cases {
        std::fs::write(&path, text)?;
        let e = Turbine::read(&path, None)
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default();
        assert!(
            e.contains("bad.csv") && e.contains(reason),
            "{:?}: {e:?}",
            String::from_utf8_lossy(text)
        );
    }
    for (text, reason) in [
        ("t,v (m/s)\n1,2\n2,-1\n", "line 3"),
        ("t,v (m/s)\n1,\n", "is no number"),
        ("t,v (m/s)\n1,inf\n", "is no wind"),
    ] {
        std::fs::write(&path, text)?;
        let e = read_wind(&path)
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default();
        assert!(
            e.contains("bad.csv") && e.contains(reason),
            "{text:?}: {e:?}"
        );
    }
    for missing in [folder.path().join("none.csv"), folder.path().into()] {
        let e = read_wind(&missing)
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default();
        assert!(
            e.contains("cannot read") && e.contains(&missing.display().to_string()),
            "{e:?}"
        );
    }
    Ok(())
}

#[test]
fn the_plot_names_what_it_shows() -> Result<()> {
    if !common::native("the_plot_names_what_it_shows") {
        return Ok(());
    }
    let still = metres(&[(3.0, 0.0), (4.0, 0.0)], None)?;
    let year = Year::of(&still, &[], 1.0)?;
    let svg = plot::svg(&[(still, year)])?;
    for text in [
        "wind speed (m/s)",
        "power (kW)",
        "energy earned",
        "t: 0.00 MWh",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    Ok(())
}
