//! For any bytes, loading returns an agent or an error.

use std::fs;

use proptest::prelude::*;

use crate::support::{fixtures, load_bytes, root};

/// The entry point for fuzzing.
pub(crate) fn load_never_panics(bytes: &[u8]) {
    let load = load_bytes(bytes);
    assert_eq!(load.agent.is_none(), load.has_errors());
    for diagnostic in &load.diagnostics {
        if let Some(place) = &diagnostic.primary
            && let Some(text) = load.sources.get(&place.path)
        {
            assert!(
                text.get(place.span.start..place.span.end).is_some(),
                "{diagnostic:?}"
            );
        }
    }
}

fn corpus() -> Vec<Vec<u8>> {
    fixtures("valid")
        .into_iter()
        .chain(fixtures("invalid"))
        .map(|path| fs::read(root().join(path)).unwrap())
        .collect()
}

/// Random sequences of YAML fragments.
fn yaml_soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "name",
        "model",
        "tools",
        "type",
        "test_cases",
        "evaluations",
        "metric",
        ": ",
        ":",
        "- ",
        "\n",
        "\n  ",
        "\n    ",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "&a ",
        "*a",
        "<<: ",
        "!!str ",
        "!x ",
        "|\n",
        ">-\n",
        "\"",
        "'",
        "#",
        "---\n",
        "...\n",
        "\t",
        "${A}",
        "${A:-b}",
        "$${",
        "? ",
        "é",
        "\u{feff}",
        "\r\n",
        "\0",
        "1",
        "~",
        "true",
        "%YAML 1.1\n",
        "@",
        "`",
        "\\",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_of_yaml(text in yaml_soup()) {
        load_never_panics(text.as_bytes());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        load_never_panics(&bytes);
    }

    #[test]
    fn fixtures_with_a_part_removed_or_repeated(
        file in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        len in 0usize..40,
        doubled in any::<bool>(),
    ) {
        let corpus = corpus();
        let mut bytes = file.get(&corpus).clone();
        if bytes.is_empty() {
            return Ok(());
        }
        let start = from.index(bytes.len());
        let end = (start + len).min(bytes.len());
        let part: Vec<u8> = bytes[start..end].to_vec();
        let replacement = if doubled { [part.as_slice(), part.as_slice()].concat() } else { Vec::new() };
        bytes.splice(start..end, replacement);
        load_never_panics(&bytes);
    }
}
