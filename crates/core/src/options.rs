//! The options of a request, and the combinations that are refused.

use navlock_engine::{Mode, RequestKind};

use crate::Error;

/// The options of a request, as a script would give them: any combination can be written down.
///
/// In Rust the builder ([`LockRequest`](crate::LockRequest)) is the usual way. This is the whole
/// dictionary, for programs that get requests from elsewhere. Its members are those of the
/// specification, and only a new specification would add one.
///
/// Spec: `LockOptions`, <https://w3c.github.io/web-locks/#api-lock-manager>
///
/// ```
/// # use navlock::{Error, UserAgent};
/// # let locks = UserAgent::new().lock_manager("app");
/// use navlock::{LockOptions, Mode};
///
/// // What a script writes as `{ mode: "shared", ifAvailable: true }`.
/// let options = LockOptions { mode: Mode::Shared, if_available: true, ..LockOptions::default() };
/// let guard = locks.lock_with("db", options).blocking()?.expect("nobody else holds it");
/// assert_eq!(guard.mode(), Mode::Shared);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LockOptions {
    /// Exclusive unless said otherwise.
    pub mode: Mode,
    /// Have the lock at once or not at all.
    pub if_available: bool,
    /// Take the lock from all who hold it.
    pub steal: bool,
    /// The caller has an abort signal for this request. The signal itself stays with the caller,
    /// who aborts the request by dropping its future. The option matters here because requests that
    /// never wait must not have a signal.
    pub signal: bool,
}

impl LockOptions {
    /// The kind of request that these options ask for, if they are allowed.
    ///
    /// Spec: <https://w3c.github.io/web-locks/#api-lock-manager-request>, steps 6 to 8.
    ///
    /// ```
    /// use navlock::{Error, LockOptions};
    ///
    /// let options = LockOptions { steal: true, if_available: true, ..LockOptions::default() };
    /// assert_eq!(options.kind(), Err(Error::StealIfAvailable));
    /// ```
    ///
    /// # Errors
    ///
    /// The first of these that applies: [`Error::StealIfAvailable`], [`Error::StealShared`],
    /// [`Error::SignalWithoutWaiting`].
    #[inline]
    pub fn kind(self) -> Result<RequestKind, Error> {
        // FAST: most requests only wait, and no option forbids that.
        if !self.steal && !self.if_available {
            return Ok(RequestKind::Wait(self.mode));
        }
        // 6.
        if self.steal && self.if_available {
            return Err(Error::StealIfAvailable);
        }
        // 7.
        if self.steal && self.mode != Mode::Exclusive {
            return Err(Error::StealShared);
        }
        // 8.
        if self.signal {
            return Err(Error::SignalWithoutWaiting);
        }
        Ok(if self.steal { RequestKind::Steal } else { RequestKind::IfAvailable(self.mode) })
    }
}

/// The options that ask for this kind of request: their [kind](LockOptions::kind) is the same
/// again.
impl From<RequestKind> for LockOptions {
    fn from(kind: RequestKind) -> Self {
        let options = Self { mode: kind.mode(), ..Self::default() };
        match kind {
            RequestKind::Wait(_) => options,
            RequestKind::IfAvailable(_) => Self { if_available: true, ..options },
            RequestKind::Steal => Self { steal: true, ..options },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_that_ask_for_a_kind_are_of_that_kind() {
        let kinds = [
            RequestKind::Wait(Mode::Exclusive),
            RequestKind::Wait(Mode::Shared),
            RequestKind::IfAvailable(Mode::Exclusive),
            RequestKind::IfAvailable(Mode::Shared),
            RequestKind::Steal,
        ];
        for kind in kinds {
            assert_eq!(LockOptions::from(kind).kind().unwrap(), kind);
        }
    }
}
