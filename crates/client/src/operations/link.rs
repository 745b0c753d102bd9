//! One client id and its stream: a task that opens it when there is something to send, listens, looks at the clock, and opens
//! it anew when it breaks. What is decided is the book's; this only carries it out.

#[cfg(test)]
mod tests;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::{Stream, StreamExt};
use leasehold_protocol::v1::operation::What;
use tokio::sync::{Notify, oneshot};

use super::answers::{Come, Seat};
use super::asked::Kind;
use super::begins::Begins;
use super::book::{Book, Delivery, Effects, Step, Verdict};
use super::entry::{Entry, Stance};
use super::notices::Notices;
use crate::clock::{Clock, Sleep};
use crate::group::{Group, Usual};
use crate::random::Random;
use crate::retry::RetryPolicy;
use crate::wire::{Conversation, Failed, Trouble, Wire};

/// One client id and its stream.
pub(super) struct Link {
    wire: Arc<dyn Wire>,
    clock: Arc<dyn Clock>,
    policy: RetryPolicy,
    notices: Arc<Notices>,
    book: Mutex<Book>,
    /// Wakes the task.
    attendant: Notify,
    /// Wakes whoever waits for everything to be answered.
    calm: Notify,
    /// When the task looks at the clock by itself.
    armed_us: AtomicU64,
    /// Operations that stand in line here.
    pub waiting: AtomicUsize,
    /// Whether it only serves those for whom another has no room: then it has a stream only while there are some.
    spare: bool,
    /// Whether the link ends as soon as everything is answered.
    closing: AtomicBool,
    /// Whether the task has ended.
    over: AtomicBool,
}

impl Link {
    pub fn new(
        wire: Arc<dyn Wire>,
        clock: Arc<dyn Clock>,
        policy: RetryPolicy,
        random: Random,
        notices: Arc<Notices>,
        spare: bool,
    ) -> Arc<Link> {
        let book = Mutex::new(Book::new(wire.server(), policy, random));
        Arc::new(Link {
            wire,
            clock,
            policy,
            notices,
            book,
            attendant: Notify::new(),
            calm: Notify::new(),
            armed_us: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
            spare,
            closing: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book asserts before it changes anything.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in an operation that nobody waits for.
    pub fn ask(&self, entry: Entry) {
        self.take_in(|book| book.ask(entry));
    }

    /// Takes in an operation whose answer somebody waits for.
    pub fn ask_for(&self, entry: Entry) -> Seat {
        self.take_in(|book| book.ask_for(entry, None))
    }

    /// Takes in what is asked most often, for somebody who is woken like this.
    pub fn ask_usual(&self, usual: &Usual<'_>, stance: Stance, waker: Waker) -> (Seat, Kind) {
        self.take_in(|book| book.ask_usual(usual, stance, waker))
    }

    fn take_in<T>(&self, asked: impl FnOnce(&mut Book) -> T) -> T {
        let mut book = self.book();
        let asked = asked(&mut book);
        if self.over.load(Ordering::Acquire) {
            let effects = &mut Effects::default();
            book.close(&no_runtime(), effects);
            drop(book);
            self.carry_out(effects);
        } else {
            self.wake(book);
        }
        asked
    }

    /// Wakes whoever has something to do now, once the book is closed.
    fn wake(&self, mut book: MutexGuard<'_, Book>) {
        let has_stream = book.has_stream();
        let carrier = if has_stream { book.take_carrier() } else { None };
        let attended = has_stream && book.due_us() >= self.armed_us.load(Ordering::Acquire);
        drop(book);
        if let Some(carrier) = carrier {
            carrier.wake();
        }
        if !attended {
            self.attendant.notify_one();
        }
    }

    /// Wakes whoever carries the groups.
    fn wake_carrier(&self) {
        let carrier = self.book().take_carrier();
        if let Some(carrier) = carrier {
            carrier.wake();
        }
    }

    /// The answer that is waited for here.
    pub fn poll_answer(&self, seat: Seat, waker: &Waker) -> Poll<Come> {
        // Whoever was to be woken before is let go of when the book is closed.
        let (come, _before) = self.book().poll_answer(seat, waker);
        come
    }

    /// Nobody waits here any more. What was begun for them is taken back.
    pub fn leave(&self, seat: Seat, begins: Begins) {
        let mut book = self.book();
        match book.leave(seat) {
            Ok(come) => {
                drop(book);
                if let Some(undo) = come.ok().and_then(|answered| begins.undo(&answered.told)) {
                    self.undo(undo);
                }
            }
            Err(_waker) => {
                let calm = book.is_empty();
                self.wake(book);
                if calm {
                    self.calm.notify_waiters();
                }
            }
        }
    }

    /// Nobody waits here any more, and the operation goes on.
    pub fn leave_it_to_go_on(&self, seat: Seat) {
        let _waker = self.book().leave_it_to_go_on(seat);
    }

    /// Resolves when everything is answered, forgotten and taken back.
    pub async fn settled(&self) {
        loop {
            // Asked for before looking, so that no change is missed between the two.
            let calm = self.calm.notified();
            if self.book().is_empty() {
                return;
            }
            calm.await;
        }
    }

    /// Resolves when there is a stream, or could not be one.
    pub fn greet(&self) -> oneshot::Receiver<Result<(), Failed>> {
        let (greeter, greeted) = oneshot::channel();
        self.book().greet(greeter);
        self.attendant.notify_one();
        greeted
    }

    pub fn doubt(&self, since_us: u64) {
        self.book().doubt(since_us);
        self.attendant.notify_one();
    }

    pub fn in_flight_max(&self) -> Option<usize> {
        self.book().in_flight_max()
    }

    /// Ends as soon as everything is answered.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.attendant.notify_one();
    }

    /// Ends its stream if that has served its purpose.
    fn has_finished(&self) -> bool {
        (self.spare || self.closing.load(Ordering::Acquire)) && self.book().finish_stream()
    }

    /// Changes the book, and then tells whoever is to be told.
    fn with_book<T>(&self, change: impl FnOnce(&mut Book, u64, &mut Effects) -> T) -> T {
        self.with_book_and(&mut Effects::default(), change)
    }

    /// The same with room for what is to be told, which is left empty.
    fn with_book_and<T>(
        &self,
        effects: &mut Effects,
        change: impl FnOnce(&mut Book, u64, &mut Effects) -> T,
    ) -> T {
        let now_us = self.clock.now_us();
        let mut book = self.book();
        let changed = change(&mut book, now_us, effects);
        let calm = book.is_empty();
        drop(book);
        self.carry_out(effects);
        if calm {
            self.calm.notify_waiters();
        }
        changed
    }

    fn carry_out(&self, effects: &mut Effects) {
        effects.woken.drain(..).for_each(Waker::wake);
        effects.greetings.drain(..).for_each(Delivery::deliver);
        for ended in effects.ended.drain(..) {
            self.notices.tell(ended);
        }
    }

    /// Takes back what was begun for somebody who has gone.
    fn undo(&self, what: What) {
        self.ask(Entry::in_background(what, &self.policy));
    }

    /// Opens and attends streams until the link is closed and everything is answered.
    pub async fn attend(self: Arc<Self>) {
        let last_words = LastWords(Arc::clone(&self));
        let mut look = Look::default();
        loop {
            let step = {
                let mut book = self.book();
                if book.is_empty() && self.closing.load(Ordering::Acquire) {
                    break;
                }
                book.step(self.clock.now_us())
            };
            match step {
                Step::Wait(until_us) => {
                    look.next(&self, until_us).await;
                    self.with_book(|book, now_us, effects| book.check(now_us, effects));
                }
                Step::Open => self.open(&mut look).await,
            }
        }
        drop(last_words);
    }

    /// One stream, from its opening to its end.
    async fn open(self: &Arc<Self>, look: &mut Look) {
        let stream = self.book().begin_stream(self.clock.now_us());
        let groups = Groups { link: Arc::clone(self), stream }.boxed();
        let mut opening = pin!(self.wire.converse(groups));
        let opened = loop {
            let due_us = self.book().due_us();
            tokio::select! {
                biased;
                opened = &mut opening => break opened,
                () = look.next(self, due_us) => {
                    // Nothing is silent while there is no stream yet: how long opening takes is the wire's business.
                    self.with_book(|book, now_us, effects| book.check(now_us, effects));
                }
            }
        };
        let ending = match opened {
            Ok(conversation) => {
                self.with_book(|book, now_us, _| book.opened(now_us));
                self.listen(conversation, look).await
            }
            Err(failed) => Ending::Failed(failed),
        };
        if let Ending::Failed(failed) = ending {
            self.with_book(|book, now_us, effects| book.fell(failed, now_us, effects));
        }
        // Whoever carries the groups sees that there are no more.
        self.wake_carrier();
    }

    /// Listens to a stream until it ends. Gives why.
    async fn listen(self: &Arc<Self>, conversation: Conversation, look: &mut Look) -> Ending {
        let Conversation { connection, mut told } = conversation;
        let mut effects = Effects::default();
        loop {
            let due_us = self.book().due_us();
            tokio::select! {
                biased;
                next = told.next() => match next {
                    Some(Ok(group)) => {
                        let told_many = group.outcomes.len() >= TOLD_MANY;
                        let hear = |book: &mut Book, now_us, effects: &mut _| book.hear(group, now_us, effects);
                        if self.with_book_and(&mut effects, hear) {
                            self.wake_carrier();
                        }
                        if self.has_finished() {
                            return Ending::Finished;
                        }
                        if told_many {
                            // Whoever was told asks for the next thing, and that is on its way before the others are told.
                            tokio::task::yield_now().await;
                        }
                        continue;
                    }
                    Some(Err(failed)) => return Ending::Failed(failed),
                    None => {
                        return Ending::Failed(Failed::Trouble(Trouble::Broken("the stream ended".into())));
                    }
                },
                () = look.next(self, due_us) => {}
            }
            if self.with_book(|book, now_us, effects| book.check(now_us, effects)) == Verdict::Silent {
                self.wire.distrust(connection);
                let silent = Trouble::Silence("the connection has gone silent".into());
                return Ending::Failed(Failed::Trouble(silent));
            }
            self.wake_carrier();
            if self.has_finished() {
                return Ending::Finished;
            }
        }
    }
}

/// The timer of a link, kept as long as it serves.
#[derive(Default)]
struct Look {
    armed: Option<(u64, Sleep)>,
}

impl Look {
    /// Resolves when it is time to look at the clock, or somebody has asked for it.
    async fn next(&mut self, link: &Link, due_us: u64) {
        let kept = self.armed.take().filter(|(at_us, _)| *at_us <= due_us);
        let (at_us, sleep) = kept.unwrap_or_else(|| (due_us, link.clock.sleep_until(due_us)));
        link.armed_us.store(at_us, Ordering::Release);
        // Whoever has put something earlier into the book before this was stored has compared it with an older alarm.
        if link.book().due_us() < at_us {
            return;
        }
        let (_, sleep) = self.armed.insert((at_us, sleep));
        tokio::select! {
            biased;
            () = link.attendant.notified() => {}
            () = sleep => self.armed = None,
        }
        // However often this is woken, others get their turn.
        tokio::task::coop::consume_budget().await;
    }
}

/// Answers in one group that are worth a sending of their own.
const TOLD_MANY: usize = 16;

/// How a stream ended.
enum Ending {
    /// It had served its purpose.
    Finished,
    Failed(Failed),
}

/// Whatever is open when the task ends, as when its runtime does, is told so.
struct LastWords(Arc<Link>);

impl Drop for LastWords {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Release);
        self.0.with_book(|book, _, effects| book.close(&no_runtime(), effects));
    }
}

fn no_runtime() -> Trouble {
    Trouble::Broken("the client is closed, or the async runtime that it was made in has ended".into())
}

/// The groups of one stream, formed when they are asked for.
struct Groups {
    link: Arc<Link>,
    stream: u64,
}

impl Stream for Groups {
    type Item = Group;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Group>> {
        let link = &self.link;
        let mut book = link.book();
        if book.is_over(self.stream) {
            // Whoever carries the next stream is the one to be woken now.
            return Poll::Ready(None);
        }
        // Read before anything is sent, so that nothing is stamped later than it was.
        let now_us = link.clock.now_us();
        let group = book.take_group(now_us);
        let _before = if group.is_none() { book.await_more(cx.waker()) } else { None };
        let attended = book.due_us() >= link.armed_us.load(Ordering::Acquire);
        drop(book);
        if !attended {
            link.attendant.notify_one();
        }
        group.map_or(Poll::Pending, |group| Poll::Ready(Some(group)))
    }
}
