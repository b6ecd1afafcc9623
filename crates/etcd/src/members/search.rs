//! Finding out whether a member answers, and the search for another connection if it does not.

use std::time::Duration;

use navlock_etcd_client::ResponseHeader;
use tokio::time::{self, Instant, sleep};

use super::{
    Member, Members, PAUSE,
    ask::{ask, first_key},
};
use crate::{LOGS, calls::failures::is_alive, load::about};

/// How long the answer to a late call is waited for at most, in times after which a call is late.
const PATIENCE: u32 = 7;

impl Members {
    /// Asks a member for the first key, if there is any. The member answers only when it has seen everything
    /// that had happened before.
    pub(crate) async fn first_key(
        &self,
        member: &Member,
    ) -> Result<ResponseHeader, navlock_etcd_client::Error> {
        first_key(&self.options, member.client.clone()).await
    }

    /// To be called when a call to the member of this generation is late or has failed: asks the member
    /// whether it is there. If it does not answer in time, it is [avoided](Self::avoid).
    pub(crate) fn doubt(&self, generation: u64) {
        let begins = |current: &mut Member| {
            let is_new = !current.is_doubted && current.avoided.is_none();
            current.is_doubted |= is_new;
            is_new
        };
        self.ask_again(generation, begins);
    }

    /// To be called when a call to the member of this generation is late, because it was not answered within
    /// `timeout`: [doubts](Self::doubt) the member, and waits until its connection is left, or for so long
    /// that the call must be lost. A proxy may lose one.
    pub(crate) async fn until_left(&self, generation: u64, timeout: Duration) {
        self.doubt(generation);
        let _ = time::timeout(PATIENCE * timeout, self.changed(generation)).await;
    }

    /// To be called when the connection of this generation has failed, or the member has not answered the
    /// question whether it is there: looks for a connection that answers.
    pub(crate) fn avoid(&self, generation: u64) {
        let begins = |current: &mut Member| {
            let is_new = !current.is_doubted && current.avoided.is_none();
            current.avoided.get_or_insert_with(Instant::now);
            is_new
        };
        self.ask_again(generation, begins);
    }

    /// Begins to look for a connection that answers, if that `begins` for the member of this generation.
    fn ask_again(&self, generation: u64, begins: impl FnOnce(&mut Member) -> bool) {
        let mut is_new = false;
        self.current.send_if_modified(|current| {
            let was_avoided = current.avoided.is_some();
            is_new = current.generation == generation && begins(current);
            current.avoided.is_some() != was_avoided
        });
        if is_new {
            tokio::spawn(self.clone().find(generation));
        }
    }

    /// Looks for a connection that answers. This is the one that there is, if it answers first.
    async fn find(self, generation: u64) {
        let member = self.current();
        let endpoint = member.endpoint.clone();
        // One question: if its answer is late, another one would be late as well.
        let answered = async {
            let failed = self.first_key(&member).await.err();
            if let Some(error) = failed.filter(|error| !is_alive(error)) {
                tracing::debug!(target: LOGS, endpoint, %error, "the connection has failed");
                self.avoid(generation);
                std::future::pending::<()>().await;
            }
        };
        tokio::pin!(answered);
        let is_avoided = |current: &Member| current.avoided.is_some();
        let given_up = async {
            let _ = self.current.subscribe().wait_for(is_avoided).await;
        };
        let is_here = tokio::select! {
            biased;
            () = &mut answered => true,
            () = given_up => false,
            () = sleep(self.options.keeper.times.call()) => false,
        };
        if !is_here {
            self.avoid(generation);
            tracing::warn!(target: LOGS, endpoint, "etcd does not answer; another member is looked for");
            tokio::select! {
                biased;
                () = &mut answered => {}
                found = self.search(&endpoint) => {
                    // What has kept one connection to an endpoint from answering may have kept the others
                    // as well, and be over. The calls and watches of this one would be begun again.
                    let is_late = found.endpoint != endpoint
                        || time::timeout(self.options.keeper.times.call(), answered).await.is_err();
                    if is_late {
                        self.current.send_replace(Member { generation: generation + 1, ..found });
                        return;
                    }
                }
            }
            tracing::info!(target: LOGS, endpoint, "etcd answers again");
        }
        self.current.send_modify(|current| (current.is_doubted, current.avoided) = (false, None));
    }

    /// Makes a connection to the first endpoint that answers. This endpoint has not answered.
    async fn search(&self, avoided: &str) -> Member {
        let began = Instant::now();
        loop {
            let (all, cluster) = (self.endpoints(), self.learned().cluster);
            let (count, given) = (all.len(), self.options.endpoints.len());
            let at = all.iter().position(|endpoint| *endpoint == avoided);
            // The member that has not answered is tried last, because it may answer again by that
            // time.
            let from = at.map_or(0, |at| at + 1);
            for (nth, endpoint) in all.iter().enumerate().cycle().skip(from).take(count) {
                // An endpoint that was not in the options has to prove that it belongs to the same
                // cluster.
                let cluster = (nth >= given).then_some(cluster);
                match ask(&self.options, endpoint, count > 1, cluster).await {
                    Ok((client, credentials)) => {
                        let after = began.elapsed();
                        tracing::info!(target: LOGS, endpoint, ?after, "etcd answers again, by another connection");
                        return Member::new(client, credentials, endpoint.clone(), 0);
                    }
                    Err(failure) => {
                        tracing::debug!(target: LOGS, endpoint, ?failure, "no answer");
                    }
                }
                sleep(about(PAUSE)).await;
            }
        }
    }
}
