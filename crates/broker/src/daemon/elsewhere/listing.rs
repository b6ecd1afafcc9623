//! Asks the reach for the locks and requests of other machines.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Instant,
};

use futures_util::{StreamExt, stream};
use navlock_core::{
    Error, Inspection, LockManager, ResourceName,
    host::{self, NameRef},
    look::LookOptions,
};
use navlock_wire::LookEvent;

use super::{
    super::{cycles::Names, shared_client::lock, state::Daemon},
    Elsewhere,
};

/// At most this many buckets that nobody uses on this machine are shown to a looker. They are shown
/// because requests wait inside locks of these buckets.
const MOST_BUCKETS: usize = 32;

/// How many names are listed at first to find cycles: the names for which clients of this daemon wait inside
/// a lock, and the names of these locks. Then at most [`MOST_FURTHER`] more names are listed, to which the
/// requests found there lead. At most [`AT_ONCE`] names are listed at a time.
const MOST_NAMES: usize = 256;

const MOST_FURTHER: usize = 64;

const AT_ONCE: usize = 16;

/// A name in its bucket, by the reference that machines use for it.
type NamedIn = (Arc<str>, NameRef);

/// The locks and requests of some names, each name as of one moment.
struct Lists<'a> {
    daemon: &'a Daemon,
    with_silence: bool,
    buckets: HashMap<Arc<str>, LockManager>,
    found: BTreeMap<NamedIn, Inspection>,
}

impl Lists<'_> {
    /// The lock manager of this bucket.
    fn bucket(&mut self, bucket: &Arc<str>) -> &LockManager {
        let open = || self.daemon.user_agent.lock_manager(bucket);
        self.buckets.entry(Arc::clone(bucket)).or_insert_with(open)
    }

    /// These names, by the references that machines use for them.
    fn shared(&mut self, names: &Names) -> BTreeMap<NamedIn, ResourceName> {
        let shared = names.iter().map(|(bucket, name)| {
            let (backend, _) = host::backend(self.bucket(bucket)).ok()?;
            Some(((Arc::clone(bucket), backend.name_ref(name)), name.clone()))
        });
        shared.flatten().collect()
    }

    /// Asks for the locks and requests of these names, as far as this was not done yet. `None` if
    /// there is no answer for one of them.
    async fn list(&mut self, names: impl Iterator<Item = NamedIn>) -> Option<()> {
        let with_silence = self.with_silence;
        let mut asked = Vec::new();
        for (bucket, name) in names {
            if !self.found.contains_key(&(Arc::clone(&bucket), name.clone())) {
                let locks = self.bucket(&bucket).clone();
                asked.push(async move {
                    let (backend, _) = host::backend(&locks)?;
                    let seen = backend.look(Some(name.clone()), with_silence).await?;
                    Ok::<_, Error>(((bucket, name), seen))
                });
            }
        }
        let mut lists = stream::iter(asked).buffer_unordered(AT_ONCE);
        while let Some(listed) = lists.next().await {
            let (shared, seen) = listed.ok()?;
            self.found.insert(shared, seen);
        }
        Some(())
    }

    /// The names of the locks inside which somebody waits for one of these names.
    fn around(&self, names: &[NamedIn]) -> BTreeSet<NamedIn> {
        let seen = names.iter().filter_map(|name| self.found.get(name));
        let inside = seen.flat_map(|seen| &seen.pending).flat_map(|one| &one.further.inside);
        let known = inside.filter(|outer| !outer.bucket.is_empty());
        known.map(|outer| (Arc::clone(&outer.bucket), outer.name.clone())).collect()
    }
}

impl Daemon {
    /// The buckets of all agents that are looked at, and the bucket that is asked for.
    pub(in super::super) fn buckets(&self, options: &LookOptions) -> Vec<String> {
        let mut buckets: Vec<String> = options.bucket.iter().cloned().collect();
        for client in self.all_clients() {
            let client = lock(&client);
            let theirs = client.agents().map(|(of, _)| of.bucket.as_ref().to_owned());
            buckets.extend(theirs.filter(|bucket| options.wants_bucket(bucket)));
        }
        buckets.sort_unstable();
        buckets.dedup();
        buckets
    }

    /// The locks and requests of other machines that are looked at.
    pub(in super::super) async fn look_elsewhere(&self, options: &LookOptions) -> Elsewhere {
        if !self.user_agent.is_leased() {
            return Elsewhere::default();
        }
        let mut buckets = self.buckets(options);
        let (mut found, mut asked) = (Vec::new(), HashSet::new());
        loop {
            found.extend(self.look_into(mem::take(&mut buckets), options.name.as_ref()).await);
            if options.bucket.is_some() || options.name.is_some() {
                return Elsewhere::new(found);
            }
            // A cycle may lead through buckets that are not used on this machine. So the next buckets are
            // those of the locks inside which the requests that were found so far wait.
            let further = further_buckets(&found).into_iter();
            buckets = further.filter(|bucket| !asked.contains(bucket)).collect();
            // If there are too many, the same ones are taken each time.
            buckets.sort_unstable();
            buckets.truncate(MOST_BUCKETS - asked.len());
            if buckets.is_empty() {
                return Elsewhere::new(found);
            }
            asked.extend(buckets.iter().cloned());
        }
    }

    /// The locks and requests of the names that can be part of a cycle with a request that is made here:
    /// `nested`, the names for which requests wait inside locks; `around`, the names of these locks; and the
    /// names to which the requests found there lead. `None` if any of these names could not be looked at.
    pub(in super::super) async fn look_elsewhere_at(
        &self,
        nested: &Names,
        around: &Names,
        with_silence: bool,
    ) -> Option<Elsewhere> {
        let (buckets, found) = (HashMap::new(), BTreeMap::new());
        let mut lists = Lists { daemon: self, with_silence, buckets, found };
        let around: BTreeMap<NamedIn, _> = lists.shared(around);
        let mut names = lists.shared(nested);
        names.extend(around.clone());
        // If there are too many, the same ones are taken each time.
        let names: Vec<_> = names.into_iter().take(MOST_NAMES).collect();
        lists.list(names.iter().map(|(shared, _)| shared.clone())).await?;
        // A request that waits for a lock around one of our requests may itself be made inside a
        // lock for which others wait, and so on.
        let mut met: HashSet<NamedIn> = around.into_keys().collect();
        let (mut todo, mut left): (Vec<_>, _) = (met.iter().cloned().collect(), MOST_FURTHER);
        while !todo.is_empty() {
            let mut further = lists.around(&todo);
            further.retain(|shared| !met.contains(shared));
            todo = further.into_iter().take(left).collect();
            left -= todo.len();
            met.extend(todo.iter().cloned());
            lists.list(todo.iter().cloned()).await?;
        }
        let is_whole = |shared| lists.found.get(shared).is_some_and(|seen| seen.left_out == 0);
        let mut asked = Names::default();
        for (shared, name) in names.iter().filter(|(shared, _)| is_whole(shared)) {
            asked.add(&shared.0, name);
        }
        let found = lists.found.into_iter().map(|((bucket, _), seen)| (bucket.to_string(), seen));
        Some(Elsewhere { asked, ..Elsewhere::new(found.collect()) })
    }

    /// The locks and requests of these buckets, of one name or of all.
    pub(super) async fn look_into(
        &self,
        buckets: Vec<String>,
        name: Option<&ResourceName>,
    ) -> Vec<(String, Inspection)> {
        let mut found = Vec::new();
        for bucket in buckets {
            let locks = self.user_agent.lock_manager(&bucket);
            let Ok((backend, _)) = host::backend(&locks) else { continue };
            let seen = backend.look(name.map(|name| backend.name_ref(name)), true).await;
            // A bucket that cannot be listed now is listed again later.
            found.extend(seen.ok().map(|seen| (bucket, seen)));
        }
        found
    }

    /// Looks for what owners have done without a message, unless this was done lately, and tells
    /// lookers of it.
    pub(in super::super) fn look_anew_now_and_then(&self) {
        if self.lookers.is_time_to_look(Instant::now()) {
            self.look_anew();
        }
    }

    /// Looks for what owners have done without a message, and tells lookers of it.
    pub(in super::super) fn look_anew(&self) {
        let seen = self.delegations().map(|delegations| delegations.look_anew());
        for LookEvent { at, change } in seen.unwrap_or_default() {
            self.lookers.tell_at(|| at, || change);
        }
    }
}

/// The buckets of the locks inside which the requests in `seen` wait, except for the buckets of `seen`
/// itself.
pub(super) fn further_buckets(seen: &[(String, Inspection)]) -> HashSet<String> {
    let known: HashSet<&str> = seen.iter().map(|(bucket, _)| bucket.as_str()).collect();
    let pending = seen.iter().flat_map(|(_, seen)| &seen.pending);
    let named: HashSet<&str> =
        pending.flat_map(|one| &one.further.inside).map(|name| &*name.bucket).collect();
    let is_new = |name: &&str| !name.is_empty() && !known.contains(name);
    named.into_iter().filter(is_new).map(str::to_owned).collect()
}
