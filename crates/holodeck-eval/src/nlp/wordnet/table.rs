//! A hash table that is built once and read in place, without loading.
//!
//! `build.rs` writes it and the crate reads it, so both compile this file. All numbers are little-endian:
//!
//! ```text
//! u32 slot count (a power of two)   u32 × slots: offset of the entry, 0 = empty
//! entry: u8 key length, key, u16 value length, value
//! ```

use std::collections::BTreeMap;

/// FNV-1a: simple, portable, and good enough for words.
fn hash(key: &[u8]) -> u32 {
    key.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Builds the table. Fails if a key or value is too long for its length field.
#[allow(dead_code, reason = "build.rs writes, the crate reads")]
pub(crate) fn build(entries: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let slot_count = (entries.len() * 3 / 2).next_power_of_two();
    let mask = slot_count - 1;
    let mut slots = vec![0_u32; slot_count];
    let mut blob = Vec::new();
    let base = 4 * (1 + slot_count);
    for (key, value) in entries {
        let mut slot = usize::try_from(hash(key.as_bytes()))? & mask;
        while slots.get(slot).is_some_and(|&offset| offset != 0) {
            slot = (slot + 1) & mask;
        }
        if let Some(free) = slots.get_mut(slot) {
            *free = u32::try_from(base + blob.len())?;
        }
        blob.push(u8::try_from(key.len())?);
        blob.extend_from_slice(key.as_bytes());
        blob.extend_from_slice(&u16::try_from(value.len())?.to_le_bytes());
        blob.extend_from_slice(value);
    }
    let mut table = u32::try_from(slot_count)?.to_le_bytes().to_vec();
    table.extend(slots.iter().flat_map(|slot| slot.to_le_bytes()));
    table.extend(blob);
    Ok(table)
}

/// The value stored under `key`.
#[allow(dead_code, reason = "build.rs writes, the crate reads")]
pub(crate) fn find<'t>(table: &'t [u8], key: &[u8]) -> Option<&'t [u8]> {
    let mask = read_u32(table, 0)?.checked_sub(1)?;
    let mut slot = hash(key) & mask;
    loop {
        let offset = read_u32(table, 4 * (1 + usize::try_from(slot).ok()?))?;
        if offset == 0 {
            return None;
        }
        let entry = table.get(usize::try_from(offset).ok()?..)?;
        let (&key_len, entry) = entry.split_first()?;
        let (found, entry) = entry.split_at_checked(usize::from(key_len))?;
        if found == key {
            let (len, value) = entry.split_first_chunk::<2>()?;
            return value.get(..usize::from(u16::from_le_bytes(*len)));
        }
        slot = (slot + 1) & mask;
    }
}

fn read_u32(table: &[u8], at: usize) -> Option<u32> {
    table
        .get(at..)?
        .first_chunk::<4>()
        .map(|bytes| u32::from_le_bytes(*bytes))
}
