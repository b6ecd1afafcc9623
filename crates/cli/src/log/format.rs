//! How an event is written: one line, with its time, its level, its target, and what happened.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::LookupSpan,
};

/// One line for each event.
pub(super) struct Line {
    /// Whether lines have a time. The journal has its own.
    pub(super) has_time: bool,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.has_time {
            SystemTime.format_time(&mut writer)?;
            writer.write_char(' ')?;
        }
        let metadata = event.metadata();
        write!(writer, "{:5} {}: ", metadata.level().as_str(), metadata.target())?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writer.write_char('\n')
    }
}
