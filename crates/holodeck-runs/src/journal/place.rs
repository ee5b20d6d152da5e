//! The lines of a journal and their positions.

use std::num::NonZeroU32;

use holodeck_eval::JudgedLine;
use holodeck_model::Adaptation;
use serde::{Deserialize, Serialize};

use super::chain::LineDigest;
use crate::RunEnd;

/// Every line after the first.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<R, G> {
    /// A unit, before grading.
    Ran(R),
    /// Its verdict.
    Graded(G),
    /// A call of a judge, before its unit has a verdict.
    Judged(Box<JudgedLine>),
    /// A warning that concerns every verdict; a resumed run may add more.
    Warning(String),
    /// A part of requests to a model that its endpoint refused.
    Adapted(Adaptation),
    End(End),
}

/// The last line of a run that was not killed.
#[derive(Serialize, Deserialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) ended: RunEnd,
    pub(super) at: String,
    /// How many lines there are before it; 0 in journals without digests.
    #[serde(default)]
    pub(super) lines: usize,
    /// The digest of these lines.
    #[serde(default)]
    pub(super) digest: String,
}

/// The positions of the lines of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) ran: Option<LinePosition>,
    pub(super) graded: Option<LinePosition>,
}

impl Place {
    pub(super) fn has_run(&self) -> bool {
        self.ran.is_some()
    }

    pub(super) fn is_graded(&self) -> bool {
        self.graded.is_some()
    }
}

/// The position of a line in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, NonZeroU32, u128)", into = "(u64, NonZeroU32, u128)")]
pub(super) struct LinePosition {
    pub(super) offset: u64,
    /// Never 0, so that an absent position takes no more memory.
    pub(super) length: NonZeroU32,
    /// Of the line alone, by which a change is found when it is read.
    pub(super) digest: LineDigest,
}

impl LinePosition {
    /// Its end in the file.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.length.get()))
    }
}

impl From<(u64, NonZeroU32, u128)> for LinePosition {
    fn from((offset, length, digest): (u64, NonZeroU32, u128)) -> Self {
        Self {
            offset,
            length,
            digest: digest.to_be_bytes(),
        }
    }
}

impl From<LinePosition> for (u64, NonZeroU32, u128) {
    fn from(position: LinePosition) -> Self {
        let digest = u128::from_be_bytes(position.digest);
        (position.offset, position.length, digest)
    }
}

/// The length of a line with its end.
pub(super) fn length_of(line: &[u8]) -> std::io::Result<NonZeroU32> {
    let length = u32::try_from(line.len()).ok().and_then(NonZeroU32::new);
    length.ok_or_else(|| std::io::ErrorKind::FileTooLarge.into())
}
