//! Tests of connection settings: both forms, precedence of options, TLS, and no secrets in errors.

use holodeck_model::{DatabaseConfig, DatabaseProvider};
use holodeck_postgres::tokio_postgres::config::SslMode;
use serde_json::{Value, json};

use super::{Target, VectorIndex};

fn target(connection: Option<&str>, options: Value) -> Result<Target, String> {
    let Value::Object(options) = options else {
        unreachable!()
    };
    let config = DatabaseConfig {
        provider: DatabaseProvider::Postgres,
        connection_string: connection.map(Into::into),
        options,
    };
    Target::new(&config, "support_kb").map_err(|error| error.to_string())
}

fn of(connection: &str) -> Target {
    target(Some(connection), json!({})).unwrap()
}

#[test]
fn both_forms_are_read_and_described_without_the_password() {
    for text in [
        "postgresql://ann:hush@db.test:6000/kb?sslmode=require&application_name=x",
        "postgres+psycopg://ann:hush@db.test:6000/kb?application_name=x&sslmode=require",
        "host=db.test port=6000 user=ann password='hu\\'sh' dbname=kb sslmode=require",
        "  host = db.test port=6000 user=ann sslmode = 'require' password=hush dbname=kb ",
    ] {
        let target = of(text);
        assert_eq!(target.describe(), "postgres db.test:6000/kb public.support_kb");
        assert_eq!(target.database.config().get_user(), Some("ann"));
        assert_eq!(target.database.config().get_ssl_mode(), SslMode::Require);
        assert!(!format!("{target:?}").contains("hush"));
    }
}

#[test]
fn tls_is_used_between_machines_unless_disabled() {
    assert_eq!(
        of("postgresql://u@127.0.0.1/d").database.config().get_ssl_mode(),
        SslMode::Disable
    );
    assert_eq!(
        of("postgresql://u@localhost/d").database.config().get_ssl_mode(),
        SslMode::Disable
    );
    assert_eq!(
        of("host=/run/postgresql user=u").database.config().get_ssl_mode(),
        SslMode::Disable
    );
    assert_eq!(
        of("postgresql://u@db.test/d").database.config().get_ssl_mode(),
        SslMode::Prefer
    );
    assert_eq!(
        of("postgresql://u@db.test/d?sslmode=disable")
            .database
            .config()
            .get_ssl_mode(),
        SslMode::Disable
    );
    assert_eq!(
        of("postgresql://u@localhost/d?sslmode=verify-full")
            .database
            .config()
            .get_ssl_mode(),
        SslMode::Require
    );
}

#[test]
fn options_come_before_the_connection_string() {
    let target = target(
        None,
        json!({"host": "db.test", "port": 6000, "dbname": "kb", "user": "ann", "password": "hush",
            "db_schema": "agents", "table": "Passages", "index": "hnsw", "ef_search": 40}),
    )
    .unwrap();
    assert_eq!(target.describe(), "postgres db.test:6000/kb agents.Passages");
    assert_eq!(target.names.vectors, "\"agents\".\"Passages_vectors\"");
    assert_eq!(
        target.index,
        VectorIndex::Hnsw {
            m: 16,
            ef_construction: 64,
            ef_search: 40
        }
    );
}

#[test]
fn errors_show_no_secrets() {
    let rejection = |connection: Option<&str>, options| target(connection, options).unwrap_err();
    let mistakes = [
        rejection(None, json!({})),
        rejection(Some("mysql://ann:hush@db/kb"), json!({})),
        rejection(Some("postgresql://ann:hush@hush@db/kb"), json!({})),
        rejection(Some("hush"), json!({})),
        rejection(Some("host=db password=hush hush user=ann"), json!({})),
        rejection(Some("postgresql://ann:hush@db:port/kb"), json!({})),
        rejection(Some("postgresql://ann:hush@db/kb?poolsize=4"), json!({})),
        rejection(Some("postgresql://ann:hush@db/kb?sslmode=maybe"), json!({})),
        rejection(
            Some("postgresql://ann:hush@db/kb?sslmode=require&sslrootcert=/nowhere/ca.pem"),
            json!({}),
        ),
        rejection(Some("postgresql://db/kb"), json!({"index": "ivfflat"})),
        rejection(Some("postgresql://db/kb"), json!({"index": "hnsw", "m": 1})),
        rejection(
            Some("postgresql://db/kb"),
            json!({"language": "english'; drop table"}),
        ),
        rejection(Some("postgresql://db/kb"), json!({"table": "x".repeat(64)})),
        rejection(Some("postgresql://db/kb"), json!({"tabel": "x"})),
    ];
    for mistake in &mistakes {
        assert!(!mistake.contains("hush"), "{mistake}");
    }
    insta::assert_snapshot!(mistakes.join("\n"));
}
