//! Conversion in a child process: the request is a line of JSON on stdin, followed by the content; the answer is JSON
//! on stdout.

use std::{
    io::{self, BufRead as _, BufReader, BufWriter, Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use holodeck_process::{AtLimit, Exit, OwnLimits, ProcessError, ProcessOutput, ProcessSpec, run};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{ConvertLimits, ConvertOptions, Converted, Document, Format, Limit, Problem, convert, text};

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    format: Format,
    options: ConvertOptions,
    memory: u64,
    processor_time: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Document(Document),
    Problem(Problem),
}

/// Starts the program to convert a content, and enforces the limits.
pub(crate) async fn convert_apart(
    spec: ProcessSpec,
    limits: ConvertLimits,
    format: Format,
    bytes: Vec<u8>,
    options: &ConvertOptions,
    cancel: &CancellationToken,
) -> Result<Document, Problem> {
    let request = Request {
        format,
        options: options.clone(),
        memory: limits.memory,
        // Normally the parent enforces the time limit first; this covers a parent that has died.
        processor_time: limits.time + Duration::from_secs(5),
    };
    let mut input = serde_json::to_vec(&request).map_err(|error| Problem::Converter(error.to_string()))?;
    input.push(b'\n');
    input.extend(bytes);
    let output = run_within(spec.stdin(input), limits, cancel).await?;
    match serde_json::from_slice(&output.stdout) {
        Ok(Answer::Document(document)) => Ok(document),
        // The child detected the limit without its value.
        Ok(Answer::Problem(Problem::Limit(Limit::Memory(_)))) => Err(Limit::Memory(limits.memory).into()),
        Ok(Answer::Problem(problem)) => Err(problem),
        Err(_) if output.exit.success() => Err(Problem::Converter("its answer is not valid JSON".to_owned())),
        Err(_) => Err(end(output.exit, &output.stderr, limits)),
    }
}

/// The text in an image.
pub(crate) async fn recognise(
    spec: ProcessSpec,
    limits: ConvertLimits,
    bytes: Vec<u8>,
    cancel: &CancellationToken,
) -> Result<String, Problem> {
    let output = run_within(spec.stdin(bytes), limits, cancel).await?;
    if !output.exit.success() {
        return Err(Problem::Crashed(exit_reason(output.exit, &output.stderr)));
    }
    let text = text::decode_lossily(&output.stdout).replace("\r\n", "\n");
    Ok(text.trim().to_owned())
}

async fn run_within(
    spec: ProcessSpec,
    limits: ConvertLimits,
    cancel: &CancellationToken,
) -> Result<ProcessOutput, Problem> {
    let spec = spec
        .timeout(limits.time)
        .grace(Duration::ZERO)
        .stdout_limit(limits.output, AtLimit::Stop);
    run(&spec, cancel).await.map_err(|error| match error {
        ProcessError::TimedOut { after, .. } => Limit::Time(after).into(),
        ProcessError::OutputLimit { limit } => Limit::Output(limit as u64).into(),
        ProcessError::Cancelled => Problem::Cancelled,
        error => Problem::Converter(error.to_string()),
    })
}

/// The problem that an exit without an answer indicates.
fn end(exit: Exit, stderr: &str, limits: ConvertLimits) -> Problem {
    const PROCESSOR_TIME: i32 = 24;
    // Rust prints this when an allocation fails.
    if stderr.contains("memory allocation of") {
        return Limit::Memory(limits.memory).into();
    }
    if exit == Exit::Signal(PROCESSOR_TIME) {
        return Limit::Time(limits.time).into();
    }
    Problem::Crashed(exit_reason(exit, stderr))
}

fn exit_reason(exit: Exit, stderr: &str) -> String {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(|| exit.to_string(), |last| format!("{exit}: {}", last.trim()))
}

/// Answers the one request on `input` in a process dedicated to it: it first limits itself. An error means that the
/// answer could not be delivered.
pub fn answer_conversion(input: impl Read, output: impl Write) -> io::Result<()> {
    const LONGEST_REQUEST: u64 = 64 * 1024;
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    input
        .by_ref()
        .take(LONGEST_REQUEST)
        .read_until(b'\n', &mut line)?;
    let request: Request = serde_json::from_slice(&line)?;
    let limits = OwnLimits {
        memory: request.memory,
        processor_time: request.processor_time,
    };
    limits.apply()?;
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes)?;
    let convert = || convert::convert_as(request.format, &bytes, &request.options);
    let answer = match catch_unwind(AssertUnwindSafe(convert)) {
        Ok(Ok(Converted::Text(document))) => Answer::Document(document),
        Ok(Ok(Converted::Image(_))) => Answer::Problem(Problem::Unsupported("a picture is".to_owned())),
        Ok(Err(problem)) => Answer::Problem(problem),
        Err(panic) => Answer::Problem(Problem::Crashed(convert::panic_reason(panic.as_ref()))),
    };
    let mut output = BufWriter::new(output);
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}
