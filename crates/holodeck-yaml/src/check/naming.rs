//! Names parts of the file for messages: "tool `search_docs`" rather than `tools[2]`.

use crate::yaml::{NodeId, Tree};

/// A step from the root of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The steps to a value, each with its node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    steps: Vec<(Step, NodeId)>,
}

impl Path {
    pub(crate) fn push_key(&mut self, key: &str, node: NodeId) {
        self.steps.push((Step::Key(key.to_owned()), node));
    }

    pub(crate) fn push_index(&mut self, index: usize, node: NodeId) {
        self.steps.push((Step::Index(index), node));
    }

    pub(crate) fn pop(&mut self) {
        self.steps.pop();
    }

    pub(crate) fn with_key(&self, key: &str, node: NodeId) -> Self {
        let mut path = self.clone();
        path.push_key(key, node);
        path
    }

    pub(crate) fn with_index(&self, index: usize, node: NodeId) -> Self {
        let mut path = self.clone();
        path.push_index(index, node);
        path
    }

    /// The mapping or list that the value is in.
    pub(crate) fn parent(&self) -> Option<NodeId> {
        let parent = self.steps.len().checked_sub(2)?;
        self.steps.get(parent).map(|(_, node)| *node)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// `tools.0.top_k`, with a further key if one is given.
    pub(crate) fn pointer(&self, key: Option<&str>) -> String {
        let mut pointer = String::new();
        for (step, _) in &self.steps {
            if !pointer.is_empty() {
                pointer.push('.');
            }
            match step {
                Step::Key(key) => pointer.push_str(key),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        if let Some(key) = key {
            if !pointer.is_empty() {
                pointer.push('.');
            }
            pointer.push_str(key);
        }
        pointer
    }

    /// The value itself: "tool `search_docs`", "`model`", "test case 3".
    pub(crate) fn describe(&self, tree: &Tree) -> String {
        self.describe_known(tree, self.steps.len())
            .unwrap_or_else(|| format!("`{}`", join_steps(&self.steps)))
    }

    /// The part of the file that contains the value, as a suffix for the name of a field: "", " in `model`", " of tool
    /// `x`".
    pub(crate) fn owner_suffix(&self, tree: &Tree) -> String {
        suffix(self, tree, self.steps.len())
    }

    /// The value with the part of the file that contains it: "`top_k` of tool `search_docs`".
    pub(crate) fn describe_field(&self, tree: &Tree) -> String {
        // A list item is named by its list: "item 2 of `args`".
        let mut end = self.steps.len();
        let mut name = String::new();
        if let Some(known) = self.describe_known(tree, end) {
            return known;
        }
        while let Some((step, _)) = end.checked_sub(1).and_then(|last| self.steps.get(last)) {
            end -= 1;
            match step {
                Step::Index(index) => name = format!("[{index}]{name}"),
                Step::Key(key) => {
                    name = format!("{key}{name}");
                    break;
                }
            }
        }
        format!("`{name}`{}", suffix(self, tree, end))
    }

    /// Names the well-known part of the file that ends at this step.
    fn describe_known(&self, tree: &Tree, end: usize) -> Option<String> {
        let (step, node) = self.steps.get(end.checked_sub(1)?)?;
        let Step::Index(index) = step else { return None };
        let Some((Step::Key(list), _)) = self.steps.get(end.checked_sub(2)?) else {
            return None;
        };
        let top = end == 2;
        let named = |keys: &[&str]| {
            keys.iter().find_map(|key| {
                let scalar = tree.scalar(tree.get(*node, key)?.value)?;
                (!scalar.text.trim().is_empty() && !scalar.substituted).then(|| shorten(scalar.text))
            })
        };
        let with_name = |kind: &str, keys: &[&str]| match named(keys) {
            Some(name) => format!("{kind} `{name}`"),
            None => format!("{kind} {}", index + 1),
        };
        Some(match list.as_str() {
            "tools" if top => with_name("tool", &["name"]),
            "mcp_servers" if top => with_name("MCP server", &["name"]),
            "test_cases" if top => with_name("test case", &["name"]),
            "turns" => format!("turn {}{}", index + 1, suffix(self, tree, end - 2)),
            "metrics" if end == 3 => with_name("metric", &["name", "metric", "metric_type", "grader"]),
            "evaluations" => {
                format!(
                    "{}{}",
                    with_name("metric", &["name", "metric", "metric_type", "grader"]),
                    suffix(self, tree, end - 2)
                )
            }
            "expected_tools" => {
                format!(
                    "{}{}",
                    with_name("expected tool", &["name"]),
                    suffix(self, tree, end - 2)
                )
            }
            _ => return None,
        })
    }
}

fn suffix(path: &Path, tree: &Tree, end: usize) -> String {
    if end == 0 {
        return String::new();
    }
    // The closest well-known part, with the steps between it and the value.
    for at in (1..=end).rev() {
        if let Some(known) = path.describe_known(tree, at) {
            let between = path.steps.get(at..end).unwrap_or_default();
            return if between.is_empty() {
                format!(" of {known}")
            } else {
                format!(" in `{}` of {known}", join_steps(between))
            };
        }
    }
    format!(" in `{}`", join_steps(path.steps.get(..end).unwrap_or_default()))
}

fn join_steps(steps: &[(Step, NodeId)]) -> String {
    let mut text = String::new();
    for (step, _) in steps {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => {
                text.push('.');
                text.push_str(key);
            }
            Step::Index(index) => {
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
    text
}

/// Shortens a text to fit into a line of a message.
pub(crate) fn shorten(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let whole = line.len() == text.len() && line.chars().count() <= 40;
    let mut shown: String = line.chars().take(if whole { 40 } else { 37 }).collect();
    if !whole {
        shown.push_str("...");
    }
    shown
}
