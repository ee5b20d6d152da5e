//! Longest common subsequences, 64 columns of the table at a time.
//!
//! A row of the classic table grows by 0 or 1 from column to column, so 64 columns of it are one word whose zero bits
//! mark where it grows (Crochemore et al. 2001). The table is processed in blocks of 64 columns, every row of a block
//! before the next block; a row passes one bit to the next block. Time is rows × columns / 64, memory rows + columns
//! (and one bit per row and block to find the subsequence itself).
#![allow(
    clippy::indexing_slicing,
    reason = "index arithmetic over a table of known size"
)]

/// The length of the longest common subsequence. Symbols of `rows` are below `symbols`; a column may have others, which
/// match nothing.
pub(crate) fn length(rows: &[u32], columns: &[u32], symbols: usize) -> usize {
    let mut masks = vec![0_u64; symbols];
    let mut carries = vec![false; rows.len()];
    let mut length = 0;
    for block in columns.chunks(64) {
        mark(&mut masks, block);
        let mut word = u64::MAX;
        for (&symbol, carry) in rows.iter().zip(&mut carries) {
            (word, *carry) = step(word, masks[symbol as usize], *carry);
        }
        unmark(&mut masks, block);
        length += growth(word, block.len());
    }
    length
}

/// Calls `emit` with the rows of the longest common subsequence that the reference implementation chooses: from the
/// end, a match is taken, else the step goes left if only that keeps the length, else up.
pub(crate) fn matched_rows(rows: &[u32], columns: &[u32], symbols: usize, mut emit: impl FnMut(usize)) {
    let mut masks = vec![0_u64; symbols];
    let mut carries = vec![false; rows.len()];
    // The carries into each block from the left, needed to visit the blocks again from the right.
    let mut incoming: Vec<Vec<bool>> = Vec::with_capacity(columns.len().div_ceil(64));
    for block in columns.chunks(64) {
        incoming.push(carries.clone());
        mark(&mut masks, block);
        let mut word = u64::MAX;
        for (&symbol, carry) in rows.iter().zip(&mut carries) {
            (word, *carry) = step(word, masks[symbol as usize], *carry);
        }
        unmark(&mut masks, block);
    }
    let mut row = rows.len();
    let mut words = vec![u64::MAX; rows.len() + 1];
    for (block, carries) in columns.chunks(64).zip(&incoming).rev() {
        mark(&mut masks, block);
        for at in 0..row {
            (words[at + 1], _) = step(words[at], masks[rows[at] as usize], carries[at]);
        }
        unmark(&mut masks, block);
        let mut column = block.len();
        while row > 0 && column > 0 {
            let last = 1_u64 << (column - 1);
            if rows[row - 1] == block[column - 1] {
                row -= 1;
                column -= 1;
                emit(row);
            } else if words[row] & last != 0 && grew_from_above(&words, carries[row - 1], row, column) {
                column -= 1;
            } else {
                row -= 1;
            }
        }
        if row == 0 {
            return;
        }
    }
}

/// Whether the entry in this row and column (counted from 1, within the block) is greater than the one above it.
fn grew_from_above(words: &[u64], carry: bool, row: usize, column: usize) -> bool {
    usize::from(carry) + growth(words[row], column) > growth(words[row - 1], column)
}

/// One row of a block: its word from the word of the row above, the columns that match, and the bit from the left.
fn step(above: u64, matches: u64, carry: bool) -> (u64, bool) {
    let hits = above & matches;
    let (sum, over) = above.overflowing_add(hits);
    let (sum, over_carry) = sum.overflowing_add(u64::from(carry));
    (sum | above & !matches, over || over_carry)
}

/// How much a row grows in the first `columns` columns of a block.
fn growth(word: u64, columns: usize) -> usize {
    let within = if columns >= 64 {
        u64::MAX
    } else {
        (1 << columns) - 1
    };
    (!word & within).count_ones() as usize
}

fn mark(masks: &mut [u64], block: &[u32]) {
    for (at, &symbol) in block.iter().enumerate() {
        if let Some(mask) = masks.get_mut(symbol as usize) {
            *mask |= 1 << at;
        }
    }
}

fn unmark(masks: &mut [u64], block: &[u32]) {
    for &symbol in block {
        if let Some(mask) = masks.get_mut(symbol as usize) {
            *mask = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fills the table entry by entry, and traces back through it.
    fn slow(rows: &[u32], columns: &[u32]) -> (usize, Vec<usize>) {
        let mut table = vec![vec![0; columns.len() + 1]; rows.len() + 1];
        for i in 1..=rows.len() {
            for j in 1..=columns.len() {
                table[i][j] = if rows[i - 1] == columns[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let (mut i, mut j, mut found) = (rows.len(), columns.len(), Vec::new());
        while i > 0 && j > 0 {
            if rows[i - 1] == columns[j - 1] {
                i -= 1;
                j -= 1;
                found.push(i);
            } else if table[i][j - 1] > table[i - 1][j] {
                j -= 1;
            } else {
                i -= 1;
            }
        }
        (table[rows.len()][columns.len()], found)
    }

    proptest! {
        #[test]
        fn agrees_with_the_table(
            rows in prop::collection::vec(0_u32..6, 0..150),
            columns in prop::collection::vec(0_u32..8, 0..200),
        ) {
            let (expected_length, expected_rows) = slow(&rows, &columns);
            prop_assert_eq!(length(&rows, &columns, 6), expected_length);
            let mut found = Vec::new();
            matched_rows(&rows, &columns, 6, |row| found.push(row));
            prop_assert_eq!(found, expected_rows);
        }
    }
}
