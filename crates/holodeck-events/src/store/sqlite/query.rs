//! Executes the statements of the list, and no others.

use rusqlite::{Connection, Params, Row};

use super::statements::Statement;
use crate::store::{StoreError, columns::Columns};

/// The tables of a connection, in a transaction or not.
#[derive(Clone, Copy)]
pub(super) struct Tables<'c>(&'c Connection);

impl<'c> Tables<'c> {
    pub(super) fn of(connection: &'c Connection) -> Self {
        Self(connection)
    }

    /// Returns the number of rows that it wrote.
    pub(super) fn execute(self, statement: Statement, values: impl Params) -> Result<usize, StoreError> {
        Ok(self.0.prepare_cached(statement.sql())?.execute(values)?)
    }

    /// Inserts a row; returns its number.
    pub(super) fn insert(self, statement: Statement, values: impl Params) -> Result<i64, StoreError> {
        Ok(self.0.prepare_cached(statement.sql())?.insert(values)?)
    }

    /// The first row.
    pub(super) fn first<T>(
        self,
        statement: Statement,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read(statement, values, read, |rows| rows.next().transpose())
    }

    /// All rows.
    pub(super) fn all<T>(
        self,
        statement: Statement,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(statement, values, read, |rows| rows.collect())
    }

    /// As many rows as `take` takes.
    pub(super) fn read<T, U>(
        self,
        statement: Statement,
        values: impl Params,
        read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
        take: impl FnOnce(&mut dyn Iterator<Item = Result<T, StoreError>>) -> Result<U, StoreError>,
    ) -> Result<U, StoreError> {
        let mut prepared = self.0.prepare_cached(statement.sql())?;
        let mut rows = prepared.query(values)?;
        let mut next = || -> Result<Option<T>, StoreError> { rows.next()?.map(&read).transpose() };
        take(&mut std::iter::from_fn(|| next().transpose()))
    }
}

impl Columns for Row<'_> {
    type Error = StoreError;

    fn text(&self, column: usize) -> Result<Option<String>, StoreError> {
        Ok(self.get(column)?)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, StoreError> {
        Ok(self.get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, StoreError> {
        Ok(self.get(column)?)
    }
}
