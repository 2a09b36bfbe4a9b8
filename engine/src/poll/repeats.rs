//! What comes again and again is said once in a while: a broker that is away fails twenty times a second.

use std::time::Duration;

use keyway_core::Timestamp;

/// Between two log lines about the same error.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// When each error was last logged.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// By the error's number.
    said: Vec<(i32, Timestamp)>,
}

impl Repeats {
    /// Whether the error is to be logged now; if so, it is noted.
    pub(super) fn say(&mut self, code: i32, now: Timestamp) -> bool {
        match self.said.iter_mut().find(|said| said.0 == code) {
            Some(said) if now.since(said.1) < SAY_EVERY => false,
            Some(said) => {
                said.1 = now;
                true
            }
            None => {
                self.said.push((code, now));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_once_in_a_while_and_another_one_at_once() {
        let (away, refused) = (-187, -195);
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let mut repeats = Repeats::default();
        assert!(repeats.say(away, at(1)));
        assert!(!repeats.say(away, at(10)));
        assert!(repeats.say(refused, at(10)));
        assert!(repeats.say(away, at(11)));
        assert!(!repeats.say(away, at(12)));
    }
}
