//! The crates of the workspace: their layers, and which crates each may depend on.

/// A crate of the workspace: its layer, and the crates it may depend on.
pub(in crate::tidy) struct Crate {
    pub(in crate::tidy) name: &'static str,
    pub(in crate::tidy) layer: u8,
    pub(in crate::tidy) may_use: &'static [&'static str],
}

/// Layers, lowest first: 0 contracts, 1 mechanisms, 2 drivers, 3 engines, 4 product.
pub(in crate::tidy) const CRATES: &[Crate] = &[
    member("holodeck-model", 0, &[]),
    member("holodeck-backend-api", 0, &["holodeck-model"]),
    member("holodeck-sheets", 1, &[]),
    member(LANGUAGE, 1, &["holodeck-model", "holodeck-sheets"]),
    member(
        "holodeck-events",
        1,
        &["holodeck-model", "holodeck-backend-api", "holodeck-postgres"],
    ),
    member("holodeck-http", 1, &[]),
    member("holodeck-process", 1, &[]),
    member("holodeck-postgres", 1, &["holodeck-model", "holodeck-http"]),
    member(
        "holodeck-documents",
        1,
        &[
            "holodeck-model",
            "holodeck-http",
            "holodeck-process",
            "holodeck-sheets",
        ],
    ),
    member(
        "holodeck-validators",
        1,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            LANGUAGE,
            "holodeck-process",
        ],
    ),
    member(
        "holodeck-otel-bridge",
        1,
        &["holodeck-model", "holodeck-backend-api", "holodeck-http"],
    ),
    member(
        "holodeck-mcp-bridge",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-http",
            "holodeck-process",
        ],
    ),
    member(
        "holodeck-backend-claude",
        2,
        &["holodeck-model", "holodeck-backend-api", "holodeck-process"],
    ),
    member(
        "holodeck-backend-openai",
        2,
        &["holodeck-model", "holodeck-backend-api", "holodeck-http"],
    ),
    member(
        "holodeck-backend-target",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-http",
            "holodeck-process",
        ],
    ),
    member(
        "holodeck-retrieval",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-http",
            "holodeck-documents",
            "holodeck-postgres",
        ],
    ),
    member(
        "holodeck-tools",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-retrieval",
            "holodeck-process",
        ],
    ),
    member("holodeck-eval", 2, &["holodeck-model", "holodeck-backend-api"]),
    member(
        "holodeck-cassette",
        2,
        &["holodeck-model", "holodeck-backend-api"],
    ),
    member(
        "holodeck-turn",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-events",
            "holodeck-documents",
        ],
    ),
    member(
        "holodeck-judging",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-eval",
            "holodeck-turn",
        ],
    ),
    member(
        "holodeck-runs",
        2,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-eval",
            "holodeck-turn",
        ],
    ),
    member(
        "holodeck-reports",
        3,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-eval",
            "holodeck-turn",
            "holodeck-runs",
        ],
    ),
    member(
        "holodeck-runner",
        3,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-eval",
            "holodeck-judging",
            "holodeck-turn",
            "holodeck-runs",
            "holodeck-reports",
        ],
    ),
    member(
        "holodeck-chat",
        3,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-documents",
            "holodeck-events",
            "holodeck-turn",
        ],
    ),
    member(
        "holodeck-orchestrator",
        3,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-eval",
            "holodeck-judging",
            "holodeck-process",
            "holodeck-turn",
        ],
    ),
    member("holodeck-import", 3, &[LANGUAGE]),
    member(
        "holodeck-serve",
        3,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-events",
            "holodeck-chat",
        ],
    ),
    member(
        "holodeck-view",
        3,
        &["holodeck-model", "holodeck-runs", "holodeck-reports"],
    ),
    member(
        "holodeck",
        4,
        &[
            "holodeck-model",
            LANGUAGE,
            "holodeck-backend-api",
            "holodeck-http",
            "holodeck-process",
            "holodeck-documents",
            "holodeck-validators",
            "holodeck-otel-bridge",
            "holodeck-mcp-bridge",
            "holodeck-backend-claude",
            "holodeck-backend-openai",
            "holodeck-backend-target",
            "holodeck-retrieval",
            "holodeck-tools",
            "holodeck-eval",
            "holodeck-judging",
            "holodeck-cassette",
            "holodeck-runs",
            "holodeck-reports",
            "holodeck-runner",
            "holodeck-turn",
            "holodeck-chat",
            "holodeck-orchestrator",
            "holodeck-serve",
            "holodeck-view",
            "holodeck-import",
            "holodeck-events",
        ],
    ),
    member("holodeck-cli", 4, &["holodeck"]),
    member(
        TESTKIT,
        4,
        &[
            "holodeck-model",
            "holodeck-backend-api",
            "holodeck-events",
            "holodeck-http",
        ],
    ),
    // Its scripted server is what `cargo xtask smoke` lets the real CLI talk to.
    member("xtask", 4, &[TESTKIT]),
];

/// The only crate that reads YAML.
pub(in crate::tidy) const LANGUAGE: &str = "holodeck-yaml";

/// Only for tests. Automation is never shipped and may build on it.
pub(in crate::tidy) const TESTKIT: &str = "holodeck-testkit";

/// Crates that tests use to get an agent, its files and turns, the form of its answers and its surroundings: any crate
/// that these do not build on may have them as dev-dependencies.
pub(in crate::tidy) const FOR_TESTS: &[&str] = &[
    TESTKIT,
    LANGUAGE,
    "holodeck-validators",
    "holodeck-documents",
    "holodeck-turn",
];

const fn member(name: &'static str, layer: u8, may_use: &'static [&'static str]) -> Crate {
    Crate { name, layer, may_use }
}

#[cfg(test)]
mod tests {
    use super::{CRATES, TESTKIT};

    #[test]
    fn edges_lead_down_or_stay_in_their_layer() {
        for of in CRATES {
            for name in of.may_use {
                let to = CRATES.iter().find(|to| to.name == *name).unwrap();
                assert!(
                    to.layer <= of.layer,
                    "{} may not use {name}: it is in a higher layer",
                    of.name
                );
                assert!(
                    !to.may_use.contains(&of.name),
                    "{} and {name} use each other",
                    of.name
                );
                assert!(
                    to.name != TESTKIT || of.name == "xtask",
                    "testkit is only for tests"
                );
            }
        }
    }
}
