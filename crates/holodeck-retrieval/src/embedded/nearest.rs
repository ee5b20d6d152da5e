//! Nearest vectors: scans the codes, then compares the remaining vectors.

use std::sync::{Arc, PoisonError};

use rusqlite::{OptionalExtension as _, Transaction};

use super::allowed::generation;
use super::codes::CodesInMemory;
use super::database::DatabaseError;
use super::{Inner, read, write};
use crate::scan::{Probe, Sieve, product};
use crate::{Filter, RetrievalError, Scored};

pub(super) fn nearest(
    inner: &Inner,
    transaction: &Transaction<'_>,
    query: &[f32],
    limit: usize,
    filter: &Filter,
) -> Result<Vec<Scored>, DatabaseError> {
    let Some(info) = write::info(transaction)? else {
        return Ok(Vec::new());
    };
    if query.len() != info.dimensions {
        let (query, index) = (query.len(), info.dimensions);
        let reason = format!("the query's vector has {query} dimensions, the index has {index}");
        return Err(RetrievalError::Query(reason).into());
    }
    let codes = codes(inner, transaction, info.dimensions)?;
    let allowed = inner.filters.allowed(transaction, filter)?;
    let probe = Probe::new(query);
    let mut sieve = Sieve::new(limit);
    for block in &codes.blocks {
        sieve.scan(&probe, block.codes(), |place| {
            block.rows.get(place).copied().filter(|row| allowed.passes(*row))
        });
    }
    let mut statement = transaction.prepare_cached("SELECT vector FROM vectors WHERE row = ?")?;
    let mut vector = Vec::new();
    let mut found = Vec::new();
    for row in sieve.candidates() {
        let read = statement.query_row([row], |found| {
            Ok(read::read_numbers(found.get_ref(0)?.as_blob()?, &mut vector))
        });
        read.optional()?
            .ok_or(DatabaseError::Damaged("a vector is missing"))??;
        if vector.len() != query.len() {
            return Err(DatabaseError::Damaged("a vector of another length"));
        }
        found.push((row, product(query, &vector).clamp(-1.0, 1.0)));
    }
    read::best(transaction, found, limit)
}

/// The codes as of this transaction.
fn codes(
    inner: &Inner,
    transaction: &Transaction<'_>,
    dimensions: usize,
) -> Result<Arc<CodesInMemory>, DatabaseError> {
    let generation = generation(transaction)?;
    let last = || inner.codes.lock().unwrap_or_else(PoisonError::into_inner);
    let older = last().clone();
    if let Some(codes) = older.as_ref().filter(|codes| codes.generation == generation) {
        return Ok(Arc::clone(codes));
    }
    let codes = Arc::new(CodesInMemory::load(
        transaction,
        generation,
        dimensions,
        older.as_deref(),
    )?);
    *last() = Some(Arc::clone(&codes));
    Ok(codes)
}
