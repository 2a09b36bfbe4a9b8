//! `--lines`: a request a line, an answer a line, in order.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::{self, Refusal};
use crate::exit;

/// Answers stdin on stdout until stdin ends.
pub(super) fn serve<Q: DeserializeOwned, A: Serialize>(
    codec: impl Fn(Q) -> Result<A, Refusal>,
) -> ExitCode {
    match answer_all(io::stdin().lock(), io::stdout().lock(), codec) {
        Ok(()) => exit::SUCCESS,
        Err(error) => answer::unwritten(&error),
    }
}

fn answer_all<Q: DeserializeOwned, A: Serialize>(
    input: impl Read,
    output: impl Write,
    codec: impl Fn(Q) -> Result<A, Refusal>,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut output = BufWriter::new(output);
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        answer::write(&mut output, &request(&line).and_then(&codec))?;
        line.clear();
        // Whoever asks one at a time gets an answer before the next question.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}

fn request<Q: DeserializeOwned>(line: &[u8]) -> Result<Q, Refusal> {
    // Serde reads a struct from an array as well; the contract has objects only.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(Refusal::bad_input("the line is not a JSON object"));
    }
    serde_json::from_slice(line).map_err(Refusal::bad_input)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Question {
        n: i64,
    }

    fn answers(input: &[u8]) -> Vec<String> {
        let mut output = Vec::new();
        answer_all(input, &mut output, |question: Question| Ok(question.n + 1)).unwrap();
        let output = String::from_utf8(output).unwrap();
        output.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_line_has_one_answer_in_order() {
        let answers = answers(b"{\"n\":1}\nnonsense\n{\"n\":3}\r\n\n{\"n\":5}");
        assert_eq!(answers.len(), 5);
        assert_eq!((&*answers[0], &*answers[2], &*answers[4]), ("2", "4", "6"));
        for line in [1, 3] {
            assert!(answers[line].starts_with(r#"{"ok":false,"error":"bad_input","detail":"#));
        }
    }

    #[test]
    fn only_objects_are_requests() {
        for line in [
            "[1]",
            "1",
            "null",
            "\"n\"",
            "",
            "{",
            "{}",
            "{\"n\":1} x",
            "{\"n\":1,\"n\":2}",
            "{\"n\":1.0}",
        ] {
            let answer = &answers(format!("{line}\n").as_bytes())[0];
            assert!(answer.contains("\"bad_input\""), "{line}: {answer}");
        }
        assert!(answers(b"{\"n\":\"\xff\"}\n")[0].contains("bad_input"));
        assert!(answers(b"").is_empty());
    }
}
