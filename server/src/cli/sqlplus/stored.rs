//! Settings as commands that make them again: STORE SET.

use super::settings::{Csv, Feedback, Recsep, Settings, by_name};

impl Settings {
    /// A SET for each setting, in lines.
    pub(super) fn commands(&self) -> String {
        by_name()
            .filter_map(|name| self.value(name).map(|value| (name.to_lowercase(), value)))
            .map(|(name, value)| format!("set {name} {value}\n"))
            .collect()
    }

    /// The words that set it; `None`: it was never set, or another setting says it.
    fn value(&self, name: &str) -> Option<String> {
        let switch = |on: bool| if on { "ON" } else { "OFF" }.to_owned();
        let mark = |mark: Option<char>| match mark {
            Some(mark) => quoted(&mark.to_string()),
            None => "OFF".to_owned(),
        };
        Some(match name {
            "HEADING" => switch(self.heading),
            "PAGESIZE" => self.pagesize.to_string(),
            "LINESIZE" => self.linesize.to_string(),
            "FEEDBACK" => match self.feedback {
                Feedback::Off => "OFF".to_owned(),
                Feedback::Only => "ONLY".to_owned(),
                Feedback::From(count) => count.to_string(),
            },
            "COLSEP" => quoted(&self.colsep),
            "TRIMOUT" => switch(self.trimout),
            "TRIMSPOOL" => switch(self.trimspool),
            "TERMOUT" => switch(self.termout),
            "ECHO" => switch(self.echo),
            "VERIFY" => switch(self.verify),
            "DEFINE" => mark(self.define),
            "CONCAT" => mark(self.concat),
            "ESCAPE" => mark(self.escape),
            "NULL" => quoted(&self.null),
            "NUMFORMAT" => quoted(self.numformat.as_ref().map_or("", |model| model.text())),
            "NUMWIDTH" => self.numwidth.to_string(),
            "WRAP" => switch(self.wrap),
            "UNDERLINE" => mark(self.underline),
            "HEADSEP" => mark(self.headsep),
            "NEWPAGE" => self.newpage.map_or_else(|| "NONE".to_owned(), |count| count.to_string()),
            "RECSEP" => match self.recsep {
                Recsep::Off => "OFF",
                Recsep::Wrapped => "WRAPPED",
                Recsep::Each => "EACH",
            }
            .to_owned(),
            "RECSEPCHAR" => mark(Some(self.recsepchar)),
            "SQLBLANKLINES" => switch(self.sqlblanklines),
            "SQLCONTINUE" => quoted(&self.sqlcontinue),
            "SQLPROMPT" => quoted(&self.sqlprompt),
            "SQLTERMINATOR" => mark(self.sqlterminator),
            "SUFFIX" => quoted(&self.suffix),
            "TIMING" => switch(self.timing),
            "TIME" => switch(self.time),
            "AUTOPRINT" => switch(self.autoprint),
            "MARKUP" => self.markup_words(),
            // COLSEP and DEFINE say these two.
            "SPACE" | "SCAN" => return None,
            other => return self.others.get(other).cloned(),
        })
    }

    fn markup_words(&self) -> String {
        let switch = |on: bool| if on { "ON" } else { "OFF" };
        let csv = match self.csv {
            Some(Csv { delimiter, quotes }) => {
                format!(
                    "CSV ON DELIMITER {} QUOTE {}",
                    quoted(&delimiter.to_string()),
                    switch(quotes)
                )
            }
            None => "CSV OFF".to_owned(),
        };
        let html = &self.html;
        format!(
            "HTML {} HEAD {} BODY {} TABLE {} ENTMAP {} SPOOL {} PREFORMAT OFF {csv}",
            switch(html.on),
            quoted(&html.head),
            quoted(&html.body),
            quoted(&html.table),
            switch(html.entmap),
            switch(html.spool)
        )
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are stored set all settings again, whatever they were before.
    #[test]
    fn stored_settings_are_the_same_again() {
        let mut settings = Settings::new(true);
        for line in [
            "lines 132 pages 0 feed only colsep '|' null 'it''s' numf 999,990.99 und = recsep each",
            "define ^ concat off escape on newp none sqlt off sqlprompt '_USER> ' suffix txt",
            "markup html on table '' head 'a''b' spool on",
            "trimspool on verify off long 5000 serveroutput on size unlimited",
        ] {
            settings.set(line, &mut false).expect(line);
        }
        for before in [Settings::new(true), Settings::new(false)] {
            let mut again = before;
            for line in settings.commands().lines() {
                let rest = line.strip_prefix("set ").expect("a SET");
                again.set(rest, &mut false).unwrap_or_else(|error| panic!("{line}: {error:?}"));
            }
            assert_eq!(format!("{again:?}"), format!("{settings:?}"));
        }
        settings.set("markup csv on delim ; quote off", &mut false).expect("a setting");
        assert!(settings.commands().contains("CSV ON DELIMITER ';' QUOTE OFF\n"));
    }
}
