//! Compares a replay with the first delivery, byte by byte.

use std::collections::{HashMap, HashSet};

use holodeck_model::events::{AgentEvent, EventClass};

use super::{Findings, Invariant, Violation};

/// Compares a replay with the first delivery of the same session, both as the JSON that was sent: HD-2. A replay may
/// begin and end anywhere, and chunks may be missing.
pub fn replay_violations(first: &[&str], replay: &[&str]) -> serde_json::Result<Vec<Violation>> {
    let first = lines(first)?;
    let replay = lines(replay)?;
    let mut findings = Findings::default();
    let by_id: HashMap<_, _> = first
        .iter()
        .map(|line| (line.event.meta.event_id, line))
        .collect();
    let by_index: HashMap<_, _> = first
        .iter()
        .filter_map(|line| Some((line.index()?, line)))
        .collect();
    for (line, at) in replay.iter().zip(0..) {
        findings.at = Some(at);
        let known = by_id.get(&line.event.meta.event_id);
        let known = known.or_else(|| by_index.get(&line.index()?));
        if known.is_some_and(|known| known.json != line.json && (known.is_stored() || line.is_stored())) {
            findings.add(Invariant::Hd2, format!("a `{}` differs", line.event.body.kind()));
        }
    }
    let replayed: HashSet<_> = replay.iter().map(|line| line.event.meta.event_id).collect();
    let indices = || replay.iter().filter_map(Line::index);
    let (from, to) = (indices().min(), indices().max());
    findings.at = None;
    for line in first.iter().filter(|line| line.is_stored()) {
        let within = line
            .index()
            .is_some_and(|index| from <= Some(index) && Some(index) <= to);
        let shown = replayed.contains(&line.event.meta.event_id)
            || replay.iter().any(|other| other.index() == line.index());
        if within && !shown {
            findings.add(
                Invariant::Hd2,
                format!("a `{}` is missing", line.event.body.kind()),
            );
        }
    }
    Ok(findings.all)
}

struct Line<'a> {
    json: &'a str,
    event: AgentEvent,
}

impl Line<'_> {
    fn index(&self) -> Option<u64> {
        self.event.meta.event_index
    }

    fn is_stored(&self) -> bool {
        self.event.body.class() != Some(EventClass::Journaled)
    }
}

fn lines<'a>(lines: &[&'a str]) -> serde_json::Result<Vec<Line<'a>>> {
    let read = |json: &&'a str| {
        Ok(Line {
            json,
            event: serde_json::from_str(json)?,
        })
    };
    lines.iter().map(read).collect()
}
