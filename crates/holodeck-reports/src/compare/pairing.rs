//! Pairs the cases of two runs: by name and by what they ask, never by position alone.

use std::collections::{BTreeMap, HashMap};

use holodeck_model::CaseContent;

use super::run::ComparedCase;

/// The pairs of two runs, as places in both.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pairing {
    /// In the order of the later run.
    pub(super) pairs: Vec<(usize, usize)>,
    pub(super) only_before: Vec<usize>,
    pub(super) only_after: Vec<usize>,
}

/// Pairs cases in this order: the same name and the same question; the same unique name, unless a case of the other run
/// asks the same under another name; the same unique question. What remains ambiguous is not paired.
pub(super) fn pair(before: &[ComparedCase], after: &[ComparedCase]) -> Pairing {
    let mut sides = Sides {
        before: vec![None; before.len()],
        after: vec![None; after.len()],
    };
    // Equal cases are indistinguishable, so their order decides. A missing one leaves an unpaired one.
    let both = |case: &ComparedCase| case.content.map(|content| (case.name.clone(), content));
    sides.join(
        &group(before, |_| true, both),
        &group(after, |_| true, both),
        Ambiguity::InOrder,
    );
    let unique_before = names(before);
    let unique_after = names(after);
    let name = |case: &ComparedCase| {
        let name = case.name.clone()?;
        let is_unique = |names: &HashMap<String, usize>| names.get(&name).is_none_or(|count| *count == 1);
        (is_unique(&unique_before) && is_unique(&unique_after)).then_some(name)
    };
    let contents_before = free_contents(before, &sides.before);
    let contents_after = free_contents(after, &sides.after);
    let by_name_before = {
        let free = &sides.before;
        group(
            before,
            |place| is_free(free, place) && !asked(before, place, &contents_after),
            name,
        )
    };
    let by_name_after = {
        let free = &sides.after;
        group(
            after,
            |place| is_free(free, place) && !asked(after, place, &contents_before),
            name,
        )
    };
    sides.join(&by_name_before, &by_name_after, Ambiguity::Unpaired);
    sides.join_rest(before, after, |case| case.content);
    sides.join_rest(before, after, name);
    sides.finish()
}

/// Whether a free case of the other run asks exactly what this one asks.
fn asked(cases: &[ComparedCase], place: usize, other: &HashMap<CaseContent, usize>) -> bool {
    let content = cases.get(place).and_then(|case| case.content);
    content.is_some_and(|content| other.contains_key(&content))
}

fn names(cases: &[ComparedCase]) -> HashMap<String, usize> {
    let mut names = HashMap::new();
    for name in cases.iter().filter_map(|case| case.name.clone()) {
        *names.entry(name).or_default() += 1;
    }
    names
}

fn free_contents(cases: &[ComparedCase], paired: &[Option<usize>]) -> HashMap<CaseContent, usize> {
    let free = cases.iter().zip(paired).filter(|(_, pair)| pair.is_none());
    let mut contents = HashMap::new();
    for content in free.filter_map(|(case, _)| case.content) {
        *contents.entry(content).or_default() += 1;
    }
    contents
}

fn is_free(paired: &[Option<usize>], place: usize) -> bool {
    paired.get(place).is_some_and(Option::is_none)
}

fn group<K: Ord>(
    cases: &[ComparedCase],
    takes_part: impl Fn(usize) -> bool,
    key: impl Fn(&ComparedCase) -> Option<K>,
) -> BTreeMap<K, Vec<usize>> {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for (place, case) in cases.iter().enumerate().filter(|(place, _)| takes_part(*place)) {
        if let Some(key) = key(case) {
            groups.entry(key).or_default().push(place);
        }
    }
    groups
}

/// How to handle several cases with the same key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ambiguity {
    InOrder,
    Unpaired,
}

/// The partner of each case.
struct Sides {
    before: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
}

impl Sides {
    fn join<K: Ord>(
        &mut self,
        before: &BTreeMap<K, Vec<usize>>,
        after: &BTreeMap<K, Vec<usize>>,
        ambiguity: Ambiguity,
    ) {
        for (key, earlier) in before {
            let Some(later) = after.get(key) else { continue };
            if ambiguity == Ambiguity::Unpaired && (earlier.len() > 1 || later.len() > 1) {
                continue;
            }
            for (&a, &b) in earlier.iter().zip(later) {
                if let (Some(before), Some(after)) = (self.before.get_mut(a), self.after.get_mut(b)) {
                    *before = Some(b);
                    *after = Some(a);
                }
            }
        }
    }

    /// Joins the cases that have no partner yet by a key that is unique among them.
    fn join_rest<K: Ord>(
        &mut self,
        before: &[ComparedCase],
        after: &[ComparedCase],
        key: impl Fn(&ComparedCase) -> Option<K>,
    ) {
        let earlier = group(before, |place| is_free(&self.before, place), &key);
        let later = group(after, |place| is_free(&self.after, place), &key);
        self.join(&earlier, &later, Ambiguity::Unpaired);
    }

    fn finish(self) -> Pairing {
        let free = |side: &[Option<usize>]| -> Vec<usize> {
            let places = side.iter().enumerate();
            places
                .filter(|(_, pair)| pair.is_none())
                .map(|(place, _)| place)
                .collect()
        };
        let pairs = self.after.iter().enumerate();
        Pairing {
            pairs: pairs
                .filter_map(|(after, before)| Some(((*before)?, after)))
                .collect(),
            only_before: free(&self.before),
            only_after: free(&self.after),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn case(name: Option<&str>, content: Option<u8>) -> ComparedCase {
        ComparedCase {
            name: name.map(ToOwned::to_owned),
            label: String::new(),
            content: content.map(|byte| format!("{byte:032x}").parse().unwrap()),
            state: None,
            trials: None,
            scores: Vec::new(),
            deciders: std::sync::Arc::default(),
            answer: None,
        }
    }

    fn pairs(before: &[ComparedCase], after: &[ComparedCase]) -> Vec<(usize, usize)> {
        let pairing = pair(before, after);
        assert_eq!(pairing.pairs.len() + pairing.only_before.len(), before.len());
        assert_eq!(pairing.pairs.len() + pairing.only_after.len(), after.len());
        pairing.pairs
    }

    #[test]
    fn the_order_of_cases_does_not_matter() {
        let (a, b, c) = (
            case(Some("a"), Some(1)),
            case(Some("b"), Some(2)),
            case(None, Some(3)),
        );
        assert_eq!(
            pairs(&[a.clone(), b.clone(), c.clone()], &[c, a, b]),
            [(2, 0), (0, 1), (1, 2)]
        );
    }

    #[test]
    fn a_renamed_case_is_found_by_what_it_asks() {
        assert_eq!(
            pairs(
                &[case(Some("a"), Some(1)), case(Some("b"), Some(2))],
                &[case(Some("b"), Some(2)), case(Some("z"), Some(1))]
            ),
            [(1, 0), (0, 1)]
        );
    }

    #[test]
    fn a_changed_question_is_paired_by_its_name() {
        assert_eq!(
            pairs(&[case(Some("a"), Some(1))], &[case(Some("a"), Some(9))]),
            [(0, 0)]
        );
        assert_eq!(
            pairs(&[case(Some("a"), None)], &[case(Some("a"), Some(9))]),
            [(0, 0)]
        );
    }

    #[test]
    fn swapped_names_do_not_hide_what_was_asked() {
        assert_eq!(
            pairs(
                &[case(Some("a"), Some(1)), case(Some("b"), Some(2))],
                &[case(Some("a"), Some(2)), case(Some("b"), Some(1))]
            ),
            [(1, 0), (0, 1)]
        );
    }

    #[test]
    fn duplicate_names_are_paired_by_what_they_ask() {
        let before = [case(Some("a"), Some(1)), case(Some("a"), Some(2))];
        assert_eq!(
            pairs(&before, &[case(Some("a"), Some(2)), case(Some("a"), Some(1))]),
            [(1, 0), (0, 1)]
        );
        // One of them is gone: the other must not take its place.
        assert_eq!(pairs(&before, &[case(Some("a"), Some(2))]), [(1, 0)]);
        // What is asked is unknown, so the pairs would be guesses.
        let unknown = [case(Some("a"), None), case(Some("a"), None)];
        assert_eq!(pairs(&unknown, &unknown.clone()), []);
    }

    #[test]
    fn equal_cases_are_paired_in_order_and_a_missing_one_is_noticed() {
        let one = case(None, Some(1));
        let pairing = pair(&[one.clone(), one.clone()], std::slice::from_ref(&one));
        assert_eq!(pairing.pairs, [(0, 0)]);
        assert_eq!(pairing.only_before, [1]);
    }

    #[test]
    fn several_renamed_cases_that_ask_the_same_are_not_guessed() {
        assert_eq!(
            pairs(
                &[case(Some("a"), Some(1)), case(Some("b"), Some(1))],
                &[case(Some("x"), Some(1)), case(Some("y"), Some(1))]
            ),
            []
        );
    }

    #[test]
    fn nameless_cases_without_known_content_are_never_paired_by_position() {
        let one = case(None, None);
        assert_eq!(pairs(std::slice::from_ref(&one), std::slice::from_ref(&one)), []);
    }
}
