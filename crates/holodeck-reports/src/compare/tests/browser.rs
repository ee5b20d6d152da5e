//! A page for `cargo xtask soak report`, which checks it in a browser.

use pretty_assertions::assert_eq;

use super::*;

#[test]
#[ignore = "writes a page for a browser; `cargo xtask soak report` runs it"]
fn pages_for_a_browser() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report");
    std::fs::create_dir_all(&folder).unwrap();
    // What has no place to break a line is what makes a page too wide.
    let word = "Rindfleischetikettierung".repeat(20);
    let url = format!("https://example.org/{}", "a/".repeat(200));
    let mut before = scored(24, Some("gpt-4o"), |_| 0.9);
    let mut after = scored(24, Some("gpt-4o"), |place| 0.4 + 0.01 * place as f64);
    for (place, case) in after.iter_mut().enumerate() {
        if place < 8 {
            case["state"] = json!("failed");
        }
        case["metric_results"][0]["metric_name"] = json!(word);
        before[place]["metric_results"][0]["metric_name"] = json!(word);
    }
    after[0]["agent_response"] = json!(word);
    after[1]["test_input"] = json!(url);
    before[1]["test_input"] = json!(url);
    after[2]["agent_response"] = json!(format!("| {} |", "a cell | ".repeat(60)));
    after[3]["errors"] = json!([format!("expected {url}, got {word}")]);
    after[4]["test_name"] = json!(word);
    before[4]["test_name"] = json!(word);
    after[20]["state"] = json!("error");
    before[21]["state"] = json!("failed");
    before[22]["test_name"] = json!(url);
    before[22]["test_input"] = json!("asked no more");
    let comparison = gate(&before, &after);
    let mut page = Vec::new();
    write_comparison_html(&comparison, &[], &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert_eq!(
        page.matches("<details class=\"case\"").count(),
        comparison.changes.len()
    );
    for shown in [
        "newly failing",
        "newly passing",
        "Missing cases",
        "New cases",
        &word,
    ] {
        assert!(page.contains(shown), "{shown} is not on the page");
    }
    std::fs::write(folder.join("comparison.html"), page).unwrap();
}
