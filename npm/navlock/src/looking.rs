//! Looks at locks and at what happens to them. A thread waits for the next news only when a script
//! has asked for it. So nothing piles up here for a slow script: the source of the news counts what
//! the script has missed.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    task::Waker,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use navlock::{
    Error, Unreachable,
    host::{Lines, Object},
    look::{Looker, News},
};

use crate::js::Failure;

/// How often a waiting thread checks whether anybody still wants news.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A look. The look ends when this value is dropped, or soon after.
pub(crate) struct Looking {
    /// Asks the thread for the next news.
    ask: SyncSender<()>,
    told: Arc<Told>,
}

/// The news, once there is some: a list of objects as JSON.
#[derive(Default)]
struct Told(Mutex<Option<Result<String, Error>>>);

impl Told {
    fn lock(&self) -> MutexGuard<'_, Option<Result<String, Error>>> {
        // No thread panics while it has this locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Looking {
    /// Begins a look, and asks for the first news. The waker is called whenever news has come that
    /// was asked for.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(crate) fn begin(looker: Looker, waker: Waker) -> Result<Self, Failure> {
        let (ask, asked) = sync_channel(1);
        let looking = Self { ask, told: Arc::default() };
        let told = Arc::clone(&looking.told);
        let thread = thread::Builder::new().name("navlock-look".to_owned());
        let spawned = thread.spawn(move || look(looker, &asked, &told, &waker));
        spawned.map_err(|error| Failure::Own(format!("no thread can be had to look: {error}")))?;
        looking.go_on();
        Ok(looking)
    }

    /// Asks for the next news, unless that was done already.
    pub(crate) fn go_on(&self) {
        // The channel is full if the thread has not taken the last question yet. It has no receiver
        // if the look failed.
        _ = self.ask.try_send(());
    }

    /// Whether there is news. If the look has failed, the error says why.
    pub(crate) fn news(&self) -> Option<Result<(), Error>> {
        let told = self.told.lock();
        told.as_ref().map(|told| told.as_ref().map(|_| ()).map_err(Clone::clone))
    }

    /// Takes the news: it is given once.
    pub(crate) fn take(&self) -> Option<String> {
        self.told.lock().take()?.ok()
    }
}

/// Tells the script if the thread that looks panics.
struct Watched<'a> {
    told: &'a Told,
    waker: &'a Waker,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let why = "the thread that looks has panicked; what it has said is on the error stream";
            *self.told.lock() = Some(Err(Unreachable::other(why).into()));
            self.waker.wake_by_ref();
        }
    }
}

/// The thread of a look: waits for news whenever the script asks, until the [`Looking`] is dropped.
fn look(mut looker: Looker, asked: &Receiver<()>, told: &Told, waker: &Waker) {
    let _watched = Watched { told, waker };
    // This thread does not lower its priority: threads that lock in this process wait while it
    // takes its picture.
    let mut lines = Lines::default();
    while asked.recv().is_ok() {
        let news = loop {
            match looker.next(Some(CHECK_INTERVAL)) {
                Ok(news) => {
                    if let Some(text) = news.and_then(|news| text_of(&news, &looker, &mut lines)) {
                        break Ok(text);
                    }
                }
                Err(error) => break Err(error),
            }
            if asked.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
        };
        let has_failed = news.is_err();
        *told.lock() = Some(news);
        waker.wake_by_ref();
        if has_failed {
            return;
        }
    }
}

/// News as a list of objects; `None` if there is nothing to say.
fn text_of(news: &News, looker: &Looker, lines: &mut Lines) -> Option<String> {
    let News::Events(events) = news else {
        // The overview was made anew, or there is no broker and so there are no locks.
        let missed = if let News::Anew { missed } = news { *missed } else { 0 };
        let mut all = [Vec::new(), Vec::new(), Vec::new()];
        lines.begin(looker.overview(), |line| {
            let list = match line.word {
                "held" => 0,
                "pending" => 1,
                _ => 2,
            };
            all[list].push(line.members());
        });
        let [held, pending, owned] = all;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let picture = Object::default()
            .string("event", "picture")
            .number("at", u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
            .number("missed", missed)
            .number("leftOut", looker.overview().left_out)
            .objects("held", &held)
            .objects("pending", &pending)
            .objects("owned", &owned);
        return Some(format!("[{picture}]"));
    };
    let mut text = String::new();
    for line in events.iter().filter_map(|event| lines.event(event)) {
        text.push(if text.is_empty() { '[' } else { ',' });
        text.push_str(&line.object().to_string());
    }
    (!text.is_empty()).then(|| text + "]")
}
