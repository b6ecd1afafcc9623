//! The frames of HTTP/2, as far as calls and watches are known by them.

/// What has come of a connection and is no whole frame yet.
#[derive(Default)]
pub(crate) struct Frames {
    rest: Vec<u8>,
    /// How much comes before the first frame.
    before: usize,
}

/// A whole frame.
pub(crate) struct Frame {
    bytes: Vec<u8>,
}

/// How long what a client sends first is.
const PREFACE: usize = 24;

/// How long the head of a frame is.
const HEAD: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;

impl Frames {
    /// What a client sends.
    pub(crate) fn of_client() -> Self {
        Self { before: PREFACE, ..Self::default() }
    }

    /// What of these bytes and the earlier ones may be passed on: all whole frames that are to be `kept`.
    pub(crate) fn pass(&mut self, bytes: &[u8], mut kept: impl FnMut(&Frame) -> bool) -> Vec<u8> {
        self.rest.extend_from_slice(bytes);
        let mut passed = Vec::new();
        if self.before > 0 && self.rest.len() >= self.before {
            passed.extend(self.rest.drain(..self.before));
            self.before = 0;
        }
        while let (0, Some(head)) = (self.before, self.rest.first_chunk::<HEAD>()) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let end = HEAD + usize::try_from(length).expect("it has 24 bits");
            if self.rest.len() < end {
                break;
            }
            let frame = Frame { bytes: self.rest.drain(..end).collect() };
            if kept(&frame) {
                passed.extend(frame.bytes);
            }
        }
        passed
    }
}

impl Frame {
    /// The stream, of which each call has one.
    pub(crate) fn stream(&self) -> u32 {
        u32::from_be_bytes([self.bytes[5] & 0x7F, self.bytes[6], self.bytes[7], self.bytes[8]])
    }

    /// Whether it is a message, or a part of one.
    pub(crate) fn is_data(&self) -> bool {
        self.bytes[3] == DATA
    }

    /// Whether a client begins a call by it.
    pub(crate) fn is_call(&self) -> bool {
        self.bytes[3] == HEADERS
    }

    /// Whether a client asks etcd by it for a watch: a message whose first field is a message whose first
    /// field is a key. Other calls begin with a key or a number.
    pub(crate) fn is_watch(&self) -> bool {
        const FIRST_FIELD: u8 = 0x0A;
        let message = self.bytes.get(HEAD + 5..).unwrap_or_default();
        let inner = message.iter().skip(1).skip_while(|byte| **byte >= 0x80).nth(1);
        self.is_data() && message.first() == Some(&FIRST_FIELD) && inner == Some(&FIRST_FIELD)
    }
}
