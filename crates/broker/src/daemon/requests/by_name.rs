//! Finds the requests and locks of one name.

use std::collections::HashMap;

use foldhash::{fast::RandomState as FastState, quality::RandomState};
use indexmap::IndexMap;
use navlock_core::ResourceName;
use navlock_engine::RequestId;

use super::entry::Entry;

/// The requests by name, from the first question about a name on, so that the next such question looks
/// at no others.
///
/// A request that is over stays here until somebody asks for its name. So after a while the table is
/// dropped, and made again by the next question: at most as many entries are gone through for that as
/// requests have come since.
#[derive(Default)]
pub(super) struct ByName {
    names: Option<HashMap<ResourceName, Vec<RequestId>, RandomState>>,
    /// How many more requests are entered before the table is dropped.
    room: usize,
}

impl ByName {
    /// Enters a new request.
    pub(super) fn enter(&mut self, id: RequestId, entry: &Entry) {
        let (Some(names), Some(name)) = (&mut self.names, entry.name()) else { return };
        if self.room == 0 {
            self.names = None;
            return;
        }
        self.room -= 1;
        names.entry(name.clone()).or_default().push(id);
    }

    /// The requests and locks of this name in any bucket, of all these. In no order.
    pub(super) fn ids(
        &mut self,
        entries: &IndexMap<RequestId, Entry, FastState>,
        name: &ResourceName,
    ) -> Vec<RequestId> {
        let names = self.names.get_or_insert_with(|| {
            self.room = 2 * entries.len() + 64;
            let mut table = HashMap::<_, Vec<_>, _>::default();
            let all = entries.iter().filter_map(|(id, entry)| Some((id, entry.name()?)));
            all.for_each(|(id, name)| table.entry(name.clone()).or_default().push(*id));
            table
        });
        let Some(ids) = names.get_mut(name) else { return Vec::new() };
        ids.retain(|id| entries.contains_key(id));
        ids.clone()
    }
}

#[cfg(test)]
mod tests {
    use navlock_core::{ClientId, Mode, host::RequestKind};

    use crate::daemon::{shared_client::lock, state::Daemon};

    use super::*;

    #[test]
    fn what_comes_and_goes_is_found_by_name_and_the_table_stays_small() {
        let daemon = Daemon::of_memory(None);
        let connected = daemon.enter(ClientId::random().to_bytes(), false, None);
        let mut client = lock(&connected.client);
        client.open_agent(0, ClientId::random(), "app".to_owned()).unwrap();
        let name = |at: u64| ResourceName::try_from(at.to_string()).unwrap();
        let id = |at: u64| RequestId::from_parts(u32::try_from(at).unwrap(), at);
        for at in 0..5_000 {
            let kind = RequestKind::Wait(Mode::Shared);
            client.request(0, id(at), name(at % 7), kind, None).unwrap();
            if at >= 20 {
                client.finish(id(at - 20));
            }
            if at % 100 == 50 || at > 4_000 {
                for of in 0..8 {
                    let mut ids = client.requests.ids(Some(&name(of)));
                    ids.sort_unstable_by_key(|id| id.serial());
                    let expected = (at.saturating_sub(19)..=at).filter(|at| at % 7 == of).map(id);
                    assert_eq!(ids, expected.collect::<Vec<_>>());
                }
            }
            let names = client.requests.by_name.names.as_ref();
            let known = names.map_or(0, |names| names.values().map(Vec::len).sum());
            assert!(known <= 200, "{known} at {at}");
        }
    }
}
