//! Reads the declarations that the SDK publishes, as text of a TypeScript file.

/// The text of a type file.
pub(super) struct Types(String);

impl Types {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// Whether the declaration of `name` has `member`: a field, a literal, or a word of a signature.
    pub(super) fn publishes(&self, name: &str, member: &str) -> bool {
        self.declaration(name).is_some_and(|text| has_word(text, member))
    }

    /// From `type NAME =` or `function NAME(` to the next declaration.
    fn declaration(&self, name: &str) -> Option<&str> {
        let starts = [
            format!("declare type {name} = "),
            format!("declare type {name}<"),
            format!("declare interface {name} "),
            format!("declare function {name}("),
            format!("declare function {name}<"),
        ];
        let start = starts.iter().find_map(|start| self.0.find(start.as_str()))?;
        let text = self.0.get(start..)?;
        let end = text
            .match_indices('\n')
            .map(|(at, _)| at + 1)
            .find(|at| {
                text.get(*at..)
                    .is_some_and(|rest| rest.starts_with("export ") || rest.starts_with("declare "))
            })
            .unwrap_or(text.len());
        text.get(..end)
    }
}

/// Whether code, comments apart, has this word.
fn has_word(text: &str, word: &str) -> bool {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with(['*', '/']));
    code.into_iter().any(|line| {
        line.match_indices(word).any(|(at, _)| {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let after = line.get(at + word.len()..).and_then(|text| text.chars().next());
            ![before, after].into_iter().flatten().any(is_of_word)
        })
    })
}

fn is_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::Types;

    const TEXT: &str = "\
        export declare type Result = {\n    /**\n     * not hidden\n     */\n    structured_output?: unknown;\n};\n\n\
        export declare function query(_params: {\n    prompt: string;\n}): Query;\n\
        declare type Mode = 'default' | 'acceptEdits';\n";

    #[test]
    fn members_belong_to_their_declaration() {
        let types = Types::new(TEXT.to_owned());
        assert!(types.publishes("Result", "structured_output"));
        assert!(types.publishes("query", "prompt"));
        assert!(types.publishes("Mode", "acceptEdits"));
        assert!(!types.publishes("Result", "prompt"));
        assert!(!types.publishes("Result", "structured"));
        assert!(!types.publishes("Result", "hidden"));
        assert!(!types.publishes("Other", "prompt"));
    }
}
