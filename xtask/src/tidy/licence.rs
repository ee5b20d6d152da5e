//! Decides whether an SPDX licence expression can be met with allowed licences.

/// Whether an SPDX expression can be met with allowed licences alone.
///
/// `OR` (or the old `/`) needs one side, `AND` both; the exceptions after `WITH` only give more.
pub(super) fn allowed(expression: &str, allow: &[&str]) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader {
        words: &words,
        allow,
        broken: false,
    };
    let met = reader.any();
    met && !reader.broken && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    allow: &'a [&'a str],
    broken: bool,
}

impl Reader<'_> {
    fn any(&mut self) -> bool {
        let mut met = self.all();
        while self.take("OR") {
            met |= self.all();
        }
        met
    }

    fn all(&mut self) -> bool {
        let mut met = self.one();
        while self.take("AND") {
            met &= self.one();
        }
        met
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let met = self.any();
            self.broken |= !self.take(")");
            return met;
        }
        let Some((name, rest)) = self.words.split_first() else {
            self.broken = true;
            return false;
        };
        self.words = rest;
        if self.take("WITH") {
            self.words = self.words.split_first().map_or(&[], |(_, rest)| rest);
        }
        self.allow.contains(name)
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case(word) => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn expressions() {
        let check = |expression| allowed(expression, &["MIT", "Apache-2.0", "ISC"]);
        assert!(check("MIT"));
        assert!(check("GPL-3.0 OR MIT"));
        assert!(check("MIT/Apache-2.0"));
        assert!(check("Apache-2.0 AND ISC"));
        assert!(check("(MIT OR GPL-3.0) AND ISC"));
        assert!(check("Apache-2.0 WITH LLVM-exception OR GPL-2.0"));
        assert!(!check("GPL-3.0"));
        assert!(!check("MIT AND GPL-3.0"));
        assert!(!check("MIT AND (GPL-3.0 OR LGPL-3.0)"));
        assert!(!check("MIT OR"));
        assert!(!check("(MIT"));
        assert!(!check("MIT ISC"));
        assert!(!check(""));
    }
}
