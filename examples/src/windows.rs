//! Records counted by windows of event time, in a state that rides beside the committed offset.

use std::collections::BTreeMap;
use std::time::Duration;

use keyway::{Rider, RiderState};

/// The length of a window.
const LENGTH: Duration = Duration::from_secs(10);

/// What a record brings: when it happened, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Milliseconds since 1970.
    pub time: i64,
    /// Its offset.
    pub offset: i64,
    /// Windows below this one were given out, so that they need not be kept any longer.
    pub given_out: i64,
}

/// One window: so many records from its begin on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its number: event time by the length of ten seconds.
    pub number: i64,
    /// Records counted.
    pub count: u32,
    /// The lowest offset of them.
    first: i64,
}

impl Window {
    fn of(time: i64) -> i64 {
        time / LENGTH.as_millis() as i64
    }
}

/// The windows of one partition that are not given out yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(BTreeMap<i64, Window>);

/// Bytes of a window in a rider: number, count, lowest offset.
const WINDOW_BYTES: usize = 20;

impl Windows {
    /// The windows that a rider holds.
    ///
    /// # Errors
    /// When the rider was dropped or is not one of these: what it had counted is lost.
    pub fn restore(rider: &Rider) -> Result<Self, String> {
        let bytes = match rider {
            Rider::None => &[],
            Rider::Present(bytes) if bytes.len() % WINDOW_BYTES == 0 => bytes.as_slice(),
            other => return Err(format!("no windows in {other:?}")),
        };
        let window = |bytes: &[u8]| {
            let (number, rest) = bytes.split_first_chunk()?;
            let (count, rest) = rest.split_first_chunk()?;
            let window = Window {
                number: i64::from_be_bytes(*number),
                count: u32::from_be_bytes(*count),
                first: i64::from_be_bytes(rest.try_into().ok()?),
            };
            Some((window.number, window))
        };
        Ok(Self(
            bytes.chunks(WINDOW_BYTES).filter_map(window).collect(),
        ))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = Window> + '_ {
        self.0.values().copied()
    }

    /// Those that are final in a commit at `offset`: all below it is done, a later window has begun below it too,
    /// and time goes on with the offsets. That the state is of the same moment as the offset is what makes this true.
    pub fn closed(&self, offset: i64) -> impl Iterator<Item = Window> + '_ {
        let last_begun = self.iter().filter(|window| window.first < offset).last();
        self.iter()
            .take_while(move |window| last_begun.is_some_and(|last| window.number < last.number))
    }
}

impl RiderState for Windows {
    type Update = Seen;

    fn apply(&mut self, seen: &Seen) {
        let number = Window::of(seen.time);
        let window = self.0.entry(number).or_insert(Window {
            number,
            count: 0,
            first: seen.offset,
        });
        window.count += 1;
        window.first = window.first.min(seen.offset);
        self.0 = self.0.split_off(&seen.given_out);
    }

    fn encode(&self, _max_bytes: usize) -> Option<Vec<u8>> {
        // Nothing to remember is a value as well, and a rider has at least a byte: so it is written as none.
        let bytes: Vec<u8> = self
            .iter()
            .flat_map(|window| {
                let mut bytes = window.number.to_be_bytes().to_vec();
                bytes.extend(window.count.to_be_bytes());
                bytes.extend(window.first.to_be_bytes());
                bytes
            })
            .collect();
        (!bytes.is_empty()).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(second: i64, offset: i64) -> Seen {
        Seen {
            time: second * 1_000,
            offset,
            given_out: 0,
        }
    }

    fn closed(windows: &Windows, offset: i64) -> Vec<(i64, u32)> {
        windows
            .closed(offset)
            .map(|window| (window.number, window.count))
            .collect()
    }

    #[test]
    fn a_window_is_final_once_the_offset_has_passed_into_a_later_one() {
        let mut windows = Windows::default();
        // Out of order: offset 2 is still to come, and belongs to the first window.
        for (second, offset) in [(1, 0), (12, 3), (2, 1), (13, 4)] {
            windows.apply(&seen(second, offset));
        }
        assert_eq!(closed(&windows, 2), []);
        windows.apply(&seen(3, 2));
        assert_eq!(closed(&windows, 3), [], "the offset has not passed it yet");
        assert_eq!(closed(&windows, 5), [(0, 3)]);
        windows.apply(&Seen {
            given_out: 1,
            ..seen(14, 5)
        });
        assert_eq!(
            windows
                .iter()
                .map(|window| window.number)
                .collect::<Vec<_>>(),
            [1]
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let mut windows = Windows::default();
        assert_eq!(windows.encode(100), None);
        for offset in 0..50 {
            windows.apply(&seen(offset, offset));
        }
        let rider = Rider::Present(windows.encode(765).expect("a rider"));
        assert_eq!(Windows::restore(&rider), Ok(windows));
        assert_eq!(Windows::restore(&Rider::None), Ok(Windows::default()));
        for lost in [Rider::Dropped, Rider::Unreadable, Rider::Present(vec![1])] {
            assert!(Windows::restore(&lost).is_err());
        }
    }
}
