//! How clusters agree on one list of clusters.

use std::time::Duration;

use futures_util::future::try_join_all;
use navlock_core::{Error, Unreachable};
use tokio::time::sleep;

use super::{
    config::{EtcdClusters, of},
    list::{List, ListStatement},
};
use crate::{
    calls::{self, Looked},
    failure::Failure,
    formats,
    keys::BucketKeys,
    members::Members,
    options::EtcdOptions,
    tokens::{MOST, counted},
};

/// How often the agreement is tried again when others change the list as well.
pub(super) const TRIES: u32 = 8;

/// The pause between two tries, at first.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// The statements that all clusters have in the end, and the revisions that wrote them.
pub(super) type Agreed = Vec<(i64, ListStatement)>;

/// See [`EtcdClusters::agreed`].
pub(super) async fn agreed(clusters: &EtcdClusters) -> Result<String, Error> {
    let list = clusters.list();
    let all = reach_all(clusters, async |members, options| {
        formats::look(members, options).await.map(drop)
    });
    let all = all.await?;
    let found = look_at_all(&all).await?;
    let (mut without, mut with_another) = (0, 0);
    for (one, found) in all.iter().zip(&found) {
        match &found.said {
            None => without += 1,
            Some(said) => {
                one.check_said(said, &list)?;
                if said.list == list {
                    // The next program that begins takes up an unfinished statement, even if
                    // another program has written it.
                    without += usize::from(!said.is_settled);
                    continue;
                }
                with_another += 1;
            }
        }
        // As who begins would find it.
        one.check_nobody(found, &list).await?;
    }
    let count = all.len();
    let kinds = [(without, "no list yet"), (with_another, "another list, which nobody uses")];
    let kinds = kinds.iter().filter(|(some, _)| *some > 0);
    let kinds: Vec<_> =
        kinds.map(|(some, which)| format!("{some} of {count} have {which}")).collect();
    Ok(match &*kinds.join(", and ") {
        "" => format!("{list}: all of them have this list"),
        rest => format!("{list}: {rest}; they get this one when it is used"),
    })
}

/// Connects to all clusters. Each has to have a format that can be used.
pub(super) async fn reach_all(
    clusters: &EtcdClusters,
    check: impl AsyncFn(&Members, &EtcdOptions) -> Result<(), Error>,
) -> Result<Vec<Reached<'_>>, Error> {
    let check = &check;
    let connect = |nth: usize| async move {
        let cluster = &clusters.clusters[nth];
        // These connections are short-lived.
        let options = cluster.options.clone().follow_members(false);
        let connected = async {
            let members = Members::connect(options.clone()).await?;
            check(&members, &options).await?;
            Ok(Reached { clusters, nth, members, options })
        };
        connected.await.map_err(|error| of(&cluster.name, error))
    };
    try_join_all((0..clusters.clusters.len()).map(connect)).await
}

pub(super) async fn agree(clusters: &EtcdClusters) -> Result<Agreed, Error> {
    let all = reach_all(clusters, formats::check).await?;
    for nth in 0..TRIES {
        if let Some(agreed) = try_to_agree(clusters, &all).await? {
            return Ok(agreed);
        }
        sleep(PAUSE * 2_u32.pow(nth) + jitter()).await;
    }
    let why = "others change the list of etcd clusters as well, or one does not answer; try again";
    Err(Unreachable::other(why).into())
}

/// A random pause, so that two programs do not do the same at the same moments.
pub(super) fn jitter() -> Duration {
    let random = navlock_core::ClientId::random().to_bytes()[0];
    Duration::from_millis(u64::from(random % 32))
}

/// A connection to one of the clusters.
pub(super) struct Reached<'a> {
    clusters: &'a EtcdClusters,
    nth: usize,
    members: Members,
    options: EtcdOptions,
}

/// What was found in one cluster.
pub(super) struct Found {
    looked: Looked,
    said: Option<ListStatement>,
}

/// Tries to make all clusters agree; `None` if something was changed meanwhile.
pub(super) async fn try_to_agree(
    clusters: &EtcdClusters,
    all: &[Reached<'_>],
) -> Result<Option<Agreed>, Error> {
    let list = clusters.list();
    let is_ours = |found: &Found| found.said.as_ref().is_some_and(|said| said.list == list);
    let found = look_at_all(all).await?;
    for (nth, one) in found.iter().enumerate() {
        if let Some(other) = (0..nth).find(|&other| {
            found[other].looked.cluster == one.looked.cluster
                && all[other].options.namespace == all[nth].options.namespace
        }) {
            let (one, other) = (all[other].name(), all[nth].name());
            return Err(Error::refused(format!(
                "{one} and {other} are the same etcd; give each cluster its own endpoints"
            )));
        }
    }
    for (one, found) in all.iter().zip(&found) {
        let Some(said) = &found.said else { continue };
        one.check_said(said, &list)?;
    }
    // This is checked before anything is changed. Otherwise the cluster's users would see the list
    // change for nothing.
    for (one, found) in all.iter().zip(&found).filter(|(_, found)| !is_ours(found)) {
        one.check_nobody(found, &list).await?;
    }
    let mut written: Vec<i64> = found.iter().map(|found| found.looked.written).collect();
    let mut begun = Vec::new();
    for (nth, (one, found)) in all.iter().zip(&found).enumerate() {
        if is_ours(found) {
            continue;
        }
        let Some(revision) = one.begin(found, &list).await? else {
            undo(all, begun).await;
            return Ok(None);
        };
        written[nth] = revision;
        begun.push((nth, revision, found.looked.value.clone()));
    }
    // Each cluster was seen with our list before these looks begin. If no cluster has changed since,
    // there was a moment at which all of them had our list.
    let found = look_at_all(all).await?;
    if !found.iter().zip(&written).all(|(found, written)| found.looked.written == *written) {
        undo(all, begun).await;
        return Ok(None);
    }
    let given = found.iter().filter_map(|found| {
        let base = found.said.as_ref()?.base;
        // This is also larger than the tokens that an owner has counted within the revision.
        Some(base.saturating_add(counted(found.looked.revision, MOST).get()))
    });
    let base = given.max().unwrap_or_default().saturating_add(1);
    let mut agreed = Vec::with_capacity(all.len());
    for (one, found) in all.iter().zip(found) {
        let Some(said) = found.said else { return Ok(None) };
        if said.is_settled {
            agreed.push((found.looked.written, said));
            continue;
        }
        let said = ListStatement { is_settled: true, base, ..said };
        match one.write(found.looked.written, &said).await? {
            Some(written) => agreed.push((written, said)),
            None => return Ok(None),
        }
    }
    Ok(Some(agreed))
}

/// Restores the former statements of these clusters, as far as nobody has changed them since.
pub(super) async fn undo(all: &[Reached<'_>], begun: Vec<(usize, i64, Option<Vec<u8>>)>) {
    for (nth, written, before) in begun {
        let Reached { members, options, .. } = &all[nth];
        let key = BucketKeys::list_key(&options.namespace);
        // If this fails, the next program takes up what is there.
        let _ = calls::put_back(members, (&key, written), before, options.call()).await;
    }
}

pub(super) async fn look_at_all(all: &[Reached<'_>]) -> Result<Vec<Found>, Error> {
    try_join_all(all.iter().map(Reached::look)).await
}

pub(super) async fn look(members: &Members, options: &EtcdOptions) -> Result<Looked, Failure> {
    let key = BucketKeys::list_key(&options.namespace);
    let mut tries = 1;
    loop {
        match calls::look(members, key.clone(), options.call()).await {
            Err(Failure::Unknown(_)) if tries < 3 => tries += 1,
            looked => return looked,
        }
    }
}

/// The error for a program that knows of one cluster only.
pub(super) fn not_alone(value: &[u8], options: &EtcdOptions) -> Error {
    let key = BucketKeys::list_key(&options.namespace).escape_ascii().to_string();
    let what = ListStatement::parse(value).map_or_else(
        || format!("one of several (key {key})"),
        |said| format!("cluster {} of several ({})", said.own, said.list),
    );
    Error::refused(format!(
        "the etcd at {} is {what}, and most names are on the others: give all of them, each with its name \
         ([[etcd.clusters]] in the settings); if it is to be used alone from now on, and nothing is held \
         anywhere, 'navlock evict --key {key}' (fencing tokens start lower then)",
        options.endpoints.join(", ")
    ))
}

impl Reached<'_> {
    pub(super) fn name(&self) -> &str {
        &self.clusters.clusters[self.nth].name
    }

    pub(super) fn failed(&self, failure: Failure) -> Error {
        of(self.name(), failure.error())
    }

    pub(super) async fn look(&self) -> Result<Found, Error> {
        let looked = look(&self.members, &self.options).await;
        let looked = looked.map_err(|failure| self.failed(failure))?;
        let said = looked.value.as_deref().map(|value| {
            let key = BucketKeys::list_key(&self.options.namespace).escape_ascii().to_string();
            ListStatement::parse(value).ok_or_else(|| {
                let why = format!(
                    "key {key} holds no list of clusters; remove it with 'navlock evict \
                     --key {key}' if nothing is held there"
                );
                of(self.name(), Error::refused(why))
            })
        });
        Ok(Found { said: said.transpose()?, looked })
    }

    /// Checks that this is the cluster that our list names, and that our list leaves out no
    /// cluster.
    pub(super) fn check_said(&self, said: &ListStatement, list: &List) -> Result<(), Error> {
        let name = self.name();
        if said.own != *name {
            return Err(Error::refused(format!(
                "the etcd at {} is cluster {} and not {name}: which names are on it would be others; \
                 mend its endpoints or its name",
                self.options.endpoints.join(", "),
                said.own
            )));
        }
        match said.list.missing_in(list) {
            Some(missing) => Err(Error::refused(format!(
                "cluster {missing} is in the list that etcd cluster {name} has ({}) and not in this one \
                 ({list}): what is held there would not be seen; name it as well, as retired, until all \
                 have the new list",
                said.list
            ))),
            None => Ok(()),
        }
    }

    /// Checks that nobody uses the cluster with another list.
    pub(super) async fn check_nobody(&self, found: &Found, list: &List) -> Result<(), Error> {
        let users = BucketKeys::users(&self.options.namespace);
        let count = calls::count(&self.members, users, self.options.call()).await;
        let users = count.map_err(|failure| self.failed(failure))?;
        if users == 0 {
            return Ok(());
        }
        let machines = if users == 1 { "machine" } else { "machines" };
        let with = match &found.said {
            None => "alone, without a list of clusters".to_owned(),
            Some(said) => format!("with another list of clusters ({})", said.list),
        };
        Err(Error::refused(format!(
            "etcd cluster {} is used by {users} {machines} {with}, and here the list is {list}: a name could \
             be held on two clusters; end what uses it first ('navlock daemon stop' on each machine, and \
             programs that connect by themselves; what has died counts until its lease is over), and begin \
             all with one list",
            self.name()
        )))
    }

    /// Begins to change the cluster to our list. Returns the revision, if nobody else has changed
    /// the cluster meanwhile.
    pub(super) async fn begin(&self, found: &Found, list: &List) -> Result<Option<i64>, Error> {
        let base = found.said.as_ref().map_or(0, |said| said.base);
        let said = ListStatement {
            is_settled: false,
            own: self.name().to_owned(),
            list: list.clone(),
            base,
        };
        self.write(found.looked.written, &said).await
    }

    /// Writes the cluster's statement, if it was last written in this revision and nobody uses the
    /// cluster. Returns the new revision, if the statement was written.
    pub(super) async fn write(
        &self,
        written: i64,
        said: &ListStatement,
    ) -> Result<Option<i64>, Error> {
        let (namespace, timeout) = (&self.options.namespace, self.options.call());
        let list = BucketKeys::list_key(namespace);
        let nobody = BucketKeys::users(namespace);
        let text = said.to_string();
        let done = calls::replace(&self.members, (&list, written), &text, nobody, timeout);
        match done.await {
            // The write may have been done, which the next look tells.
            Err(Failure::Unknown(_)) => Ok(None),
            done => done.map_err(|failure| self.failed(failure)),
        }
    }
}
