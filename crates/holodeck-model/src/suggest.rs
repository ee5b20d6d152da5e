//! Suggestions for misspelt names.

/// The most similar candidate, if any is similar enough.
pub fn closest<'c>(typed: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let typed = normalise(typed);
    candidates
        .into_iter()
        .filter_map(|candidate| score(&typed, &normalise(candidate)).map(|score| (score, candidate)))
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Converts camelCase, kebab-case and capitals to snake_case.
fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    let mut is_within_word = false;
    for character in name.chars() {
        if character.is_uppercase() && is_within_word {
            normal.push('_');
        }
        is_within_word = character.is_lowercase() || character.is_ascii_digit();
        normal.extend(if character == '-' { '_' } else { character }.to_lowercase());
    }
    normal
}

fn score(typed: &str, candidate: &str) -> Option<f64> {
    if typed.is_empty() {
        return None;
    }
    let longest = typed.chars().count().max(candidate.chars().count());
    let edits = strsim::damerau_levenshtein(typed, candidate);
    let few_edits = edits <= (longest / 3).clamp(1, 3) && edits < longest;
    let begins = candidate.len() >= 4
        && (typed.starts_with(candidate) || (typed.len() >= 4 && candidate.starts_with(typed)));
    let similarity = strsim::jaro_winkler(typed, candidate);
    (few_edits || begins || similarity >= 0.9).then_some(similarity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_suggested() {
        let fields = [
            "cache_dir",
            "cache_enabled",
            "temperature",
            "top_k",
            "top_p",
            "name",
            "max_tokens",
        ];
        let check = |typed, expected| assert_eq!(closest(typed, fields), expected, "{typed}");
        check("cache_directory", Some("cache_dir"));
        check("tempertaure", Some("temperature"));
        check("maxTokens", Some("max_tokens"));
        check("max-tokens", Some("max_tokens"));
        check("topk", Some("top_k"));
        check("nmae", Some("name"));
        check("server", None);
        check("x", None);
    }
}
