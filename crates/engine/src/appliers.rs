//! The threads that put bytes into files, after the journal has them. Each file has one of them, so that its changes keep
//! their order; different files do not wait for each other. Nothing is tried again.

use std::io;
use std::sync::Arc;

use leasehold_files::FileStore;
use leasehold_journal::StorageError;
use leasehold_state_machine::event::Seq;

use crate::file_change::FileChange;
use crate::limits::{APPLIED_AT_ONCE, APPLIERS};
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::panicking;
use crate::sync::thread::{self, JoinHandle};

/// What a thread has to say.
pub(crate) enum AppliedWord {
    /// These changes are made.
    Applied(Vec<Seq>),
    /// One could not be made; nothing more will come from this thread.
    Failed(StorageError),
    /// It ran into a bug of ours; nothing more will come from it.
    Panicked,
}

/// Hears what there is to say, from each thread.
pub(crate) type SayApplied = Arc<dyn Fn(AppliedWord) + Send + Sync>;

/// The way to the threads. They end when the last of these is dropped.
#[derive(Clone)]
pub(crate) struct Appliers {
    queues: Arc<[Sender<Task>]>,
}

enum Task {
    Apply(Seq, FileChange),
    /// Says so when everything before it is done.
    Settle(Sender<()>),
}

impl Appliers {
    /// Starts the threads.
    pub fn start(
        files: &Arc<dyn FileStore>,
        say: &SayApplied,
    ) -> io::Result<(Appliers, Vec<JoinHandle<()>>)> {
        let mut queues = Vec::new();
        let mut threads = Vec::new();
        for _ in 0..APPLIERS {
            let (queue, tasks) = channel();
            let thread = Applier { files: Arc::clone(files), say: Arc::clone(say) };
            threads.push(thread::Builder::new().name("files".into()).spawn(move || thread.run(&tasks))?);
            queues.push(queue);
        }
        Ok((Appliers { queues: queues.into() }, threads))
    }

    /// Hands over changes that are durable.
    pub fn hand_over(&self, changes: Vec<(Seq, FileChange)>) {
        for (seq, change) in changes {
            let queue = &self.queues[(change.number % APPLIERS as u64) as usize];
            // A thread that has ended has said why.
            let _ = queue.send(Task::Apply(seq, change));
        }
    }

    /// Waits until everything that was handed over before is done.
    pub fn settle(&self) -> Result<(), StorageError> {
        let (done, settled) = channel();
        for queue in self.queues.iter() {
            queue.send(Task::Settle(done.clone())).map_err(|_| StorageError::Stopped)?;
        }
        drop(done);
        match settled.iter().count() {
            APPLIERS => Ok(()),
            // One has ended on the way, and has said why.
            _ => Err(StorageError::Stopped),
        }
    }
}

struct Applier {
    files: Arc<dyn FileStore>,
    say: SayApplied,
}

impl Applier {
    fn run(self, tasks: &Receiver<Task>) {
        let mut applied = Vec::new();
        while let Some(task) = self.next(tasks, &mut applied) {
            match task {
                Task::Apply(seq, change) => {
                    if let Err(error) = change.apply(&*self.files) {
                        (self.say)(AppliedWord::Failed(error));
                        return;
                    }
                    applied.push(seq);
                }
                Task::Settle(done) => {
                    // Who waits for it may have given up.
                    let _ = done.send(());
                }
            }
        }
    }

    /// The next task. What is done is said before it waits for one, and now and then.
    fn next(&self, tasks: &Receiver<Task>, applied: &mut Vec<Seq>) -> Option<Task> {
        if applied.len() < APPLIED_AT_ONCE
            && let Ok(task) = tasks.try_recv()
        {
            return Some(task);
        }
        if !applied.is_empty() {
            (self.say)(AppliedWord::Applied(std::mem::take(applied)));
        }
        tasks.recv().ok()
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        if panicking() {
            (self.say)(AppliedWord::Panicked);
        }
    }
}
