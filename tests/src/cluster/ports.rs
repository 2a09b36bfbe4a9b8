//! Free loopback ports for nodes that come back under the same address.
//!
//! A port that the kernel hands out would come from the range it also gives to outgoing connections: while a killed
//! node is away any client could take it. These come from below that range.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 20_000;
/// Up to where the usual range of ephemeral ports begins.
const COUNT: u32 = 12_768;
/// Processes that run at once begin their search apart.
const STEP_PER_PROCESS: u32 = 61;

/// `count` ports that nobody listens on now, and that this process hands out once only.
pub(super) fn free(count: usize) -> Vec<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let offset = std::process::id().wrapping_mul(STEP_PER_PROCESS);
    let candidate = || {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        assert!(step < COUNT, "no free port on loopback");
        FIRST + offset.wrapping_add(step) % COUNT
    };
    std::iter::repeat_with(candidate)
        .map(|port| u16::try_from(port).expect("the range ends below 65536"))
        .filter(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .take(count)
        .collect()
}
