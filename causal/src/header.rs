//! The header that carries causes, among a record's others.

use thiserror::Error;

use crate::error::CausesError;
use crate::view::CausesView;

/// The name of the header. Exactly so: names have no case to be folded.
pub const HEADER: &str = "parsley.causes";

/// What the names of an application's headers must not begin with.
pub const RESERVED_PREFIX: &str = "parsley.";

/// Whether an application must not use this name for a header of its own.
pub fn is_reserved(name: impl AsRef<[u8]>) -> bool {
    name.as_ref().starts_with(RESERVED_PREFIX.as_bytes())
}

/// A header of the application's own has a name that begins with [`RESERVED_PREFIX`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the record has a header `{name}`, and names that begin with `{RESERVED_PREFIX}` are reserved: leave it out"
)]
pub struct ReservedHeader {
    /// Its name; what is not UTF-8 in it is U+FFFD.
    pub name: String,
}

/// Whether an application's headers may have these names.
///
/// # Errors
/// When one of them is reserved; the first such.
pub fn check_names<N: AsRef<[u8]>>(
    names: impl IntoIterator<Item = N>,
) -> Result<(), ReservedHeader> {
    match names.into_iter().find(|name| is_reserved(name)) {
        None => Ok(()),
        Some(name) => Err(ReservedHeader {
            name: String::from_utf8_lossy(name.as_ref()).into_owned(),
        }),
    }
}

/// The causes that a record's headers, names and values, carry. `None` when there is no such header: a record without
/// causes.
///
/// # Errors
/// When there is one that can't be read, or more than one: that is never the same as none.
pub fn find_causes<'a, I, N>(headers: I) -> Result<Option<CausesView<'a>>, CausesError>
where
    I: IntoIterator<Item = (N, Option<&'a [u8]>)>,
    N: AsRef<[u8]>,
{
    let mut values = headers
        .into_iter()
        .filter(|(name, _)| name.as_ref() == HEADER.as_bytes())
        .map(|(_, value)| value);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(CausesError::DuplicateHeader);
    }
    CausesView::parse(value.ok_or(CausesError::NullValue)?).map(Some)
}
