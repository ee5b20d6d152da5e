//! Tests of lost connections, restarted servers and refused appends: delivered events are exactly the stored ones.

use holodeck_events::{EventStore as _, PostgresOptions, PostgresStore, StoreError, StoredEvent, View};
use pretty_assertions::assert_eq;

use crate::{
    backend_events::text,
    contract::{Subject, session_run},
    postgres_server::PostgresServer,
    session::check,
};

/// Checks that exactly the delivered events are stored.
fn checked(delivered: &[StoredEvent], stored: &[StoredEvent]) {
    assert_eq!(stored, delivered);
    let events: Vec<_> = stored.iter().map(|event| event.event().clone()).collect();
    assert_eq!(check(View::Live, &events), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_server_in_mid_run_ends_nothing() {
    let mut server = PostgresServer::start();
    let subject = Subject::postgres(&server, "events").await;
    let two = subject.open_database().await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    let mut subscription = two.subscribe("s", None).await.unwrap();
    let mut delivered = vec![subscription.next().await.unwrap().unwrap()];
    for _ in 0..2 {
        for _ in 0..20 {
            delivered.extend(subject.piece(&mut run, "x").await.unwrap());
        }
        server.stop();
        // It waits until the server is there again.
        let waiting = {
            let (store, drafts) = (subject.store.clone(), run.observe(&text("y")));
            tokio::spawn(async move { store.append(drafts).await })
        };
        server.start_again();
        delivered.extend(waiting.await.unwrap().unwrap());
        // The owner lives, whichever of them the server saw first.
        assert_eq!(two.recover().await.unwrap(), Vec::<String>::new());
    }
    delivered.extend(subject.end(&mut run).await.unwrap());
    checked(&delivered, &subject.stored("s").await);
    // The subscriber in the other process misses nothing either.
    for event in delivered.split_off(1) {
        assert_eq!(subscription.next().await, Ok(Some(event)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_ended_are_reopened() {
    let server = PostgresServer::start();
    let subject = Subject::postgres(&server, "events").await;
    let two = subject.open_database().await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    let mut subscription = two.subscribe("s", None).await.unwrap();
    let mut delivered = vec![subscription.next().await.unwrap().unwrap()];
    for _ in 0..10 {
        server.end_connections();
        let stored = subject.piece(&mut run, "x").await.unwrap();
        // What was announced while nobody listened is made up for.
        let received = subscription.next().await.unwrap().unwrap();
        assert_eq!([received], stored[..]);
        delivered.extend(stored);
    }
    delivered.extend(subject.end(&mut run).await.unwrap());
    checked(&delivered, &subject.stored("s").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_open_an_empty_database_at_once_create_its_tables_once() {
    let server = PostgresServer::start();
    let open = || {
        let url = server.url();
        tokio::spawn(async move { PostgresStore::open(&url, PostgresOptions::default()).await })
    };
    let openings: Vec<_> = (0..6).map(|_| open()).collect();
    for opening in openings {
        opening.await.unwrap().unwrap().close().await.unwrap();
    }
    assert_eq!(server.ask("SELECT count(*) FROM holodeck_version"), "1");
    assert_eq!(server.ask("SELECT count(*) FROM holodeck_writers"), "0");
    server.run("UPDATE holodeck_version SET version = 99");
    let newer = PostgresStore::open(&server.url(), PostgresOptions::default()).await;
    assert!(matches!(newer, Err(StoreError::Newer { .. })), "{newer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_remedy_and_no_password() {
    let server = PostgresServer::start();
    server.run("CREATE ROLE visitor LOGIN PASSWORD 'hush'");
    let failure = async |url: &str| {
        let opened = PostgresStore::open(url, PostgresOptions::default()).await;
        let error = opened.unwrap_err().to_string();
        assert!(
            !error.contains("hush") && !error.contains(PostgresServer::PASSWORD),
            "{error}"
        );
        error.replace(&server.port().to_string(), "PORT")
    };
    let at = |user: &str, database: &str| {
        format!("postgresql://{user}:hush@127.0.0.1:{}/{database}", server.port())
    };
    let mistakes = [
        failure(&at("stranger", "postgres")).await,
        failure(&at("visitor", "nowhere")).await,
        failure(&at("visitor", "postgres")).await,
        failure(&format!("{}?options=-c%20search_path%3Dnowhere", server.url())).await,
        failure(&format!("{}?sslmode=require", server.url())).await,
        failure("postgresql://u:hush@db.example/d?sslmode=maybe").await,
        failure("postgresql://u:hu@sh@127.0.0.1/d").await,
        failure("postgresql://u:hush@127.0.0.1:x/d").await,
        failure("mysql://u:hush@127.0.0.1/d").await,
        failure("postgresql:///d").await,
    ];
    insta::assert_snapshot!(mistakes.join("\n"), @r#"
    events could not be stored: PostgreSQL 127.0.0.1:PORT/postgres: password authentication failed for user "stranger"; check the user and the password of its URL
    events could not be stored: PostgreSQL 127.0.0.1:PORT/nowhere: database "nowhere" does not exist; create the database or name another one
    events could not be stored: PostgreSQL 127.0.0.1:PORT/postgres: permission denied for schema public; the user must be allowed to create tables in the schema, or to write the tables holodeck_*
    events could not be stored: PostgreSQL 127.0.0.1:PORT/postgres: the search_path names no schema that exists
    events could not be stored: PostgreSQL 127.0.0.1:PORT/postgres: error performing TLS handshake: server does not support TLS
    events could not be stored: the URL of the PostgreSQL database has the unknown sslmode `maybe`; modes: disable, prefer, require, verify-ca, verify-full
    events could not be stored: the URL of the PostgreSQL database has several `@`; write one in a user or a password as %40
    events could not be stored: the URL of the PostgreSQL database can't be read: invalid value for option `port`
    events could not be stored: the URL of the PostgreSQL database must begin with postgresql://
    events could not be stored: the URL of the PostgreSQL database names no host (postgresql://user@host:5432/database)
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_the_server_refuses_leaves_nothing() {
    let server = PostgresServer::start();
    let subject = Subject::postgres(&server, "events").await;
    let mut run = subject.open(session_run("s")).await.unwrap();
    server
        .run("ALTER TABLE events.holodeck_events ADD CONSTRAINT broken CHECK (payload NOT LIKE '%broken%')");
    let before = subject.stored("s").await;
    let refused = subject.piece(&mut run, "broken").await;
    assert!(matches!(refused, Err(StoreError::Failed { .. })), "{refused:?}");
    assert_eq!(subject.stored("s").await, before);
    let next = subject.piece(&mut run, "whole").await.unwrap();
    assert_eq!(next[0].index(), 1);
    // A page ends where its bytes are too many, and not before its first event.
    let large = "x".repeat(700_000);
    for _ in 0..3 {
        subject.piece(&mut run, &large).await.unwrap();
    }
    let page = subject.store.read_page("s", Some(1), 100).await.unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!(subject.stored("s").await.len(), 5);
}
