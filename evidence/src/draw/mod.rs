//! Charts as SVG, and the frame of a page.
