//! What the locks of requests are for, as far as the requests say so.

use std::sync::Arc;

use navlock_core::AgentInfo;
use navlock_engine::RequestId;

use super::Requests;

impl Requests {
    /// Notes what the lock of a request is for that is about to be made or claimed. At most `most` are
    /// noted: a client may send this for requests that it never makes.
    pub(in super::super) fn note_why(&mut self, id: RequestId, why: &str, most: usize) {
        if !self.whys.contains_key(&id) && self.whys.len() < most && !self.contains(id) {
            self.name_bytes += why.len();
            self.whys.insert(id, why.into());
        }
    }

    /// To be called when the request was refused, or is over.
    pub(in super::super) fn forget_why(&mut self, id: RequestId) {
        // FAST: few requests say what they are for.
        if self.whys.is_empty() {
            return;
        }
        if let Some(why) = self.whys.remove(&id) {
            self.name_bytes -= why.len();
        }
    }

    /// What the agent of a request says of itself, with what the lock is for.
    pub(in super::super) fn with_why(
        &self,
        id: RequestId,
        info: &Arc<AgentInfo>,
    ) -> Arc<AgentInfo> {
        let mut info = Arc::clone(info);
        if let Some(why) = self.whys.get(&id) {
            why.as_ref().clone_into(&mut Arc::make_mut(&mut info).why);
        }
        info
    }
}
