//! A child and the pipes to it.

use std::io;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::Arc;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// Longest answer, its end included: a record with outputs of librdkafka's largest size, as text.
const LONGEST_ANSWER_BYTES: u64 = 4 * 1024 * 1024;

/// A child that is talked to. Its pipes are closed on exec, so that none of its siblings holds them open.
#[derive(Debug)]
pub(super) struct Talk {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    pub(super) group: Arc<Group>,
    /// It has named the offset of a record in an answer.
    pub(super) names: bool,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) reason: String,
    /// Nothing of the question was read.
    pub(super) unread: bool,
}

impl Talk {
    pub(super) fn start(command: &str) -> Result<Self, String> {
        // A group of its own: a terminal's ^C drains the engine, and must not reach the children before that.
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the child can't be started: {error}"))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the child has no pipes".to_owned());
        };
        Ok(Self {
            stdin,
            stdout: BufReader::new(stdout),
            group: Arc::new(Group { child }),
            names: false,
        })
    }

    /// Whether it has said more than its last answer. Asks the system and not the runtime, whose knowledge of a pipe is as
    /// old as its last turn.
    pub(super) fn has_spoken(&self) -> bool {
        !self.stdout.buffer().is_empty() || waiting(self.stdout.get_ref()) > 0
    }

    /// Hands over the question and listens at the same time: a child that answers while it reads would wait for both.
    pub(super) async fn ask(&mut self, question: &[u8]) -> Result<Vec<u8>, Broken> {
        let Self { stdin, stdout, .. } = self;
        let mut handed = 0;
        let hand = async {
            while let rest @ [_, ..] = &question[handed..] {
                let taken = stdin.write(rest).await;
                handed += taken.map_err(|error| format!("the child does not read: {error}"))?;
            }
            Ok(())
        };
        match tokio::try_join!(hear(stdout), hand) {
            Ok((answer, ())) => Ok(answer),
            Err(reason) => Err(Broken {
                reason,
                unread: waiting(&self.stdin) == handed as u64,
            }),
        }
    }
}

/// A line, without its end.
async fn hear(stdout: &mut BufReader<ChildStdout>) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut bounded = stdout.take(LONGEST_ANSWER_BYTES);
    let read: io::Result<usize> = bounded.read_until(b'\n', &mut answer).await;
    read.map_err(|error| format!("the child can't be read: {error}"))?;
    match answer.pop() {
        Some(b'\n') => Ok(answer),
        _ if answer.len() as u64 + 1 == LONGEST_ANSWER_BYTES => Err(format!(
            "an answer of more than {LONGEST_ANSWER_BYTES} bytes"
        )),
        _ => Err("the child ended before its answer did".to_owned()),
    }
}

/// Bytes in a pipe that nobody has read, at whichever end; 0 where the system can't tell.
fn waiting(pipe: impl AsFd) -> u64 {
    ioctl_fionread(pipe).unwrap_or(0)
}

/// A child with what it has started, killed together when dropped. It is not waited for until then, so that its number
/// is no other's.
#[derive(Debug)]
pub(super) struct Group {
    child: Child,
}

impl Group {
    fn pid(&self) -> Option<Pid> {
        let id = self.child.id()?;
        Pid::from_raw(i32::try_from(id).ok()?)
    }

    pub(super) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let Some(pid) = self.pid() else { return true };
        !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
    }

    pub(super) fn kill(&self) {
        if let Some(pid) = self.pid() {
            // What is gone already is no fault.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
