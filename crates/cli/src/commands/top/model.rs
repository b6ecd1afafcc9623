//! The state of the program: what is shown, and how.

use std::time::{Duration, Instant};

use navlock::look::{LockName, Watcher};

use crate::{
    picture::Picture,
    remedy::{Here, Surroundings},
    steal::Holder,
};

/// How long a cycle has to last to be called a deadlock, and the shortest time between two searches.
const LASTING: Duration = Duration::from_secs(1);

/// Something that a key asks for and that the model cannot do itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Quit,
    Interrupt,
    Suspend,
    Redraw,
    /// Steal this lock from these holders, if nobody else holds it.
    Steal(LockName, Vec<Holder>),
}

/// The views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum View {
    Names,
    Name(LockName),
    Tree,
    Clients,
    Deadlocks,
}

/// A view, and the line of it that is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) view: View,
    pub(super) line: usize,
}

/// The dialog to which keys go, if they do not go to the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dialog {
    Help,
    /// A filter is being written. This was the filter before.
    Filter(String),
    /// The question whether to steal this lock from its holders.
    Steal(LockName, Vec<Holder>),
}

pub(super) struct Model {
    pub(super) live: Picture,
    /// The data that is shown while the program is paused.
    pub(super) frozen: Option<Box<Picture>>,
    watcher: Watcher,
    /// When the next search for deadlocks is due.
    search: Instant,
    pub(super) here: Here,
    /// The broker's socket, for people.
    pub(super) socket: String,
    /// The views that were opened, each from the one before. The last one is shown.
    pub(super) places: Vec<Place>,
    /// The name that is chosen, wherever it stands now.
    pub(super) chosen: Option<LockName>,
    /// The only bucket that is shown.
    pub(super) bucket: Option<String>,
    pub(super) filter: String,
    /// How often the order of the names was changed.
    pub(super) order: usize,
    pub(super) is_reversed: bool,
    pub(super) dialog: Option<Dialog>,
    /// A message about the last key, or the outcome of a wish.
    pub(super) message: Option<String>,
    pub(super) allow_steal: bool,
    pub(super) colours: bool,
    /// The columns and rows of the terminal.
    pub(super) size: (u16, u16),
}

impl Model {
    pub(super) fn new(here: Here, socket: String, now: Instant) -> Self {
        Self {
            live: Picture::default(),
            frozen: None,
            watcher: Watcher::new(LASTING),
            search: now,
            here,
            socket,
            places: vec![Place { view: View::Names, line: 0 }],
            chosen: None,
            bucket: None,
            filter: String::new(),
            order: 0,
            is_reversed: false,
            dialog: None,
            message: None,
            allow_steal: false,
            colours: true,
            size: (80, 24),
        }
    }

    /// The data that is shown.
    pub(super) fn data(&self) -> &Picture {
        self.frozen.as_deref().unwrap_or(&self.live)
    }

    /// The holders and waiters, as they are shown.
    pub(super) fn see(&self) -> Surroundings<'_> {
        let data = self.data();
        self.here.see(data.overview(), data.namespace)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// The view that is shown.
    pub(super) fn place(&self) -> &Place {
        self.places.last().expect("the first is never left")
    }

    /// Whether the view is the table of names, in which a name stays chosen wherever it stands.
    pub(super) fn is_table(&self) -> bool {
        self.place().view == View::Names
    }

    /// To be called when time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        self.live.tick(now);
        if now >= self.search {
            let began = Instant::now();
            self.watcher.look(self.live.overview(), now);
            self.live.deadlocks = self.watcher.confirmed().cloned().collect();
            // With very many waiters, the search takes a while.
            self.search = now + LASTING.max(10 * began.elapsed());
        }
    }
}
