//! Reads which names a Rust file imports, mentions by path and defines.
//!
//! It reads tokens, not the language: macros are not expanded, and a path that begins with a local variable's type or a
//! `<T as Trait>` is not followed. That is enough for rules about modules and crates.

use std::collections::BTreeMap;

use super::scan;

/// The names in one file.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) imports: Vec<Import>,
    /// Paths of two or more segments outside of imports.
    pub(super) paths: Vec<Vec<String>>,
    /// Items outside of functions and `impl` blocks, and whether they are `pub`.
    pub(super) items: BTreeMap<String, bool>,
}

/// One name that a `use` brings into scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The local name; `*` for all names of `path`.
    pub(super) name: String,
    pub(super) public: bool,
}

/// Reads a file; without its `#[cfg(test)]` items unless `tests` is set.
pub(super) fn read(source: &str, tests: bool) -> Names {
    let code = scan::code_only(source);
    let in_test = scan::test_lines(&code);
    let lines = code.lines().zip(in_test);
    let tokens: Vec<&str> = lines
        .filter(|(_, in_test)| tests || !in_test)
        .flat_map(|(line, _)| tokens(line))
        .collect();
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        depth: 0,
        inline: Vec::new(),
        names: Names::default(),
    };
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.names
}

/// The examples in the docs of a Rust file or in a Markdown file, as one piece of code.
pub(super) fn examples(path: &str, text: &str) -> String {
    let mut inside = false;
    let mut code = String::new();
    for line in text.lines() {
        let line = if super::is_rust(path) {
            let line = line.trim_start();
            let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
                inside = false;
                continue;
            };
            doc.trim_start()
        } else {
            line.trim_start()
        };
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            code.push_str(line.strip_prefix("# ").unwrap_or(line));
            code.push('\n');
        }
    }
    code
}

/// Words, `::`, and single characters.
fn tokens(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if joins(first) {
            rest.find(|c| !joins(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn joins(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    depth: usize,
    /// The depths at which modules inside the file begin.
    inline: Vec<usize>,
    names: Names,
}

impl<'a> Reader<'a> {
    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).copied().unwrap_or_default()
    }

    fn before(&self) -> &'a str {
        self.at.checked_sub(1).map_or("", |at| self.token(at))
    }

    fn step(&mut self) {
        let token = self.token(self.at);
        match token {
            "{" => self.depth += 1,
            "}" => {
                self.depth = self.depth.saturating_sub(1);
                self.inline.retain(|depth| *depth < self.depth);
            }
            "use" if self.token(self.at + 1) != "<" => {
                let public = self.before() == "pub";
                self.at += 1;
                self.use_tree(&[], public);
                return;
            }
            _ if is_name(token) => {
                self.item(token);
                if self.token(self.at + 1) == "::" && self.before() != "::" {
                    self.path();
                    return;
                }
            }
            _ => {}
        }
        self.at += 1;
    }

    /// Records an item that begins here, and enters a module.
    fn item(&mut self, keyword: &str) {
        let is_macro = keyword == "macro_rules" && self.token(self.at + 1) == "!";
        let name = self.token(self.at + if is_macro { 2 } else { 1 });
        let kinds = [
            "fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod",
        ];
        if !is_macro && !kinds.contains(&keyword) || !is_name(name) || name == "fn" {
            return;
        }
        if self.depth == self.inline.len() {
            let modifiers = ["async", "const", "unsafe"];
            let mut before = self.at;
            while before > 0 && modifiers.contains(&self.token(before - 1)) {
                before -= 1;
            }
            let public = before > 0 && self.token(before - 1) == "pub";
            self.names.items.insert(name.to_owned(), public);
        }
        if keyword == "mod" && self.token(self.at + 2) == "{" {
            self.inline.push(self.depth);
        }
    }

    fn path(&mut self) {
        let mut path = vec![self.token(self.at)];
        self.at += 1;
        while self.token(self.at) == "::" && is_name(self.token(self.at + 1)) {
            path.push(self.token(self.at + 1));
            self.at += 2;
        }
        let path = self.leave_inline(&path);
        if path.len() > 1 {
            self.names.paths.push(path);
        }
    }

    /// Reads one branch of a `use`, up to the token after it.
    fn use_tree(&mut self, prefix: &[&'a str], public: bool) {
        let mut path = prefix.to_vec();
        loop {
            match self.token(self.at) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !["}", ""].contains(&self.token(self.at)) {
                        self.use_tree(&path, public);
                        if self.token(self.at) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    if self.token(self.at) == ";" {
                        self.at += 1;
                    }
                    return;
                }
                "as" => {
                    let name = self.token(self.at + 1);
                    self.at += 2;
                    self.import(&path, name, public);
                }
                token if is_name(token) || token == "*" => {
                    path.push(token);
                    self.at += 1;
                    if !["::", "as"].contains(&self.token(self.at)) {
                        self.import(&path, token, public);
                    }
                }
                ";" => {
                    self.at += 1;
                    return;
                }
                "," | "}" | "" => return,
                _ => self.at += 1,
            }
        }
    }

    fn import(&mut self, path: &[&str], name: &str, public: bool) {
        let mut path = self.leave_inline(path);
        let mut name = name.to_owned();
        if path.last().is_some_and(|last| last == "self" || last == "*") {
            path.pop();
        }
        if name == "self" {
            name = path.last().cloned().unwrap_or_default();
        }
        self.names.imports.push(Import { path, name, public });
    }

    /// A path inside a module of the file, as the file's own module would write it.
    fn leave_inline(&self, path: &[&str]) -> Vec<String> {
        let mut inline = self.inline.len();
        let mut path = path;
        let was_inline = inline > 0 && matches!(path, ["super", ..]);
        while let (true, ["super", rest @ ..]) = (inline > 0, path) {
            path = rest;
            inline -= 1;
        }
        let own = was_inline
            .then_some("self")
            .filter(|_| path.first() != Some(&"super"));
        own.into_iter()
            .chain(path.iter().copied())
            .map(str::to_owned)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{examples, read};

    fn imports(source: &str) -> Vec<String> {
        let names = read(source, false);
        let imports = names.imports.into_iter();
        imports
            .map(|import| {
                let public = if import.public { "pub " } else { "" };
                format!("{public}{} = {}", import.name, import.path.join("::"))
            })
            .collect()
    }

    #[test]
    fn trees_of_imports_are_flattened() {
        let source = "use crate::{A, b::{self, C as D}, e::*};\npub use f::G;\npub(crate) use super::H as _;\n\
                      fn i() -> impl J + use<'a> {}\nuse k;\n";
        assert_eq!(
            imports(source),
            [
                "A = crate::A",
                "b = crate::b",
                "D = crate::b::C",
                "* = crate::e",
                "pub G = f::G",
                "_ = super::H",
                "k = k",
            ]
        );
    }

    #[test]
    fn paths_are_found_outside_of_imports_comments_and_tests() {
        let source = "// a::b\nfn f() { crate::c::D::new(\"e::f\"); g.h::<i::J>(); Self::k() }\n#[cfg(test)]\nmod tests { l::m() }\n";
        let paths: Vec<String> = read(source, false)
            .paths
            .iter()
            .map(|path| path.join("::"))
            .collect();
        assert_eq!(paths, ["crate::c::D::new", "i::J", "Self::k"]);
        assert!(
            read(source, true)
                .paths
                .contains(&vec!["l".to_owned(), "m".to_owned()])
        );
    }

    #[test]
    fn items_are_those_of_the_module() {
        let source = "pub struct A;\npub(crate) enum B {}\nimpl A { pub fn c() {} }\npub const fn d() { fn e() {} }\n\
                      macro_rules! f { () => {} }\nmod g { use super::super::H; use super::I; pub fn j() {} }\nfn k() {}\n";
        let names = read(source, false);
        let items: Vec<String> = names
            .items
            .iter()
            .map(|(name, public)| format!("{name} {public}"))
            .collect();
        assert_eq!(
            items,
            [
                "A true", "B false", "d true", "f false", "g false", "j true", "k false"
            ]
        );
        assert_eq!(imports(source), ["H = super::H", "I = self::I"]);
    }

    #[test]
    fn only_the_examples_of_docs_are_code() {
        let source = "/// a::b\n/// ```\n/// # use c::D;\n/// e::f();\n/// ```\n/// g::h\nfn i() {}\n";
        assert_eq!(examples("x.rs", source), "use c::D;\ne::f();\n");
        assert_eq!(examples("x.md", "a\n```rust\nb\n```\nc\n"), "b\n");
    }
}
