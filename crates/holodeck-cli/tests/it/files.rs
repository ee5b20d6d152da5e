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
