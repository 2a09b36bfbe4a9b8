//! The steps, by what they are about, and which of them are enabled.

pub(crate) mod commit;
mod fetch;
mod foreign;
pub(crate) mod group;
pub(crate) mod log;
mod outputs;
mod pump;
mod time;
mod work;

use crate::invariants::Check;
use crate::world::World;

/// One step; numbers are members, partitions, runs, producers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Observe(usize),
    Produce(usize),
    ProduceMalformed(usize),
    Marker(usize),
    Compact(usize),

    Assign(usize),
    Revoke(usize, usize),
    Leave(usize, usize),
    Kick(usize),
    NoticeLoss(usize),
    Crash(usize),
    Restart(usize),
    LoseShard(usize),
    AcceptLoss,
    StopForGood(usize),

    Deliver(usize, usize),
    ReportPosition(usize, usize),
    ReadForeign(usize),
    ReadSuspects(usize),

    Start(usize, usize),
    Finish(usize, usize),
    AnswerOutput(usize, usize),

    Send(usize),
    Apply(usize),
    LoseAnswer(usize),
    Answer(usize),
    Land(usize),

    Tick(usize),
    Advance,
}

/// The steps that may come next, with their weights.
pub(crate) fn enabled(world: &World, into: &mut Vec<(Step, u32)>) {
    log::enabled(world, into);
    group::enabled(world, into);
    fetch::enabled(world, into);
    foreign::enabled(world, into);
    work::enabled(world, into);
    outputs::enabled(world, into);
    commit::enabled(world, into);
    time::enabled(world, into);
}

/// Takes a step.
pub(crate) fn take(world: &mut World, step: Step) -> Check {
    match step {
        Step::Observe(producer) => log::observe(world, producer),
        Step::Produce(producer) => log::produce(world, producer),
        Step::ProduceMalformed(p) => log::produce_malformed(world, p),
        Step::Marker(chan) => log::marker(world, chan),
        Step::Compact(chan) => log::compact(world, chan),
        Step::Assign(p) => group::assign(world, p),
        Step::Revoke(m, p) => group::revoke(world, m, p),
        Step::Leave(m, p) => group::leave(world, m, p),
        Step::Kick(m) => group::kick(world, m),
        Step::NoticeLoss(m) => group::notice_loss(world, m),
        Step::Crash(m) => group::crash(world, m),
        Step::Restart(m) => group::restart(world, m),
        Step::LoseShard(p) => group::lose_shard(world, p),
        Step::AcceptLoss => group::accept_loss(world),
        Step::StopForGood(m) => group::stop_for_good(world, m),
        Step::Deliver(m, p) => fetch::deliver(world, m, p),
        Step::ReportPosition(m, p) => fetch::report_position(world, m, p),
        Step::ReadForeign(m) => foreign::read(world, m),
        Step::ReadSuspects(m) => foreign::read_suspects(world, m),
        Step::Start(m, r) => work::start(world, m, r),
        Step::Finish(m, r) => work::finish(world, m, r),
        Step::AnswerOutput(m, i) => outputs::answer(world, m, i),
        Step::Send(m) => commit::send(world, m),
        Step::Apply(m) => commit::apply(world, m),
        Step::LoseAnswer(m) => commit::lose_answer(world, m),
        Step::Answer(m) => commit::answer(world, m),
        Step::Land(i) => commit::land(world, i),
        Step::Tick(m) => time::tick(world, m),
        Step::Advance => time::advance(world),
    }
}
