//! Words that are related to a category, each less certain than the name of the category.

/// Words in categories, and the words of tasks that are related to them.
const RELATED: &[(&str, &[&str])] = &[
    (
        "ai",
        &["model", "prompt", "training", "inference", "llm", "embedding"],
    ),
    (
        "architecture",
        &[
            "design",
            "structure",
            "module",
            "interface",
            "scalability",
            "diagram",
        ],
    ),
    (
        "business",
        &[
            "market",
            "revenue",
            "customer",
            "strategy",
            "pricing",
            "stakeholder",
        ],
    ),
    (
        "data",
        &["database", "sql", "query", "table", "pipeline", "dataset"],
    ),
    (
        "design",
        &[
            "layout",
            "color",
            "wireframe",
            "mockup",
            "typography",
            "accessibility",
        ],
    ),
    (
        "development",
        &["implement", "code", "feature", "function", "class", "bug"],
    ),
    (
        "devops",
        &["deploy", "ci", "docker", "kubernetes", "pipeline", "release"],
    ),
    (
        "documentation",
        &["docs", "readme", "guide", "tutorial", "changelog", "explain"],
    ),
    (
        "infrastructure",
        &["server", "terraform", "kubernetes", "cloud", "network", "cluster"],
    ),
    (
        "operations",
        &["monitoring", "incident", "alert", "outage", "logs", "uptime"],
    ),
    (
        "performance",
        &["slow", "latency", "profile", "memory", "cache", "benchmark"],
    ),
    (
        "quality",
        &["review", "lint", "refactor", "bug", "test", "coverage"],
    ),
    (
        "research",
        &["compare", "investigate", "survey", "sources", "study", "analysis"],
    ),
    (
        "security",
        &[
            "vulnerability",
            "auth",
            "encryption",
            "secrets",
            "injection",
            "cve",
        ],
    ),
    (
        "testing",
        &["test", "tests", "coverage", "fixture", "mock", "regression"],
    ),
];

/// The words related to a category: those of each of its words, and if it has several, these words themselves.
pub(super) fn related(category: &str) -> Vec<&str> {
    let words: Vec<&str> = category
        .split(|character: char| !character.is_alphanumeric())
        .collect();
    let mut found: Vec<&str> = Vec::new();
    for word in words.iter().filter(|word| !word.is_empty()) {
        if words.len() > 1 {
            found.push(word);
        }
        let known = RELATED.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        found.extend(known.into_iter().flat_map(|(_, terms)| *terms));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_category_of_several_words_is_related_to_each() {
        assert!(related("testing").contains(&"coverage"));
        assert!(!related("testing").contains(&"testing"));
        let found = related("Quality-Security");
        assert!(found.contains(&"Security") && found.contains(&"lint") && found.contains(&"cve"));
        assert!(related("gardening").is_empty());
        assert!(related("").is_empty());
    }
}
