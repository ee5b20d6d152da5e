//! Many runs and many cases: pages of lists, and pages that read only what they show.

use pretty_assertions::assert_eq;
use sha2::{Digest as _, Sha256};

use super::*;

fn sha256(text: &str) -> String {
    holodeck::model::hex(&Sha256::digest(text))
}

/// The summary with other lines, and the digests that fit to them: by a program that computes them itself.
fn forge(journal: &std::path::Path, change: impl Fn(&str) -> String) {
    let path = journal.with_extension("summary");
    let text = fs::read_to_string(&path).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    let (head, table) = rest.split_once('\n').unwrap();
    let forged = change(table);
    let length = |table: &str| format!("\"table_bytes\":{}}}", table.len());
    let head = head.replace(&sha256(table), &sha256(&forged));
    let head = head.replace(&length(table), &length(&forged));
    let name = journal.file_name().unwrap().to_str().unwrap();
    let digest = sha256(&format!("{name}\0{head}"));
    fs::write(&path, format!("{digest}\n{head}\n{forged}")).unwrap();
}

#[test]
fn the_page_of_a_case_has_the_verdict_of_its_journal_whatever_the_summary_says() {
    let project = with_run(&half_correct_server());
    let journal = project.journals().remove(0);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0].to_owned();
    let summary = journal.with_extension("summary");
    let kept = fs::read_to_string(&summary).unwrap();
    let rows: Vec<&str> = kept.lines().skip(3).collect();
    let lines = |row: &str| row.split_once("\"lines\":").unwrap().1.to_owned();
    let (passed, failed) = (lines(rows[0]), lines(rows[1]));
    // The lines of the other case, those of both mixed, none, and those of no line at all.
    let swapped = |table: &str| {
        let table = table.replace(&passed, "?").replace(&failed, &passed);
        table.replace('?', &failed)
    };
    let graded = |lines: &str| lines.split_once("\"graded\"").unwrap().1.to_owned();
    let mixed = |table: &str| table.replace(&graded(&failed), &graded(&passed));
    let none = |table: &str| table.replace(&failed, "[{}]}\n");
    let nowhere = |table: &str| table.replace(&graded(&failed), ":[999999999,9,9]}]}");
    let less = |table: &str| table.replace(rows[0], "").replace("\n\n", "\n");
    let cases: [&dyn Fn(&str) -> String; 5] = [&swapped, &mixed, &none, &nowhere, &less];
    for change in cases {
        fs::write(&summary, &kept).unwrap();
        forge(&journal, |table| {
            let forged = change(table);
            assert_ne!(forged, table);
            forged
        });
        let view = View::start(&project);
        let head = view.log_in();
        let case = |number| view.ask("GET", &format!("{run}/case/{number}"), &head);
        let (one, two) = (case(1), case(2));
        assert!(one.contains("<h1>capital <span class=\"badge passed\">"), "{one}");
        assert!(two.contains("<h1>sum <span class=\"badge failed\">"), "{two}");
        assert!(two.contains("It is 13."), "{two}");
    }
}

/// The bytes that the view read from files, with those that were in memory.
fn bytes_read(view: &View) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", view.child.id())).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn the_page_of_a_case_reads_no_other_case() {
    let server = ModelServer::answering(|request| match request.texts("user").last() {
        Some(text) if text.contains("France") => Reply::text("Paris ".repeat(500_000)),
        _ => Reply::text("It is 12."),
    });
    let project = with_run(&server);
    project.run(&["test"]);
    fs::remove_dir_all(project.path("results")).unwrap();
    View::start(&project).list();
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0].to_owned();
    let before = bytes_read(&view);
    let page = view.ask("GET", &format!("{run}/case/2"), &head);
    assert!(
        page.contains("It is 12.") && page.contains("(this run)"),
        "{page}"
    );
    let read = bytes_read(&view) - before;
    assert!(read < 1_000_000, "{read}");
    let large = view.ask("GET", &format!("{run}/case/1"), &head);
    assert!(status(&large) == "200" && bytes_read(&view) - before > 3_000_000);
}

#[test]
fn a_run_of_many_cases_has_pages_with_what_did_not_pass_on_the_first() {
    let cases: Vec<String> = (0..230)
        .map(|number| {
            format!(
                "  - name: case {number}\n    input: What is {number}?\n    ground_truth: \"={number}=\"\n"
            )
        })
        .collect();
    let cases = cases.concat();
    let server = ModelServer::answering(|request| {
        let asked = request
            .texts("user")
            .last()
            .map(ToString::to_string)
            .unwrap_or_default();
        let number = asked
            .trim_start_matches("What is ")
            .trim_end_matches('?')
            .to_owned();
        Reply::text(if number == "228" || number == "3" {
            "no".to_owned()
        } else {
            format!("={number}=")
        })
    });
    let project = Project::with(&agent(&server.url(), &cases));
    project.run(&["test"]);
    let view = View::start(&project);
    let head = view.log_in();
    let list = view.ask("GET", "/", &head);
    let run = pages(&list)[0].to_owned();
    let shown = |query: &str| {
        let page = view.ask("GET", &format!("{run}?{query}"), &head);
        let parts = page.split("<b>case ").skip(1);
        let numbers = parts.filter_map(|part| part.split("</b> <span class=\"numbers\">").next());
        let numbers: Vec<usize> = numbers.filter_map(|number| number.parse().ok()).collect();
        (page, numbers)
    };
    let (first, numbers) = shown("");
    assert!(
        first.contains("Page 1 of 3") && first.contains("228 passed"),
        "{first}"
    );
    let expected: Vec<usize> = [3, 228]
        .into_iter()
        .chain((0..=98).filter(|number| *number != 3))
        .collect();
    assert_eq!(numbers, expected);
    let mut all = numbers;
    all.extend(shown("page=2").1);
    all.extend(shown("page=3").1);
    all.sort_unstable();
    assert_eq!(all, (0..230).collect::<Vec<_>>());
    // The page with a case, that of a choice, and numbers that are none.
    assert!(shown("at=221").1.contains(&220));
    assert_eq!(shown("state=failed&page=7").1, [3, 228]);
    assert_eq!(shown("page=x").1, expected);
    assert_eq!(shown("page=18446744073709551615").1, shown("page=3").1);
    // The link to the run from the page of a case leads to it.
    let case = view.ask("GET", &format!("{run}/case/221"), &head);
    assert!(
        case.contains(&format!("<a href=\"{run}?at=221#case-221\">")),
        "{case}"
    );
}

#[test]
fn a_list_of_many_runs_has_pages() {
    let project = Project::empty();
    for number in 0..230 {
        let run = json!({"report": {
            "agent_name": format!("agent {number}"), "agent_config_path": "agent.yaml", "results": [],
            "summary": {"total_tests": 0}, "timestamp": format!("2026-01-01T00:{:02}:{:02}.000000+00:00", number / 60, number % 60),
            "holodeck_version": "0.7.1", "environment": {},
        }, "metadata": {}});
        project.write(&format!("results/x/run-{number}.json"), run.to_string());
    }
    let view = View::start(&project);
    let head = view.log_in();
    let shown = |query: &str| {
        let page = view.ask("GET", &format!("/{query}"), &head);
        let parts = page.split(">agent ").skip(1);
        let numbers: Vec<usize> = parts
            .filter_map(|part| part.split([' ', '<']).next()?.parse().ok())
            .collect();
        (page, numbers)
    };
    let (first, numbers) = shown("");
    assert!(
        first.contains("230 runs</p>") && first.contains("Page 1 of 3"),
        "{first}"
    );
    assert_eq!(numbers, (130..230).rev().collect::<Vec<_>>());
    assert_eq!(shown("?page=3").1, (0..30).rev().collect::<Vec<_>>());
    assert_eq!(shown("?page=0").1, numbers);
    assert_eq!(shown("?page=4000").1, shown("?page=3").1);
    assert_eq!(shown("?order=oldest&page=2").1, (100..200).collect::<Vec<_>>());
    let (found, numbers) = shown("?q=run-17&page=2");
    assert!(
        found.contains("11 of 230 runs") && !found.contains("Page 1"),
        "{found}"
    );
    assert_eq!(numbers.len(), 11);
    // A file has one page.
    project.run(&["view", "--export", "pages"]).exits(0);
    assert_eq!(project.read("pages/index.html").matches(">agent ").count(), 230);
}

#[test]
fn a_run_file_beside_its_journal_is_not_read_again_unless_it_changes() {
    let project = with_run(&half_correct_server());
    let summaries = project.path(".holodeck/run-files");
    assert!(View::start(&project).list().contains("1 run</p>"));
    let kept: Vec<_> = fs::read_dir(&summaries)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(kept.len(), 1);
    let view = View::start(&project);
    let head = view.log_in();
    assert!(view.ask("GET", "/", &head).contains("1 run</p>"));
    // Without its journal it is a run of its own.
    fs::remove_file(project.journals().remove(0)).unwrap();
    let list = view.ask("GET", "/", &head);
    assert!(
        list.contains("1 run</p>") && list.contains("1 of 2 passed") || list.contains("1 passed"),
        "{list}"
    );
    // Changed so that it names another run: it is read again.
    let file = fs::read_dir(project.path("results"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let file = fs::read_dir(file).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(
        &file,
        text.replacen("\"agent_name\": \"support\"", "\"agent_name\": \"other\"", 1),
    )
    .unwrap();
    assert!(View::start(&project).list().contains(">other "));
    // A link in the place of the folder is not followed.
    fs::remove_dir_all(&summaries).unwrap();
    fs::create_dir(project.path("outside")).unwrap();
    symlink(project.path("outside"), &summaries).unwrap();
    assert!(View::start(&project).list().contains(">other "));
    assert_eq!(fs::read_dir(project.path("outside")).unwrap().count(), 0);
}
