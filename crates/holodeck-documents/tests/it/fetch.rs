//! Tests of downloads from a scripted server: redirects, private addresses, caching and limits.

use std::path::Path;
use std::time::Duration;

use holodeck_documents::{Addresses, FetchError, FetchOptions, Fetched, Fetcher, Format, Sent};
use holodeck_http::{HttpOptions, HttpUrl, ProxyOptions};
use pretty_assertions::assert_eq;
use tokio_util::sync::CancellationToken;

use crate::web::{Page, Web, page, redirect};

fn fetcher(options: FetchOptions) -> Fetcher {
    Fetcher::new(&HttpOptions::default(), options).unwrap()
}

fn near() -> FetchOptions {
    FetchOptions {
        addresses: Addresses::Any,
        ..FetchOptions::default()
    }
}

fn keeping(folder: &Path) -> FetchOptions {
    FetchOptions {
        cache: Some(folder.to_owned()),
        ..near()
    }
}

async fn fetch(web: &Web, path: &str, options: FetchOptions) -> Result<Fetched, FetchError> {
    let url = HttpUrl::parse(&format!("{}{path}", web.origin)).unwrap();
    fetcher(options).fetch(&url, &CancellationToken::new()).await
}

#[tokio::test]
async fn a_file_has_its_name_and_the_format_of_its_media_type() {
    let web = Web::start().await;
    for (path, headers, name, format) in [
        (
            "/a/gu%C3%ADa%20b.pdf",
            "Content-Type: application/pdf\r\n",
            "guía b.pdf",
            Some(Format::Pdf),
        ),
        (
            "/readme.md",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "readme.md",
            Some(Format::Markdown),
        ),
        (
            "/page.md?x=1",
            "Content-Type: text/html\r\n",
            "page.md",
            Some(Format::Html),
        ),
        ("/", "", "127.0.0.1", None),
        (
            "/data.csv",
            "Content-Type: application/octet-stream\r\n",
            "data.csv",
            Some(Format::Csv),
        ),
        ("/%2e%2e%2fx", "", ".._x", None),
    ] {
        web.put(path, page("200 OK", headers, b"content"));
        let fetched = fetch(&web, path, near()).await.unwrap();
        let plain = path.split('?').next().unwrap();
        assert_eq!(fetched.url, format!("{}{plain}", web.origin));
        assert_eq!((fetched.name.as_str(), fetched.format), (name, format), "{path}");
        assert_eq!(
            (fetched.bytes.as_slice(), fetched.sent),
            (&b"content"[..], Sent::Now)
        );
    }
}

#[tokio::test]
async fn this_machine_is_refused_unless_allowed() {
    let web = Web::start().await;
    web.put("/x", page("200 OK", "", b"secret"));
    let error = fetch(&web, "/x", FetchOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "can't connect to {}/x: 127.0.0.1 is not a public address",
            web.origin
        )
    );
    assert_eq!(web.requests(), Vec::<String>::new());
}

/// A public page can't redirect to an address of the local network. The page is served through a proxy, since nothing
/// public is available here.
#[tokio::test]
async fn a_public_page_that_leads_to_a_private_address_is_refused() {
    let web = Web::start().await;
    let first = "http://pages.example/handbook.md";
    let http = HttpOptions {
        proxy: ProxyOptions {
            http: Some(web.origin.clone().into()),
            ..ProxyOptions::default()
        },
        ..HttpOptions::default()
    };
    let fetcher = Fetcher::new(&http, FetchOptions::default()).unwrap();
    for (to, refused) in [
        ("http://10.0.0.7/secret", "10.0.0.7"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("http://[::1]:8080/", "::1"),
        ("http://127.0.0.1/", "127.0.0.1"),
    ] {
        web.put(first, redirect(to));
        web.put(to, page("200 OK", "", b"secret"));
        let url = HttpUrl::parse(first).unwrap();
        let error = fetcher.fetch(&url, &CancellationToken::new()).await.unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(refused) && error.ends_with("is not a public address"),
            "{error}"
        );
        // Only the first page was requested.
        assert_eq!(web.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_protected_page_that_leads_to_an_unprotected_one_is_refused() {
    let (secure, authority) = Web::start_secure().await;
    let plain = Web::start().await;
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("authority.pem");
    std::fs::write(&bundle, authority).unwrap();
    let http = HttpOptions {
        ca_bundle: Some(bundle),
        ..HttpOptions::default()
    };
    let fetcher = Fetcher::new(&http, near()).unwrap();
    let get = async |path: &str| {
        let url = HttpUrl::parse(&format!("{}{path}", secure.origin)).unwrap();
        fetcher.fetch(&url, &CancellationToken::new()).await
    };
    secure.put("/a.md", redirect("/b.md"));
    secure.put("/b.md", page("200 OK", "", b"text"));
    assert_eq!(get("/a.md").await.unwrap().bytes, b"text");
    plain.put("/b.md", page("200 OK", "", b"text"));
    secure.put("/a.md", redirect(&format!("{}/b.md", plain.origin)));
    let error = get("/a.md").await.unwrap_err();
    assert!(matches!(error, FetchError::Unprotected { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains(&secure.origin) && error.contains(&plain.origin),
        "{error}"
    );
    assert_eq!(plain.requests(), Vec::<String>::new());
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_they_are_sound() {
    let web = Web::start().await;
    web.put("/a", redirect("b/c"));
    web.put("/b/c", redirect("/end.txt"));
    web.put("/end.txt", page("200 OK", "", b"end"));
    web.put("/loop", redirect("/loop"));
    web.put("/mute", page("302 Found", "", b""));
    web.put("/file", redirect("file:///etc/passwd"));
    web.put("/none", page("204 No Content", "", b""));
    let fetched = fetch(&web, "/a", near()).await.unwrap();
    assert_eq!(
        (fetched.name.as_str(), fetched.bytes.as_slice()),
        ("end.txt", &b"end"[..])
    );
    web.requests();
    let mut errors = Vec::new();
    for path in ["/loop", "/mute", "/file", "/none", "/gone"] {
        let error = fetch(&web, path, near()).await.unwrap_err();
        errors.push(error.to_string().replace(&web.origin, "http://web"));
    }
    insta::assert_snapshot!(errors.join("\n"));
    assert_eq!(web.requests().len(), 6 + 4);
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let web = Web::start().await;
    let folder = tempfile::tempdir().unwrap();
    let head = "ETag: \"one\"\r\nLast-Modified: Tue, 01 Sep 2026 10:00:00 GMT\r\nContent-Type: text/csv\r\n";
    web.put("/list?key=hush", page("200 OK", head, b"a,b"));
    let first = fetch(&web, "/list?key=hush", keeping(folder.path()))
        .await
        .unwrap();
    assert!(!web.requests()[0].to_lowercase().contains("if-"));
    web.put("/list?key=hush", page("304 Not Modified", "", b""));
    let second = fetch(&web, "/list?key=hush", keeping(folder.path()))
        .await
        .unwrap();
    let request = web.requests()[0].to_lowercase();
    assert!(request.contains("if-none-match: \"one\""), "{request}");
    assert!(
        request.contains("if-modified-since: tue, 01 sep 2026 10:00:00 gmt"),
        "{request}"
    );
    assert_eq!(second.sent, Sent::Before);
    assert_eq!(
        Fetched {
            sent: Sent::Before,
            ..first
        },
        second
    );
    // The cache contains no secrets.
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("hush") && !path.to_str().unwrap().contains("hush"));
    }
    web.put("/list?key=hush", page("200 OK", "ETag: \"two\"\r\n", b"new"));
    let third = fetch(&web, "/list?key=hush", keeping(folder.path()))
        .await
        .unwrap();
    assert_eq!((third.sent, third.bytes.as_slice()), (Sent::Now, &b"new"[..]));
}

#[tokio::test]
async fn what_is_kept_and_damaged_is_fetched_again() {
    let web = Web::start().await;
    let folder = tempfile::tempdir().unwrap();
    web.put("/x", page("200 OK", "ETag: \"one\"\r\n", b"content"));
    fetch(&web, "/x", keeping(folder.path())).await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "content") {
            std::fs::write(path, b"conten").unwrap();
        }
    }
    web.requests();
    let fetched = fetch(&web, "/x", keeping(folder.path())).await.unwrap();
    assert_eq!(
        (fetched.sent, fetched.bytes.as_slice()),
        (Sent::Now, &b"content"[..])
    );
    assert!(!web.requests()[0].to_lowercase().contains("if-none-match"));
}

#[tokio::test]
async fn a_validator_is_only_sent_to_its_origin() {
    let web = Web::start().await;
    let folder = tempfile::tempdir().unwrap();
    web.put("/latest", redirect("/v1"));
    web.put("/v1", page("200 OK", "ETag: \"one\"\r\n", b"one"));
    web.put("/v2", page("200 OK", "ETag: \"one\"\r\n", b"two"));
    fetch(&web, "/latest", keeping(folder.path())).await.unwrap();
    web.put("/latest", redirect("/v2"));
    web.requests();
    let fetched = fetch(&web, "/latest", keeping(folder.path())).await.unwrap();
    assert_eq!(fetched.bytes, b"two");
    assert!(
        web.requests()
            .iter()
            .all(|request| !request.to_lowercase().contains("if-none-match"))
    );
}

#[tokio::test]
async fn size_and_time_are_limited() {
    let web = Web::start().await;
    web.put("/declared", page("200 OK", "", &[b'x'; 2000]));
    web.put(
        "/endless",
        Page::Endless("HTTP/1.1 200 OK\r\n\r\n".to_owned(), vec![b'x'; 512]),
    );
    web.put("/hanging", Page::Hanging);
    let small = || FetchOptions {
        max_bytes: 1000,
        ..near()
    };
    for path in ["/declared", "/endless"] {
        let error = fetch(&web, path, small()).await.unwrap_err().to_string();
        assert!(error.ends_with("is larger than 1000 bytes"), "{error}");
    }
    let brief = FetchOptions {
        timeout: Duration::from_millis(50),
        ..near()
    };
    let error = fetch(&web, "/hanging", brief).await.unwrap_err().to_string();
    assert!(error.contains("within"), "{error}");
}

#[tokio::test]
async fn a_fetch_can_be_cancelled() {
    let web = Web::start().await;
    web.put("/hanging", Page::Hanging);
    let url = HttpUrl::parse(&format!("{}/hanging", web.origin)).unwrap();
    let cancel = CancellationToken::new();
    let fetcher = fetcher(near());
    let fetch = fetcher.fetch(&url, &cancel);
    let (fetched, ()) = tokio::join!(fetch, async { cancel.cancel() });
    assert!(matches!(fetched, Err(FetchError::Cancelled)));
}
