//! The messages between a process and its watchdog on a socket: first the program to start with its three pipes, then
//! what to do with it, and back when it started and how it ended.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::Exit;

/// Asks the watchdog to send SIGTERM to the program's process group.
pub(super) const TERMINATE: u8 = b'T';

/// The length of each message of a watchdog.
pub(super) const MESSAGE: usize = 5;

/// A program to start. Its arguments and variables may hold secrets, so they are not on the watchdog's command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) folder: PathBuf,
}

/// A message of a watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The program runs, as this process.
    Started(i32),
    /// The program could not be started, for this reason (`errno`).
    Failed(i32),
    /// The program ended, and so did everything below it.
    Ended(Exit),
}

impl Message {
    pub(super) fn to_bytes(self) -> [u8; MESSAGE] {
        let (kind, number) = match self {
            Self::Started(pid) => (b'S', pid),
            Self::Failed(errno) => (b'F', errno),
            Self::Ended(Exit::Code(code)) => (b'C', code),
            Self::Ended(Exit::Signal(signal)) => (b'K', signal),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    pub(super) fn from_bytes([kind, a, b, c, d]: [u8; MESSAGE]) -> Option<Self> {
        let number = i32::from_le_bytes([a, b, c, d]);
        match kind {
            b'S' => Some(Self::Started(number)),
            b'F' => Some(Self::Failed(number)),
            b'C' => Some(Self::Ended(Exit::Code(number))),
            b'K' => Some(Self::Ended(Exit::Signal(number))),
            _ => None,
        }
    }
}

fn send(mut socket: &UnixStream, request: &Request, pipes: &[OwnedFd; 3]) -> io::Result<()> {
    let handles = pipes.each_ref().map(|pipe| pipe.as_fd());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = SendAncillaryBuffer::new(&mut space);
    attached.push(SendAncillaryMessage::ScmRights(&handles));
    sendmsg(socket, &[IoSlice::new(b"R")], &mut attached, SendFlags::empty())?;
    socket.write_all(&request.to_bytes()?)
}

/// Receives what [`send`] sent; `None` if the socket was closed instead.
pub(super) fn receive(mut socket: &UnixStream) -> io::Result<Option<(Request, [OwnedFd; 3])>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut attached = RecvAncillaryBuffer::new(&mut space);
    let mut first = [0];
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut first)],
        &mut attached,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut pipes = Vec::new();
    for message in attached.drain() {
        if let RecvAncillaryMessage::ScmRights(handles) = message {
            pipes.extend(handles);
        }
    }
    let pipes = pipes.try_into().map_err(|_| invalid("no three pipes"))?;
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    socket.read_exact(&mut bytes)?;
    let request = Request::from_bytes(&bytes).ok_or_else(|| invalid("an incomplete request"))?;
    Ok(Some((request, pipes)))
}

impl Request {
    /// Sends this with the program's ends of its pipes, and waits for the answer.
    pub(super) fn start(&self, mut socket: &UnixStream, pipes: &[OwnedFd; 3]) -> io::Result<Message> {
        send(socket, self, pipes)?;
        let mut answer = [0; MESSAGE];
        socket.read_exact(&mut answer)?;
        Message::from_bytes(answer).ok_or_else(|| invalid("an unknown message"))
    }

    /// The length, and each text with its own length.
    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        let mut push = |text: &OsStr| {
            bytes.extend(length(text.len())?);
            bytes.extend(text.as_bytes());
            io::Result::Ok(())
        };
        push(self.program.as_os_str())?;
        push(self.folder.as_os_str())?;
        push(OsStr::new(&self.args.len().to_string()))?;
        for text in &self.args {
            push(text)?;
        }
        for (name, value) in &self.env {
            push(name)?;
            push(value)?;
        }
        let whole = length(bytes.len() - 4)?;
        bytes.splice(..4, whole);
        Ok(bytes)
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let mut texts = Vec::new();
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            texts.push(OsString::from_vec(text.to_vec()));
            bytes = rest;
        }
        if !bytes.is_empty() {
            return None;
        }
        let mut texts = texts.into_iter();
        let program = texts.next()?.into();
        let folder = texts.next()?.into();
        let count = texts.next()?.to_str()?.parse().ok()?;
        let args: Vec<OsString> = texts.by_ref().take(count).collect();
        let mut env = Vec::new();
        while let Some(name) = texts.next() {
            env.push((name, texts.next()?));
        }
        (args.len() == count).then_some(Self {
            program,
            args,
            env,
            folder,
        })
    }
}

fn length(count: usize) -> io::Result<[u8; 4]> {
    let count = u32::try_from(count).map_err(|_| io::ErrorKind::ArgumentListTooLong)?;
    Ok(count.to_le_bytes())
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn requests() -> [Request; 3] {
        let odd = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        [
            Request::default(),
            Request {
                program: "/bin/a".into(),
                args: vec![odd(b"\xff=\n"), OsString::new(), "2".into()],
                env: vec![("A".into(), odd(b"\x01\xfe")), ("B".into(), OsString::new())],
                folder: "/f g".into(),
            },
            Request {
                program: "b".into(),
                env: vec![("LONG".into(), "x".repeat(300_000).into())],
                ..Request::default()
            },
        ]
    }

    #[test]
    fn a_request_arrives_with_its_pipes() {
        for request in requests() {
            let (here, there) = UnixStream::pair().unwrap();
            let (mut reader, writer) = io::pipe().unwrap();
            let null = || std::fs::File::open("/dev/null").unwrap().into();
            let sent = request.clone();
            let sender =
                std::thread::spawn(move || send(&here, &sent, &[null(), writer.into(), null()]).unwrap());
            let (received, [_, writer, _]) = receive(&there).unwrap().unwrap();
            sender.join().unwrap();
            assert_eq!(received, request);
            io::PipeWriter::from(writer).write_all(b"hi").unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "hi");
        }
    }

    #[test]
    fn a_closed_socket_and_every_cut_request_are_noticed() {
        let (here, there) = UnixStream::pair().unwrap();
        drop(here);
        assert!(receive(&there).unwrap().is_none());
        let [_, request, _] = requests();
        let bytes = request.to_bytes().unwrap();
        for cut in 4..bytes.len() {
            assert_ne!(
                Request::from_bytes(&bytes[4..cut]),
                Some(request.clone()),
                "{cut}"
            );
        }
        assert_eq!(Request::from_bytes(&bytes[4..]), Some(request));
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in [
            Message::Started(12),
            Message::Failed(2),
            Message::Ended(Exit::Code(-1)),
            Message::Ended(Exit::Code(3)),
            Message::Ended(Exit::Signal(9)),
        ] {
            assert_eq!(Message::from_bytes(message.to_bytes()), Some(message));
        }
        assert_eq!(Message::from_bytes([0; MESSAGE]), None);
    }
}
