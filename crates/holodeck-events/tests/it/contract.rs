//! The contract that every store fulfils, tested on each of them.

mod always_approved;
mod approvals;
mod concurrent;
mod fork;
mod numbers;
mod reading;
mod removal;
mod runs;
mod sessions;
mod subject;

pub(crate) use subject::{ManualClock, Subject, numbers_of, session_run};

/// Each test once per store.
macro_rules! each_store {
    ($($name:ident)*) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::contract::Subject::memory()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::contract::Subject::sqlite().await).await;
            })*
        }
        /// One server for all of them, and tables of its own for each.
        #[cfg(feature = "postgres")]
        #[tokio::test(flavor = "multi_thread")]
        async fn on_postgres() {
            let server = crate::postgres_server::PostgresServer::start();
            $({
                println!("{}", stringify!($name));
                $name(crate::contract::Subject::postgres(&server, stringify!($name)).await).await;
            })*
        }
    };
}
pub(crate) use each_store;
