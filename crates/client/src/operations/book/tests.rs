//! The book by itself: a clock that is a number, and a server that is a few lines.

use prost::bytes::Bytes;

use super::*;

const SECOND_US: u64 = 1_000_000;

/// A book, its clock, and the server's side of it.
struct Stage {
    book: Book,
    now_us: u64,
    stream: u64,
    effects: Effects,
    /// Those who wait for an answer.
    waiting: Vec<(Seat, oneshot::Sender<Come>)>,
}

type Answer = oneshot::Receiver<Come>;

fn acquire(lock: &str) -> What {
    What::Acquire(v1::AcquireRequest { lock: lock.into(), ..Default::default() })
}

fn refusal(code: &str, after_ms: u64) -> Told {
    let (code, detail) = (code.into(), "why".into());
    Told::Error(Box::new(v1::Error { code, detail, recommended_retry_ms: after_ms, ..Default::default() }))
}

fn lease() -> Told {
    Told::Lease(Bytes::new())
}

fn broken() -> Failed {
    Failed::Trouble(Trouble::Broken("cut".into()))
}

impl Stage {
    /// Has not opened anything.
    fn new() -> Stage {
        let book = Book::new("there", RetryPolicy::default(), Random::from_seed(7));
        Stage { book, now_us: 1_000 * SECOND_US, stream: 0, effects: Effects::default(), waiting: Vec::new() }
    }

    /// Is welcome, and so many may be in flight.
    fn welcome(in_flight_max: u32) -> Stage {
        let mut stage = Stage::new();
        stage.book.greet(oneshot::channel().0);
        stage.open(in_flight_max);
        stage
    }

    fn ask(&mut self, what: What, stance: Stance) -> (u64, Answer) {
        let (answer, answered) = oneshot::channel();
        let entry = match (what, stance) {
            (What::Acquire(acquire), Stance::InLine { until_us }) => Entry::in_line(acquire, until_us),
            (what, stance) => Entry::new(what.into(), stance),
        };
        let seat = self.book.ask_for(entry, None);
        self.waiting.push((seat, answer));
        (seat.number(), answered)
    }

    fn ask_by_policy(&mut self, what: What) -> (u64, Answer) {
        self.ask(what, Stance::Policy { attempts: RetryPolicy::default().attempts })
    }

    fn begin(&mut self) {
        assert_eq!(self.book.step(self.now_us), Step::Open);
        self.stream = self.book.begin_stream(self.now_us);
    }

    /// Opens a stream and is welcome; gives what was sent before and right after that.
    fn open(&mut self, in_flight_max: u32) -> Vec<u64> {
        self.begin();
        let mut sent = self.sent();
        self.book.opened(self.now_us);
        self.hear(0, Told::Welcome(v1::Welcome { in_flight_max }));
        sent.extend(self.sent());
        sent
    }

    fn group(&mut self) -> Option<v1::OperationGroup> {
        assert!(!self.book.is_over(self.stream));
        self.book.take_group(self.now_us).map(|group| group.read())
    }

    /// The numbers of everything that goes out now.
    fn sent(&mut self) -> Vec<u64> {
        let groups = std::iter::from_fn(|| self.group());
        let operations = groups.flat_map(|group| group.operations).collect::<Vec<_>>();
        operations.iter().map(|operation| operation.number).filter(|number| *number > 0).collect()
    }

    fn hear(&mut self, number: u64, what: Told) {
        let outcomes = Vec::from([Outcome { number, told: Some(what) }]);
        self.book.hear(OutcomeGroup { outcomes }, self.now_us, &mut self.effects);
        self.deliver();
    }

    fn fall(&mut self, failed: Failed) {
        self.book.fell(failed, self.now_us, &mut self.effects);
        self.deliver();
    }

    fn check(&mut self) -> Verdict {
        let verdict = self.book.check(self.now_us, &mut self.effects);
        self.deliver();
        verdict
    }

    fn deliver(&mut self) {
        std::mem::take(&mut self.effects);
        for (seat, answer) in std::mem::take(&mut self.waiting) {
            match self.book.poll_answer(seat, Waker::noop()).0 {
                // Whoever asked may not care.
                Poll::Ready(come) => drop(answer.send(come)),
                Poll::Pending => self.waiting.push((seat, answer)),
            }
        }
    }

    fn pass(&mut self, time_us: u64) {
        self.now_us += time_us;
    }

    /// How long the book waits before it wants a stream.
    fn pause_us(&mut self) -> u64 {
        match self.book.step(self.now_us) {
            Step::Open => 0,
            Step::Wait(until_us) => until_us - self.now_us,
        }
    }
}

fn answered(answer: &mut Answer) -> Answered {
    answer.try_recv().expect("an answer").expect("a good one")
}

fn failed(answer: &mut Answer) -> Error {
    answer.try_recv().expect("an answer").expect_err("a bad one")
}

fn unavailable(answer: &mut Answer) -> crate::error::Unavailable {
    match failed(answer) {
        Error::ServerUnavailable(unavailable) => *unavailable,
        other => panic!("{other}"),
    }
}

#[test]
fn a_stream_begins_with_a_hello_and_little_else() {
    let mut stage = Stage::new();
    for _ in 0..5 {
        stage.ask_by_policy(acquire("a"));
        stage.ask_by_policy(What::Release(v1::ReleaseRequest::default()));
    }
    stage.begin();
    let first = stage.group().unwrap();
    assert!(matches!(first.operations[0].what, Some(What::Hello(_))));
    assert_eq!(first.operations.len(), 3, "one of each kind, until the server says how many");
    assert!(stage.group().is_none());
    stage.hear(0, Told::Welcome(v1::Welcome { in_flight_max: 3 }));
    assert_eq!(stage.sent().len(), 4, "up to three of each kind");
    stage.hear(1, lease());
    assert_eq!(stage.sent(), [7]);
}

#[test]
fn everything_goes_in_one_group_of_a_bounded_length() {
    let mut stage = Stage::welcome(1_024);
    for _ in 0..1_000 {
        stage.ask_by_policy(acquire(&"a".repeat(100)));
    }
    let group = stage.group().unwrap().operations.len();
    assert!((400..=600).contains(&group), "{group}");
    assert_eq!(stage.sent().len(), 1_000 - group);
}

#[test]
fn an_answer_counts_from_its_first_sending_on_its_stream() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask_by_policy(acquire("a"));
    assert_eq!(stage.sent(), [number]);
    stage.pass(SECOND_US);
    stage.fall(broken());
    let pause_us = stage.pause_us();
    stage.pass(pause_us);
    let again_us = stage.now_us;
    assert_eq!(stage.open(8), [number], "under the same number");
    stage.pass(SECOND_US);
    stage.hear(number, lease());
    assert_eq!(answered(&mut answer).sent_us, again_us);
}

#[test]
fn who_is_in_line_comes_back_at_once_and_then_with_all_others() {
    let mut stage = Stage::welcome(1_024);
    for _ in 0..100 {
        stage.ask(acquire("a"), Stance::InLine { until_us: None });
    }
    assert_eq!(stage.sent().len(), 100);
    stage.fall(broken());
    assert_eq!(stage.pause_us(), 0, "the connection was good until now");
    for _ in 0..10 {
        stage.begin();
        stage.fall(broken());
        let pause_us = stage.pause_us();
        assert!((250_000..=1_000_000).contains(&pause_us), "{pause_us}");
        stage.pass(pause_us);
    }
    assert_eq!(stage.open(1_024).len(), 100, "all with one attempt");
}

#[test]
fn a_wait_is_what_is_left_of_it_and_longer_than_the_longest_by_asking_again() {
    let wait_ms = |group: v1::OperationGroup| match &group.operations[0].what {
        Some(What::Acquire(acquire)) => acquire.wait_ms,
        other => panic!("{other:?}"),
    };
    let mut stage = Stage::welcome(8);
    let until_us = stage.now_us + 7_200 * SECOND_US;
    let begun_us = stage.now_us;
    let (number, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: Some(until_us) });
    assert_eq!(wait_ms(stage.group().unwrap()), 3_600_000);
    stage.hear(number, Told::Queued(v1::Queued { position: 1 }));
    for left_ms in [3_600_000, 1_200_000] {
        stage.pass(3_000 * SECOND_US);
        assert_eq!(stage.check(), Verdict::Good, "nothing is expected of who waits");
        assert_eq!(wait_ms(stage.group().unwrap()), left_ms);
    }
    assert!(stage.group().is_none(), "it is in flight once, however often it was sent");
    // Said a little early by a server whose clock runs fast: there is no giving up yet.
    stage.pass(1_100 * SECOND_US);
    stage.hear(number, refusal("held", 1));
    stage.pass(SECOND_US);
    assert_eq!(stage.check(), Verdict::Good);
    assert_eq!(wait_ms(stage.group().unwrap()), 99_000);
    stage.pass(SECOND_US);
    stage.hear(number, lease());
    assert!(answered(&mut answer).sent_us > begun_us, "what was refused cannot be what is answered");
}

#[test]
fn an_extended_wait_counts_from_its_first_sending() {
    let mut stage = Stage::welcome(8);
    let begun_us = stage.now_us;
    let (number, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.sent();
    stage.pass(3_000 * SECOND_US);
    stage.check();
    assert_eq!(stage.sent(), [number]);
    stage.hear(number, lease());
    assert_eq!(answered(&mut answer).sent_us, begun_us, "either sending may be the one that is answered");
}

#[test]
fn a_wait_without_a_server_ends_in_time_and_says_why() {
    let mut stage = Stage::welcome(8);
    let until_us = stage.now_us + 10 * SECOND_US;
    let (_, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: Some(until_us) });
    stage.sent();
    stage.fall(broken());
    while stage.now_us < until_us {
        if stage.pause_us() == 0 {
            stage.begin();
            stage.fall(Failed::Trouble(Trouble::Refused("nobody".into())));
        }
        let pause_us = stage.pause_us();
        stage.pass(pause_us);
        stage.check();
    }
    assert_eq!(stage.now_us, until_us);
    let unavailable = unavailable(&mut answer);
    assert_eq!(unavailable.trouble, Trouble::Refused("nobody".into()));
    assert!(unavailable.may_have_happened);
    stage.pass(SECOND_US);
    stage.begin();
    let group = stage.group().unwrap();
    assert!(matches!(group.operations[1].what, Some(What::Cancel(1))), "and it is taken back: {group:?}");
}

#[test]
fn a_refused_stream_is_tried_as_often_as_the_policy_says() {
    let mut stage = Stage::new();
    let (_, mut answer) = stage.ask_by_policy(acquire("a"));
    for _ in 0..5 {
        assert!(answer.try_recv().is_err());
        let pause_us = stage.pause_us();
        stage.pass(pause_us);
        stage.begin();
        stage.fall(Failed::Trouble(Trouble::Refused("nobody".into())));
    }
    let unavailable = unavailable(&mut answer);
    assert_eq!((unavailable.attempts, unavailable.may_have_happened), (5, false), "it never left");
    assert!(stage.book.is_empty());
}

#[test]
fn silence_is_not_trusted() {
    let mut stage = Stage::welcome(8);
    stage.ask_by_policy(acquire("a"));
    stage.sent();
    stage.pass(2 * SECOND_US - 1);
    assert_eq!(stage.check(), Verdict::Good);
    stage.pass(1);
    assert_eq!(stage.check(), Verdict::Silent);
}

#[test]
fn who_is_slow_but_there_is_waited_for_and_given_up_in_the_end() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask_by_policy(acquire("a"));
    let (other, _) = stage.ask_by_policy(acquire("b"));
    stage.sent();
    for _ in 0..4 {
        stage.pass(2 * SECOND_US);
        stage.hear(other, Told::Queued(v1::Queued { position: 1 }));
        assert_eq!(stage.check(), Verdict::Good);
        assert!(answer.try_recv().is_err());
        assert_eq!(stage.sent(), [0; 0], "it is there already");
    }
    stage.pass(2 * SECOND_US);
    stage.hear(other, lease());
    assert_eq!(stage.check(), Verdict::Good);
    let unavailable = unavailable(&mut answer);
    assert_eq!(unavailable.attempts, 5);
    assert!(unavailable.may_have_happened);
    let group = stage.group().unwrap();
    assert!(matches!(group.operations[0].what, Some(What::Cancel(taken_back)) if taken_back == number));
    // Whatever comes of it now goes to nobody, and is over with the cancel.
    stage.hear(number, lease());
    assert!(!stage.book.is_empty());
    stage.hear(group.operations[0].number, Told::Cancelled(v1::CancelResponse::default()));
    assert!(stage.book.is_empty());
}

#[test]
fn a_stream_without_a_welcome_is_not_trusted() {
    let mut stage = Stage::new();
    stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.begin();
    stage.sent();
    stage.pass(60 * SECOND_US);
    assert_eq!(stage.check(), Verdict::Good, "how long opening takes is the wire's business");
    stage.book.opened(stage.now_us);
    stage.pass(2 * SECOND_US);
    assert_eq!(stage.check(), Verdict::Silent);
}

#[test]
fn opening_a_stream_is_one_attempt_however_long_it_takes() {
    let mut stage = Stage::new();
    let (number, mut answer) = stage.ask_by_policy(acquire("a"));
    stage.begin();
    assert_eq!(stage.sent(), [number], "along with the hello");
    stage.pass(3 * SECOND_US);
    assert_eq!(stage.check(), Verdict::Good);
    stage.fall(broken());
    let pause_us = stage.pause_us();
    stage.pass(pause_us);
    stage.begin();
    stage.sent();
    stage.pass(SECOND_US);
    stage.book.opened(stage.now_us);
    assert_eq!(stage.check(), Verdict::Good);
    stage.pass(SECOND_US);
    assert_eq!(stage.check(), Verdict::Silent, "two seconds after it was sent");
    for _ in 0..4 {
        assert!(answer.try_recv().is_err());
        stage.fall(broken());
        stage.pass(60 * SECOND_US);
        if answer.is_empty() {
            stage.begin();
            stage.sent();
        }
    }
    assert_eq!(unavailable(&mut answer).attempts, 5);
}

#[test]
fn a_doubt_counts_only_if_nothing_was_heard_since() {
    let mut stage = Stage::welcome(8);
    let (number, _answer) = stage.ask(What::Renew(v1::RenewRequest::default()), Stance::Once);
    stage.sent();
    let sent_us = stage.now_us;
    stage.pass(SECOND_US);
    stage.book.doubt(sent_us - 1);
    assert_eq!(stage.check(), Verdict::Good, "the welcome was later");
    stage.book.doubt(sent_us);
    assert_eq!(stage.check(), Verdict::Silent);
    stage.hear(number, lease());
    stage.book.doubt(sent_us);
    assert_eq!(stage.check(), Verdict::Good);
}

#[test]
fn what_is_sent_once_is_not_sent_again() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask(What::Renew(v1::RenewRequest::default()), Stance::Once);
    assert_eq!(stage.sent(), [number]);
    stage.fall(broken());
    assert!(unavailable(&mut answer).may_have_happened);
    assert!(stage.book.is_empty());
    // One that had no chance yet has it on the next stream.
    let (number, _answer) = stage.ask(What::Renew(v1::RenewRequest::default()), Stance::Once);
    assert_eq!(stage.open(8), [number]);
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_and_not_for_ever() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask_by_policy(acquire("a"));
    assert_eq!(stage.sent(), [number]);
    for _ in 0..4 {
        stage.hear(number, refusal("busy", 3_000));
        stage.pass(3_000_000 - 1);
        stage.check();
        assert_eq!(stage.sent(), [0; 0]);
        stage.pass(1);
        stage.check();
        assert_eq!(stage.sent(), [number]);
    }
    stage.hear(number, refusal("busy", 3_000));
    let error = failed(&mut answer);
    assert!(matches!(error, Error::Busy { retry_after, .. } if retry_after.as_secs() == 3), "{error}");
    assert!(stage.book.is_empty(), "it was never carried out, so that there is nothing to take back");
}

#[test]
fn a_stopping_server_may_have_done_it() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask_by_policy(acquire("a"));
    for _ in 0..5 {
        assert_eq!(stage.sent(), [number]);
        stage.hear(number, refusal("unavailable", 500));
        stage.pass(60 * SECOND_US);
        stage.check();
    }
    let unavailable = unavailable(&mut answer);
    assert_eq!(unavailable.trouble, Trouble::NotServing("why".into()));
    assert!(unavailable.may_have_happened);
}

#[test]
fn whoever_is_not_wanted_is_told_so_at_once() {
    let mut stage = Stage::welcome(8);
    let (_, mut waiting) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    let (_, mut asking) = stage.ask_by_policy(acquire("b"));
    stage.sent();
    let refused = v1::Error { code: "unauthenticated".into(), ..Default::default() };
    stage.fall(Failed::Refused(Box::new(refused)));
    assert!(matches!(failed(&mut waiting), Error::NotAllowed { .. }));
    assert!(matches!(failed(&mut asking), Error::NotAllowed { .. }));
}

#[test]
fn what_nobody_wants_any_more_is_forgotten_or_taken_back() {
    let mut stage = Stage::welcome(8);
    let (unsent, _) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.book.forget(unsent);
    assert!(stage.book.is_empty(), "nobody has heard of it");
    let (waiting, _) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    let (looking, _) = stage.ask_by_policy(What::Get(v1::GetRequest::default()));
    let (opening, _) = stage.ask_by_policy(What::OpenSession(v1::OpenSessionRequest::default()));
    assert_eq!(stage.sent(), [waiting, looking, opening]);
    for number in [waiting, looking, opening] {
        stage.book.forget(number);
    }
    let group = stage.group().unwrap();
    assert_eq!(group.operations.len(), 1);
    assert!(matches!(group.operations[0].what, Some(What::Cancel(number)) if number == waiting));
    let session = v1::Session { session_id: "secret".into(), ..Default::default() };
    stage.hear(opening, Told::Session(Box::new(session)));
    let closing = stage.group().unwrap();
    assert!(
        matches!(&closing.operations[0].what, Some(What::CloseSession(asked)) if asked.session_id == "secret")
    );
    // A cancel is as good on the next stream; what only looked is not repeated.
    stage.fall(broken());
    let pause_us = stage.pause_us();
    stage.pass(pause_us.max(SECOND_US));
    assert_eq!(stage.open(8), [group.operations[0].number, closing.operations[0].number]);
}

#[test]
fn what_is_to_end_is_tried_on_when_its_caller_has_been_told() {
    let mut stage = Stage::new();
    let (number, mut answer) = stage.ask_by_policy(What::Release(v1::ReleaseRequest::default()));
    for _ in 0..20 {
        let pause_us = stage.pause_us();
        stage.pass(pause_us);
        stage.begin();
        stage.fall(Failed::Trouble(Trouble::Refused("nobody".into())));
    }
    assert_eq!(unavailable(&mut answer).attempts, 5, "its caller has a definite answer");
    stage.pass(60 * SECOND_US);
    assert_eq!(stage.open(8), [number + 1]);
    stage.hear(number + 1, Told::Released(v1::ReleaseResponse::default()));
    assert!(stage.book.is_empty());
}

#[test]
fn a_forgotten_heartbeat_ends_nothing() {
    let mut stage = Stage::welcome(8);
    let (heartbeat, _) = stage.ask(What::KeepAlive(v1::KeepAliveRequest::default()), Stance::Once);
    let (renewal, _) = stage.ask(What::Renew(v1::RenewRequest::default()), Stance::Once);
    assert_eq!(stage.sent(), [heartbeat, renewal]);
    stage.book.forget(heartbeat);
    stage.book.forget(renewal);
    stage.hear(heartbeat, Told::Session(Box::default()));
    stage.hear(renewal, lease());
    assert!(stage.book.is_empty() && stage.group().is_none());
}

#[test]
fn no_number_is_marked_before_it_is_over() {
    let mut stage = Stage::welcome(1_024);
    let (recalled, _) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    let (waiting, _answer) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.sent();
    stage.book.forget(recalled);
    let cancel = stage.group().unwrap().operations[0].number;
    let mut marks = Vec::new();
    for round in 0..200 {
        let (number, _) = stage.ask_by_policy(What::Get(v1::GetRequest::default()));
        let group = stage.group().unwrap();
        if group.answered_through > 0 {
            marks.push((group.answered_through, group.open));
        }
        stage.hear(number, Told::Snapshot(Box::default()));
        if round == 100 {
            stage.hear(cancel, Told::Cancelled(v1::CancelResponse::default()));
        }
    }
    assert!(marks.len() >= 2, "{marks:?}");
    let (_, first) = &marks[0];
    assert_eq!(first[..], [recalled, waiting, cancel]);
    let (through, last) = &marks[marks.len() - 1];
    assert_eq!(last[..], [waiting], "what was taken back is over");
    assert!(*through > 150);
}

#[test]
fn a_wait_of_no_time_makes_one_attempt() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: Some(stage.now_us) });
    // Whoever looks at the clock may be quicker than whoever sends.
    assert_eq!(stage.check(), Verdict::Good);
    assert_eq!(stage.sent(), [number]);
    stage.hear(number, refusal("held", 1));
    assert!(matches!(failed(&mut answer), Error::Held(_)));
}

#[test]
fn whoever_is_taken_for_an_older_attempt_goes_back_to_its_place() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.sent();
    stage.fall(broken());
    assert_eq!(stage.open(8), [number]);
    // Only now does what was sent first arrive.
    stage.hear(number, refusal("cancelled", 0));
    assert!(answer.try_recv().is_err());
    stage.pass(SECOND_US);
    assert_eq!(stage.check(), Verdict::Good);
    assert_eq!(stage.sent(), [number]);
    stage.hear(number, refusal("cancelled", 0));
    stage.book.forget(number);
    let group = stage.group().unwrap();
    assert!(matches!(group.operations[0].what, Some(What::Cancel(1))), "it stands in line: {group:?}");
}

#[test]
fn an_answer_to_what_was_not_sent_is_none() {
    let mut stage = Stage::welcome(1);
    let (_, _first) = stage.ask_by_policy(acquire("a"));
    let (second, mut answer) = stage.ask_by_policy(acquire("b"));
    stage.sent();
    stage.hear(second, lease());
    stage.hear(second, refusal("held", 1));
    assert!(answer.try_recv().is_err());
}

#[test]
fn a_late_answer_makes_room() {
    let mut stage = Stage::welcome(1);
    let (slow, mut answer) = stage.ask_by_policy(What::Get(v1::GetRequest::default()));
    stage.sent();
    let (next, _answer) = stage.ask_by_policy(acquire("a"));
    for _ in 0..5 {
        stage.pass(2 * SECOND_US);
        stage.hear(0, Told::Ended(Box::default()));
        assert_eq!(stage.check(), Verdict::Good);
    }
    assert!(matches!(failed(&mut answer), Error::ServerUnavailable(_)));
    assert!(stage.sent().is_empty(), "the server still has it");
    stage.hear(slow, Told::Snapshot(Box::default()));
    assert_eq!(stage.sent(), [next]);
}

#[test]
fn a_session_that_may_be_open_for_nobody_is_asked_for_and_closed() {
    let opening = || What::OpenSession(v1::OpenSessionRequest::default());
    let mut stage = Stage::welcome(8);
    let (dropped, _) = stage.ask_by_policy(opening());
    let (given_up, mut answer) = stage.ask_by_policy(opening());
    stage.sent();
    stage.fall(broken());
    stage.book.forget(dropped);
    for _ in 0..10 {
        let pause_us = stage.pause_us();
        stage.pass(pause_us);
        stage.begin();
        stage.fall(broken());
    }
    assert!(unavailable(&mut answer).may_have_happened);
    stage.pass(60 * SECOND_US);
    assert_eq!(stage.open(8), [dropped, given_up]);
    for (number, name) in [(dropped, "one"), (given_up, "two")] {
        let session = v1::Session { session_id: name.into(), ..Default::default() };
        stage.hear(number, Told::Session(Box::new(session)));
        let group = stage.group().unwrap();
        let closing = &group.operations[0].what;
        assert!(matches!(closing, Some(What::CloseSession(asked)) if asked.session_id == name), "{group:?}");
    }
}

#[test]
fn a_server_that_welcomes_and_hangs_up_is_not_run_down() {
    let mut stage = Stage::welcome(8);
    stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.sent();
    let begun_us = stage.now_us;
    for _ in 0..100 {
        stage.fall(broken());
        let pause_us = stage.pause_us();
        stage.pass(pause_us);
        assert_eq!(stage.open(8).len(), 1);
    }
    assert!(stage.now_us - begun_us >= 10 * SECOND_US);
    stage.pass(SECOND_US);
    stage.fall(broken());
    assert_eq!(stage.pause_us(), 0, "it was good for a while");
}

#[test]
fn attempts_to_open_a_stream_become_rare_and_no_two_clients_keep_step() {
    let mut pauses = Vec::new();
    for seed in 0..20 {
        let mut stage = Stage::new();
        stage.book.random = Random::from_seed(seed);
        stage.book.policy.backoff = Duration::ZERO;
        stage.ask(acquire("a"), Stance::Policy { attempts: 100 });
        let mut pause_us = 0;
        for _ in 0..10 {
            stage.pass(pause_us);
            stage.begin();
            stage.fall(broken());
            pause_us = stage.pause_us();
        }
        assert!((200_000..=400_000).contains(&pause_us), "{pause_us}");
        pauses.push(pause_us);
    }
    pauses.dedup();
    assert!(pauses.len() > 10, "{pauses:?}");
}

#[test]
fn an_answer_may_take_as_long_as_the_welcome_did() {
    let renew = || What::Renew(v1::RenewRequest::default());
    let mut stage = Stage::new();
    stage.book.greet(oneshot::channel().0);
    stage.begin();
    stage.group();
    stage.book.opened(stage.now_us);
    stage.pass(SECOND_US / 4);
    stage.hear(0, Told::Welcome(v1::Welcome { in_flight_max: 8 }));
    stage.pass(60 * SECOND_US);
    // Renewed more often than an answer takes to come.
    let mut last_us = None;
    for _ in 0..3 {
        stage.ask(renew(), Stance::Once);
        stage.sent();
        if let Some(since_us) = last_us.replace(stage.now_us) {
            stage.book.doubt(since_us);
        }
        assert_eq!(stage.check(), Verdict::Good);
        stage.pass(SECOND_US / 5);
    }
    stage.book.doubt(last_us.unwrap());
    assert_eq!(stage.check(), Verdict::Silent, "half a second is long enough");
}

#[test]
fn what_was_broken_before_it_was_heard_of_is_taken_back() {
    let mut stage = Stage::welcome(8);
    let (number, mut answer) = stage.ask(acquire("a"), Stance::InLine { until_us: None });
    stage.sent();
    stage.fall(broken());
    assert_eq!(stage.open(8), [number]);
    stage.hear(number, refusal("released", 0));
    assert_eq!(failed(&mut answer), Error::Ended(crate::error::Ended::Released));
    let group = stage.group().unwrap();
    assert!(matches!(group.operations[0].what, Some(What::Cancel(1))), "{group:?}");
}
