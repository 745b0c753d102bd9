//! How events are told in a trace. Says nothing that a watcher could not see, and no secrets.

use leasehold_state_machine::event::Event;

use crate::invariants::Committed;
use crate::world::World;

/// Tells durable events.
pub fn tell_events(world: &mut World, events: &[Committed]) {
    for Committed { seq, event, .. } in events {
        let words = match event {
            Event::Granted { ticket, token, ask, .. } => {
                format!("{} {} to {} place={ticket} token={token}", ask.resource, ask.mode.text(), ask.owner)
            }
            Event::Queued { ticket, wait, ask } => {
                format!(
                    "{} {} for {} place={ticket} wait={}ms",
                    ask.resource,
                    ask.mode.text(),
                    ask.owner,
                    wait.ms()
                )
            }
            Event::Dequeued { ticket, resource, owner, why, .. } => {
                format!("{resource} for {owner} place={ticket} because of {}", why.text())
            }
            Event::Updated { lease, ttl, .. } => format!(
                "{} token={}{}",
                lease.resource,
                lease.token,
                ttl.map_or(String::new(), |ttl| format!(" ttl={}ms", ttl.ms()))
            ),
            Event::Released { lease, why } => {
                format!("{} token={} because of {}", lease.resource, lease.token, why.text())
            }
            Event::Expired { lease } => format!("{} token={}", lease.resource, lease.token),
            Event::Broken { lease, force, .. } => {
                let how = if *force { " by force" } else { "" };
                format!("{} token={}{how}", lease.resource, lease.token)
            }
            Event::SessionOpened { owner, ttl, .. } => format!("of {owner} ttl={}ms", ttl.ms()),
            Event::SessionEnded { owner, how, .. } => format!("of {owner}: {how:?}"),
            Event::Horizon { until_raw_us, length_us } => {
                format!("until raw={until_raw_us}us length={}ms", length_us / 1000)
            }
            Event::Cancelled { found, .. } => format!("found {}", found.text()),
            Event::BreakAnswered { tokens, .. } => format!("{tokens:?}"),
            Event::FileWritten { number, name, lease, offset, bytes, .. } => format!(
                "{name} ({number}) {} bytes at {offset} under {} token={}",
                bytes.len(),
                lease.resource,
                lease.token
            ),
            Event::FileDeleted { number, name, lease, .. } => {
                format!("{name} ({number}) under {} token={}", lease.resource, lease.token)
            }
            Event::Seen { through, .. } => format!("through={through}"),
            _ => String::new(),
        };
        world.tell("journal", || format!("event {seq}: {} {words}", event.type_text()));
    }
}
