//! Tests that attached documents and web pages reach the model, and that private networks are refused.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use holodeck_testkit::{ModelServer, Reply};

use crate::project::{Project, agent};

/// Serves a page to this many requests.
fn serve_page(times: usize) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/prices.csv", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        for _ in 0..times {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let body = "fruit,price\nkiwi,3\n";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/csv\r\nconnection: close\r\ncontent-length: ";
            write!(stream, "{head}{}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    (url, served)
}

#[test]
fn a_pdf_and_a_web_page_are_sent_to_the_model() {
    let server = ModelServer::answering(|request| {
        let asked = request.texts("user").join("\n");
        let both = asked.contains("| kiwi | 3 |") && asked.contains("File: handbook.pdf\n");
        Reply::text(if both { "Both are there." } else { "No." })
    });
    let (url, served) = serve_page(1);
    let cases = format!(
        "  - input: What do they say?\n    ground_truth: Both are there\n    files:\n      \
         - {{path: handbook.pdf, type: pdf, pages: [1]}}\n      - {{url: \"{url}\", type: csv}}\n"
    );
    let allowed = "parallel_test_cases: 1\n  allow_private_urls: true";
    let yaml = agent(&server.url(), &cases).replace("parallel_test_cases: 1", allowed);
    let project = Project::with(&yaml);
    let pdf = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/documents/handbook.pdf"
    );
    std::fs::copy(pdf, project.path("handbook.pdf")).unwrap();
    project.run(&["test"]).exits(0);
    served.join().unwrap();
    server.finish();
}

#[test]
fn a_url_on_a_private_network_is_refused_by_default() {
    let server = ModelServer::answering(|_| Reply::text("asked"));
    let cases = "  - input: q\n    ground_truth: asked\n    \
                 files: [{url: \"http://127.0.0.1:9/a.csv\", type: csv}]\n";
    let project = Project::with(&agent(&server.url(), cases));
    let ran = project.run(&["test"]).exits(3);
    assert!(ran.all().contains("127.0.0.1"), "{ran:?}");
    assert_eq!(server.finish().len(), 0);
}

/// The notes on a file that was read are in every report, and at the terminal once for all cases.
#[test]
fn notes_on_attached_files_are_shown_wherever_the_case_is() {
    let server = ModelServer::answering(|request| {
        Reply::text(if request.texts("user").concat().contains("first") {
            "yes"
        } else {
            "no"
        })
    });
    let cases = "  - {name: a, input: first?, ground_truth: 'yes', files: [{path: menu.txt, type: text}]}\n  \
                 - {name: b, input: second?, ground_truth: 'yes', files: [{path: menu.txt, type: text}]}\n  \
                 - {name: c, input: first?, ground_truth: 'yes', files: [{path: plain.txt, type: text}]}\n";
    let project = Project::with(&agent(&server.url(), cases));
    project.write("menu.txt", b"A caf\xe9 for 3 \x80.".as_slice());
    project.write("plain.txt", "A café for 3 €.");
    let reports = ["html", "markdown", "junit"];
    let mut args = vec!["test".to_owned()];
    args.extend(reports.map(|format| format!("--report={format}=out.{format}")));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = project.run(&args).exits(1);
    let run = project.run_file();
    let warning = |case: usize| {
        let file = &run["report"]["results"][case]["processed_files"][0];
        file["metadata"]["warning"].as_str().map(str::to_owned)
    };
    let note = warning(0).unwrap();
    assert!(note.contains("Windows-1252"), "{note}");
    assert_eq!((warning(1), warning(2)), (Some(note.clone()), None));
    let shown = format!("file `menu.txt`: {note}");
    assert_eq!(ran.stderr.matches(&shown).count(), 1, "{ran:?}");
    assert!(!ran.all().contains("file `plain.txt`"), "{ran:?}");
    for format in reports {
        let report = std::fs::read_to_string(project.path(&format!("out.{format}"))).unwrap();
        // For the case that passed and for the one that failed, which Markdown has in its list of cases, too.
        let times = if format == "markdown" { 3 } else { 2 };
        assert_eq!(report.matches(&note).count(), times, "{format}: {report}");
    }
}
