//! Measures storing and delivering events, beside the same transactions in plain SQLite; and `holodeck serve`.

use anyhow::Result;
use holodeck_testkit::PostgresServer;
use serde_json::Value;

use super::figures::grouped;
use super::machine::Machine;
use super::program::{self, median};
use super::report::{at_most, budget_table, table};
use super::serve::{self, Serving};

const STORES: [&str; 3] = ["memory", "sqlite", POSTGRES];
const POSTGRES: &str = "postgres";
const SUBSCRIBERS: [usize; 3] = [1, 100, 1_000];

/// The deliveries of one store to a number of subscribers, in each run.
struct FanOut {
    store: &'static str,
    subscribers: usize,
    runs: Vec<Value>,
}

pub(super) fn measure(machine: &Machine, runs: u32) -> Result<String> {
    let program = program::build("holodeck-events", "events", "postgres,sqlite")?;
    let (mut appends, mut postgres) = (Vec::new(), Vec::new());
    let mut deliveries: Vec<FanOut> = Vec::new();
    for store in STORES {
        deliveries.extend(SUBSCRIBERS.map(|subscribers| FanOut {
            store,
            subscribers,
            runs: Vec::new(),
        }));
    }
    for run in 1..=runs {
        println!("run {run} of {runs}");
        let folder = || tempfile::Builder::new().prefix("holodeck-events-").tempdir();
        appends.push(program::run(&program, "append", folder()?.path(), None)?);
        let server = PostgresServer::start_durable();
        postgres.push(program::run(&program, "append-postgres", server.url(), None)?);
        for delivery in &mut deliveries {
            let count = Some(delivery.subscribers);
            let figures = if delivery.store == POSTGRES {
                // A database of its own, as the others have a file of their own.
                let server = PostgresServer::start_durable();
                program::run(&program, POSTGRES, server.url(), count)?
            } else {
                program::run(&program, delivery.store, folder()?.path(), count)?
            };
            delivery.runs.push(figures);
        }
    }
    // Once: it takes minutes.
    println!("stores with 100,000 runs");
    let history = program::run(&program, "history", folder_of_history()?.path(), None)?;
    let server = PostgresServer::start_durable();
    let history_in_database = program::run(&program, "history-postgres", server.url(), None)?;
    let serving = serve::measure(&machine.program()?, runs)?;
    Ok(render(
        machine,
        runs,
        &Figures {
            appends,
            postgres,
            deliveries,
            histories: [("SQLite", history), ("PostgreSQL", history_in_database)],
            serving,
        },
    ))
}

fn folder_of_history() -> Result<tempfile::TempDir> {
    Ok(tempfile::Builder::new().prefix("holodeck-events-").tempdir()?)
}

/// The limits of a long history.
fn budgets_of_history(store: &str, history: &Value) -> [super::report::Budget; 3] {
    let of = |pointer: &str| median(std::slice::from_ref(history), pointer);
    [
        at_most(
            &format!("{store}: a message with 100,000 runs stored, over one in an empty store"),
            of("/large/p50_us") / of("/empty/p50_us"),
            1.1,
            "×",
        ),
        at_most(
            &format!("{store}: a list of 50 conversations of 10,000"),
            of("/list/p50_us") / 1e3,
            10.0,
            "ms",
        ),
        at_most(
            &format!(
                "{store}: the longest message while 1,000 runs are deleted, over the longest in as long a time without"
            ),
            of("/deletion/longest_ms") - of("/alone/longest_ms"),
            50.0,
            "ms",
        ),
    ]
}

/// The measurements of each run.
struct Figures {
    appends: Vec<Value>,
    postgres: Vec<Value>,
    deliveries: Vec<FanOut>,
    /// A store with a long history, once.
    histories: [(&'static str, Value); 2],
    serving: Serving,
}

fn render(machine: &Machine, runs: u32, figures: &Figures) -> String {
    let Figures {
        appends,
        postgres,
        deliveries,
        histories,
        serving,
    } = figures;
    let of = |pointer: &str| median(appends, pointer);
    let ratio = |class: &str| {
        let [transaction, by_hand] =
            ["transaction", "by_hand"].map(|part| of(&format!("/{class}/{part}/p50_us")));
        transaction / by_hand
    };
    let find = |store: &str, subscribers: usize, pointer: &str| {
        let mut all = deliveries.iter();
        let found = all.find(|delivery| delivery.store == store && delivery.subscribers == subscribers);
        found.map_or(f64::NAN, |delivery| median(&delivery.runs, pointer))
    };
    let late = |store| find(store, 1, "/latency/p99_us") / 1e3;
    let memory =
        find("memory", 1_000, "/memory_kib").max(find("sqlite", 1_000, "/memory_kib")) * 1024.0 / 1e6;
    let mut budgets = vec![
        at_most(
            "transaction of a piece of text, over one by hand",
            ratio("journaled"),
            1.3,
            "×",
        ),
        at_most(
            "transaction of a result, over one by hand",
            ratio("stored"),
            1.3,
            "×",
        ),
        at_most(
            "the hand-over to the thread that writes, median",
            of("/journaled/hand_over/p50_us"),
            150.0,
            "µs",
        ),
        at_most(
            "a piece to one subscriber, store in memory, p99",
            late("memory"),
            2.0,
            "ms",
        ),
        at_most(
            "a piece to one subscriber, SQLite, p99",
            late("sqlite"),
            50.0,
            "ms",
        ),
        at_most("peak memory, 1,000 subscribers", memory, 150.0, "MB"),
    ];
    for (store, history) in histories {
        budgets.extend(budgets_of_history(store, history));
    }
    budgets.extend(serving.budgets());
    let spread = |runs: &[Value], pointer: &str| {
        let at = |part: &str| median(runs, &format!("{pointer}/{part}_us"));
        format!("{} (p99 {})", micros(at("p50")), micros(at("p99")))
    };
    let classes = [
        ("piece of text", "journaled"),
        ("question to a person", "durable"),
        ("result of a tool", "stored"),
    ];
    let appended = classes.map(|(what, class)| {
        [
            what.to_owned(),
            spread(appends, &format!("/{class}/append")),
            spread(appends, &format!("/{class}/transaction")),
            spread(appends, &format!("/{class}/by_hand")),
            spread(postgres, &format!("/{class}/append")),
        ]
    });
    let delivered = deliveries.iter().map(|delivery| {
        let of = |pointer: &str| median(&delivery.runs, pointer);
        [
            delivery.store.to_owned(),
            grouped(delivery.subscribers),
            micros(of("/latency/p50_us")),
            micros(of("/latency/p99_us")),
            format!("{:.1} MB", of("/idle_kib") * 1024.0 / 1e6),
            format!("{:.1} MB", of("/memory_kib") * 1024.0 / 1e6),
        ]
    });
    format!(
        "{} Medians of {runs} runs.\n\n{}\n{}\n{}\n{}",
        machine.describe(),
        budget_table(budgets),
        table(
            [
                "one event",
                "append",
                "of which its transaction",
                "transaction by hand",
                "append, PostgreSQL"
            ],
            appended
        ),
        table(
            [
                "store",
                "subscribers",
                "p50",
                "p99",
                "memory without them",
                "peak memory"
            ],
            delivered
        ),
        serving.tables()
    )
}

fn micros(micros: f64) -> String {
    if micros < 1e3 {
        format!("{micros:.0} µs")
    } else {
        format!("{:.1} ms", micros / 1e3)
    }
}
