//! Selects pages or slides of a file.

use crate::Problem;

/// Their numbers, counted from 1, in file order. A number that does not exist is an error.
pub(super) fn select(requested: &[u32], count: usize) -> Result<Vec<u32>, Problem> {
    let last = u32::try_from(count).unwrap_or(u32::MAX);
    if requested.is_empty() {
        return Ok((1..=last).collect());
    }
    if let Some(page) = requested.iter().copied().find(|page| *page == 0 || *page > last) {
        return Err(Problem::NoPage { page, count });
    }
    let mut pages = requested.to_vec();
    pages.sort_unstable();
    pages.dedup();
    Ok(pages)
}

/// Numbers as people write them: `1–3, 7`.
pub(super) fn list(pages: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *page => *last = *page,
            _ => runs.push((*page, *page)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}–{last}")
            }
        })
        .collect();
    runs.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_from_one() {
        assert_eq!(select(&[], 3).unwrap(), [1, 2, 3]);
        assert_eq!(select(&[3, 1, 3], 3).unwrap(), [1, 3]);
        assert_eq!(
            select(&[4], 3).unwrap_err().to_string(),
            "there is no page 4: it has 3"
        );
        assert_eq!(
            select(&[0], 3).unwrap_err().to_string(),
            "there is no page 0: it has 3"
        );
        assert_eq!(list(&[1, 2, 3, 5, 7, 8]), "1–3, 5, 7–8");
    }
}
