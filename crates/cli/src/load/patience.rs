//! How long one client waits for an answer: as long as the plan allows, and not long beyond the end of the run. One timer and
//! one listener for the end serve all calls of a client. A timer that is early for the call under way is set anew when it
//! goes off, not at every call: nearly all are answered long before.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_client::{BootClock, Clock, Error};
use tokio::time::{Instant, Sleep, sleep};

use super::drive::{Run, us};

/// One client's patience.
pub struct Patience {
    run: Arc<Run>,
    /// Goes off at `timer_us` or soon after, which is no later than the end of the wait that is under way.
    timer: Pin<Box<Sleep>>,
    timer_us: u64,
    /// Resolves some time after the end of the run; none when it has.
    over: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Whom the two wake.
    wakes: Option<Waker>,
}

/// Why a call is not waited for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impatience {
    /// It has had its time.
    Late,
    /// The run is over.
    Over,
}

impl Patience {
    pub fn new(run: Arc<Run>) -> Patience {
        let (ended, grace) = (run.ended(), run.plan.grace());
        let over = async move {
            ended.await;
            sleep(grace).await;
        };
        let timer = Box::pin(sleep(Duration::ZERO));
        Patience { run, timer, timer_us: u64::MAX, over: Some(Box::pin(over)), wakes: None }
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Waits for the answer of a call that begins now, as long as the plan allows.
    pub async fn answered<T>(
        &mut self,
        call: Pin<&mut impl Future<Output = Result<T, Error>>>,
    ) -> Result<T, Error> {
        let plan = &self.run.plan;
        let (most, grace) = (plan.timeout, plan.grace());
        match self.wait(BootClock.now_us(), most, call).await {
            Ok(answered) => answered,
            Err(Impatience::Late) => Err(self.run.silence(most)),
            Err(Impatience::Over) => Err(self.run.silence(grace)),
        }
    }

    /// Waits for a call that begins at this time, for no longer than this.
    pub async fn wait<T>(
        &mut self,
        begun_us: u64,
        most: Duration,
        mut call: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Impatience> {
        let until_us = begun_us.saturating_add(us(most));
        if until_us < self.timer_us {
            self.set(until_us);
        }
        poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => self.poll(cx, until_us).map(Err),
        })
        .await
    }

    fn set(&mut self, at_us: u64) {
        let left = Duration::from_micros(at_us.saturating_sub(BootClock.now_us()));
        self.timer.as_mut().reset(Instant::now() + left);
        self.timer_us = at_us;
        self.wakes = None;
    }

    fn poll(&mut self, cx: &mut Context<'_>, until_us: u64) -> Poll<Impatience> {
        let listens = self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
        if listens && !self.timer.is_elapsed() && !self.run.is_over() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if BootClock.now_us() >= until_us {
                self.timer_us = u64::MAX;
                return Poll::Ready(Impatience::Late);
            }
            self.set(until_us);
        }
        self.wakes = Some(cx.waker().clone());
        let Some(over) = &mut self.over else { return Poll::Ready(Impatience::Over) };
        std::task::ready!(over.as_mut().poll(cx));
        self.over = None;
        Poll::Ready(Impatience::Over)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;

    use super::super::drive::Plan;
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    fn patience(timeout: Duration) -> Patience {
        let plan = Plan {
            clients: 1,
            locks: 1,
            hold: Duration::ZERO,
            ttl: LONG,
            wait: Duration::ZERO,
            timeout,
            server: "there".into(),
            prefix: "load".into(),
            owner: "me".into(),
            appends: None,
        };
        Patience::new(Arc::new(Run::new(plan)))
    }

    #[tokio::test]
    async fn each_call_has_its_own_time_whatever_the_timer_was_set_for() {
        let mut patience = patience(LONG);
        for most in [SHORT, LONG, SHORT, 2 * SHORT, SHORT] {
            let begun_us = BootClock.now_us();
            if most == LONG {
                assert_eq!(patience.wait(begun_us, most, pin!(sleep(2 * SHORT))).await, Ok(()));
                continue;
            }
            assert_eq!(patience.wait(begun_us, most, pin!(pending::<()>())).await, Err(Impatience::Late));
            assert!(BootClock.now_us() >= begun_us + us(most), "not before its time");
        }
        // One that was begun long ago has no time left.
        assert_eq!(patience.wait(0, SHORT, pin!(pending::<()>())).await, Err(Impatience::Late));
        assert_eq!(patience.wait(0, SHORT, pin!(async { 7 })).await, Ok(7), "but is heard if it is there");
    }

    #[tokio::test]
    async fn nothing_is_waited_for_long_after_the_end() {
        let mut patience = patience(SHORT);
        let run = Arc::clone(&patience.run);
        let end = async {
            sleep(SHORT).await;
            run.end();
        };
        let (begun_us, mut never) = (BootClock.now_us(), pin!(pending::<()>()));
        let (waited, ()) = tokio::join!(patience.wait(begun_us, LONG, never.as_mut()), end);
        assert_eq!(waited, Err(Impatience::Over));
        assert_eq!(patience.wait(begun_us, LONG, never).await, Err(Impatience::Over));
        assert_eq!(patience.wait(begun_us, LONG, pin!(async { 7 })).await, Ok(7));
        assert!(matches!(
            patience.answered(pin!(pending::<Result<(), Error>>())).await,
            Err(Error::ServerUnavailable(_))
        ));
    }
}
