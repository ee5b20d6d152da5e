//! The stored events of one run, read in pages: what follows it in its conversation is not read.

use holodeck_events::{EventStore, RunInfo, StoredEvent};

use crate::problem::Result;

/// Events that are read at once.
pub(crate) const PAGE: usize = 16;

/// A run that is over, and its last event.
pub(crate) async fn end_of(store: &dyn EventStore, run_id: &str) -> Result<Option<(RunInfo, StoredEvent)>> {
    let Some(run) = store.run(run_id).await? else {
        return Ok(None);
    };
    let Some(last) = run.last_index else {
        return Ok(None);
    };
    let page = store.read_page(&run.session_id, last.checked_sub(1), 1).await?;
    Ok(page.into_iter().next().map(|last| (run, last)))
}

/// Shows each event of a run that is over; of one that is not, none.
pub(crate) async fn read_run(
    store: &dyn EventStore,
    run: &RunInfo,
    mut see: impl FnMut(StoredEvent),
) -> Result<()> {
    let mut after = run.first_index.checked_sub(1);
    while after < run.last_index {
        let page = store.read_page(&run.session_id, after, PAGE).await?;
        let Some(end) = page.last() else { break };
        after = Some(end.index());
        for event in page {
            if event.event().meta.run_id.as_ref() == Some(&run.run_id) {
                see(event);
            }
        }
    }
    Ok(())
}
