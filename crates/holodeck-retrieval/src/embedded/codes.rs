//! The codes of all vectors in memory, as of one state of the index.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Transaction, types::ValueRef};

use super::database::DatabaseError;
use super::write::SEGMENT;
use crate::scan::{Bounds, Codes};

/// Vectors per block, roughly: large enough to amortise a block's overhead, small enough to rebuild cheaply.
const BLOCK: usize = 16_384;

/// Immutable; the next state shares the blocks that did not change.
pub(super) struct CodesInMemory {
    pub(super) generation: i64,
    dimensions: usize,
    pub(super) blocks: Vec<Arc<Block>>,
}

/// Contiguous codes of whole segments.
#[derive(Default)]
pub(super) struct Block {
    segments: Vec<Segment>,
    /// The row of the vector at a position.
    pub(super) rows: Vec<i64>,
    codes: Vec<i8>,
    bounds: Vec<Bounds>,
}

#[derive(Clone, Copy)]
struct Segment {
    first: i64,
    passages: usize,
}

impl CodesInMemory {
    /// The state of `transaction`, built from an older one where possible.
    pub(super) fn load(
        transaction: &Transaction<'_>,
        generation: i64,
        dimensions: usize,
        older: Option<&Self>,
    ) -> Result<Self, DatabaseError> {
        let wanted = segments(transaction)?;
        let mut blocks = Vec::new();
        let mut loaded = i64::MIN;
        let mut open = Block::default();
        for block in older
            .filter(|older| older.dimensions == dimensions)
            .iter()
            .flat_map(|older| &older.blocks)
        {
            // Row numbers are never reused, so every greater one is not loaded yet.
            loaded = block
                .segments
                .iter()
                .map(|segment| segment.first)
                .fold(loaded, i64::max);
            let live = |segment: &&Segment| wanted.contains(&segment.first);
            if block.rows.len() >= BLOCK / 2 && block.segments.iter().all(|segment| live(&segment)) {
                blocks.push(Arc::clone(block));
            } else {
                open.take(block, dimensions, live);
                open.close(&mut blocks);
            }
        }
        let mut statement = transaction.prepare_cached(
            "SELECT first, passages, codes, bounds FROM codes WHERE first > ? ORDER BY first",
        )?;
        let mut rows = statement.query([loaded])?;
        while let Some(row) = rows.next()? {
            let (ValueRef::Blob(codes), ValueRef::Blob(bounds)) = (row.get_ref(2)?, row.get_ref(3)?) else {
                return Err(DatabaseError::Damaged("codes of another type"));
            };
            let segment = Segment {
                first: row.get(0)?,
                passages: row.get(1)?,
            };
            open.push(segment, dimensions, codes, bounds)?;
            open.close(&mut blocks);
        }
        if !open.rows.is_empty() {
            blocks.push(Arc::new(open));
        }
        let found: usize = blocks.iter().map(|block| block.segments.len()).sum();
        if found != wanted.len() {
            return Err(DatabaseError::Damaged("codes are missing"));
        }
        Ok(Self {
            generation,
            dimensions,
            blocks,
        })
    }
}

/// The first row of every expected segment.
fn segments(transaction: &Transaction<'_>) -> Result<HashSet<i64>, DatabaseError> {
    let mut statement =
        transaction.prepare_cached("SELECT first, passages FROM sources WHERE passages > 0")?;
    let sources = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    let mut segments = HashSet::new();
    for source in sources {
        let (first, passages) = source?;
        segments.extend((first..first + passages).step_by(SEGMENT));
    }
    Ok(segments)
}

impl Block {
    pub(super) fn codes(&self) -> Codes<'_> {
        Codes {
            codes: &self.codes,
            bounds: &self.bounds,
        }
    }

    fn push(
        &mut self,
        segment: Segment,
        dimensions: usize,
        codes: &[u8],
        bounds: &[u8],
    ) -> Result<(), DatabaseError> {
        let (bounds, rest) = bounds.as_chunks::<8>();
        if codes.len() != segment.passages * dimensions
            || bounds.len() != segment.passages
            || !rest.is_empty()
        {
            return Err(DatabaseError::Damaged("codes of another length"));
        }
        if self.rows.is_empty() {
            self.reserve(BLOCK.min(segment.passages * 64), dimensions);
        }
        self.codes.extend(codes.iter().map(|code| code.cast_signed()));
        self.bounds
            .extend(bounds.iter().map(|[a, b, c, d, e, f, g, h]| Bounds {
                scale: f32::from_le_bytes([*a, *b, *c, *d]),
                error: f32::from_le_bytes([*e, *f, *g, *h]),
            }));
        self.number(segment);
        Ok(())
    }

    /// Appends the selected segments of another block.
    fn take(&mut self, other: &Self, dimensions: usize, wanted: impl Fn(&&Segment) -> bool) {
        let mut at = 0;
        for segment in &other.segments {
            let end = at + segment.passages;
            if wanted(&segment) {
                self.codes.extend_from_slice(
                    other
                        .codes
                        .get(at * dimensions..end * dimensions)
                        .unwrap_or_default(),
                );
                self.bounds
                    .extend_from_slice(other.bounds.get(at..end).unwrap_or_default());
                self.number(*segment);
            }
            at = end;
        }
    }

    fn number(&mut self, segment: Segment) {
        self.rows.extend((segment.first..).take(segment.passages));
        self.segments.push(segment);
    }

    fn reserve(&mut self, rows: usize, dimensions: usize) {
        self.rows.reserve(rows);
        self.bounds.reserve(rows);
        self.codes.reserve(rows * dimensions);
    }

    /// Moves a full block to the finished ones.
    fn close(&mut self, blocks: &mut Vec<Arc<Self>>) {
        if self.rows.len() >= BLOCK {
            blocks.push(Arc::new(std::mem::take(self)));
        }
    }
}
