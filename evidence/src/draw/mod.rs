//! Charts as SVG, the frame of a page that needs no network and no script, and tables as text.
//!
//! ```text
//!   text      names from outside as XML and on a terminal
//!   units     numbers with their units
//!   columns   rows as aligned lines of text
//!   scale     value to place, ticks
//!   chart     an SVG and its colours
//!   plot      lines over two axes: histograms, distributions
//!   panels    time lines, one below the other
//!   bars      bars and stacked bars
//!   page      HTML: sections, tables, charts
//! ```
//!
//! Invariants:
//!
//! 1. Text from outside is written through [`text::escaped`] only: it is text, never markup.
//! 2. A page is well-formed XML as well as HTML 5, holds no script and names no other file.
//! 3. Colour is never the only sign: series also differ in dashes, in markers and in their place.
//! 4. A number that is not finite is drawn at the edge: no figure from outside breaks a chart.

pub mod bars;
pub mod chart;
pub mod columns;
pub mod page;
pub mod panels;
pub mod plot;
pub mod scale;
pub mod text;
pub mod units;

pub use chart::Chart;
pub use page::{Cell, Page, Table};
