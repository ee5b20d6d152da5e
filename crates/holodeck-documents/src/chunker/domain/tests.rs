//! Tests that headings of laws, contracts, papers and manuals are recognised, and ordinary sentences are not.

use DocumentDomain as D;

use super::*;

/// The heading in a line that follows a blank one: its level below Markdown's, its number and its title.
fn found(domain: D, line: &str) -> Option<(usize, String, String)> {
    let heading = heading(domain, line, "", Before::Break)?;
    Some((
        heading.level - MARKDOWN,
        heading.number.unwrap_or_default(),
        heading.title,
    ))
}

fn check(domain: D, line: &str, level: usize, number: &str, title: &str) {
    assert_eq!(
        found(domain, line),
        Some((level, number.to_owned(), title.to_owned())),
        "{line}"
    );
}

#[test]
fn laws_of_the_united_states() {
    check(
        D::UsLegislative,
        "TITLE I—GENERAL PROVISIONS",
        1,
        "Title I",
        "TITLE I GENERAL PROVISIONS",
    );
    check(D::UsLegislative, "CHAPTER 3", 3, "Chapter 3", "CHAPTER 3");
    check(
        D::UsLegislative,
        "SEC. 101. SHORT TITLE.",
        7,
        "101",
        "SEC. 101 SHORT TITLE",
    );
    check(D::UsLegislative, "§ 12. Exemptions", 7, "12", "§ 12 Exemptions");
    check(
        D::UsLegislative,
        "Section 5. Notices. A notice is void unless it is in writing.",
        7,
        "5",
        "Section 5 Notices",
    );
    for line in [
        "Section 5 applies to every person",
        "Section 12(b) requires a notice",
        "§ 12(b) requires a notice",
        "Part A, which was repealed",
        "Title to the land passes",
        "Section 4.2 Payment ........ 12",
        "section 5. Notices",
        "1. Introduction",
    ] {
        assert_eq!(found(D::UsLegislative, line), None, "{line}");
    }
}

#[test]
fn laws_of_australia() {
    check(
        D::AuLegislative,
        "Part 2—Licences",
        2,
        "Part 2",
        "Part 2 Licences",
    );
    check(
        D::AuLegislative,
        "Division 1—Grant",
        3,
        "Division 1",
        "Division 1 Grant",
    );
    check(
        D::AuLegislative,
        "12A  Application of Act",
        5,
        "12A",
        "12A Application of Act",
    );
    check(
        D::AuLegislative,
        "Schedule 1—Amendments",
        1,
        "Schedule 1",
        "Schedule 1 Amendments",
    );
    assert_eq!(found(D::AuLegislative, "12 months after the commencement."), None);
    assert_eq!(found(D::AuLegislative, "1901 Commonwealth of Australia"), None);
}

#[test]
fn papers() {
    check(D::Academic, "Abstract", 3, "", "Abstract");
    check(D::Academic, "1. Introduction", 3, "1", "1 Introduction");
    check(D::Academic, "2.3.1 Data sets", 5, "2.3.1", "2.3.1 Data sets");
    check(D::Academic, "IV. RESULTS", 3, "IV", "IV RESULTS");
    check(D::Academic, "A.1 Proofs", 4, "A.1", "A.1 Proofs");
    check(D::Academic, "**References**", 3, "", "References");
    check(D::Academic, "Abstract—We show that", 3, "", "Abstract");
    assert_eq!(found(D::Academic, "Results of the survey were"), None);
    assert_eq!(found(D::Academic, "1. Wash the beans."), None);
    let list = heading(D::Academic, "1. Wash the beans", "2. Boil them", Before::Break);
    assert_eq!(list, None);
}

#[test]
fn manuals() {
    check(D::Technical, "1 Overview", 3, "1", "1 Overview");
    check(D::Technical, "4.2.1 Wiring", 5, "4.2.1", "4.2.1 Wiring");
    check(
        D::Technical,
        "Chapter 3: Maintenance",
        2,
        "Chapter 3",
        "Chapter 3 Maintenance",
    );
    check(
        D::Technical,
        "Appendix B Error codes",
        2,
        "Appendix B",
        "Appendix B Error codes",
    );
    assert_eq!(found(D::Technical, "3 screws are missing."), None);
    assert_eq!(found(D::Technical, "2024 Model"), None);
}

#[test]
fn contracts() {
    check(
        D::LegalContract,
        "ARTICLE IV – TERM",
        1,
        "Article IV",
        "ARTICLE IV TERM",
    );
    check(
        D::LegalContract,
        "Section 4.2 Payment",
        3,
        "4.2",
        "Section 4.2 Payment",
    );
    check(D::LegalContract, "1. DEFINITIONS", 2, "1", "1 DEFINITIONS");
    check(D::LegalContract, "1. Definitions.", 2, "1", "1 Definitions");
    check(
        D::LegalContract,
        "4.2 The Supplier shall deliver the goods within ten days of the order.",
        3,
        "4.2",
        "4.2",
    );
    check(
        D::LegalContract,
        "4.3 Late payment. The Customer shall pay interest.",
        3,
        "4.3",
        "4.3 Late payment",
    );
    check(D::LegalContract, "SCHEDULE A", 1, "Schedule A", "SCHEDULE A");
    check(D::LegalContract, "RECITALS", 1, "", "RECITALS");
    assert_eq!(found(D::LegalContract, "1. The first payment is due."), None);
    assert_eq!(found(D::LegalContract, "Section 4.2 of this Agreement"), None);
    assert_eq!(found(D::LegalContract, "Schedule A to this Agreement, and"), None);
}

#[test]
fn nothing_is_a_heading_without_a_domain_or_within_a_sentence() {
    assert_eq!(found(D::None, "ARTICLE IV"), None);
    assert_eq!(
        heading(D::LegalContract, "Section 4.2 Payment", "", Before::Inside),
        None
    );
    assert_eq!(heading(D::LegalContract, "4.2 Payment", "", Before::Inside), None);
}
