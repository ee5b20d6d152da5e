//! The tables `tidy` goes by. A new crate, edge or dependency is a line here, with its reason in the commit.

mod crates;
mod ratchets;
mod vendors;

pub(super) use crates::{CRATES, Crate, FOR_TESTS, LANGUAGE};
pub(super) use ratchets::{CIRCLES, EXPORTS, MODULE_DOCS, NOMINAL_WHAT, RATCHETS, Ratchet};
pub(super) use vendors::{ENDPOINT_CODE, PERMITS, Permit, VENDORS};

/// A third-party crate that only these crates may depend on; including tests unless `tests` is set.
pub(super) struct Importer {
    pub(super) package: &'static str,
    pub(super) crates: &'static [&'static str],
    /// Who may have it as a dev-dependency besides.
    pub(super) tests: Tests,
    pub(super) why: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tests {
    Anyone,
    Same,
}

const OTEL_WHY: &str = "only holodeck-otel-bridge exports telemetry";
const HTTP_WHY: &str = "only holodeck-http builds HTTP clients: one TLS decision, one retry policy";

const STORE_WHY: &str = "only holodeck-retrieval keeps an index, and only holodeck-events the events";
const DOCUMENT_WHY: &str = "only holodeck-documents reads file formats";

pub(super) const SOLE_IMPORTERS: &[Importer] = &[
    importer(
        "granit-parser",
        &[LANGUAGE],
        "only holodeck-yaml parses user YAML",
    ),
    importer("reqwest", &["holodeck-http"], HTTP_WHY),
    importer("rustls", &["holodeck-http"], HTTP_WHY),
    importer("rustls-native-certs", &["holodeck-http"], HTTP_WHY),
    importer("webpki-roots", &["holodeck-http"], HTTP_WHY),
    Importer {
        package: "tokio-rustls",
        crates: &["holodeck-http"],
        tests: Tests::Anyone,
        why: HTTP_WHY,
    },
    importer(
        "rmcp",
        &["holodeck-mcp-bridge"],
        "only holodeck-mcp-bridge speaks MCP",
    ),
    importer(
        "sse-stream",
        &["holodeck-mcp-bridge"],
        "only the trait of rmcp's HTTP client needs its type; our decoder is in holodeck-http",
    ),
    importer("rusqlite", &["holodeck-retrieval", "holodeck-events"], STORE_WHY),
    importer(
        "tokio-postgres",
        &["holodeck-postgres", "holodeck-retrieval", "holodeck-events"],
        STORE_WHY,
    ),
    importer("pulp", &["holodeck-retrieval"], "only the vector scan needs it"),
    importer("pdf-extract", &["holodeck-documents"], DOCUMENT_WHY),
    importer(
        "calamine",
        &["holodeck-documents", LANGUAGE, "holodeck-sheets"],
        "only holodeck-documents reads file formats, and holodeck-yaml test cases by cell; holodeck-sheets is what both need",
    ),
    importer("htmd", &["holodeck-documents"], DOCUMENT_WHY),
    importer(
        "quick-xml",
        &["holodeck-documents", "holodeck-sheets"],
        "only holodeck-documents reads file formats, and holodeck-sheets which rows a sheet hides",
    ),
    importer(
        "zip",
        &["holodeck-documents", LANGUAGE, "holodeck-sheets"],
        "only holodeck-documents reads file formats, holodeck-yaml limits workbooks of test cases, and holodeck-sheets reads which \
         rows one hides",
    ),
    importer("csv", &["holodeck-documents"], DOCUMENT_WHY),
    importer(
        "encoding_rs",
        &["holodeck-documents"],
        "only holodeck-documents reads texts of any character set; configuration is UTF-8, or UTF-16 with its mark",
    ),
    importer(
        "csv-core",
        &[LANGUAGE],
        "only diagnostics of test cases need the place of each cell, which `csv` does not give",
    ),
    importer(
        "askama",
        &["holodeck-reports"],
        "only the HTML report has templates that are compiled",
    ),
    importer(
        "minijinja",
        &[
            "holodeck-tools",
            "holodeck-eval",
            "holodeck-backend-target",
            "holodeck-import",
            LANGUAGE,
        ],
        "only prompts, questions and requests written by users are templates",
    ),
    importer(
        "serde_json_path",
        &["holodeck-backend-target"],
        "only answers of targets are read by paths of users",
    ),
    Importer {
        package: "rustix",
        crates: &["holodeck-process", "holodeck-cli"],
        tests: Tests::Anyone,
        why: "only holodeck-process spawns, and only the command line sets the mode of the terminal",
    },
    importer(
        "nix",
        &["xtask"],
        "only the bench asks the kernel what a process cost",
    ),
    importer(
        "anyhow",
        &["holodeck-cli", "xtask"],
        "libraries have typed errors",
    ),
    importer(
        "clap",
        &["holodeck-cli", "xtask"],
        "only the command line handles flags",
    ),
    importer(
        "annotate-snippets",
        &["holodeck-cli"],
        "only the command line draws",
    ),
    importer("indicatif", &["holodeck-cli"], "only the command line draws"),
    importer(
        "tikv-jemallocator",
        &["holodeck-cli"],
        "only a program chooses its allocator, never a library",
    ),
    importer("notify", &["holodeck-cli"], "only the command line watches files"),
    importer("rustyline", &["holodeck-cli"], "only the command line reads keys"),
    importer(
        "clap_mangen",
        &["holodeck-cli"],
        "only the command line has pages",
    ),
    importer("opentelemetry", &["holodeck-otel-bridge"], OTEL_WHY),
    importer("opentelemetry_sdk", &["holodeck-otel-bridge"], OTEL_WHY),
    importer("opentelemetry-proto", &["holodeck-otel-bridge"], OTEL_WHY),
    importer("prost", &["holodeck-otel-bridge"], OTEL_WHY),
    importer(
        "schemars",
        &["holodeck-model", LANGUAGE],
        "the YAML language has one rule book",
    ),
    Importer {
        package: "yaml_serde",
        crates: &[],
        tests: Tests::Anyone,
        why: "only YAML that is ours, in tests, is read without the span tree (docs/adr/0001)",
    },
    Importer {
        package: "hyper",
        crates: &["holodeck-serve", "holodeck-view", "holodeck-testkit"],
        tests: Tests::Anyone,
        why: "only holodeck-serve and holodeck-view are servers, and the scripted ones of tests",
    },
    importer(
        "axum",
        &["holodeck-serve", "holodeck-view"],
        "only these are servers",
    ),
    importer(
        "pulldown-cmark",
        &["holodeck-serve"],
        "only the page of holodeck-serve shows Markdown",
    ),
];

const fn importer(package: &'static str, crates: &'static [&'static str], why: &'static str) -> Importer {
    Importer {
        package,
        crates,
        tests: Tests::Same,
        why,
    }
}

/// All that the contract may depend on, tests apart.
pub(super) const CONTRACT: &str = "holodeck-backend-api";
pub(super) const CONTRACT_MAY_USE: &[&str] = &[
    "holodeck-model",
    "serde",
    "serde_json",
    "async-trait",
    "futures-core",
    "thiserror",
    "tokio-util",
];

/// Words that only some crates may write in code that ships.
pub(super) struct Word {
    pub(super) text: &'static str,
    pub(super) crates: &'static [&'static str],
    pub(super) why: &'static str,
    pub(super) todo: &'static str,
}

const PRINTERS: &[&str] = &["holodeck-cli", "xtask"];
// The testkit starts servers for tests, and is a part of no product.
const SPAWNERS: &[&str] = &["holodeck-process", "holodeck-testkit", "xtask"];
const PRODUCT: &[&str] = &["holodeck", "holodeck-cli", "xtask"];
const PRINT_WHY: &str = "only holodeck-cli and xtask print";
const PRINT_TODO: &str = "return the text, emit an event, or use `tracing`";
const ENV_WHY: &str = "nothing below the product reads the process environment";
const ENV_TODO: &str = "take the value, or an `Env`, as a parameter";
const SPAWN_TODO: &str = "use holodeck-process: own group, scrubbed environment, no orphan";

const CLOCK_WHY: &str = "only tests stop the clock, and only they have the feature `test-util` of tokio";
const CLOCK_TODO: &str = "pass a clock";

pub(super) const WORDS: &[Word] = &[
    word("println!", PRINTERS, PRINT_WHY, PRINT_TODO),
    word("print!", PRINTERS, PRINT_WHY, PRINT_TODO),
    word("eprintln!", PRINTERS, PRINT_WHY, PRINT_TODO),
    word("eprint!", PRINTERS, PRINT_WHY, PRINT_TODO),
    word(
        "process::Command",
        SPAWNERS,
        "only holodeck-process spawns",
        SPAWN_TODO,
    ),
    word(
        "Command::new",
        SPAWNERS,
        "only holodeck-process spawns",
        SPAWN_TODO,
    ),
    word("env::var", PRODUCT, ENV_WHY, ENV_TODO),
    word("env::var_os", PRODUCT, ENV_WHY, ENV_TODO),
    word("env::vars", PRODUCT, ENV_WHY, ENV_TODO),
    word("env::vars_os", PRODUCT, ENV_WHY, ENV_TODO),
    word(
        "env::set_var",
        &[],
        "the environment of a running process is shared",
        "pass an `Env` value",
    ),
    word(
        "env::remove_var",
        &[],
        "the environment of a running process is shared",
        "pass an `Env` value",
    ),
    word("start_paused", &[], CLOCK_WHY, CLOCK_TODO),
    word("time::pause", &[], CLOCK_WHY, CLOCK_TODO),
    word("time::advance", &[], CLOCK_WHY, CLOCK_TODO),
    word("time::resume", &[], CLOCK_WHY, CLOCK_TODO),
    word(
        "granit_parser",
        &[LANGUAGE],
        "only holodeck-yaml parses user YAML",
        "use its `Tree`",
    ),
    word(
        "serde_yaml",
        &[],
        "user YAML goes through the span tree",
        "use holodeck-yaml",
    ),
    word(
        "reqwest",
        &["holodeck-http"],
        HTTP_WHY,
        "use holodeck-http's client",
    ),
    word(
        "rustls",
        &["holodeck-http"],
        HTTP_WHY,
        "use holodeck-http's client",
    ),
    word(
        "rustix",
        &["holodeck-process", "holodeck-cli"],
        "only holodeck-process spawns, and only the command line sets the mode of the terminal",
        SPAWN_TODO,
    ),
    word(
        "anyhow",
        PRINTERS,
        "libraries have typed errors",
        "add a variant to the crate's `Error`",
    ),
    word(
        "holodeck_backend_claude",
        &["holodeck", "holodeck-backend-claude"],
        "only the facade may name concrete backends",
        "take an `Arc<dyn BackendFactory>`",
    ),
    word(
        "holodeck_backend_openai",
        &["holodeck", "holodeck-backend-openai"],
        "only the facade may name concrete backends",
        "take an `Arc<dyn BackendFactory>`",
    ),
];

const fn word(
    text: &'static str,
    crates: &'static [&'static str],
    why: &'static str,
    todo: &'static str,
) -> Word {
    Word {
        text,
        crates,
        why,
        todo,
    }
}

/// Files that may contain `unsafe`.
pub(super) const UNSAFE_FILES: &[&str] = &[];

/// Names that do not describe a module.
pub(super) const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// Lines of a Rust file above which it is noted.
pub(super) const SOFT_LINES: usize = 400;

/// Lines above which a file of product code is refused.
pub(super) const PRODUCT_LINES: usize = 600;

/// Lines above which a file of tests is refused.
pub(super) const TEST_LINES: usize = 800;

/// Lines of prose in a crate's README.
pub(super) const README_LINES: usize = 15;

/// The most packages that a crate with its default features may be built from, its own included.
pub(super) const PACKAGE_BUDGETS: &[(&str, usize)] =
    &[("holodeck-cli", 411), ("holodeck-backend-claude", 91)];

/// Packages that must not come in by any road.
pub(super) const BANNED: &[(&str, &str)] = &[
    ("openssl-sys", "TLS is rustls with ring"),
    ("native-tls", "TLS is rustls with ring"),
    ("aws-lc-sys", "a long C build with cmake; TLS is rustls with ring"),
    (
        "serde_yaml",
        "unmaintained; `serde_yaml` here is a rename of `yaml_serde`",
    ),
    ("async-std", "the runtime is tokio"),
];

pub(super) const LICENCES: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "BSL-1.0",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "CC0-1.0",
    "MPL-2.0",
    "CDLA-Permissive-2.0",
];

/// Packages that may be in the tree in more than one version.
pub(super) const TOLERATED_DUPLICATES: &[&str] = &[
    "syn",
    "rand",
    "rand_core",
    "rand_chacha",
    "getrandom",
    "sha2",
    "itertools",
    "nom",
    "hashbrown",
];
