//! A source of ids, which tests replace.

use uuid::Uuid;

/// A source of ids.
pub trait Ids: Send + Sync {
    /// A new id, UUID v4.
    fn next(&self) -> Uuid;
}

/// Random ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn next(&self) -> Uuid {
        Uuid::new_v4()
    }
}
