//! Parameters of a run, by the names that users of SLOB know, from a file of `NAME=VALUE` lines.

use crate::issue::IssueError;

/// See above.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// Of 100 operations, how many are updates.
    pub update_pct: u32,
    /// Of 100 queries, how many scan.
    pub scan_pct: u32,
    /// Seconds.
    pub run_time: f64,
    /// Operations of a session, after which it ends; 0: by time.
    pub work_loop: u64,
    /// Active data of a schema.
    pub scale: Amount,
    pub scan_table: Amount,
    /// Blocks that an operation touches.
    pub work_unit: u64,
    pub is_redo_heavy: bool,
    pub schemas: u64,
    pub threads_per_schema: u64,
    pub has_hotspot: bool,
    pub hotspot_mb: u64,
    pub hotspot_offset_mb: u64,
    /// One of N operations goes to the hot spot.
    pub hotspot_frequency: u64,
    /// One of N operations goes to the first schema; 0: none.
    pub hot_schema_frequency: u64,
    /// After one of N operations a session thinks; 0: never.
    pub think_frequency: u64,
    /// Seconds.
    pub think_min: f64,
    pub think_max: f64,
}

/// Blocks, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    Blocks(u64),
    Bytes(u64),
}

impl Amount {
    #[must_use]
    pub fn blocks(self, block: u64) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Bytes(bytes) => bytes / block,
        }
    }

    /// `10000` or `80M`.
    ///
    /// # Errors
    /// In one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither a number of blocks nor a size such as 80M");
        let (at, unit) = text.char_indices().next_back().ok_or_else(wrong)?;
        let Some(power) = "KMGT".find(unit.to_ascii_uppercase()) else {
            return text.parse().map(Self::Blocks).map_err(|_| wrong());
        };
        let number: u64 = text[..at].parse().map_err(|_| wrong())?;
        let shift = 10 * (power as u32 + 1);
        number.checked_mul(1 << shift).map(Self::Bytes).ok_or_else(wrong)
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            update_pct: 10,
            scan_pct: 0,
            run_time: 300.0,
            work_loop: 0,
            scale: Amount::Bytes(80 << 20),
            scan_table: Amount::Bytes(1 << 20),
            work_unit: 64,
            is_redo_heavy: false,
            schemas: 1,
            threads_per_schema: 1,
            has_hotspot: false,
            hotspot_mb: 8,
            hotspot_offset_mb: 16,
            hotspot_frequency: 3,
            hot_schema_frequency: 0,
            think_frequency: 0,
            think_min: 0.1,
            think_max: 0.5,
        }
    }
}

/// Names that are about a database and not about its storage.
const NOT_HERE: [&str; 9] = [
    "LOAD_PARALLEL_DEGREE",
    "DATABASE_STATISTICS_TYPE",
    "ADMIN_SQLNET_SERVICE",
    "SQLNET_SERVICE_BASE",
    "SQLNET_SERVICE_MAX",
    "DBA_PRIV_USER",
    "SYSDBA_PASSWD",
    "EXTERNAL_SCRIPT",
    "OBFUSCATE_COLUMNS",
];

impl Parameters {
    /// Reads lines of a file over these. Returns the names that are of no use here.
    ///
    /// # Errors
    /// The line that is wrong.
    pub fn read(&mut self, text: &str) -> Result<Vec<String>, String> {
        let mut ignored = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let line = line.strip_prefix("export ").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let at = |what: String| format!("line {}: {what}", number + 1);
            let Some((name, value)) = line.split_once('=') else {
                return Err(at(format!("{line:?} is no NAME=VALUE")));
            };
            let value = value.trim().trim_matches(['"', '\'']);
            if !self.set(name.trim(), value).map_err(at)? {
                ignored.push(name.trim().to_owned());
            }
        }
        Ok(ignored)
    }

    /// False if the name is of no use here.
    fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{name}={value} is no number that it may have"))
        }
        match name {
            "UPDATE_PCT" => self.update_pct = number(name, value)?,
            "SCAN_PCT" => self.scan_pct = number(name, value)?,
            "RUN_TIME" => self.run_time = number(name, value)?,
            "WORK_LOOP" => self.work_loop = number(name, value)?,
            "SCALE" => self.scale = Amount::parse(value)?,
            "SCAN_TABLE_SZ" => self.scan_table = Amount::parse(value)?,
            "WORK_UNIT" => self.work_unit = number(name, value)?,
            "REDO_STRESS" => self.is_redo_heavy = value.eq_ignore_ascii_case("HEAVY"),
            "THREADS_PER_SCHEMA" => self.threads_per_schema = number(name, value)?,
            "DO_HOTSPOT" => self.has_hotspot = value.eq_ignore_ascii_case("TRUE"),
            "HOTSPOT_MB" => self.hotspot_mb = number(name, value)?,
            "HOTSPOT_OFFSET_MB" => self.hotspot_offset_mb = number(name, value)?,
            "HOTSPOT_FREQUENCY" => self.hotspot_frequency = number(name, value)?,
            "HOT_SCHEMA_FREQUENCY" => self.hot_schema_frequency = number(name, value)?,
            "THINK_TM_FREQUENCY" => self.think_frequency = number(name, value)?,
            "THINK_TM_MIN" => self.think_min = number(name, value)?,
            "THINK_TM_MAX" => self.think_max = number(name, value)?,
            name if NOT_HERE.contains(&name) => return Ok(false),
            name => return Err(format!("{name} is no parameter of SLOB")),
        }
        Ok(true)
    }

    /// # Errors
    /// The parameter that is wrong.
    pub fn check(&self, block: u64) -> Result<(), IssueError> {
        let wrong = |text: String| Err(IssueError::Plan(text));
        let least = 10_000;
        if self.update_pct > 100 || self.scan_pct > 100 {
            return wrong("UPDATE_PCT and SCAN_PCT go from 0 to 100".to_owned());
        }
        if self.scale.blocks(block) < least {
            return wrong(format!(
                "SCALE has {} blocks of {block} bytes, and {least} are the least",
                self.scale.blocks(block)
            ));
        }
        if self.work_unit == 0 || self.work_unit > self.scale.blocks(block) {
            return wrong("WORK_UNIT goes from 1 to the blocks of SCALE".to_owned());
        }
        let sessions = self.schemas.saturating_mul(self.threads_per_schema);
        if !(1..=4096).contains(&sessions) {
            return wrong(format!("{sessions} sessions: there may be 1 to 4096"));
        }
        if !(self.run_time > 0.0 && self.run_time <= 1e8) {
            return wrong("RUN_TIME must be above 0 and below three years".to_owned());
        }
        let is_think_time = 0.0 <= self.think_min && self.think_min <= self.think_max;
        if !is_think_time || self.think_max > 1e6 {
            return wrong("THINK_TM_MIN must be at most THINK_TM_MAX".to_owned());
        }
        let hotspot =
            (self.hotspot_mb.saturating_add(self.hotspot_offset_mb)).saturating_mul(1 << 20);
        if self.has_hotspot && (hotspot / block > self.scale.blocks(block) || self.hotspot_mb == 0)
        {
            return wrong("the hot spot does not lie in SCALE".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_the_shell_would() {
        let mut parameters = Parameters::default();
        let text = "# a comment\nUPDATE_PCT=25 # of 100\n\nSCALE=\"10000\"\nRUN_TIME=3600\n\
                    SCAN_TABLE_SZ=2M\nREDO_STRESS=HEAVY\nDO_HOTSPOT=TRUE\nexport WORK_UNIT='128'\n\
                    DATABASE_STATISTICS_TYPE=awr\nTHINK_TM_MIN=.2\n";
        assert_eq!(parameters.read(text), Ok(vec!["DATABASE_STATISTICS_TYPE".to_owned()]));
        let wanted = Parameters {
            update_pct: 25,
            scale: Amount::Blocks(10_000),
            run_time: 3600.0,
            scan_table: Amount::Bytes(2 << 20),
            is_redo_heavy: true,
            has_hotspot: true,
            work_unit: 128,
            think_min: 0.2,
            ..Parameters::default()
        };
        assert_eq!(parameters, wanted);
        assert!(parameters.check(8192).is_ok());
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, wanted) in [
            ("UPDATE_PCT=ten", "line 1: UPDATE_PCT=ten is no number that it may have"),
            ("\nFOO=1", "line 2: FOO is no parameter of SLOB"),
            ("hello", "line 1: \"hello\" is no NAME=VALUE"),
            ("SCALE=8Q", "line 1: \"8Q\" is neither a number of blocks nor a size such as 80M"),
            ("SCALE=", "line 1: \"\" is neither a number of blocks nor a size such as 80M"),
        ] {
            assert_eq!(Parameters::default().read(text), Err(wanted.to_owned()));
        }
        let small = Parameters { scale: Amount::Blocks(9_999), ..Parameters::default() };
        assert!(small.check(8192).is_err());
    }
}
