//! Many conversations and many readers at a time: what they receive, when, and what it costs the server.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use super::{
    Served,
    client::{Event, Events, ask, ask_json},
    model::{Pace, PacedModel},
};

/// Threads of clients need little.
const STACK: usize = 256 << 10;

/// An agent of this model.
pub(crate) fn agent(model: &PacedModel, more: &str) -> String {
    let url = model.url();
    format!(
        "name: paced\nmodel: {{provider: openai, name: paced, endpoint: \"{url}\"}}\ninstructions: {{inline: Answer.}}\n{more}"
    )
}

/// Latencies in microseconds, from the model's write to the client's read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) median: u64,
    pub(crate) p99: u64,
}

impl Latency {
    fn of(mut all: Vec<u64>) -> Result<Self> {
        all.sort_unstable();
        let at = |percent: usize| all.get(all.len().saturating_sub(1) * percent / 100).copied();
        Ok(Self {
            median: at(50).context("nothing was measured")?,
            p99: at(99).context("nothing was measured")?,
        })
    }
}

/// The events that conversations answered at the same time received.
pub(crate) struct Conversations {
    pub(crate) latency: Latency,
    /// Median latency of the first pieces of answers that all begin at the same moment, in microseconds.
    pub(crate) first: u64,
    /// The same of answers that begin one after the other, while those before them continue; 0 without a second message.
    pub(crate) first_apart: u64,
    /// Pieces that the model wrote, and that clients received.
    pub(crate) pieces: usize,
    /// Peak resident memory.
    pub(crate) memory: u64,
}

/// `count` conversations at the same time, each with a client that reads it. Every piece must arrive, in order, and be
/// part of the stored message. With `apart`, each sends another message after its answer, so long after the conversation
/// before it.
pub(crate) fn conversations(
    program: &Path,
    count: usize,
    pace: Pace,
    more: &str,
    apart: Option<Duration>,
) -> Result<Conversations> {
    let model = Arc::new(PacedModel::start(pace)?);
    let served = Served::start(program, &agent(&model, more))?;
    let ready = Arc::new(Barrier::new(count));
    let clients = (0..count).map(|number| {
        let (model, ready, address) = (
            Arc::clone(&model),
            Arc::clone(&ready),
            served.address().to_owned(),
        );
        let wait = apart.map(|apart| apart * u32::try_from(number).unwrap_or(u32::MAX));
        client(move || converse(&address, &format!("s{number}"), &model, &ready, pace, wait))
    });
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let (mut firsts, mut apart_firsts, mut latencies) = (Vec::new(), Vec::new(), Vec::new());
    for client in clients {
        for (of_answer, place) in join(client)?.into_iter().zip([&mut firsts, &mut apart_firsts]) {
            place.extend(of_answer.first().copied());
            latencies.extend(of_answer);
        }
    }
    let (pieces, answers) = (latencies.len(), firsts.len() + apart_firsts.len());
    ensure!(
        answers == count * (1 + usize::from(apart.is_some())) && pieces == answers * pace.pieces as usize,
        "{pieces} pieces of {answers} answers arrived of {count} conversations"
    );
    let memory = served.memory("VmHWM")?;
    served.end()?;
    Ok(Conversations {
        latency: Latency::of(latencies)?,
        first: Latency::of(firsts)?.median,
        first_apart: match apart {
            Some(_) => Latency::of(apart_firsts)?.median,
            None => 0,
        },
        pieces,
        memory,
    })
}

/// The median latency of the first pieces if `count` clients ask the model itself at the same moment, in microseconds:
/// what the machine needs without a server.
pub(crate) fn first_pieces_without_server(count: usize, pace: Pace) -> Result<u64> {
    let model = Arc::new(PacedModel::start(pace)?);
    let ready = Arc::new(Barrier::new(count));
    let clients = (0..count).map(|_| {
        let (model, ready) = (Arc::clone(&model), Arc::clone(&ready));
        client(move || {
            ready.wait();
            let mut pieces = model.ask()?;
            let mut first = None;
            while let Some(written) = pieces.next()? {
                first.get_or_insert_with(|| model.now().saturating_sub(written));
            }
            first.context("the model wrote nothing")
        })
    });
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let firsts = clients.into_iter().map(join).collect::<Result<Vec<_>>>()?;
    Ok(Latency::of(firsts)?.median)
}

/// The latency of each piece of the answers of one conversation: to a message that all send at the same moment, and, with
/// `wait`, to another one, so long after that answer.
fn converse(
    address: &str,
    session: &str,
    model: &PacedModel,
    ready: &Barrier,
    pace: Pace,
    wait: Option<Duration>,
) -> Result<Vec<Vec<u64>>> {
    let created = ask_json(address, "POST", "/v1/sessions", &json!({ "sessionId": session }));
    let stream = Events::follow(address, session, None);
    // All wait for each other, also for one that failed.
    ready.wait();
    created?;
    let mut stream = stream?;
    let (mut latencies, mut texts, mut received) = (Vec::new(), Vec::new(), Vec::new());
    for wait in [Some(Duration::ZERO), wait].into_iter().flatten() {
        thread::sleep(wait);
        let path = format!("/v1/sessions/{session}/messages");
        ask_json(address, "POST", &path, &json!({ "message": "go" }))?;
        let (of_answer, text) = read_answer(&mut stream, session, model, &mut received)?;
        ensure!(
            of_answer.len() == pace.pieces as usize,
            "{session}: {} pieces of {}",
            of_answer.len(),
            pace.pieces
        );
        latencies.push(of_answer);
        texts.push(text);
    }
    let stored = Events::stored(address, session)?;
    ensure!(
        stored == received,
        "{session}: the stored events are not those that were received"
    );
    let messages = stored.iter().filter(|event| event.is("message"));
    let messages = messages.map(|message| {
        let message = message.json()?;
        let content = message.get("content").and_then(serde_json::Value::as_str);
        Ok(content.unwrap_or_default().to_owned())
    });
    ensure!(
        messages.collect::<Result<Vec<_>>>()? == texts,
        "{session}: the pieces are not the messages"
    );
    Ok(latencies)
}

/// The latency of each piece up to the end of a run, and their text.
fn read_answer(
    stream: &mut Events,
    session: &str,
    model: &PacedModel,
    received: &mut Vec<Event>,
) -> Result<(Vec<u64>, String)> {
    let (mut latencies, mut text) = (Vec::new(), String::new());
    loop {
        let event = stream.next()?.context("the stream ended before the run")?;
        let now = model.now();
        if event.is("message_chunk") {
            let value = event.json()?;
            let content = value
                .get("content")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            for written in content
                .split_whitespace()
                .filter_map(|word| word.parse::<u64>().ok())
            {
                latencies.push(now.saturating_sub(written));
            }
            text.push_str(content);
        }
        let (is_complete, is_error) = (event.is("complete"), event.is("error"));
        received.push(event);
        ensure!(!is_error, "{session}: {:?}", received.last());
        if is_complete {
            return Ok((latencies, text));
        }
    }
}

/// The events that many readers of one conversation received.
pub(crate) struct Readers {
    pub(crate) events: usize,
    /// Resident memory while all of them wait for events, and its peak.
    pub(crate) waiting: u64,
    pub(crate) memory: u64,
}

/// `count` clients that read one conversation. Each receives all of its events.
pub(crate) fn readers(program: &Path, count: usize, pace: Pace) -> Result<Readers> {
    let model = PacedModel::start(pace)?;
    let served = Served::start(program, &agent(&model, ""))?;
    let address = served.address().to_owned();
    ask_json(&address, "POST", "/v1/sessions", &json!({ "sessionId": "s" }))?;
    let clients = (0..count).map(|_| {
        let address = address.clone();
        client(move || until_complete(&address))
    });
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let connected = wait_until(&format!("{count} readers"), || {
        let (_, metrics) = ask(&address, "GET", "/metrics", "")?;
        Ok(metrics.contains(&format!("holodeck_event_streams {count}\n")))
    });
    if let Err(error) = connected {
        // The reader that failed has the reason.
        for client in clients.into_iter().filter(JoinHandle::is_finished) {
            join(client)?;
        }
        return Err(error);
    }
    let waiting = served.memory("VmRSS")?;
    ask_json(
        &address,
        "POST",
        "/v1/sessions/s/messages",
        &json!({ "message": "go" }),
    )?;
    let mut received = Vec::new();
    for client in clients {
        received.push(join(client)?);
    }
    let stored = Events::stored(&address, "s")?;
    for (number, events) in received.iter().enumerate() {
        ensure!(
            *events == stored,
            "reader {number} of {count} received other events"
        );
    }
    let memory = served.memory("VmHWM")?;
    served.end()?;
    Ok(Readers {
        events: stored.len(),
        waiting,
        memory,
    })
}

fn until_complete(address: &str) -> Result<Vec<Event>> {
    let mut stream = Events::follow(address, "s", None)?;
    let mut events = Vec::new();
    loop {
        let event = stream.next()?.context("the stream ended before the run")?;
        let is_over = event.is("complete") || event.is("error");
        events.push(event);
        if is_over {
            return Ok(events);
        }
    }
}

/// The cost of clients that read nothing.
pub(crate) struct Stalled {
    /// The events that all of them were behind.
    pub(crate) behind: usize,
    /// Peak resident memory of the server with them, and of one without.
    pub(crate) memory: [u64; 2],
}

/// Clients that take nothing are disconnected while another one receives everything; then they resume.
pub(crate) fn stalled_readers(program: &Path, count: usize) -> Result<Stalled> {
    let (_, without) = read_beside(program, 0)?;
    let (behind, with) = read_beside(program, count)?;
    ensure!(behind > 0, "the readers that took nothing had everything");
    Ok(Stalled {
        behind,
        memory: [with, without],
    })
}

/// The interfaces whose clients take nothing.
#[derive(Clone, Copy)]
pub(crate) enum Stalling {
    /// A third follows the events of a conversation, the others repeat a request of OpenAI's two interfaces.
    Several,
    /// All repeat a run over AG-UI.
    AgUi,
}

/// The resident memory of a server with clients that read answers of 10 MB and take nothing, and after they left.
pub(crate) fn held_by_readers(program: &Path, count: usize, stalling: Stalling) -> Result<[u64; 2]> {
    let pace = Pace {
        pieces: 1_250,
        interval: Duration::ZERO,
        padding: 8 << 10,
    };
    let model = PacedModel::start(pace)?;
    let more = "serve: {slow_consumer_seconds: 600}\n";
    let served = Served::start(program, &agent(&model, more))?;
    let address = served.address().to_owned();
    let message = json!({ "id": "m", "role": "user", "content": "go" });
    let ag_ui = json!({
        "threadId": "t", "runId": "r", "state": {}, "messages": [message], "tools": [], "context": [],
        "forwardedProps": {},
    });
    let message = json!({ "role": "user", "content": "go" });
    let completion = json!({ "model": "paced", "messages": [message], "stream": true });
    let response = json!({ "model": "paced", "input": "go", "stream": true });
    let complete = || Events::answer(&address, "/v1/chat/completions", "completed", &completion);
    let respond = || Events::answer(&address, "/v1/responses", "responded", &response);
    // The run is named in the body; the key is the same name.
    let run = || Events::answer(&address, "/awp", "r", &ag_ui);
    let path = "/v1/sessions/s/messages?wait=true";
    // One after the other: a client that does not read while the other waits for memory is disconnected.
    match stalling {
        Stalling::Several => {
            ask_json(&address, "POST", path, &json!({ "message": "go" }))?;
            ensure_large(complete()?)?;
            ensure_large(respond()?)?;
        }
        Stalling::AgUi => ensure_large(run()?)?,
    }
    let readers = (0..count).map(|number| match (stalling, number % 3) {
        (Stalling::AgUi, _) => run(),
        (Stalling::Several, 0) => Events::follow(&address, "s", None),
        (Stalling::Several, 1) => complete(),
        (Stalling::Several, _) => respond(),
    });
    let readers = readers.collect::<Result<Vec<_>>>()?;
    let with = settled(&served)?;
    drop(readers);
    let after = settled(&served)?;
    served.end()?;
    Ok([with, after])
}

/// Reads an answer that is more than the buffers of the sockets hold.
fn ensure_large(answer: Events) -> Result<()> {
    let bytes = answer.rest()?;
    ensure!(bytes > 10_000_000, "an answer has {bytes} bytes only");
    Ok(())
}

/// The resident memory, once it no longer changes.
fn settled(served: &Served) -> Result<u64> {
    let mut last = 0;
    let mut same = 0;
    wait_until("the memory of the server to settle", || {
        thread::sleep(Duration::from_millis(500));
        let now = served.memory("VmRSS")?;
        same = if now.abs_diff(last) < (1 << 20) {
            same + 1
        } else {
            0
        };
        last = now;
        Ok(same >= 6)
    })?;
    Ok(last)
}

/// A client that reads a large answer, beside some that take nothing. Returns how many events those were behind, and the
/// peak memory before they resume.
fn read_beside(program: &Path, count: usize) -> Result<(usize, u64)> {
    // More than the buffers of the sockets hold.
    let pace = Pace {
        pieces: 1_500,
        interval: Duration::from_millis(2),
        padding: 8 << 10,
    };
    let model = PacedModel::start(pace)?;
    let more = "serve: {slow_consumer_seconds: 2}\n";
    let served = Served::start(program, &agent(&model, more))?;
    let address = served.address().to_owned();
    ask_json(&address, "POST", "/v1/sessions", &json!({ "sessionId": "s" }))?;
    let stalled = (0..count).map(|_| Events::follow(&address, "s", None));
    let stalled = stalled.collect::<Result<Vec<_>>>()?;
    let reader = {
        let address = address.clone();
        client(move || until_complete(&address))?
    };
    ask_json(
        &address,
        "POST",
        "/v1/sessions/s/messages",
        &json!({ "message": "go" }),
    )?;
    let all = join(reader)?;
    wait_until("the server to disconnect the stalled readers", || {
        let (_, metrics) = ask(&address, "GET", "/metrics", "")?;
        Ok(metrics.contains(&format!("holodeck_slow_consumers_closed_total {count}\n")))
    })?;
    let memory = served.memory("VmHWM")?;
    let mut behind = 0;
    for reader in stalled {
        behind += resume(&address, reader, &all)?;
    }
    served.end()?;
    Ok((behind, memory))
}

/// Reads what was sent to a client before it was disconnected, and resumes. Returns how many events were missing.
fn resume(address: &str, mut stalled: Events, all: &[Event]) -> Result<usize> {
    let mut received = Vec::new();
    // The connection ends in the middle of what was sent.
    while let Ok(Some(event)) = stalled.next() {
        received.push(event);
    }
    let behind = all.len().saturating_sub(received.len());
    let mut rest = Events::follow(address, "s", received.last().map(|event| event.index))?;
    while received.len() < all.len() {
        received.push(rest.next()?.context("the stream ended before the run")?);
    }
    ensure!(
        received == all,
        "what it received is not what the other one received"
    );
    Ok(behind)
}

/// The resident memory of a server without clients, once it no longer changes.
pub(crate) fn idle(program: &Path) -> Result<u64> {
    let pace = Pace {
        pieces: 1,
        interval: Duration::ZERO,
        padding: 0,
    };
    let model = PacedModel::start(pace)?;
    let served = Served::start(program, &agent(&model, ""))?;
    ask(served.address(), "GET", "/ready", "")?;
    let last = settled(&served)?;
    served.end()?;
    Ok(last)
}

fn client<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>> {
    Ok(thread::Builder::new().stack_size(STACK).spawn(work)?)
}

fn join<T>(client: JoinHandle<Result<T>>) -> Result<T> {
    match client.join() {
        Ok(result) => result,
        Err(_) => bail!("a client panicked"),
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..1_200 {
        if is_so()? {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("waited a minute for {what}")
}
