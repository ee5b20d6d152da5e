//! Reads the plan of every statement of both stores: none reads a whole table that grows with what was ever stored.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests"
)]

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

use super::{PostgresOptions, PostgresStore, SqliteOptions, SqliteStore, postgres, sqlite};

#[path = "../../../holodeck-testkit/src/postgres.rs"]
#[allow(unreachable_pub, dead_code, missing_docs, reason = "shared with the testkit")]
mod postgres_server;

/// The tables that grow.
const TABLES: [&str; 5] = ["sessions", "runs", "events", "approvals", "always_approved"];

/// Indices with what is open, asked or half deleted at present: they may be read from end to end.
const SMALL: [&str; 4] = ["open_runs", "running", "pending", "leftovers"];

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_file_reads_a_table_that_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await.unwrap();
    let tables = rusqlite::Connection::open(&path).unwrap();
    // As the store has it: foreign keys are checked by queries, too.
    tables.pragma_update(None, "foreign_keys", true).unwrap();
    let config = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG;
    tables.set_db_config(config, true).unwrap();
    let plan = |sql: &str| -> Vec<String> {
        let mut statement = tables.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        for parameter in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(parameter, 1).unwrap();
        }
        let mut rows = statement.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get::<_, String>("detail").unwrap());
        }
        steps
    };
    let mut scans = Vec::new();
    for (name, statement) in sqlite::statements::ALL {
        for step in plan(statement.sql()) {
            if is_scan_in_file(&step) {
                scans.push(format!("{name}: {step}"));
            }
        }
    }
    assert_eq!(scans, [""; 0]);
    // The test sees what it looks for.
    assert!(
        plan("SELECT * FROM runs WHERE writer = ?")
            .iter()
            .any(|step| is_scan_in_file(step))
    );
    tables.execute_batch("DROP INDEX events_of").unwrap();
    let references = plan("DELETE FROM runs WHERE number = ?");
    assert!(
        references.iter().any(|step| is_scan_in_file(step)),
        "{references:?}"
    );
    store.close().await.unwrap();
}

/// Whether a step of SQLite's plan reads all rows of a table or of an index that grows.
fn is_scan_in_file(step: &str) -> bool {
    let Some(what) = step.strip_prefix("SCAN ") else {
        return false;
    };
    let is_small = SMALL
        .iter()
        .any(|index| what.ends_with(&format!("INDEX {index}")));
    let is_other = ["writers", "CONSTANT ROW"].contains(&what);
    !is_small && !is_other
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_database_reads_a_table_that_grows() {
    let server = postgres_server::PostgresServer::start();
    let options = PostgresOptions {
        watches: false,
        ..PostgresOptions::default()
    };
    let store = PostgresStore::open(&server.url(), options).await.unwrap();
    // So much that reading all of it is never the cheapest way.
    for sql in [
        "INSERT INTO holodeck_sessions (session_id, owner, agent, server, created_at, last_at)
             SELECT 's-' || n, 'user-' || n % 500, 'agent', 0, n, n FROM generate_series(1, 5000) AS n",
        "INSERT INTO holodeck_runs (run_id, session, writer, epoch, client_message_id, first_index, last_index, ended_at,
                 pruned)
             SELECT 'r-' || n, 1 + n % 5000, 'w-' || n % 100, 0, 'c-' || n, n, CASE WHEN n > 10 THEN n + 3 END, n,
                 n < 19000 FROM generate_series(1, 20000) AS n",
        "INSERT INTO holodeck_events (session, event_index, event_id, run, class, type, payload, tool_use_id)
             SELECT 1 + n % 5000, n, decode(md5(n::text), 'hex'), 1 + n % 20000, n % 3,
                 CASE WHEN n % 10 = 0 THEN 'user_message_confirmed' ELSE 'message' END, '{}',
                 CASE WHEN n % 4 = 0 THEN 't-' || n END FROM generate_series(1, 60000) AS n",
        "INSERT INTO holodeck_approvals (approval_id, session, requested_index, resolved_index, approved_tool)
             SELECT 'a-' || n, 1 + n % 5000, n, CASE WHEN n > 10 THEN n END, CASE WHEN n % 50 = 0 THEN 'f' END
             FROM generate_series(1, 20000) AS n",
        "INSERT INTO holodeck_always_approved SELECT 'user-' || n % 500, 'agent-' || n % 7, 'f-' || n
             FROM generate_series(1, 5000) AS n",
        "ANALYZE",
    ] {
        server.run(sql);
    }
    let plan = |sql: &str| -> Value {
        let explained = server.ask(&format!("EXPLAIN (GENERIC_PLAN, FORMAT JSON) {sql}"));
        serde_json::from_str(&explained).unwrap_or_else(|error| panic!("{error}: {sql}: {explained}"))
    };
    let scans = |sql: &str| {
        let mut found = Vec::new();
        find_scans(&plan(sql), &mut found);
        found
    };
    let mut found = Vec::new();
    for (name, statement) in postgres::statements::ALL {
        found.extend(
            scans(statement.sql())
                .into_iter()
                .map(|scan| format!("{name}: {scan}")),
        );
    }
    assert_eq!(found, [""; 0]);
    // The test sees what it looks for.
    assert_eq!(scans("SELECT * FROM holodeck_runs WHERE epoch = $1").len(), 1);
    assert_eq!(
        scans("SELECT last_at FROM holodeck_sessions WHERE NOT deleted ORDER BY last_at").len(),
        1
    );
    // The server checks references by queries of its own.
    let unindexed = "SELECT coalesce(string_agg(conname, ' '), '') FROM pg_constraint AS reference
        WHERE contype = 'f' AND NOT EXISTS (
            SELECT 1 FROM pg_index WHERE indrelid = conrelid AND indpred IS NULL AND indkey[0] = conkey[1])";
    assert_eq!(server.ask(unindexed), "");
    store.close().await.unwrap();
}

/// The nodes of PostgreSQL's plan that read all rows of a table that grows, by themselves or through an index.
fn find_scans(node: &Value, found: &mut Vec<String>) {
    match node {
        Value::Array(nodes) => nodes.iter().for_each(|node| find_scans(node, found)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let table = text("Relation Name").trim_start_matches("holodeck_");
            let index = text("Index Name").trim_start_matches("holodeck_");
            let kind = text("Node Type");
            let is_index = kind.starts_with("Index") || kind == "Bitmap Index Scan";
            let reads_all = match kind {
                "Seq Scan" | "Tid Range Scan" | "Sample Scan" => TABLES.contains(&table),
                _ => is_index && !fields.contains_key("Index Cond") && !SMALL.contains(&index),
            };
            if reads_all {
                found.push(format!("{kind} of {table} {index}"));
            }
            fields.values().for_each(|node| find_scans(node, found));
        }
        _ => {}
    }
}

#[test]
fn all_sql_is_in_the_lists() {
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut elsewhere = BTreeSet::new();
    for kind in ["sqlite", "postgres"] {
        let files = fs::read_dir(store.join(kind))
            .unwrap()
            .map(|entry| entry.unwrap().path());
        for file in files.chain([store.join(kind).with_extension("rs")]) {
            let name = file.strip_prefix(&store).unwrap().display().to_string();
            // The lists, and the tables themselves.
            if ["statements.rs", "schema.rs", "database.rs"]
                .iter()
                .any(|list| name.ends_with(list))
            {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let words = [
                "\"SELECT ",
                "\"INSERT ",
                "\"UPDATE ",
                "\"DELETE ",
                "\"WITH ",
                "prepare_cached(\"",
            ];
            if words.iter().any(|word| text.contains(word)) {
                elsewhere.insert(name);
            }
        }
    }
    assert_eq!(elsewhere, BTreeSet::new());
}
