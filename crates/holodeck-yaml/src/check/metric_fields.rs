//! The fields that each standard metric uses.

/// The fields that a standard metric uses in addition to `metric`, `threshold`, `enabled` and `model`.
pub(crate) fn of_standard(metric: &str) -> &'static [&'static str] {
    match metric {
        "bleu" | "meteor" | "f1" | "chrf" => &["unicode", "response_path"],
        "rouge" => &["unicode", "variant", "response_path"],
        "equality" | "exact_match" => &[
            "value",
            "negate",
            "case_insensitive",
            "strip_whitespace",
            "strip_punctuation",
            "response_path",
        ],
        "numeric" => &[
            "value",
            "negate",
            "absolute_tolerance",
            "relative_tolerance",
            "accept_percent",
            "accept_thousands_separators",
            "response_path",
        ],
        "contains" | "contains_any" | "contains_all" | "icontains" | "starts_with" | "levenshtein" => &[
            "value",
            "negate",
            "case_insensitive",
            "strip_whitespace",
            "strip_punctuation",
            "response_path",
            "max_distance",
        ],
        "regex" => &["value", "negate", "case_insensitive", "response_path"],
        "json_valid" | "is_refusal" => &["negate", "response_path"],
        "json_schema" | "contains_json" => &["negate", "response_path", "schema"],
        "latency" => &["negate", "max_ms"],
        "cost" => &["negate", "max_usd"],
        "word_count" => &["negate", "response_path", "min", "max", "unicode"],
        "similar" => &["value", "embedder"],
        "finish_reason" => &["value", "negate"],
        _ => &[],
    }
}
