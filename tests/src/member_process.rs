//! An engine in a process of its own (`examples/member.rs`): its memory and its processor time are the engine's alone,
//! and it may die.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command;
use crate::wait;

/// The kernel's ticks of processor time in a second, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// The process; killed when dropped.
#[derive(Debug)]
pub struct MemberProcess {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl MemberProcess {
    /// Starts it with these arguments, `name=value` each.
    pub fn start(arguments: &[String]) -> Self {
        let mut child = Command::new(command::member())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built a moment ago");
        let orders = child.stdin.take();
        let answers = child.stdout.take().expect("it is piped");
        Self {
            child,
            orders,
            answers: BufReader::new(answers),
        }
    }

    /// Tells it something that has no answer.
    pub fn tell(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it was not stopped");
        writeln!(orders, "{order}").expect("it lives");
    }

    /// What its engine says of itself.
    pub fn status(&mut self) -> Value {
        self.tell("status");
        self.answer()
    }

    /// Waits until its status is as `condition` says.
    #[track_caller]
    pub fn until(
        &mut self,
        what: &str,
        at_most: Duration,
        condition: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let met = wait::try_until(at_most, || {
            last = self.status();
            condition(&last).then_some(())
        });
        assert!(
            met.is_some(),
            "waited {at_most:?} in vain for: {what}: {last}"
        );
        last
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).expect("it writes text");
        assert!(read > 0, "it ended: {:?}", self.child.try_wait());
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Resident memory now, in bytes.
    pub fn resident(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The most resident memory that it ever had, in bytes.
    pub fn most_resident(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, name: &str) -> u64 {
        let status = self.read_proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB"));
        let kib: u64 = kib
            .and_then(|digits| digits.parse().ok())
            .expect("a figure in kB");
        kib * 1_024
    }

    /// Share of a core that it takes over at least `window`.
    pub fn share_of_a_core(&self, window: Duration) -> f64 {
        let (before, began) = (self.ticks(), Instant::now());
        wait::until("the window's end", window * 2, || {
            (began.elapsed() >= window).then_some(())
        });
        let (ticks, took) = (self.ticks() - before, began.elapsed());
        ticks as f64 / TICKS_A_SECOND / took.as_secs_f64()
    }

    /// Processor time so far, in the kernel's ticks.
    fn ticks(&self) -> u64 {
        let stat = self.read_proc("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("a stat line");
        let fields: Vec<&str> = fields.split(' ').collect();
        let number = |index: usize| fields[index].parse::<u64>().expect("a number");
        number(11) + number(12)
    }

    fn read_proc(&self, file: &str) -> String {
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(path).expect("a Linux, and it lives")
    }

    /// Kills it with SIGKILL and waits until it is gone.
    pub fn kill(mut self) {
        let ended = self.child.try_wait().expect("it is our child");
        assert_eq!(ended, None, "it ended by itself");
        self.child.kill().expect("it is our child");
        self.child.wait().expect("it is our child");
    }

    /// Stops it as SIGSTOP does, and waits until it stands still. Meanwhile it answers nothing.
    pub fn pause(&self) {
        command::pause(&self.child);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        command::signal(&self.child, "CONT");
    }

    /// Waits until it has died by itself.
    #[track_caller]
    pub fn died(mut self, at_most: Duration) -> ExitStatus {
        wait::until("its death", at_most, || {
            self.child.try_wait().expect("it is our child")
        })
    }

    /// Stops it in good order; its report.
    #[track_caller]
    pub fn stop(mut self) -> Value {
        drop(self.orders.take());
        let report = self.answer();
        let status = self.child.wait().expect("it is our child");
        assert!(status.success(), "{status}: {report}");
        report
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        // Fails when it has ended, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
