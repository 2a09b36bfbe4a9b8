//! The steps, by what they are about, and which of them are enabled.

pub(crate) mod commit;
pub(crate) mod fetch;
pub(crate) mod group;
mod letters;
mod log;
mod outputs;
mod pump;
mod time;
pub(crate) mod transactions;
mod work;

use crate::invariants::Check;
use crate::world::World;

/// One step; numbers are members, partitions, runners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Produce(usize),
    Marker(usize),
    Compact(usize),
    Retain(usize),

    Assign(usize),
    Revoke(usize),
    Leave(usize, usize),
    Kick(usize),
    NoticeLoss(usize),
    Crash(usize),
    Restart(usize),
    Drain(usize),
    Stop(usize),
    StopFurther(usize),

    Fetch(usize, usize),
    Deliver(usize, usize),
    Release(usize, usize),
    Pause(usize, usize),
    Resume(usize, usize),

    Take(usize, usize),
    Finish(usize, usize),
    Flush(usize, usize),
    Report(usize, usize),
    TakeBack(usize, usize),
    Resize(usize, usize),

    AcknowledgeOutputs(usize, usize),
    FailOutputs(usize, usize),

    WriteLetter(usize, usize),
    FailLetter(usize, usize),

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
    work::enabled(world, into);
    outputs::enabled(world, into);
    letters::enabled(world, into);
    commit::enabled(world, into);
    time::enabled(world, into);
}

/// Takes a step.
pub(crate) fn take(world: &mut World, step: Step) -> Check {
    match step {
        Step::Produce(p) => log::produce(world, p),
        Step::Marker(p) => log::marker(world, p),
        Step::Compact(p) => log::compact(world, p),
        Step::Retain(p) => log::retain(world, p),
        Step::Assign(p) => group::assign(world, p),
        Step::Revoke(p) => group::revoke(world, p),
        Step::Leave(m, p) => group::leave(world, m, p),
        Step::Kick(m) => group::kick(world, m),
        Step::NoticeLoss(m) => group::notice_loss(world, m),
        Step::Crash(m) => group::crash(world, m),
        Step::Restart(m) => group::restart(world, m),
        Step::Drain(m) => group::drain(world, m),
        Step::Stop(m) => {
            group::begin_stop(world, m);
            Ok(())
        }
        Step::StopFurther(m) => group::stop_further(world, m),
        Step::Fetch(m, p) => fetch::fetch(world, m, p),
        Step::Deliver(m, p) => fetch::deliver(world, m, p),
        Step::Release(m, p) => fetch::release(world, m, p),
        Step::Pause(m, p) => fetch::pause(world, m, p),
        Step::Resume(m, p) => fetch::resume(world, m, p),
        Step::Take(m, r) => work::take(world, m, r),
        Step::Finish(m, r) => work::finish(world, m, r),
        Step::Flush(m, r) => {
            world.members[m].runners[r].send();
            Ok(())
        }
        Step::Report(m, r) => work::report(world, m, r),
        Step::TakeBack(m, r) => work::take_back(world, m, r),
        Step::Resize(m, route) => work::resize(world, m, route),
        Step::AcknowledgeOutputs(m, i) => outputs::acknowledge(world, m, i),
        Step::FailOutputs(m, i) => outputs::fail(world, m, i),
        Step::WriteLetter(m, i) => letters::write(world, m, i),
        Step::FailLetter(m, i) => letters::fail(world, m, i),
        Step::Send(m) => commit::send(world, m),
        Step::Apply(m) => commit::apply(world, m),
        Step::LoseAnswer(m) => commit::lose_answer(world, m),
        Step::Answer(m) => commit::answer(world, m),
        Step::Land(i) => commit::land(world, i),
        Step::Tick(m) => time::tick(world, m),
        Step::Advance => {
            time::advance(world);
            Ok(())
        }
    }
}
