#!/usr/bin/env python3
"""Redo the cut of examples/data/ from the packages it came from.

    scripts/cut-example-data.py            compare the cut with the committed files (exit 1 if a byte differs)
    scripts/cut-example-data.py --write    write the files
    --wheels DIR                           use wheels already in DIR instead of asking pip for them

Needs Python 3.8 and, without --wheels, pip with a package index to reach.
"""

import argparse
import csv
import hashlib
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PVLIB = "pvlib==0.16.1"
TURBINES = "turbine-models==0.2.2"

# target file, package, file in its wheel, sha256 of that file, lines before the header, columns kept (None: copied as it is)
CUTS = [
    ("wind_723170_greensboro.csv", PVLIB, "pvlib/data/723170TYA.CSV",
     "1e96f84638ce98e6b29002bc45a27aa69bb29b0ed0368d3b52b7b1f81610c6c9", 1,
     ["Date (MM/DD/YYYY)", "Time (HH:MM)", "Wspd (m/s)"]),
    ("NREL_Reference_5MW_126.csv", TURBINES, "turbine_models/data/Offshore/NREL_Reference_5MW_126.csv",
     "87d2707357689c49783ab8c83be078ce88624bd69ee5011e6cfeb1f9b30a8237", 0, ["Wind Speed [m/s]", "Power [kW]"]),
    ("VestasV82_1.65MW_82.csv", TURBINES, "turbine_models/data/Onshore/VestasV82_1.65MW_82.csv",
     "567a42237d8d2685c755887322bdf8fe0c604642c04c340744b6af66419d9dc1", 0, ["Wind Speed [m/s]", "Power [kW]"]),
    ("VestasV27_225kW_27.csv", TURBINES, "turbine_models/data/Distributed/VestasV27_225kW_27.csv",
     "7ba58b2055bcfbfbc4b4a21f221fa9a8e96dbac8c99611794616e6599b588223", 0, ["Wind Speed [m/s]", "Power [kW]"]),
    ("LICENSE.pvlib", PVLIB, "pvlib-0.16.1.dist-info/licenses/LICENSE",
     "a02e12ddaada3cf0d5dbdd8affdd577c2eec640758a95842a304f7513b8c0be4", 0, None),
    ("LICENSE.turbine-models", TURBINES, "turbine_models-0.2.2.dist-info/licenses/LICENSE.txt",
     "c855db7975f89527d2a8069aa0a8dcbfc7941a11928eb5a2f0ada395f15fe4d7", 0, None),
]


def cut(source, skip, keep):
    """The wanted columns, every cell as it is printed in the source, line ends LF."""
    if keep is None:
        return source.replace(b"\r\n", b"\n")
    lines = source.decode("ascii").splitlines()[skip:]
    rows = csv.reader(lines)
    header = next(rows)
    columns = [header.index(name) for name in keep]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keep)
    writer.writerows([row[c] for c in columns] for row in rows if row)
    return out.getvalue().encode("ascii")


def wheel(folder, package):
    name, version = package.split("==")
    found = sorted(folder.glob("%s-%s-*.whl" % (name.replace("-", "_"), version)))
    if not found:
        sys.exit("no wheel of %s in %s" % (package, folder))
    return zipfile.ZipFile(found[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the files instead of comparing")
    parser.add_argument("--wheels", type=pathlib.Path, help="folder that holds the two wheels")
    args = parser.parse_args()
    target = pathlib.Path(__file__).resolve().parent.parent / "examples" / "data"

    with tempfile.TemporaryDirectory() as scratch:
        wheels = args.wheels or pathlib.Path(scratch)
        if args.wheels is None:
            for package in (PVLIB, TURBINES):
                pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", scratch, package]
                if subprocess.call(pip) != 0:
                    sys.exit("pip could not download %s: check the network, or give the wheels with --wheels DIR" % package)
        differ = 0
        for name, package, member, want, skip, keep in CUTS:
            source = wheel(wheels, package).read(member)
            have = hashlib.sha256(source).hexdigest()
            if have != want:
                sys.exit("%s of %s has sha256 %s, not %s: another release?" % (member, package, have, want))
            made = cut(source, skip, keep)
            path = target / name
            if args.write:
                path.write_bytes(made)
                print("wrote %s (%d bytes)" % (name, len(made)))
            elif path.exists() and path.read_bytes() == made:
                print("same  %s" % name)
            else:
                print("DIFFERS %s" % name)
                differ += 1
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
