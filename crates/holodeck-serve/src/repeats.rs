//! Counts what clients can repeat as often as they like, so that the log has a line a minute and not one each time.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How often what repeats is said again.
const REPEAT: Duration = Duration::from_mins(1);

/// Addresses that are counted apart.
const ADDRESSES: usize = 1024;

/// The address of a client, or of the proxy in front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The counts, by address.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<HashMap<(Kind, Option<IpAddr>), Seen>>);

/// The kinds that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Requests without a valid token.
    RefusedToken,
    /// Clients that took no data for too long.
    SlowReader,
    /// Connections beyond the limit.
    TooManyConnections,
}

#[derive(Debug)]
struct Seen {
    /// Since the last line.
    count: u64,
    said_at: Instant,
}

impl Kind {
    fn say(self, address: Option<IpAddr>, count: u64) {
        let address = address.map_or_else(|| "(several)".to_owned(), |address| address.to_string());
        match self {
            Self::RefusedToken => {
                tracing::warn!(address, count, "refused requests without a valid token");
            }
            Self::SlowReader => tracing::warn!(count, "disconnected clients that took no data for too long"),
            Self::TooManyConnections => {
                tracing::warn!(
                    count,
                    "all connections are in use: only /health and /ready are answered"
                );
            }
        }
    }
}

impl Repeats {
    /// Takes in one. The first of an address is said at once, further ones with the next minute.
    pub(crate) fn note(&self, kind: Kind, address: Option<IpAddr>) {
        let mut seen = self.seen();
        let is_known = seen.contains_key(&(kind, address));
        let key = if is_known || seen.len() < ADDRESSES {
            (kind, address)
        } else {
            (kind, None)
        };
        if let Some(known) = seen.get_mut(&key) {
            known.count = known.count.saturating_add(1);
            return;
        }
        let said = Seen {
            count: 0,
            said_at: Instant::now(),
        };
        seen.insert(key, said);
        kind.say(key.1, 1);
    }

    /// Says what was counted since the last line, and forgets what has not been repeated.
    pub(crate) fn say(&self, every: Duration) {
        self.seen().retain(|(kind, address), seen| {
            if seen.said_at.elapsed() < every {
                return true;
            }
            let is_repeated = seen.count > 0;
            if is_repeated {
                kind.say(*address, seen.count);
            }
            seen.count = 0;
            seen.said_at = Instant::now();
            is_repeated
        });
    }

    /// Says what was counted, again and again.
    pub(crate) async fn keep_saying(&self) -> Infallible {
        loop {
            sleep(REPEAT / 4).await;
            self.say(REPEAT);
        }
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<(Kind, Option<IpAddr>), Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attack_has_a_line_a_minute_and_bounded_memory() {
        let repeats = Repeats::default();
        for address in 0..3_000_u32 {
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + address));
            for _ in 0..3 {
                repeats.note(Kind::RefusedToken, Some(address));
            }
        }
        // One more for all others.
        assert_eq!(repeats.seen().len(), ADDRESSES + 1);
        let others = repeats.seen()[&(Kind::RefusedToken, None)].count;
        assert_eq!(others, (3_000 - ADDRESSES as u64) * 3 - 1);
        let first = (Kind::RefusedToken, Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0))));
        assert_eq!(repeats.seen()[&first].count, 2);
        repeats.say(REPEAT);
        assert_eq!(repeats.seen()[&first].count, 2);
        tokio::time::advance(REPEAT).await;
        repeats.say(REPEAT);
        assert_eq!(repeats.seen()[&first].count, 0);
        tokio::time::advance(REPEAT).await;
        repeats.say(REPEAT);
        assert_eq!(repeats.seen().len(), 0);
    }
}
