//! The first moments of the command's process: it stands in its own group and waits for the word, then becomes the command. So
//! the watchdog knows the group before the command's first instruction, and the terminal is already its own.
//!
//! The word is the command's standard input, handed over through a socket that lies in its place until then. If
//! `leasehold` dies before, the socket closes and the process ends without having done anything.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::SigSet;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::Pid;

use super::group::Group;
use super::{PROGRAM, START, say};

/// As shells have it.
const NOT_RUNNABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// The process that waits to become the command.
pub fn run(mut command: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = command.next() else { return ExitCode::from(NOT_FOUND) };
    let stdin = match wait_for_word(io::stdin().as_fd()) {
        Ok(Some(stdin)) => stdin,
        Ok(None) => return ExitCode::FAILURE,
        Err(error) => {
            say(format_args!("cannot start {}: {error}", program.display()));
            return ExitCode::from(NOT_RUNNABLE);
        }
    };
    let error = Command::new(&program).args(command).stdin(stdin).exec();
    // SIGPIPE has its default effect again, for the command; it must not change the status.
    let mut pipe = SigSet::empty();
    pipe.add(nix::sys::signal::Signal::SIGPIPE);
    let _ = pipe.thread_block();
    match error.kind() {
        io::ErrorKind::NotFound => {
            say(format_args!("{}: command not found", program.display()));
            ExitCode::from(NOT_FOUND)
        }
        _ => {
            say(format_args!("cannot run {}: {error}", program.display()));
            ExitCode::from(NOT_RUNNABLE)
        }
    }
}

/// A process that waits to become the command. Dropped, it ends.
pub struct Starting {
    group: Group,
    word: UnixStream,
}

impl Starting {
    /// Starts the process, in a group of its own.
    pub fn spawn(command: &[OsString], environment: &[(&'static str, String)]) -> io::Result<Starting> {
        let (word, its_stdin) = UnixStream::pair()?;
        let child = Command::new(PROGRAM)
            .arg0("leasehold")
            .arg(START)
            .args(command)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(OwnedFd::from(its_stdin))
            .process_group(0)
            .spawn()?;
        Ok(Starting { group: Group::led_by(Pid::from_child(&child)), word })
    }

    /// The group that it leads.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Gives the word: the command's standard input.
    pub fn go(self) -> io::Result<()> {
        let fds = [io::stdin()];
        let fds = fds.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is room for one");
        sendmsg(&self.word, &[IoSlice::new(b"!")], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// None when there is nobody any more to give it.
fn wait_for_word(socket: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)
    })?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let handed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    handed.map(Some).ok_or_else(|| io::Error::other("its standard input was not handed over"))
}
