//! Tests of how a history relates to what is stored.

use super::*;

fn exchange(text: &str) -> Exchange {
    let (message, answer) = text.split_once(' ').unwrap();
    let answer = [answer].into_iter().filter(|text| !text.is_empty());
    Exchange {
        message: message.to_owned(),
        answer: answer.map(ToOwned::to_owned).collect(),
    }
}

/// Runs that end with the events 0, 1, …; `~` begins one that was stopped, `!` one that failed, `?` one that is open or
/// waits.
fn past(runs: &[&str]) -> Vec<Past> {
    let runs = runs.iter().enumerate();
    runs.map(|(index, text)| Past {
        exchange: exchange(text.trim_start_matches(['~', '!', '?'])),
        message_id: None,
        run_id: None,
        end: (!text.starts_with('?')).then_some(index as u64),
        is_whole: !text.starts_with(['~', '!', '?']),
        is_seen: !text.starts_with('!'),
    })
    .collect()
}

#[test]
fn a_history_is_the_same_ends_earlier_or_has_other_texts() {
    use Relation::{EndsAfter, Other, Same};
    for (stored, sent, expected) in [
        (&[][..], &[][..], Same),
        (&["a 1", "b 2"], &["a 1", "b 2"], Same),
        // The last answer again, an earlier message changed, all of them removed.
        (&["a 1", "b 2"], &["a 1"], EndsAfter(Some(0))),
        (&["a 1", "b 2", "c 3"], &["a 1"], EndsAfter(Some(0))),
        (&["a 1", "b 2"], &[], EndsAfter(None)),
        // Texts of the client's own.
        (&["a 1", "b 2"], &["a 1", "b 3"], Other),
        (&["a 1", "b 2"], &["a 9", "b 2"], Other),
        (&["a 1", "b 2"], &["b 2"], Other),
        (&["a 1"], &["a 1", "b 2"], Other),
        (&["a 1"], &["a "], Other),
        // Of what was stopped, the client has more or less.
        (&["a 1", "~b 23"], &["a 1", "b 2"], Same),
        (&["a 1", "~b 2"], &["a 1", "b 23"], Same),
        (&["a 1", "~b 2"], &["a 1", "b "], Same),
        (&["a 1", "~b 2"], &["a 1"], EndsAfter(Some(0))),
        (&["a 1", "~b 2"], &["a 1", "b 9"], Other),
        // What failed may be left out or not.
        (&["a 1", "!b ", "c 3"], &["a 1", "c 3"], Same),
        (&["a 1", "!b ", "c 3"], &["a 1", "b ", "c 3"], Same),
        (&["!b ", "c 3"], &[], EndsAfter(None)),
        (&["a 1", "!b "], &["a 1"], Same),
        (&["!a "], &[], Same),
        // What is open counts as far as it came, and what waits for it by its message.
        (&["a 1", "?b 2", "?c "], &["a 1", "b 2", "c "], Same),
        (&["a 1", "?b 23", "?c "], &["a 1", "b 2", "c "], Same),
        (&["a 1", "?b 2"], &["a 1", "b "], Same),
        (&["a 1", "?b 2"], &["a 1"], EndsAfter(Some(0))),
        (&["a 1", "?b 2"], &["a 1", "c "], Other),
        (&["a 1", "?b 2"], &["a 9", "b "], Other),
        (&["?a "], &[], EndsAfter(None)),
        (&["?a ", "?b "], &["a "], Other),
        (&["a 1", "?b ", "?c "], &["a 1"], EndsAfter(Some(0))),
        // Messages without an answer are imported as one.
        (&["a\n\nb 1"], &["a ", "b 1"], Same),
        (&["a\n\nb 1", "c 2"], &["a ", "b 1"], EndsAfter(Some(0))),
        (&["a\n\nb 1"], &["a 7", "b 1"], Other),
    ] {
        let sent: Vec<Exchange> = sent.iter().map(|text| exchange(text)).collect();
        assert_eq!(compare(&past(stored), &sent), expected, "{stored:?} {sent:?}");
    }
}

#[test]
fn white_space_within_a_message_counts_and_that_which_clients_change_does_not() {
    for (stored, sent, is_same) in [
        ("a b", "ab", false),
        ("a b", "a  b", false),
        ("a b", "a\nb", false),
        ("a\tb", "a b", false),
        ("if x:\n    y()", "if x:\n  y()", false),
        ("if x:\n    y()", "if x:\ny()", false),
        ("a\n\nb", "a\nb", false),
        ("a\u{a0}b", "a b", false),
        ("a\nb", "a\r\nb", true),
        ("a\r\nb", "a\nb", true),
        ("a\r\nb\r\n", "a\nb", true),
        ("a\rb", "a\nb", true),
        ("a", "a\n", true),
        ("a\n", "a", true),
        ("a  \n\n", "a", true),
    ] {
        let exchange = |message: &str, answer: &[&str]| Exchange {
            message: message.to_owned(),
            answer: answer.iter().map(|text| (*text).to_owned()).collect(),
        };
        let run = |exchange| Past {
            exchange,
            is_whole: true,
            is_seen: true,
            ..Past::default()
        };
        let of_person = run(exchange(stored, &["x"]));
        assert_eq!(
            of_person.count_in(&[exchange(sent, &["x"])]).is_some(),
            is_same,
            "{stored:?} {sent:?}"
        );
        let of_agent = run(exchange("q", &[stored]));
        assert_eq!(
            of_agent.count_in(&[exchange("q", &[sent])]).is_some(),
            is_same,
            "{stored:?} {sent:?}"
        );
    }
}

#[test]
fn texts_of_an_answer_may_be_joined_or_split_where_they_begin_and_end() {
    use Match::{Begins, Differs, Same};
    for (own, other, expected) in [
        (&["one", "two"][..], &["one\n\ntwo"][..], Same),
        (&["one ", " two"], &["one", "two"], Same),
        (&["one two"], &["one", "two"], Same),
        (&["onetwo"], &["one two"], Differs),
        (&["one", "", "two"], &["one", "two"], Same),
        (&["one", "two"], &["one"], Begins),
        (&["one"], &["one", "two"], Begins),
        (&["on"], &["one"], Begins),
        (&[], &["one"], Begins),
        (&[], &[""], Same),
        (&["one", "two"], &["two", "one"], Differs),
        (&["ä b"], &["ä c"], Differs),
    ] {
        assert_eq!(match_texts(own, other), expected, "{own:?} {other:?}");
        assert_eq!(match_texts(other, own), expected, "{other:?} {own:?}");
    }
}

#[test]
fn every_branch_has_an_id_that_fits() {
    let long = "t".repeat(128);
    for thread in ["t", &long] {
        assert_eq!(branch_id(thread, 0), thread);
        for number in [1, 2, MAX_BRANCHES] {
            let id = branch_id(thread, number);
            assert!(
                id.len() <= 128 && id.ends_with(&format!("branch-{number}")),
                "{id}"
            );
        }
    }
}
