//! Tests that chunks cover the text in order within the token limit, for fixed and for random texts.

use holodeck_model::{ChunkingStrategy, DocumentDomain};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::Mark;

fn document(text: &str) -> Document {
    Document {
        text: text.to_owned(),
        ..Document::default()
    }
}

fn options(max_tokens: usize, overlap_tokens: usize) -> ChunkOptions {
    ChunkOptions {
        max_tokens,
        overlap_tokens,
        ..ChunkOptions::default()
    }
}

/// Each chunk as `headings | section | text`.
fn shown(text: &str, options: &ChunkOptions) -> String {
    let lines = chunk(&document(text), options).into_iter().map(|chunk| {
        let section = chunk.section.unwrap_or_else(|| "-".to_owned());
        format!(
            "{} | {section} | {}",
            chunk.headings.join(" > "),
            chunk.text.replace('\n', "⏎")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_heading_begins_a_chunk_and_an_empty_one_goes_with_the_next() {
    let text =
        "before\n\n# Guide\n\n## 1. Setup\n\nPlug it in.\n\nTurn it on.\n\nUse\n---\n\nPress the button.\n";
    insta::assert_snapshot!(shown(text, &options(100, 0)), @r"
     | - | before
    Guide > 1. Setup | 1 | # Guide⏎⏎## 1. Setup⏎⏎Plug it in.⏎⏎Turn it on.
    Guide > Use | - | Use⏎---⏎⏎Press the button.
    ");
}

#[test]
fn headings_in_code_are_code() {
    let text = "# A\n\n```sh\n# not a heading\n\nls\n```\n\n~~~\n# nor this\n";
    insta::assert_snapshot!(shown(text, &options(100, 0)), @"A | - | # A⏎⏎```sh⏎# not a heading⏎⏎ls⏎```⏎⏎~~~⏎# nor this");
}

#[test]
fn blocks_stay_whole_where_they_fit() {
    let text = "# A\n\nA first paragraph of words.\n\n- one item\n  of two lines\n- another item\n\n```\nlet a = 1;\nlet b = 2;\n```\n\nThe end.";
    insta::assert_snapshot!(shown(text, &options(12, 0)));
}

#[test]
fn a_large_paragraph_is_cut_at_sentences_then_words_then_characters() {
    let text = "One two three four. Five six seven eight nine ten. abcdefghijklmnopqrstuvwxyzabcdefghijklm ééééééééééééééé";
    insta::assert_snapshot!(shown(text, &options(6, 0)));
}

#[test]
fn a_table_that_is_cut_repeats_its_head() {
    let rows: Vec<String> = (1..=12)
        .map(|row| format!("| {row} | screw no. {row} |\n"))
        .collect();
    let rows = rows.concat();
    let text = format!("## Parts\n\n| No | Part |\n|---|---|\n{rows}\nAfter it.\n");
    insta::assert_snapshot!(shown(&text, &options(32, 8)));
}

#[test]
fn chunks_of_a_section_overlap_and_those_of_two_do_not() {
    let text = "# A\n\nFirst sentence here. Second sentence here. Third sentence here. Fourth one here.\n\n# B\n\nOther words.";
    insta::assert_snapshot!(shown(text, &options(12, 6)));
    let token = ChunkOptions {
        strategy: ChunkingStrategy::Token,
        ..options(12, 6)
    };
    insta::assert_snapshot!(shown(text, &token));
}

#[test]
fn deep_headings_are_text() {
    let text = "# A\n\na\n\n## B\n\nb\n\n### C\n\nc\n";
    let flat = ChunkOptions {
        max_subsection_depth: Some(2),
        ..options(100, 0)
    };
    insta::assert_snapshot!(shown(text, &flat), @r"
    A | - | # A⏎⏎a
    A > B | - | ## B⏎⏎b⏎⏎### C⏎⏎c
    ");
}

#[test]
fn a_contract_has_its_clauses() {
    let text = "\
ARTICLE I
DEFINITIONS

1.1 Terms. In this Agreement the following terms apply.

1.2 The Supplier shall:
(a) deliver the goods; and
(b) send an invoice
    (i) by post, or
    (ii) by mail.

ARTICLE II: TERM

Section 2.1 Start. It starts at once.

SCHEDULE A

Prices.
";
    let contract = ChunkOptions {
        domain: DocumentDomain::LegalContract,
        ..options(100, 0)
    };
    insta::assert_snapshot!(shown(text, &contract));
    let small = ChunkOptions {
        max_tokens: 10,
        ..contract
    };
    insta::assert_snapshot!(shown(text, &small));
}

#[test]
fn front_matter_is_no_heading() {
    let text = "---\ntitle: x\n---\n# A\n\ntext";
    insta::assert_snapshot!(shown(text, &options(100, 0)), @r"
     | - | ---⏎title: x⏎---
    A | - | # A⏎⏎text
    ");
}

#[test]
fn a_chunk_knows_the_page_it_begins_on() {
    let mut document = document("one\n\ntwo\n\n# A\n\nthree");
    document.marks = vec![
        Mark {
            at: 0,
            place: Place::Page(1),
        },
        Mark {
            at: 10,
            place: Place::Page(2),
        },
    ];
    let places: Vec<_> = chunk(&document, &options(100, 0))
        .into_iter()
        .map(|chunk| chunk.place)
        .collect();
    assert_eq!(places, [Some(Place::Page(1)), Some(Place::Page(2))]);
}

#[test]
fn what_decides_the_cut_is_in_the_description() {
    assert_eq!(
        options(800, 50).describe(),
        "structure v1, 800 tokens of 4 bytes, overlap 50"
    );
    let all = ChunkOptions {
        strategy: ChunkingStrategy::Token,
        domain: DocumentDomain::AuLegislative,
        max_subsection_depth: Some(3),
        extract_definitions: true,
        extract_cross_references: true,
        ..options(512, 0)
    };
    assert_eq!(
        all.describe(),
        "token v1, 512 tokens of 4 bytes, overlap 0, domain au_legislative, depth 3, definitions, cross references"
    );
}

#[test]
fn a_token_is_four_bytes() {
    assert_eq!(estimated_tokens(""), 0);
    assert_eq!(estimated_tokens("a"), 1);
    assert_eq!(estimated_tokens("four"), 1);
    assert_eq!(estimated_tokens("日本"), 2);
}

#[test]
fn nothing_comes_to_nothing() {
    assert_eq!(chunk(&document(""), &options(10, 2)), []);
    assert_eq!(chunk(&document(" \n\n\t"), &options(10, 2)), []);
}

/// Pieces of documents, so that random texts have structure.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        4 => "[a-zA-Z ,]{1,40}",
        2 => "[a-z]{1,30}[.!?] ",
        2 => prop::sample::select(vec![
            "\n", "\n\n", "\r\n", "# ", "## ", "### 4.2 ", "\n---\n", "\n===\n", "\n```\n", "\n~~~\n", "\n- ", "\n  - ", "\n1. ",
            "\n| a | b |\n|---|---|\n", "\n| x | y |", "    ", "\t", "(a) ", "\n(1) ", "\n(i) ", "\nSection 4.2 ", "\n§ 12(b) ",
            "\nARTICLE IV\n", "\nPart 2—", "\n1.1 The ", "\nAbstract\n", "日本語。", "é", "🦀", "\u{2028}", "\u{a0}", "\"X\" means ",
            "**Term**: ", "Schedule A", "sections 1, 2 and 3(c)", ". ", "\0",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

fn any_options() -> impl Strategy<Value = ChunkOptions> {
    let domains = prop::sample::select(vec![
        DocumentDomain::None,
        DocumentDomain::UsLegislative,
        DocumentDomain::AuLegislative,
        DocumentDomain::Academic,
        DocumentDomain::Technical,
        DocumentDomain::LegalContract,
    ]);
    let strategies = prop::sample::select(vec![ChunkingStrategy::Structure, ChunkingStrategy::Token]);
    (
        strategies,
        domains,
        0_usize..60,
        0_usize..80,
        prop::option::of(1_usize..5),
    )
        .prop_map(
            |(strategy, domain, max_tokens, overlap_tokens, max_subsection_depth)| ChunkOptions {
                strategy,
                max_tokens,
                overlap_tokens,
                domain,
                max_subsection_depth,
                extract_definitions: true,
                extract_cross_references: true,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn chunks_cover_the_text_in_order_within_the_limit(text in texts(), options in any_options()) {
        let chunks = chunk(&document(&text), &options);
        let mut covered = 0;
        let mut last_start = None;
        for chunk in &chunks {
            prop_assert!(estimated_tokens(&chunk.text) <= options.max_tokens.max(1), "{chunk:?}");
            let own = &text[chunk.range.clone()];
            prop_assert!(chunk.text.ends_with(own));
            prop_assert!(chunk.text == own || chunk.text.contains("|---"), "{chunk:?}");
            prop_assert_eq!(own.trim(), own);
            prop_assert!(chunk.range.end > covered);
            prop_assert!(last_start.is_none_or(|start| chunk.range.start > start));
            if chunk.range.start > covered {
                prop_assert_eq!(text[covered..chunk.range.start].trim(), "");
            }
            if options.overlap_tokens == 0 {
                prop_assert!(chunk.range.start >= covered);
            }
            prop_assert!(covered.saturating_sub(chunk.range.start) <= options.overlap_tokens * 4 + 3 + 1);
            prop_assert!(options.max_subsection_depth.is_none_or(|depth| chunk.headings.len() <= depth));
            covered = chunk.range.end;
            last_start = Some(chunk.range.start);
        }
        prop_assert_eq!(text[covered..].trim(), "");
    }
}
