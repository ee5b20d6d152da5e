//! Code that speaks to model endpoints decides by behaviour, never by the name of a vendor, a server or a family of models.
//!
//! Names in comments and tests are left alone.

use super::rules::{ENDPOINT_CODE, PERMITS, Permit, VENDORS};
use super::{Finding, is_rust, scan, size};
use crate::workspace::File;

const TABLE: &str = "xtask/src/tidy/rules/vendors.rs";

pub(super) fn check(files: &[File]) -> Vec<Finding> {
    check_by(files, PERMITS)
}

/// Finds the names that no permit has, and the permits that nothing needs.
fn check_by(files: &[File], permits: &[Permit]) -> Vec<Finding> {
    let mut needed = vec![false; permits.len()];
    let mut findings = Vec::new();
    for file in files {
        let is_checked = ENDPOINT_CODE.iter().any(|place| file.path.starts_with(place));
        let is_product = is_rust(&file.path) && size::is_product(&file.path);
        if is_checked && is_product && !is_test_module(&file.path, files) {
            findings.extend(check_file(file, permits, &mut needed));
        }
    }
    let idle = permits.iter().zip(needed).filter(|(_, needed)| !needed);
    findings.extend(idle.map(|(permit, _)| {
        let what = format!(
            "nothing in {} needs the permit for `{}` ({})",
            permit.path, permit.text, permit.why
        );
        Finding::new(TABLE, 1, what, "remove it")
    }));
    findings
}

fn check_file(file: &File, permits: &[Permit], needed: &mut [bool]) -> Vec<Finding> {
    let Some(text) = &file.text else {
        return Vec::new();
    };
    let mut code = scan::without_comments(text);
    for (permit, needed) in permits.iter().zip(needed) {
        if file.path.starts_with(permit.path) && code.contains(permit.text) {
            *needed = true;
            code = code.replace(permit.text, " ; ");
        }
    }
    let in_test = scan::test_lines(&scan::code_only(text));
    let mut findings = Vec::new();
    for ((line, at), in_test) in code.lines().zip(1..).zip(in_test) {
        for name in VENDORS
            .iter()
            .filter(|name| !in_test && is_in(&words(line), name))
        {
            let todo = format!(
                "decide by what the endpoint answers; a name that decides nothing is a line in {TABLE}, with its reason"
            );
            findings.push(Finding::new(
                &file.path,
                at,
                format!("`{name}` in code for endpoints"),
                todo,
            ));
        }
    }
    findings
}

/// Whether the file is a module that its parent has in tests only.
fn is_test_module(path: &str, files: &[File]) -> bool {
    let Some((folder, name)) = path
        .rsplit_once('/')
        .and_then(|(folder, name)| Some((folder, name.strip_suffix(".rs")?)))
    else {
        return false;
    };
    let parents = [
        format!("{folder}.rs"),
        format!("{folder}/lib.rs"),
        format!("{folder}/main.rs"),
    ];
    let declaration = format!("mod {name};");
    let mut texts = files
        .iter()
        .filter(|file| parents.contains(&file.path))
        .filter_map(|file| file.text.as_deref());
    texts.any(|text| {
        let code = scan::code_only(text);
        let in_test = scan::test_lines(&code);
        let mut lines = code.lines().zip(in_test);
        lines.any(|(line, in_test)| in_test && line.trim().ends_with(&declaration))
    })
}

/// The words of a line in lower case: parts of names and texts, and runs of digits.
fn words(line: &str) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    let mut words = vec![String::new()];
    for (at, c) in characters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| characters.get(at));
        let after = characters.get(at + 1);
        // `DeepSeek`, `LMStudio`, `qwen3`.
        let begins = before.is_some_and(|before| {
            (c.is_uppercase() && before.is_lowercase())
                || (c.is_uppercase()
                    && before.is_uppercase()
                    && after.is_some_and(|after| after.is_lowercase()))
                || (c.is_ascii_digit() != before.is_ascii_digit())
        });
        if begins || !c.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether some words in a row are the name.
fn is_in(words: &[String], name: &str) -> bool {
    (0..words.len()).any(|from| {
        let mut rest = name;
        for word in words.iter().skip(from) {
            match rest.strip_prefix(word.as_str()) {
                Some("") => return true,
                Some(left) => rest = left,
                None => return false,
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::{Permit, check, check_by};
    use crate::workspace::File;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: Some(text.to_owned()),
        }
    }

    const DRIVER: &str = "crates/holodeck-backend-openai/src/f.rs";

    fn names(text: &str) -> Vec<(usize, String)> {
        let findings = check_by(&[file(DRIVER, text)], &[]);
        findings
            .into_iter()
            .map(|finding| (finding.line, finding.what))
            .collect()
    }

    #[test]
    fn every_name_is_found_in_texts_and_in_names_however_it_is_written() {
        for (code, name) in [
            ("if url.contains(\"openrouter.ai\") {}", "openrouter"),
            ("if self.is_openrouter() {}", "openrouter"),
            ("enum Dialect { OpenRouter }", "openrouter"),
            ("const OPENROUTER: &str = \"\";", "openrouter"),
            ("b\"open router\"", "openrouter"),
            ("model.starts_with(\"deepseek-r1\")", "deepseek"),
            ("Family::DeepSeekReasoner", "deepseek"),
            ("r#\"models/gemini-3\"#", "gemini"),
            ("format!(\"{}-qwen3\")", "qwen"),
            ("\"glm-4.6\"", "glm"),
            ("\"o3-mini\"", "o3"),
            ("\"gpt4o\"", "gpt"),
            ("LmStudio", "lmstudio"),
            ("LMStudio", "lmstudio"),
            ("\"LM Studio\"", "lmstudio"),
            ("is_vllm", "vllm"),
            ("\"vLLM\"", "vllm"),
            ("\"api.x.ai\"", "xai"),
            ("\"xAI\"", "xai"),
            ("\"api.together.xyz\"", "togetherxyz"),
            ("\"LiteLLM\"", "litellm"),
            ("\"MiniMax-M2\"", "minimax"),
            ("\"AZURE_API\"", "azure"),
        ] {
            assert_eq!(
                names(&format!("fn f() {{}}\n{code}\n")),
                [(2, format!("`{name}` in code for endpoints"))],
                "{code}"
            );
        }
    }

    #[test]
    fn other_words_comments_tests_and_other_code_are_left_alone() {
        for code in [
            "// openrouter\n/* gemini */\n/// deepseek",
            "\"these belong together\"",
            "the_coherence(); \"mistrals\"; \"regrok\"; o30; co3",
            "#[cfg(test)]\nmod tests {\n    \"openrouter\"\n}",
        ] {
            assert_eq!(names(code), [], "{code}");
        }
        let text = "\"openrouter\"";
        for path in [
            "crates/holodeck-backend-openai/src/f/tests.rs",
            "crates/holodeck-backend-openai/tests/it/f.rs",
            "crates/holodeck-reports/src/f.rs",
        ] {
            assert_eq!(check_by(&[file(path, text)], &[]), [], "{path}");
        }
        let parent = |attribute: &str| {
            file(
                "crates/holodeck-backend-openai/src/a.rs",
                &format!("{attribute}\nmod same;\n"),
            )
        };
        let child = file("crates/holodeck-backend-openai/src/a/same.rs", text);
        assert_eq!(check_by(&[parent("#[cfg(test)]"), child], &[]), []);
        let child = file("crates/holodeck-backend-openai/src/a/same.rs", text);
        assert_eq!(check_by(&[parent(""), child], &[]).len(), 1);
    }

    #[test]
    fn a_permit_is_for_its_text_alone_and_must_be_needed() {
        let permits = [Permit {
            path: DRIVER,
            text: "Provider::Ollama",
            why: "declared",
        }];
        let lines = |text: &str| -> Vec<usize> {
            let findings = check_by(&[file(DRIVER, text)], &permits);
            findings.iter().map(|finding| finding.line).collect()
        };
        assert!(lines("a == Provider::Ollama\n").is_empty());
        // Another name in the line, and another line.
        assert_eq!(
            lines("a == Provider::Ollama || \"ollama\" == b\n\"groq\"\n"),
            [1, 2]
        );
        // Nothing needs it: its line in the table.
        let idle = check_by(&[file(DRIVER, "a()\n")], &permits);
        assert_eq!(idle.len(), 1);
        assert_eq!(idle[0].file, super::TABLE);
    }

    #[test]
    fn the_code_of_today_decides_by_no_name() {
        let files = crate::workspace::files().unwrap();
        assert_eq!(check(&files), []);
    }
}
