//! Numbered values of SQL statements, in the binary forms that the server expects.

use bytes::{BufMut as _, BytesMut};
use serde_json::Value;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::Filter;

/// The numbered values of a statement.
#[derive(Default)]
pub(super) struct Params(Vec<(Box<dyn ToSql + Sync + Send>, Type)>);

impl Params {
    /// Adds a value and returns its placeholder.
    pub(super) fn add(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> String {
        self.0.push((Box::new(value), kind));
        format!("${}", self.0.len())
    }

    pub(super) fn text(&mut self, value: &str) -> String {
        self.add(without_nul(value).into_owned(), Type::TEXT)
    }

    pub(super) fn count(&mut self, value: usize) -> String {
        self.add(i64::try_from(value).unwrap_or(i64::MAX), Type::INT8)
    }

    /// The condition that passages (as `p`) pass a filter.
    pub(super) fn condition(&mut self, filter: &Filter) -> String {
        let mut all = vec!["true".to_owned()];
        for (field, wanted) in &filter.equal {
            all.push(match wanted {
                Value::String(source) if field == Filter::SOURCE => {
                    format!("p.source = {}", self.text(source))
                }
                _ if field == Filter::SOURCE => "false".to_owned(),
                _ => {
                    let field = self.text(field);
                    let wanted = self.text(&json_text(wanted));
                    format!("p.fields -> {field} = {wanted}::jsonb")
                }
            });
        }
        all.join(" AND ")
    }

    pub(super) fn list(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0
            .iter()
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect()
    }
}

/// PostgreSQL strings cannot contain NUL.
pub(super) fn without_nul(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// JSON without NUL, which `jsonb` refuses even escaped.
pub(super) fn json_text(value: &Value) -> String {
    fn clean(value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(without_nul(text).into_owned()),
            Value::Array(items) => items.iter().map(clean).collect(),
            Value::Object(map) => Value::Object(
                map.iter()
                    .map(|(key, value)| (without_nul(key).into_owned(), clean(value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
    let text = value.to_string();
    if text.contains("\\u0000") {
        clean(value).to_string()
    } else {
        text
    }
}

/// JSON text as the binary form of `jsonb`.
#[derive(Debug)]
pub(super) struct Jsonb<'a>(pub(super) &'a str);

impl ToSql for Jsonb<'_> {
    fn to_sql(
        &self,
        _type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_u8(1);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::JSONB
    }

    to_sql_checked!();
}

/// A vector in the binary form of pgvector's type.
#[derive(Debug)]
pub(super) struct PgVector<'a>(pub(super) &'a [f32]);

impl PgVector<'_> {
    /// The type for COPY, which does not check its OID.
    pub(super) fn kind() -> Type {
        Type::new(
            "vector".to_owned(),
            0,
            tokio_postgres::types::Kind::Simple,
            String::new(),
        )
    }
}

impl ToSql for PgVector<'_> {
    fn to_sql(
        &self,
        _type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_u16(u16::try_from(self.0.len())?);
        out.put_u16(0);
        for number in self.0 {
            out.put_f32(*number);
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        kind.name() == "vector"
    }

    to_sql_checked!();
}
