//! What the measurements share: their arguments, and medians.

use std::collections::BTreeMap;

/// The numbers that a measurement was asked for, by name, over its defaults: `--records 1000`.
///
/// # Panics
/// At a name that has no default, and at what is no number.
pub fn numbers<const N: usize>(defaults: [(&'static str, u64); N]) -> BTreeMap<&'static str, u64> {
    let mut numbers = BTreeMap::from(defaults);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    for pair in arguments.chunks(2) {
        let [name, value] = pair else {
            panic!("{} has no value", pair[0])
        };
        let known: Vec<_> = numbers.keys().copied().collect();
        let number = name
            .strip_prefix("--")
            .and_then(|name| numbers.get_mut(name))
            .unwrap_or_else(|| panic!("no such option: {name}; there are {known:?}"));
        *number = value
            .parse()
            .unwrap_or_else(|_| panic!("{name} {value}: a number"));
    }
    numbers
}

/// The value in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
