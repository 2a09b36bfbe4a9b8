//! librdkafka's log lines as `tracing` events with the target `librdkafka`.

use tracing::{Level, debug, error, info, warn};

/// What an application filters by.
const TARGET: &str = "librdkafka";

/// Passes one line on. librdkafka's levels are syslog's: 0 to 3 are errors, 4 warnings, 5 and 6
/// information, 7 debugging.
pub(super) fn emit(level: i32, facility: &str, text: &str) {
    match level {
        ..=3 => error!(target: TARGET, facility, "{text}"),
        4 => warn!(target: TARGET, facility, "{text}"),
        5 | 6 => info!(target: TARGET, facility, "{text}"),
        _ => debug!(target: TARGET, facility, "{text}"),
    }
}

/// The level to ask librdkafka for: what the application set, or what `tracing` would let through,
/// whichever says more.
pub(super) fn native_level(configured: i32) -> i32 {
    let heard = if tracing::enabled!(target: TARGET, Level::DEBUG) {
        7
    } else if tracing::enabled!(target: TARGET, Level::INFO) {
        6
    } else if tracing::enabled!(target: TARGET, Level::WARN) {
        4
    } else {
        3
    };
    heard.max(configured)
}
