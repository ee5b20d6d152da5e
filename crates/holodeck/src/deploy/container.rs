//! Runs inside a container: the probe of its health check, and the copy of a folder to a volume.

use std::{fs, io, path::Path, time::Duration};

use holodeck_http::{CallOptions, Headers, HttpClient, HttpOptions, HttpUrl, RetryPolicy};

/// Less than a health check waits.
const LIMIT: Duration = Duration::from_secs(4);

/// Asks an address once; an error unless the answer is a success. No proxy is used.
pub async fn probe(url: &str) -> Result<(), String> {
    let url = HttpUrl::parse(url).map_err(|error| error.to_string())?;
    let client = HttpClient::new(&HttpOptions::default()).map_err(|error| error.to_string())?;
    let options = CallOptions {
        timeout: Some(LIMIT),
        retry: RetryPolicy::none(),
        pacer: None,
    };
    let answer = client.get(&url, &Headers::new(), &options).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// Copies the files of a folder to another one. Links are not followed, and nothing else than files is copied.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
