//! Tests of the files that keep logins: who may read them, what replaces them, and whose they are.

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;

use super::*;
use crate::login::saved::now;

fn saved(server: &str, issuer: &str, token: &str) -> Saved {
    Saved {
        server: server.to_owned(),
        resource: server.to_owned(),
        issuer: issuer.to_owned(),
        authorization_endpoint: format!("{issuer}/authorize"),
        token_endpoint: format!("{issuer}/token"),
        revocation_endpoint: None,
        auth_methods: Vec::new(),
        client_id: "c".to_owned(),
        client_secret: None,
        scopes: Vec::new(),
        access_token: token.to_owned(),
        refresh_token: None,
        expires_at: None,
        since: now(),
    }
}

struct Place {
    _folder: tempfile::TempDir,
    logins: Logins,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let logins = Logins::new(folder.path().join("home/mcp-logins"));
        Self {
            _folder: folder,
            logins,
        }
    }

    fn write(&self, saved: &Saved) {
        self.logins.write(&server(&saved.server), saved).unwrap();
    }

    fn token(&self, url: &str) -> Option<String> {
        let found = self.logins.find(&server(url)).unwrap();
        found.map(|saved| saved.access_token)
    }
}

fn server(url: &str) -> HttpUrl {
    server_url(url).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

const TICKETS: &str = "https://tickets.test/mcp";
const ISSUER: &str = "https://login.test";

#[test]
fn a_login_is_readable_by_its_owner_only_and_whole() {
    let place = Place::new();
    place.write(&saved(TICKETS, ISSUER, "token-1"));
    place.write(&saved(TICKETS, ISSUER, "token-2"));
    assert_eq!(place.token(TICKETS).as_deref(), Some("token-2"));
    assert_eq!(mode(&place.logins.folder), 0o700);
    let files: Vec<_> = fs::read_dir(&place.logins.folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    let [file] = files.as_slice() else {
        panic!("{files:?}")
    };
    assert_eq!(mode(file), 0o600);
    // The name says nothing of the server.
    assert!(!file.display().to_string().contains("tickets"), "{files:?}");
    assert!(!format!("{:?}", saved(TICKETS, ISSUER, "token-3")).contains("token-3"));
}

#[test]
fn a_login_is_found_by_the_whole_address_and_by_nothing_else() {
    let place = Place::new();
    place.write(&saved(TICKETS, ISSUER, "token-1"));
    for same in [
        "https://tickets.test/mcp#part",
        " https://TICKETS.test:443/mcp ",
        "wss://tickets.test/mcp",
    ] {
        assert_eq!(place.token(same).as_deref(), Some("token-1"), "{same}");
    }
    for other in [
        "https://tickets.test/mcp/",
        "https://tickets.test/",
        "https://tickets.test/mcp2",
        "https://tickets.test/mcp?team=a",
        "https://tickets.test:8443/mcp",
        "http://tickets.test/mcp",
        "https://tickets.test.evil.test/mcp",
        "ws://tickets.test/mcp",
    ] {
        assert_eq!(place.token(other), None, "{other}");
    }
}

#[test]
fn a_login_by_another_authorization_server_replaces_the_one_before() {
    let place = Place::new();
    place.write(&saved(TICKETS, ISSUER, "token-1"));
    place.write(&saved("https://other.test/mcp", ISSUER, "token-other"));
    place.write(&saved(TICKETS, "https://new.test", "token-2"));
    assert_eq!(place.token(TICKETS).as_deref(), Some("token-2"));
    assert_eq!(place.logins.paths(&server(TICKETS)).unwrap().len(), 1);
    assert_eq!(
        place.token("https://other.test/mcp").as_deref(),
        Some("token-other")
    );
}

#[test]
fn links_open_files_and_foreign_files_are_refused_and_named() {
    let place = Place::new();
    let url = server(TICKETS);
    place.write(&saved(TICKETS, ISSUER, "token-1"));
    let path = place.logins.path(TICKETS, ISSUER);
    let refusal = || place.logins.find(&url).unwrap_err().to_string();

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(
        refusal().contains("others can read it (mode 640)"),
        "{}",
        refusal()
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    let elsewhere = place.logins.folder.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(refusal().contains("a link is not followed"), "{}", refusal());
    // A new login replaces the link, and not the file that it leads to.
    place.write(&saved(TICKETS, ISSUER, "token-2"));
    assert_eq!(place.token(TICKETS).as_deref(), Some("token-2"));
    assert!(fs::read_to_string(&elsewhere).unwrap().contains("token-1"));

    // The login of another server under the name of this one.
    place.write(&saved("https://other.test/mcp", ISSUER, "token-other"));
    fs::copy(place.logins.path("https://other.test/mcp", ISSUER), &path).unwrap();
    assert!(refusal().contains("another server"), "{}", refusal());

    fs::write(&path, "{\"access_token\": \"token-5").unwrap();
    assert!(
        refusal().contains("damaged") && !refusal().contains("token-5"),
        "{}",
        refusal()
    );
    assert!(place.logins.has(TICKETS));
    fs::set_permissions(&place.logins.folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refusal().contains("mode 755"), "{}", refusal());
}

#[test]
fn a_folder_that_is_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real");
    create_private_folder(&real).unwrap();
    symlink(&real, folder.path().join("link")).unwrap();
    let logins = Logins::new(folder.path().join("link"));
    let error = logins
        .write(&server(TICKETS), &saved(TICKETS, ISSUER, "token-1"))
        .unwrap_err();
    assert!(error.to_string().contains("a link is not followed"), "{error}");
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

#[tokio::test]
async fn a_lock_is_held_by_one_at_a_time() {
    let place = Place::new();
    let url = server(TICKETS);
    let first = place.logins.lock(&url).await.unwrap();
    // Another server's login is not concerned.
    drop(
        place
            .logins
            .lock(&server("https://other.test/mcp"))
            .await
            .unwrap(),
    );
    let logins = place.logins.clone();
    let second = tokio::spawn(async move { logins.lock(&server(TICKETS)).await.map(drop) });
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    drop(first);
    second.await.unwrap().unwrap();
}
