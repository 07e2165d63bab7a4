use super::*;

#[test]
fn files_are_written_whole_or_not_at_all() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (out, input) = (folder.path().join("out.svg"), folder.path().join("in.csv"));
    std::fs::write(&input, "in")?;
    write_whole(&out, b"one", &[&input])?;
    write_whole(&out, b"two", &[&input])?;
    assert_eq!(std::fs::read(&out)?, b"two");
    let refused = |path: &Path| {
        write_whole(path, b"x", &[&input])
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default()
    };
    assert!(refused(&folder.path().join(".").join("in.csv")).contains("is the input"));
    assert!(refused(folder.path()).contains("is a folder"));
    assert!(refused(&folder.path().join("none/out.svg")).contains("none that can be written to"));
    // Root may write to these, and replace a device by a file.
    let (locked, kept) = (
        folder.path().join("locked"),
        folder.path().join("locked/kept"),
    );
    std::fs::create_dir(&locked)?;
    std::fs::write(&kept, "kept")?;
    for path in [&kept, &locked] {
        let mut permissions = std::fs::metadata(path)?.permissions();
        permissions.set_readonly(true);
        std::fs::set_permissions(path, permissions)?;
    }
    assert!(refused(&kept).contains("kept is read-only"));
    #[cfg(unix)]
    {
        assert!(refused(&locked.join("new")).contains("is in a read-only folder"));
        let pipe = folder.path().join("pipe");
        let _listener = std::os::unix::net::UnixListener::bind(&pipe)?;
        assert!(refused(&pipe).contains("pipe is no ordinary file"));
        std::fs::remove_file(&pipe)?;
        std::fs::set_permissions(&locked, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    }
    assert_eq!(
        (std::fs::read(&kept)?, std::fs::read_dir(&locked)?.count()),
        (b"kept".to_vec(), 1)
    );
    // Nothing else is left behind.
    assert_eq!(
        (
            std::fs::read(&input)?,
            std::fs::read_dir(folder.path())?.count()
        ),
        (b"in".to_vec(), 3)
    );
    Ok(())
}
