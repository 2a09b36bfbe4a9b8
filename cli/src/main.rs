#![doc = include_str!("../README.md")]

mod blocks;
mod causes;
mod cluster;
mod codec;
mod dead_letters;
mod exit;
mod group;
mod metadata;
mod properties;
mod refusal;
mod run;
mod units;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// What is logged unless `RUST_LOG` says otherwise.
const DEFAULT_LOG: &str = "warn,keyway=info";

/// Process a Kafka consumer group's records many at a time while each key stays in order.
///
/// Exits with 0 for success, 1 for a negative finding and 2 for bad usage or bad input. Diagnostics go to stderr;
/// the variable RUST_LOG says which.
#[derive(Debug, Parser)]
#[command(name = "keyway", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Nothing but JSON: no progress, no table
    #[arg(long, global = true, display_order = 1000)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read or write the metadata string beside a committed offset
    #[command(subcommand)]
    Metadata(metadata::Command),
    /// Read or write a header block: an ordered list of names and values
    #[command(subcommand)]
    Headers(blocks::headers::Command),
    /// Read or write a record block: a record with its headers under one checksum
    #[command(subcommand)]
    Record(blocks::record::Command),
    /// Read or write the header that says what a record was caused by
    #[command(subcommand)]
    Causes(causes::Command),
    /// Look into a consumer group of a cluster, and change what a stopped one has committed
    #[command(subcommand)]
    Group(group::Command),
    /// See what lies in a dead-letter topic, and send it back
    #[command(subcommand)]
    DeadLetters(dead_letters::Command),
    Run(Box<run::Args>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr();
    match cli.command {
        Command::Metadata(command) => metadata::execute(command),
        Command::Headers(command) => blocks::headers::execute(command),
        Command::Record(command) => blocks::record::execute(command),
        Command::Causes(command) => causes::execute(command),
        Command::Group(command) => group::execute(&command, cli.json),
        Command::DeadLetters(command) => dead_letters::execute(&command, cli.json),
        Command::Run(args) => run::execute(*args, cli.json),
    }
}

fn log_to_stderr() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_LOG));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .init();
}
