//! `alarm`: tries the way by which alarms reach a person, from the instance to the command and to
//! sendmail, without a disk that fails.

use super::{
    Result,
    context::{Context, Run},
    print, warn,
};
use crate::text::clean;
use clap::{Args, ValueEnum};
use serde_json::json;

/// Try how alarms are sent: alarm test.
///
/// A test message is sent by each way that is set (`alarm-command` and `alarm-mail` in
/// plinth.toml), and each is reported with its result. The exit code is 1 if one of them failed.
#[derive(Debug, Args)]
pub(super) struct Alarm {
    /// Send a test message.
    #[arg(value_enum)]
    what: What,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    Test,
}

impl Run for Alarm {
    fn run(&self, context: &mut Context) -> Result<()> {
        let tried = match self.what {
            What::Test => context.instance()?.test_alarm()?,
        };
        if tried.iter().any(|way| way.warning) {
            context.status = 1;
        }
        if context.json {
            let rows: Vec<_> =
                tried.iter().map(|way| json!({ "way": way.text, "sent": !way.warning })).collect();
            print(&format!("{:#}\n", serde_json::Value::Array(rows)));
            return Ok(());
        }
        for way in tried {
            let line = clean(&way.text) + "\n";
            if way.warning { warn(&line) } else { print(&line) }
        }
        Ok(())
    }
}
