//! Parts of the language that are parsed but cannot be run yet. Remove a part here when it is implemented.

use holodeck_model::{Code, Diagnostic, Need, Unsupported};

use super::Loader;
use crate::yaml::{NodeId, Place};

/// Types of tools that search in an index.
const RETRIEVAL: [&str; 2] = ["vectorstore", "hierarchical_document"];

/// Vector stores that are not implemented.
const STORES: [&str; 6] = [
    "azure-ai-search",
    "weaviate",
    "azure-cosmos-mongo",
    "azure-cosmos-nosql",
    "sql-server",
    "pinecone",
];

impl Loader<'_> {
    /// Warns of each part by name and returns the list, so that a run that needs one can refuse to start.
    pub(super) fn find_unsupported(&mut self, root: NodeId) -> Vec<Unsupported> {
        let mut found = Collector { list: Vec::new() };
        self.find_unsupported_tools(&mut found, root);
        self.find_unsupported_blocks(&mut found, root);
        self.find_unsupported_in_cases(&mut found, root);
        found.list
    }

    fn find_unsupported_tools(&mut self, found: &mut Collector, root: NodeId) {
        for index in 0..self.count(root, "tools") {
            let pointer = format!("tools.{index}");
            let Some(kind) = self.text(root, &format!("{pointer}.type")) else {
                continue;
            };
            if self.is_given(root, &format!("{pointer}.mock")) {
                continue;
            }
            if RETRIEVAL.contains(&kind.as_str()) {
                self.find_unsupported_retrieval(found, root, &pointer);
            }
        }
    }

    /// Finds stores and sources that a retrieval tool can't use.
    fn find_unsupported_retrieval(&mut self, found: &mut Collector, root: NodeId, tool: &str) {
        let name = self.text(root, &format!("{tool}.name")).unwrap_or_default();
        let field = |field: &str| format!("{tool}.{field}");
        let store = self.text(root, &field("database.provider"));
        if let Some(store) = store.filter(|store| STORES.contains(&store.as_str())) {
            let what = format!("vector store `{store}` of tool `{name}`");
            self.report_unsupported(found, root, &field("database"), &what, Need::Blocks);
        }
        if self.text(root, &field("keyword_index.provider")).as_deref() == Some("opensearch") {
            let what = format!("keyword index `opensearch` of tool `{name}`");
            self.report_unsupported(found, root, &field("keyword_index"), &what, Need::Blocks);
        }
        let source = self
            .text(root, &field("source"))
            .unwrap_or_default()
            .to_ascii_lowercase();
        let scheme = source.split_once("://").map(|(scheme, _)| scheme);
        let Some(scheme @ ("s3" | "az")) = scheme else {
            return;
        };
        let what = format!("a source at `{scheme}://`, of tool `{name}`,");
        self.report_unsupported(found, root, &field("source"), &what, Need::Blocks);
    }

    fn find_unsupported_blocks(&mut self, found: &mut Collector, root: NodeId) {
        self.report_unsupported(
            found,
            root,
            "deployment.target",
            "`deployment.target`",
            Need::Warning,
        );
        self.report_unsupported(
            found,
            root,
            "evaluations.optimizer",
            "`evaluations.optimizer`",
            Need::Warning,
        );
    }

    fn find_unsupported_in_cases(&mut self, found: &mut Collector, root: NodeId) {
        for case in 0..self.count(root, "test_cases") {
            let case = format!("test_cases.{case}");
            let turns = self.count(root, &format!("{case}.turns"));
            let owners =
                std::iter::once(case.clone()).chain((0..turns).map(|turn| format!("{case}.turns.{turn}")));
            for owner in owners {
                for file in 0..self.count(root, &format!("{owner}.files")) {
                    let url = format!("{owner}.files.{file}.url");
                    let scheme = self.text(root, &url).unwrap_or_default();
                    if let Some((scheme @ ("s3" | "az"), _)) = scheme.split_once("://") {
                        let what = format!("a file at `{scheme}://`");
                        self.report_unsupported(found, root, &url, &what, Need::Blocks);
                    }
                }
            }
        }
    }

    fn report_unsupported(
        &mut self,
        found: &mut Collector,
        root: NodeId,
        pointer: &str,
        what: &str,
        need: Need,
    ) {
        let Some(place) = self.named_place(root, pointer) else {
            return;
        };
        let help = match need {
            Need::Blocks => Some("a run that needs it stops with exit code 2"),
            Need::Warning => None,
        };
        let message = match need {
            Need::Warning => format!("{what} has no effect yet"),
            Need::Blocks => format!("{what} is not supported yet"),
        };
        let mut diagnostic = Diagnostic::warning(Code::NotYetSupported, message).about(pointer);
        diagnostic.help = help.map(str::to_owned);
        self.findings.add(&self.tree, place, diagnostic);
        let what = what.trim_end_matches(',').to_owned();
        found.list.push(Unsupported {
            what,
            pointer: pointer.to_owned(),
            needed_by_run: need,
        });
    }

    /// The place to report for a field: its key, or the item of a list. `None` if the field is absent or null.
    pub(super) fn named_place(&self, root: NodeId, pointer: &str) -> Option<Place> {
        let node = self.tree.find(root, pointer)?;
        if self.tree.is_null(node) {
            return None;
        }
        let (owner, last) = pointer.rsplit_once('.').unwrap_or(("", pointer));
        let owner = self.tree.find(root, owner)?;
        Some(
            self.tree
                .get(owner, last)
                .map_or_else(|| self.tree.place(node), |entry| entry.key_place),
        )
    }

    fn is_given(&self, root: NodeId, pointer: &str) -> bool {
        let node = self.tree.find(root, pointer);
        node.is_some_and(|node| !self.tree.is_null(node))
    }

    fn count(&self, root: NodeId, pointer: &str) -> usize {
        self.tree
            .find(root, pointer)
            .and_then(|list| self.tree.items(list))
            .map_or(0, <[NodeId]>::len)
    }

    fn text(&self, root: NodeId, pointer: &str) -> Option<String> {
        let node = self.tree.find(root, pointer)?;
        let scalar = self.tree.scalar(node)?;
        (!self.tree.is_null(node)).then(|| scalar.text.to_owned())
    }
}

struct Collector {
    list: Vec<Unsupported>,
}
