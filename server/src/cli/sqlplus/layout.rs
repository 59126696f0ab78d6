//! A result as SQL*Plus draws it: pages with titles, headings and underlines, rows, sums at breaks.
//!
//! A column is as wide as its FORMAT says; without one, a number is `NUMWIDTH` wide, and a text as
//! its widest value in the whole result or its heading (SQL*Plus takes the declared width, which
//! views do not have). Columns that do not fit into `LINESIZE` go on the next line, with their
//! headings. A page has `PAGESIZE` lines, those of `NEWPAGE` above it counted; with 0 there is one
//! page without an end, and neither titles nor headings.
//!
//! After SET MARKUP HTML ON the lines are those of HTML (`html.rs`): a page is a table, which ends
//! where a title does not fit into it, and neither LINESIZE nor PAGESIZE limits it.
//!
//! Lines are given as they are; the caller takes blanks from their ends or fills them up.

use super::{
    breaks::{Break, Breaks, Function, Group, On, Skip},
    columns::{Attributes, Columns, Format, Justify, Wrap},
    html::{self, Html},
    numbers::{Number, plain},
    settings::{Recsep, Settings},
    titles::{Moment, Title},
    variables::Variables,
};
use crate::{
    query::{Table, views::Type},
    text::clean,
};
use plinth_engine::admin::Value;
use std::collections::BTreeMap;

/// The titles of a report.
#[derive(Debug, Clone, Default)]
pub(super) struct Titles {
    pub top: Title,
    pub bottom: Title,
    pub header: Title,
    pub footer: Title,
}

/// Everything that says how results are drawn.
pub(super) struct Sheet<'a> {
    pub settings: &'a Settings,
    pub columns: &'a Columns,
    pub breaks: &'a Breaks,
    pub titles: &'a Titles,
    pub user: &'a str,
    pub date: &'a str,
}

/// One printed column.
struct Shape<'a> {
    /// Its place in the rows.
    at: usize,
    attributes: Option<&'a Attributes>,
    heading: Vec<String>,
    width: usize,
    is_number: bool,
}

/// The lines of one column in one row.
type Cell = Vec<String>;

impl Sheet<'_> {
    /// The lines of a result. `headings` are those of columns without a HEADING, `variables` those
    /// that titles name.
    pub(super) fn lines(
        &self,
        table: &Table,
        headings: &[String],
        variables: &Variables,
    ) -> Vec<String> {
        let shapes = self.shapes(table, headings);
        if shapes.is_empty() || table.rows.is_empty() {
            return Vec::new();
        }
        Drawing::new(self, table, &shapes, variables).draw()
    }

    fn shapes<'a>(&'a self, table: &Table, headings: &[String]) -> Vec<Shape<'a>> {
        let mut shapes = Vec::new();
        for (at, (column, name)) in table.columns.iter().zip(headings).enumerate() {
            let attributes = self.columns.of(&column.name);
            if attributes.is_some_and(|attributes| attributes.noprint) {
                continue;
            }
            let written = attributes.and_then(|attributes| attributes.heading.as_deref());
            let heading: Vec<String> = match (written, self.settings.headsep) {
                (Some(text), Some(mark)) => text.split(mark).map(clean).collect(),
                (Some(text), None) => vec![clean(text)],
                (None, _) => vec![clean(name)],
            };
            let is_number = matches!(column.kind, Type::Integer | Type::Real);
            let mut shape = Shape { at, attributes, heading, width: 1, is_number };
            shape.width = self.width(&shape, table);
            shapes.push(shape);
        }
        shapes
    }

    fn width(&self, shape: &Shape<'_>, table: &Table) -> usize {
        let most = if self.settings.html.on { usize::MAX } else { self.settings.linesize };
        let of_heading = shape.heading.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let format = shape.attributes.and_then(|attributes| attributes.format.as_ref());
        let width = match (format, shape.is_number) {
            (Some(Format::Width(width)), _) => *width,
            (Some(Format::Number(model)), true) => model.width().max(of_heading),
            (_, true) => {
                let model = self.settings.numformat.as_ref();
                model.map_or(self.settings.numwidth, |model| model.width()).max(of_heading)
            }
            (_, false) => {
                let values = table.rows.iter().filter_map(|row| row.get(shape.at));
                let longest = |value| {
                    let lines = self.text(shape, value);
                    lines.split('\n').map(|line| line.chars().count()).max().unwrap_or(0)
                };
                values.map(longest).max().unwrap_or(0).max(of_heading)
            }
        };
        width.clamp(1, most.max(1))
    }

    /// A value as text, with its line ends.
    fn text(&self, shape: &Shape<'_>, value: &Value) -> String {
        let attributes = shape.attributes;
        let null = || {
            let own = attributes.and_then(|attributes| attributes.null.as_deref());
            own.unwrap_or(&self.settings.null).to_owned()
        };
        match value {
            Value::Null => null(),
            // Oracle's empty text is NULL.
            Value::Text(text) if text.is_empty() => null(),
            Value::Text(text) => {
                let lines: Vec<String> = text.replace('\t', " ").lines().map(clean).collect();
                lines.join("\n")
            }
            Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
            number => {
                Number::of(number).map_or_else(String::new, |number| self.number(shape, number))
            }
        }
    }

    fn number(&self, shape: &Shape<'_>, number: Number) -> String {
        let format = shape.attributes.and_then(|attributes| attributes.format.as_ref());
        match format {
            Some(Format::Number(model)) => model.format(number).trim().to_owned(),
            Some(Format::Width(width)) if shape.is_number => plain(number, *width),
            _ if !shape.is_number => super::numbers::whole(number),
            _ => match &self.settings.numformat {
                Some(model) => model.format(number).trim().to_owned(),
                None => plain(number, self.settings.numwidth),
            },
        }
    }

    /// The lines of a value in its column, as wide as the column.
    fn cell(&self, shape: &Shape<'_>, value: &Value) -> Cell {
        let text = self.text(shape, value);
        let own = shape.attributes.and_then(|attributes| attributes.wrap);
        let wrap = own.unwrap_or(if self.settings.wrap { Wrap::Wrapped } else { Wrap::Truncated });
        let to_right = shape.is_number;
        let lines = cut(&text, shape.width, wrap);
        lines.into_iter().map(|line| aligned(&line, shape.width, to_right)).collect()
    }
}

fn aligned(text: &str, width: usize, to_right: bool) -> String {
    if to_right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

/// A text in lines of at most `width` characters.
fn cut(text: &str, width: usize, wrap: Wrap) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let characters: Vec<char> = line.chars().collect();
        if characters.len() <= width {
            lines.push(line.to_owned());
            continue;
        }
        match wrap {
            Wrap::Truncated => lines.push(characters.iter().take(width).collect()),
            Wrap::Wrapped => {
                lines
                    .extend(characters.chunks(width).map(|chunk| chunk.iter().collect::<String>()));
            }
            Wrap::Words => lines.extend(words(line, width)),
        }
    }
    if wrap == Wrap::Truncated {
        lines.truncate(1);
    }
    lines
}

/// A line, broken between its words where that is possible.
fn words(line: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in line.split_whitespace() {
        let together = current.chars().count() + 1 + word.chars().count();
        if !current.is_empty() && together <= width {
            current.push(' ');
            current.push_str(word);
            continue;
        }
        if !current.is_empty() {
            lines.push(std::mem::take(&mut current));
        }
        let characters: Vec<char> = word.chars().collect();
        let mut pieces: Vec<String> =
            characters.chunks(width).map(|chunk| chunk.iter().collect()).collect();
        current = pieces.pop().unwrap_or_default();
        lines.extend(pieces);
    }
    lines.push(current);
    lines
}

/// Where sums are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// The break of this number, counted from the outermost.
    Break(usize),
    Row,
    Report,
}

/// A function that is printed at a place.
struct Sum<'a> {
    place: Place,
    function: Function,
    label: &'a str,
    /// The column in the rows.
    of: usize,
}

/// A result that is being drawn.
struct Drawing<'a> {
    sheet: &'a Sheet<'a>,
    table: &'a Table,
    shapes: &'a [Shape<'a>],
    /// Which shapes stand on which line.
    folds: Vec<Vec<usize>>,
    /// The breaks on columns of this result: the column in the rows, and the break.
    breaks: Vec<(usize, &'a Break)>,
    sums: Vec<Sum<'a>>,
    /// Values so far, by place and column.
    groups: BTreeMap<(Place, usize), Group>,
    /// The variables, with NEW_VALUE of the row that comes next and OLD_VALUE of the one before.
    variables: Variables,
    out: Vec<String>,
    page: usize,
    is_open: bool,
    /// Lines on this page, and whether one of them is a row.
    used: usize,
    has_row: bool,
    /// The next line begins with a form feed.
    feeds: bool,
    /// A table of HTML has begun and not ended.
    in_table: bool,
}

impl<'a> Drawing<'a> {
    fn new(
        sheet: &'a Sheet<'a>,
        table: &'a Table,
        shapes: &'a [Shape<'a>],
        variables: &Variables,
    ) -> Self {
        let column = |name: &str| {
            table.columns.iter().position(|column| sheet.columns.is_named(&column.name, name))
        };
        let breaks: Vec<(usize, &Break)> = sheet
            .breaks
            .breaks
            .iter()
            .filter_map(|one| match &one.on {
                On::Column(name) => column(name).map(|at| (at, one)),
                _ => None,
            })
            .collect();
        let has = |wanted: On| sheet.breaks.breaks.iter().any(|one| one.on == wanted);
        let mut sums: Vec<Sum<'_>> = Vec::new();
        for compute in &sheet.breaks.computes {
            let place = match &compute.on {
                On::Column(name) => {
                    let at = column(name);
                    breaks.iter().position(|(of, _)| Some(*of) == at).map(Place::Break)
                }
                On::Row => has(On::Row).then_some(Place::Row),
                On::Report => has(On::Report).then_some(Place::Report),
            };
            if let (Some(place), Some(of)) = (place, column(&compute.of)) {
                let (function, label) = (compute.function, compute.label.as_str());
                sums.push(Sum { place, function, label, of });
            }
        }
        Self {
            sheet,
            table,
            shapes,
            folds: folds(sheet.settings, shapes),
            breaks,
            sums,
            groups: BTreeMap::new(),
            variables: variables.clone(),
            out: Vec::new(),
            page: 0,
            is_open: false,
            used: 0,
            has_row: false,
            feeds: false,
            in_table: false,
        }
    }

    fn draw(mut self) -> Vec<String> {
        let mut before: Option<&[Value]> = None;
        for row in &self.table.rows {
            if let Some(before) = before
                && let Some(changed) = self.changed(before, row)
            {
                self.end_groups(changed, false);
            }
            self.new_values(row);
            self.row(before, row);
            self.old_values(row);
            before = Some(row);
        }
        self.end_groups(0, true);
        self.sums_at(Place::Report);
        self.title(&self.sheet.titles.footer);
        self.end_page();
        self.out
    }

    fn pages(&self) -> bool {
        self.sheet.settings.pagesize > 0
    }

    /// The outermost break whose value is another one than in the row before.
    fn changed(&self, before: &[Value], row: &[Value]) -> Option<usize> {
        self.breaks.iter().position(|(at, _)| before.get(*at) != row.get(*at))
    }

    fn new_values(&mut self, row: &[Value]) {
        keep(row, self.table, self.sheet.columns, &mut self.variables, |one| {
            one.new_value.as_ref()
        });
    }

    fn old_values(&mut self, row: &[Value]) {
        keep(row, self.table, self.sheet.columns, &mut self.variables, |one| {
            one.old_value.as_ref()
        });
    }

    /// The actions at the breaks from the innermost to this one. Below the last row nothing is
    /// skipped, unless sums of the whole report follow.
    fn end_groups(&mut self, outermost: usize, is_last: bool) {
        let skips = !is_last || self.sums.iter().any(|sum| sum.place == Place::Report);
        for number in (outermost..self.breaks.len()).rev() {
            self.sums_at(Place::Break(number));
            if !skips {
                continue;
            }
            match self.breaks.get(number).map(|(_, one)| one.skip) {
                Some(Skip::Lines(count)) => self.skip(count),
                Some(Skip::Page) => self.end_page(),
                None => {}
            }
        }
    }

    fn row(&mut self, before: Option<&[Value]>, row: &[Value]) {
        let cells: Vec<Cell> = self
            .shapes
            .iter()
            .map(|shape| {
                let value = row.get(shape.at).unwrap_or(&Value::Null);
                self.sheet.cell(shape, value)
            })
            .collect();
        let lines = self.join(&cells, false);
        self.room(lines.len());
        // On a new page everything is printed again.
        let lines = if self.has_row { self.without_repeats(before, row, cells) } else { lines };
        let count = lines.len();
        self.put(lines);
        self.has_row = true;
        let recsep = match self.html() {
            Some(_) => Recsep::Off,
            None => self.sheet.settings.recsep,
        };
        if recsep == Recsep::Each || recsep == Recsep::Wrapped && count > 1 {
            let mark = self.sheet.settings.recsepchar.to_string();
            self.put(vec![mark.repeat(self.sheet.settings.linesize).trim_end().to_owned()]);
        }
        self.count(row);
        self.sums_at(Place::Row);
        let of_rows = self.sheet.breaks.breaks.iter().find(|one| one.on == On::Row);
        match of_rows.map(|one| one.skip) {
            Some(Skip::Lines(count)) => self.skip(count),
            Some(Skip::Page) => self.end_page(),
            None => {}
        }
    }

    /// The lines of a row without the values that a break does not repeat.
    fn without_repeats(
        &self,
        before: Option<&[Value]>,
        row: &[Value],
        mut cells: Vec<Cell>,
    ) -> Vec<String> {
        let changed = before.map_or(Some(0), |before| self.changed(before, row));
        for (shape, cell) in self.shapes.iter().zip(&mut cells) {
            let number = self.breaks.iter().position(|(at, _)| *at == shape.at);
            let repeats = number.is_some_and(|number| {
                let prints = self.breaks.get(number).is_some_and(|(_, one)| one.duplicates);
                !prints && changed.is_none_or(|changed| changed > number)
            });
            if repeats {
                *cell = vec![" ".repeat(shape.width)];
            }
        }
        self.join(&cells, false)
    }

    /// Adds a row to all its groups.
    fn count(&mut self, row: &[Value]) {
        // Several functions of a column have one group.
        let mut wanted: Vec<(Place, usize)> =
            self.sums.iter().map(|sum| (sum.place, sum.of)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        for (place, of) in wanted {
            let value = row.get(of).unwrap_or(&Value::Null);
            self.groups.entry((place, of)).or_default().add(value);
        }
    }

    /// Prints the sums of a place, and begins its groups again.
    fn sums_at(&mut self, place: Place) {
        let mut functions: Vec<(Function, &str)> = self
            .sums
            .iter()
            .filter(|sum| sum.place == place)
            .map(|sum| (sum.function, sum.label))
            .collect();
        functions.sort_by_key(|(function, _)| *function);
        functions.dedup_by_key(|(function, _)| *function);
        if functions.is_empty() {
            return;
        }
        let is_summed = |at: usize| self.sums.iter().any(|sum| sum.place == place && sum.of == at);
        let of_break = match place {
            Place::Break(number) => self.breaks.get(number).map(|(at, _)| *at),
            _ => None,
        };
        // The label stands in the column of the break, or in the first one, where no sum does.
        let label_at = of_break
            .or_else(|| self.shapes.first().map(|shape| shape.at))
            .filter(|at| !is_summed(*at));
        let ruler = self.shapes.iter().map(|shape| {
            let mark = match () {
                () if is_summed(shape.at) => "-",
                () if of_break == Some(shape.at) => "*",
                () => " ",
            };
            vec![mark.repeat(shape.width)]
        });
        let mut lines = self.join(&ruler.collect::<Vec<_>>(), true);
        for (function, label) in functions {
            let cell = |shape: &Shape<'_>| {
                let is_here = self.sums.iter().any(|sum| {
                    sum.place == place && sum.of == shape.at && sum.function == function
                });
                if is_here {
                    let group = self.groups.get(&(place, shape.at));
                    let value = group.cloned().unwrap_or_default().value(function);
                    return self.sum(shape, &value);
                }
                let text = if label_at == Some(shape.at) { label } else { "" };
                let text: String = text.chars().take(shape.width).collect();
                vec![aligned(&text, shape.width, false)]
            };
            let cells: Vec<Cell> = self.shapes.iter().map(cell).collect();
            lines.extend(self.join(&cells, true));
        }
        self.room(lines.len());
        self.put(lines);
        self.groups.retain(|(of, _), _| *of != place);
    }

    fn sum(&self, shape: &Shape<'_>, value: &Value) -> Cell {
        match Number::of(value) {
            Some(number) if !shape.is_number => {
                vec![aligned(&plain(number, shape.width), shape.width, true)]
            }
            _ => self.sheet.cell(shape, value),
        }
    }

    /// The cells of a row as lines, folded into the lines of the page. Where sums are printed,
    /// lines without any are left out.
    fn join(&self, cells: &[Cell], leaves_out: bool) -> Vec<String> {
        if let Some(html) = self.html() {
            return html::values(&self.cells_of_html(html, cells));
        }
        let settings = self.sheet.settings;
        let mut lines = Vec::new();
        for fold in &self.folds {
            let height = fold.iter().filter_map(|at| cells.get(*at)).map(Vec::len).max();
            for number in 0..height.unwrap_or(0) {
                let parts = fold.iter().filter_map(|at| self.shapes.get(*at).zip(cells.get(*at)));
                let parts: Vec<String> = parts
                    .map(|(shape, cell)| {
                        cell.get(number).cloned().unwrap_or_else(|| " ".repeat(shape.width))
                    })
                    .collect();
                let is_blank = parts.iter().all(|part| part.trim().is_empty());
                if leaves_out && is_blank {
                    continue;
                }
                let line = parts.join(&settings.colsep);
                lines.push(if settings.wrap {
                    line
                } else {
                    line.chars().take(settings.linesize).collect()
                });
            }
        }
        lines
    }

    /// The page is one of HTML.
    fn html(&self) -> Option<&'a Html> {
        Some(&self.sheet.settings.html).filter(|html| html.on)
    }

    fn cells_of_html(&self, html: &Html, cells: &[Cell]) -> Vec<html::Cell> {
        let cell = |(shape, lines): (&Shape<'_>, &Cell)| {
            let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
            let own = shape.attributes.and_then(|attributes| attributes.entmap);
            html::Cell {
                text: lines.join("\n"),
                is_number: shape.is_number,
                maps: own.unwrap_or(html.entmap),
            }
        };
        self.shapes.iter().zip(cells).map(cell).collect()
    }

    fn headings(&self) -> Vec<String> {
        let settings = self.sheet.settings;
        if !settings.heading {
            return Vec::new();
        }
        if let Some(html) = self.html() {
            let cells: Vec<Cell> = self.shapes.iter().map(|shape| shape.heading.clone()).collect();
            return html::headings(&self.cells_of_html(html, &cells));
        }
        let mut lines = Vec::new();
        for fold in &self.folds {
            let shapes: Vec<&Shape<'_>> =
                fold.iter().filter_map(|at| self.shapes.get(*at)).collect();
            let height = shapes.iter().map(|shape| shape.heading.len()).max().unwrap_or(0);
            for number in 0..height {
                let parts: Vec<String> = shapes
                    .iter()
                    .map(|shape| {
                        // Shorter headings stand at the bottom.
                        let missing = height - shape.heading.len();
                        let text = number.checked_sub(missing).and_then(|at| shape.heading.get(at));
                        heading(shape, text.map_or("", String::as_str))
                    })
                    .collect();
                lines.push(parts.join(&settings.colsep));
            }
            if let Some(mark) = settings.underline {
                let parts: Vec<String> =
                    shapes.iter().map(|shape| mark.to_string().repeat(shape.width)).collect();
                lines.push(parts.join(&settings.colsep));
            }
        }
        if !settings.wrap {
            for line in &mut lines {
                *line = line.chars().take(settings.linesize).collect();
            }
        }
        lines
    }

    /// Begins a page if the lines do not fit on this one.
    fn room(&mut self, count: usize) {
        if let Some(html) = self.html() {
            self.begin_table(html);
            return;
        }
        if !self.pages() {
            return;
        }
        let bottom = self.title_lines(&self.sheet.titles.bottom, false).len();
        let is_full = self.used + count + bottom > self.sheet.settings.pagesize;
        if self.is_open && is_full && self.has_row {
            self.end_page();
        }
        if !self.is_open {
            self.begin_page();
        }
    }

    /// Begins a page of HTML, if there is none, with its titles, and its table.
    fn begin_table(&mut self, html: &Html) {
        if self.in_table {
            return;
        }
        (self.is_open, self.in_table, self.has_row) = (true, true, false);
        self.page += 1;
        if self.pages() {
            let mut titles = self.title_lines(&self.sheet.titles.top, true);
            if self.page == 1 {
                titles.extend(self.title_lines(&self.sheet.titles.header, false));
            }
            self.put(titles);
        }
        self.put(html.begin());
        if self.pages() {
            let headings = self.headings();
            self.put(headings);
        }
    }

    fn end_table(&mut self) {
        if std::mem::take(&mut self.in_table) {
            self.put(Html::end());
        }
    }

    fn begin_page(&mut self) {
        self.open_page();
        if self.page == 1 {
            let header = self.title_lines(&self.sheet.titles.header, false);
            let is_apart = self.sheet.titles.header.page && !header.is_empty();
            self.put(header);
            if is_apart {
                self.end_page();
                self.open_page();
            }
        }
        let headings = self.headings();
        self.put(headings);
    }

    /// Begins a page with the title at its top.
    fn open_page(&mut self) {
        (self.is_open, self.used, self.has_row) = (true, 0, false);
        self.page += 1;
        let newpage = self.sheet.settings.newpage;
        self.feeds = newpage == Some(0);
        self.put(vec![String::new(); newpage.unwrap_or(0)]);
        let top = self.title_lines(&self.sheet.titles.top, true);
        self.put(top);
    }

    /// Ends the page, if there is one, with the title at its bottom.
    fn end_page(&mut self) {
        if !self.is_open {
            return;
        }
        self.end_table();
        let bottom = self.title_lines(&self.sheet.titles.bottom, false);
        if self.html().is_some() {
            let bottom = if self.pages() { bottom } else { Vec::new() };
            self.put(bottom);
        } else if !bottom.is_empty() {
            let free = self.sheet.settings.pagesize.saturating_sub(self.used + bottom.len());
            self.put(vec![String::new(); free]);
            self.put(bottom);
        }
        self.is_open = false;
    }

    fn title(&mut self, title: &Title) {
        if self.pages() {
            let lines = self.title_lines(title, false);
            if !lines.is_empty() {
                self.end_table();
            }
            if title.page && !lines.is_empty() && self.html().is_none() {
                self.end_page();
                self.open_page();
            }
            self.put(lines);
        }
    }

    fn title_lines(&self, title: &Title, is_top: bool) -> Vec<String> {
        let moment = Moment {
            variables: &self.variables,
            page: self.page.max(1),
            line: self.used + 1,
            user: self.sheet.user,
            date: self.sheet.date,
            linesize: self.sheet.settings.linesize,
        };
        let lines = title.lines(is_top, &moment);
        match self.html() {
            Some(html) => lines
                .iter()
                .map(|line| html.lines(&format!("{line}\n")).replace('\n', ""))
                .collect(),
            None => lines,
        }
    }

    /// Blank lines, as far as the page goes.
    fn skip(&mut self, count: usize) {
        if self.html().is_some() {
            let empty = self.join(&vec![Cell::new(); self.shapes.len()], false);
            self.put(vec![empty; count].concat());
            return;
        }
        let free = self.sheet.settings.pagesize.saturating_sub(self.used);
        let count = if self.pages() { count.min(free) } else { count };
        self.put(vec![String::new(); count]);
    }

    fn put(&mut self, mut lines: Vec<String>) {
        if let Some(first) = lines.first_mut().filter(|_| self.feeds) {
            first.insert(0, '\x0c');
            self.feeds = false;
        }
        self.used += lines.len();
        self.out.extend(lines);
    }
}

/// Which columns stand on which line.
fn folds(settings: &Settings, shapes: &[Shape<'_>]) -> Vec<Vec<usize>> {
    let between = settings.colsep.chars().count();
    let mut folds: Vec<Vec<usize>> = Vec::new();
    let (mut width, mut ends) = (0, true);
    for (number, shape) in shapes.iter().enumerate() {
        let before = shape.attributes.is_some_and(|attributes| attributes.fold_before);
        let is_full = settings.wrap && width + between + shape.width > settings.linesize;
        match folds.last_mut() {
            Some(last) if !(ends || before || is_full) => {
                last.push(number);
                width += between + shape.width;
            }
            _ => {
                folds.push(vec![number]);
                width = shape.width;
            }
        }
        ends = shape.attributes.is_some_and(|attributes| attributes.fold_after);
    }
    folds
}

fn heading(shape: &Shape<'_>, text: &str) -> String {
    let text: String = text.chars().take(shape.width).collect();
    let width = shape.width;
    let own = shape.attributes.and_then(|attributes| attributes.justify);
    match own.unwrap_or(if shape.is_number { Justify::Right } else { Justify::Left }) {
        Justify::Left => format!("{text:<width$}"),
        Justify::Center => format!("{text:^width$}"),
        Justify::Right => format!("{text:>width$}"),
    }
}

/// Gives the variables of columns the values of a row.
fn keep<'a>(
    row: &[Value],
    table: &Table,
    columns: &'a Columns,
    variables: &mut Variables,
    which: impl Fn(&'a Attributes) -> Option<&'a String>,
) {
    for (column, value) in table.columns.iter().zip(row) {
        let Some(name) = columns.of(&column.name).and_then(&which) else { continue };
        match Number::of(value) {
            Some(number) => variables.set_number(name, super::numbers::whole(number)),
            None => variables.set(name, super::super::table::text(value)),
        }
    }
}

/// Gives the variables of NEW_VALUE and OLD_VALUE the values of the last row. Without rows they
/// keep what they have, and those that are not defined become empty.
pub(super) fn keep_values(table: &Table, columns: &Columns, variables: &mut Variables) {
    match table.rows.last() {
        Some(last) => {
            keep(last, table, columns, variables, |one| one.new_value.as_ref());
            keep(last, table, columns, variables, |one| one.old_value.as_ref());
        }
        None => {
            for attributes in table.columns.iter().filter_map(|column| columns.of(&column.name)) {
                for name in [&attributes.new_value, &attributes.old_value].into_iter().flatten() {
                    if variables.get(name).is_none() {
                        variables.set(name, "");
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
