//! Handlers that upload, list and delete the files of a user, and forms with files.

use axum::{
    Extension,
    extract::{
        FromRequest, Multipart, Request, State,
        multipart::{Field, MultipartError},
    },
};
use holodeck_chat::{AgentRunService, FileVault, StoredFile};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    App,
    extract::{Segment, check_encoding},
    form_limits::{FormLimit, limit_form},
    guard::User,
    problem::{Problem, Result},
};

/// Files in one request; a message takes no more.
const MAX_FILES: usize = 20;

/// Bytes of all parts that are text.
const MAX_TEXT: usize = 1 << 20;

/// Bytes of a field's name.
const MAX_NAME: usize = 200;

/// Parts of a form: files and texts.
const MAX_PARTS: usize = 2 * MAX_FILES;

/// Bytes of the headers of a part, and of the delimiters around it.
const MAX_HEADS: usize = 16 << 10;

/// A form with files. Nothing is stored until all of it has arrived.
#[derive(Default)]
pub(crate) struct Form {
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) files: Vec<UploadedFile>,
}

/// A file that arrived.
#[derive(Clone)]
pub(crate) struct UploadedFile {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Stores a file. Its search is that of the first agent.
pub(crate) async fn upload(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    form: Form,
) -> Result<(StatusCode, axum::Json<StoredFile>)> {
    let mut files = form.files;
    let (Some(file), true) = (files.pop(), files.is_empty()) else {
        return Err(Problem::invalid(
            "the form must have one file, as `curl -F file=@report.pdf` sends it",
        ));
    };
    let stored = app
        .agent(None)?
        .service
        .add_file(&user, &file.name, file.bytes)
        .await?;
    Ok((StatusCode::CREATED, axum::Json(stored)))
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
) -> Result<axum::Json<Value>> {
    let files = vault(&app)?.list(&user).await?;
    Ok(axum::Json(json!({ "files": files })))
}

pub(crate) async fn delete(
    State(app): State<App>,
    Extension(User(user)): Extension<User>,
    Segment(id): Segment,
) -> Result<StatusCode> {
    vault(&app)?.delete(&user, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Stores the files of a message; returns their ids. Either all are stored or none.
pub(crate) async fn store_all(
    service: &AgentRunService,
    user: &str,
    files: Vec<UploadedFile>,
) -> Result<Vec<String>> {
    let mut ids = Vec::new();
    for file in files {
        match service.add_file(user, &file.name, file.bytes).await {
            Ok(stored) => ids.push(stored.file_id),
            Err(error) => {
                remove_all(service, user, &ids).await;
                return Err(error.into());
            }
        }
    }
    Ok(ids)
}

/// Deletes the files of a message that was refused.
pub(crate) async fn remove_all(service: &AgentRunService, user: &str, ids: &[String]) {
    for id in ids {
        if let Some(files) = service.files() {
            // The refusal is what counts.
            let _ = files.delete(user, id).await;
        }
    }
}

fn vault(app: &App) -> Result<&FileVault> {
    let agent = app.agents().next();
    let vault = agent.and_then(|agent| agent.service.files());
    vault.ok_or_else(|| Problem::not_supported("this server keeps no files"))
}

impl Form {
    /// The text of a field; an error if it is missing.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.texts.iter().position(|(own, _)| own == name)?;
        Some(self.texts.swap_remove(at).1)
    }

    async fn read(mut form: Multipart, max_file: usize, max_total: usize) -> Result<Self> {
        let mut read = Self::default();
        while let Some(field) = form.next_field().await? {
            let name = field.name().unwrap_or_default().to_owned();
            if name.len() > MAX_NAME {
                return Err(Problem::invalid(format!(
                    "the name of a field has {MAX_NAME} bytes at most"
                )));
            }
            if let Some(file_name) = field.file_name().map(ToOwned::to_owned) {
                if read.files.len() == MAX_FILES {
                    return Err(Problem::invalid(format!("a form has {MAX_FILES} files at most")));
                }
                let held: usize = read.files.iter().map(|file| file.bytes.len()).sum();
                let bytes = read_field(field, max_file.min(max_total.saturating_sub(held))).await?;
                read.files.push(UploadedFile {
                    name: file_name,
                    bytes,
                });
            } else {
                let held: usize = read.texts.iter().map(|(_, text)| text.len()).sum();
                let text = read_field(field, MAX_TEXT.saturating_sub(held)).await?;
                let text = String::from_utf8(text)
                    .map_err(|_| Problem::invalid(format!("the field `{name}` is not text")))?;
                if read.texts.len() == MAX_FILES {
                    return Err(Problem::invalid("the form has too many fields"));
                }
                read.texts.push((name, text));
            }
        }
        Ok(read)
    }
}

impl FromRequest<App> for Form {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        check_encoding(request.headers())?;
        let media_type = request.headers().get(header::CONTENT_TYPE);
        let is_form = media_type
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with("multipart/form-data"));
        if !is_form {
            let detail = "the body must be multipart/form-data, as `curl -F file=@report.pdf` sends it";
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "UNSUPPORTED_MEDIA_TYPE",
                detail,
            ));
        }
        // Each part has its own limit.
        axum::extract::DefaultBodyLimit::disable().apply(&mut request);
        let limit = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let max_file = limit(vault(app)?.max_file_bytes());
        let max_total = limit(vault(app)?.max_total_bytes());
        let (parts, body) = request.into_parts();
        let boundary = boundary(&parts.headers);
        let all = max_total.saturating_add(MAX_TEXT + MAX_PARTS * MAX_HEADS);
        let (body, refusal) = limit_form(body, &boundary, MAX_PARTS, all);
        let form = Multipart::from_request(Request::from_parts(parts, body), app).await;
        let form = form.map_err(|error| Problem::invalid(error.body_text()))?;
        let read = timeout(
            app.options().upload_timeout,
            Self::read(form, max_file, max_total),
        )
        .await;
        let read = read.map_err(|_| {
            let detail = "the body did not arrive in time";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", detail)
        })?;
        // The reader does not know why its body ended.
        read.map_err(|problem| refusal.get().map_or(problem, refused))
    }
}

/// The boundary of a form, as its header names it.
fn boundary(headers: &HeaderMap) -> String {
    let media_type = headers.get(header::CONTENT_TYPE);
    let media_type = media_type
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let mut parameters = media_type.split(';').map(str::trim);
    let boundary = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("boundary")
            .then(|| value.trim().trim_matches('"'))
    });
    boundary.unwrap_or_default().to_owned()
}

fn refused(limit: &FormLimit) -> Problem {
    match limit {
        FormLimit::Head => Problem::invalid("the headers of a part of the form are larger than 8 KiB"),
        FormLimit::Parts(most) => Problem::invalid(format!("a form has {most} parts at most")),
        FormLimit::Total(most) => {
            let detail = format!("the form is larger than {most} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", detail)
        }
    }
}

/// Reads a part of a form, and no more than its limit.
async fn read_field(mut field: Field<'_>, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = field.chunk().await? {
        if bytes.len() + piece.len() > limit {
            let detail = "the files of the form are larger than `attachments` in the agent's YAML allows";
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", detail));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

impl From<MultipartError> for Problem {
    fn from(error: MultipartError) -> Self {
        Self::invalid(format!("the form can't be read: {}", error.body_text()))
    }
}
