//! One answer: an object with `ok`, and for a refusal the fault's name and the fault in words.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::exit;

/// The name of a fault in the request itself.
const BAD_INPUT: &str = "bad_input";

/// Why there is no answer.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal {
    ok: False,
    error: &'static str,
    detail: String,
    /// What could be read all the same.
    #[serde(flatten)]
    besides: Map<String, Value>,
}

impl Refusal {
    /// The request is not one.
    pub(crate) fn bad_input(detail: impl ToString) -> Self {
        Self::new(BAD_INPUT, detail)
    }

    /// A fault that has a name.
    pub(crate) fn new(error: &'static str, detail: impl ToString) -> Self {
        Self {
            ok: False,
            error,
            detail: detail.to_string(),
            besides: Map::new(),
        }
    }

    /// Tells what could be read all the same.
    pub(crate) fn beside(mut self, name: &str, found: Value) -> Self {
        self.besides.insert(name.to_owned(), found);
        self
    }
}

/// `true`, as the type of an answer's `ok`.
#[derive(Debug)]
pub(crate) struct True;

/// `false`, as the type of a refusal's `ok`.
#[derive(Debug)]
struct False;

impl Serialize for True {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(true)
    }
}

impl Serialize for False {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(false)
    }
}

/// Writes the answer, or the refusal in its place, as one line.
pub(super) fn write(
    out: &mut impl Write,
    answer: &Result<impl Serialize, Refusal>,
) -> io::Result<()> {
    match answer {
        Ok(answer) => serde_json::to_writer(&mut *out, answer)?,
        Err(refusal) => serde_json::to_writer(&mut *out, refusal)?,
    }
    out.write_all(b"\n")
}

/// The one answer of a command without `--lines`.
pub(super) fn once(answer: Result<impl Serialize, Refusal>) -> ExitCode {
    match write(&mut io::stdout().lock(), &answer) {
        Ok(()) if answer.is_ok() => exit::SUCCESS,
        Ok(()) => exit::bad_input(),
        Err(error) => unwritten(&error),
    }
}

/// The answers of a command that was asked for many.
pub(super) fn all<A: Serialize>(answers: impl Iterator<Item = Result<A, Refusal>>) -> ExitCode {
    let mut output = BufWriter::new(io::stdout().lock());
    let mut code = exit::SUCCESS;
    for answer in answers {
        if answer.is_err() {
            code = exit::bad_input();
        }
        if let Err(error) = write(&mut output, &answer) {
            return unwritten(&error);
        }
    }
    match output.flush() {
        Ok(()) => code,
        Err(error) => unwritten(&error),
    }
}

/// Nobody hears the answers any more.
pub(super) fn unwritten(error: &io::Error) -> ExitCode {
    if error.kind() != io::ErrorKind::BrokenPipe {
        eprintln!("keyway: stdout can't be written: {error}");
    }
    exit::negative()
}
