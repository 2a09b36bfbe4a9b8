//! A lock between processes, held as long as a file is open.
//!
//! `File::lock` of the standard library is younger than this workspace's oldest Rust.
#![allow(
    unsafe_code,
    reason = "flock(2) has no safe form in the standard library of our oldest Rust"
)]

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// `LOCK_EX`, the same on every system that has flock.
const EXCLUSIVE: c_int = 2;

unsafe extern "C" {
    fn flock(descriptor: c_int, operation: c_int) -> c_int;
}

/// Waits for the lock at `path`; dropping the answer, or the end of this process, frees it.
pub(super) fn exclusive(path: &Path) -> File {
    let file = File::create(path)
        .unwrap_or_else(|error| panic!("{} can't be written: {error}", path.display()));
    loop {
        // SAFETY: the descriptor belongs to `file`, which lives until after the call; flock takes no pointers.
        if unsafe { flock(file.as_raw_fd(), EXCLUSIVE) } == 0 {
            return file;
        }
        let error = io::Error::last_os_error();
        assert_eq!(
            error.kind(),
            io::ErrorKind::Interrupted,
            "{} can't be locked: {error}",
            path.display()
        );
    }
}
